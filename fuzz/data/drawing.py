"""Tiny worlds of regions, links and data, at random."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from fuzz.book.facts import CUT
from fuzz.policy import Raw

MODELS = ("A", "B")
PARTED: tuple[Raw, ...] = (
    {"gpu_model": CUT, "gpus": 1},
    {"gpu_model": CUT, "gpus": 2},
    {"gpu_memory": 16},
    {"gpu_memory": 24},
    {},
)
"""What a host is in rounds with parts of GPUs."""

GIB_PER_SECOND = 8_590
"""Mbit/s that carry one GiB in a second, and a little more."""

NOW = 100

T = TypeVar("T")


def some(rng: Random, items: Sequence[T], least: int = 1) -> list[T]:
    """Return some of the items, in their order."""
    chosen = set(rng.sample(range(len(items)), rng.randint(min(least, len(items)), len(items))))
    return [item for i, item in enumerate(items) if i in chosen]


def draw_world(rng: Random, policy: str, *, least: int = 0, parts: bool = False) -> Raw:
    """Return a round without jobs: hosts with `least` GPUs or more, links and data.

    With `parts` some GPUs can be cut into MIG slices, or have memory that is known.
    """
    regions = [f"r{i}" for i in range(rng.choices((1, 2, 3, 4), (2, 18, 18, 1))[0])]
    level = rng.choice(("region", "region", "zone"))
    cluster = _cluster(rng, regions, level, least, parts=parts)
    datasets = [
        _dataset(rng, f"d{i}", regions) for i in range(rng.choices((0, 1, 2, 3), (1, 5, 5, 2))[0])
    ]
    window = rng.choice((10, 10, 100, 86_400))
    copying = [
        {"dataset": d["name"], "region": region, "ready": _ready(rng, window)}
        for d in datasets
        for region in regions
        if region in d.get("regions", regions)
        and region not in d["replicas"]
        and rng.random() < 0.08
    ]
    held = {(d["name"], r) for d in datasets for r in d["replicas"]}
    held |= {(copy["dataset"], copy["region"]) for copy in copying}
    used = {r: sum(d["size"] for d in datasets if (d["name"], r) in held) for r in regions}
    models = sorted({h["gpu_model"] for h in cluster["hosts"] if "gpu_model" in h})
    fast = rng.random() < 0.5
    geo: Raw = {
        "level": level,
        "window_s": window,
        "regions": [_region(rng, r, used[r], models) for r in regions if rng.random() < 0.85],
        "links": [
            _link(rng, source, target, window, fast=fast)
            for source in regions
            for target in regions
            if source != target and rng.random() < 0.8
        ],
        "datasets": datasets,
        "copying": copying,
    }
    return {
        "name": policy,
        "now": NOW,
        "cluster": cluster,
        "geo": geo,
        "policy": {"formulation": policy},
    }


def regions_of(drawn: Raw) -> list[str]:
    """Return the names of the regions."""
    level = drawn["geo"]["level"]
    return [domain["name"] for domain in drawn["cluster"]["domains"] if domain["level"] == level]


def enlarge(rng: Random, drawn: Raw) -> None:
    """Make all data, and what carries it, so many times larger, now and then."""
    if rng.random() > 0.15:
        return
    unit = rng.choice((7, 1000))
    geo = drawn["geo"]
    entries = (*geo["regions"], *geo["links"], *geo["datasets"])
    for entry in (*entries, *(read for job in drawn["jobs"] for read in job["reads"])):
        for field in ("storage", "bandwidth", "budget", "size", "gib"):
            if field in entry:
                entry[field] *= unit


def draw_reads(rng: Random, drawn: Raw) -> list[Raw]:
    """Return what a job reads."""
    names = [dataset["name"] for dataset in drawn["geo"]["datasets"]]
    wanted = rng.choices((0, 1, 2), (2, 5, 3))[0]
    return [
        {"dataset": name, "gib": rng.randint(1, 5)}
        | ({"remote": rng.random() < 0.3} if rng.random() < 0.6 else {})
        for name in rng.sample(names, min(wanted, len(names)))
    ]


def _cluster(rng: Random, regions: list[str], level: str, least: int, *, parts: bool) -> Raw:
    racks = rng.random() < 0.3
    domains: list[Raw] = [{"name": region, "level": level} for region in regions]
    above = rng.random() < 0.2
    if above:
        for domain in domains:
            domain["parent"] = rng.choice(("west", "east"))
        names = sorted({domain["parent"] for domain in domains})
        domains[:0] = [{"name": name, "level": "continent"} for name in names]
    hosts: list[Raw] = []
    for region in regions:
        parents = [region]
        if racks:
            parents = [f"{region}k{i}" for i in range(rng.randint(1, 2))]
            domains += [{"name": name, "level": "rack", "parent": region} for name in parents]
        for i in range(rng.choices((0, 1, 2, 3), (1, 12, 8, 1))[0]):
            host: Raw = {"name": f"{region}h{i}", "parent": rng.choice(parents)}
            host["gpus"] = max(least, rng.choices((0, 1, 2, 3, 4), (1, 9, 10, 3, 1))[0])
            if host["gpus"]:
                host["gpu_model"] = rng.choices(MODELS, (3, 1))[0]
            if parts:
                host |= rng.choice(PARTED)
            if rng.random() < 0.07:
                host["healthy"] = False
            hosts.append(host)
    if not hosts:
        hosts.append({"name": "h", "parent": domains[-1]["name"], "gpus": 1, "gpu_model": "A"})
    levels = ["continent"] * above + [level] + ["rack"] * racks
    return {"levels": levels, "domains": domains, "hosts": hosts}


def _dataset(rng: Random, name: str, regions: list[str]) -> Raw:
    dataset: Raw = {"name": name, "size": rng.randint(1, 4)}
    lawful = regions
    if rng.random() < 0.25:
        dataset["regions"] = lawful = some(rng, regions)
    dataset["replicas"] = rng.sample(
        lawful, min(rng.choices((0, 1, 2), (1, 12, 5))[0], len(lawful))
    )
    return dataset


def _ready(rng: Random, window: int) -> int:
    """Return when a copy under way is ready: past, now, within the window, or after it."""
    return NOW + rng.choice((-50, 0, 1, window // 2, window, 2 * window))


def _region(rng: Random, name: str, used: int, models: list[str]) -> Raw:
    region: Raw = {"name": name}
    if rng.random() < 0.7:
        region["storage"] = max(0, used + rng.randint(-2, 4))
    return region | (
        {"prices": {m: rng.randint(0, 4) for m in models}} if rng.random() < 0.7 else {}
    )


def _link(rng: Random, source: str, target: str, window: int, *, fast: bool) -> Raw:
    """Return a link: one that carries a few GiB in the window, or more than all data there is."""
    if rng.random() < 0.1:
        bandwidth = 0
    elif fast:
        bandwidth = 50 * GIB_PER_SECOND
    else:
        bandwidth = max(1, rng.randint(1, 12) * GIB_PER_SECOND // window + rng.randint(-1, 1))
    link: Raw = {"source": source, "target": target, "bandwidth": bandwidth}
    if rng.random() < 0.7:
        link["egress"] = rng.randint(0, 4)
    if rng.random() < 0.4:
        link["budget"] = rng.randint(0, 6)
    return link
