"""Tiny rounds with regions: random ones by seed, and pairs of regions for given jobs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from fuzz.small_units import as_document
from placewright.instances.documents.round import Round

Entry = dict[str, Any]
MODELS = ("A", "B")


def pair(jobs: list[Entry], *replicas: str) -> Round:
    """Return a round of `replicas`: two GPUs each in `east` and `west`, and dataset `d`, 10 GiB."""
    regions = ("east", "west")
    return Round.model_validate(
        as_document(
            {
                "cluster": {
                    "levels": ["region"],
                    "domains": [{"name": r, "level": "region"} for r in regions],
                    "hosts": [
                        {"name": r[0], "parent": r, "gpus": 2, "gpu_model": "A"} for r in regions
                    ],
                },
                "jobs": [
                    {"name": f"j{j}", "options": [{"groups": [{"gpu": 1000}]}], **job}
                    for j, job in enumerate(jobs)
                ],
                "geo": {
                    "datasets": [{"name": "d", "size": 10, "replicas": replicas}],
                    "links": [{"source": "east", "target": "west", "bandwidth": 1000}],
                },
                "policy": {"formulation": "replicas"},
            }
        )
    )


def geo(
    seed: int,
    *,
    terms: tuple[str, ...] | None = None,
    priority: Literal["strict", "preemption"] = "preemption",
) -> Round:
    """Draw a round of policy `geo`: some jobs run, some may move, hosts may be broken."""
    rng = np.random.default_rng(seed)
    drawn = _base(rng, "geo", seed)
    hosts = [dict(h, gpus=int(rng.integers(1, 3))) for h in drawn["cluster"]["hosts"]]
    for host in hosts:
        host["healthy"] = bool(rng.random() < 0.93)
    drawn["cluster"]["hosts"] = hosts
    room = {h["name"]: list(range(h["gpus"])) for h in hosts}
    jobs = [_job(rng, f"j{j}", drawn, gangs=True) for j in range(int(rng.integers(2, 6)))]
    for job in jobs:
        if rng.random() < 0.4:
            _run(rng, job, hosts, room)
    drawn["jobs"] = jobs
    drawn["tenants"] = [{"name": t} for t in ("t0", "t1")]
    if rng.random() < 0.3:
        drawn["tenants"][0]["quota"] = {"gpu": 1000 * int(rng.integers(1, 4))}
    if rng.random() < 0.3:
        drawn["geo"]["regions"][0]["quotas"] = {"t0": 1000 * int(rng.integers(0, 3))}
    if terms is not None:
        drawn["policy"]["terms"] = terms
    drawn["policy"]["priority"] = priority
    _lose(rng, hosts)
    return Round.model_validate(as_document(drawn))


def replicas(seed: int) -> Round:
    """Draw a round of policy `replicas`: links so fast that budgets alone limit copies."""
    rng = np.random.default_rng(seed)
    drawn = _base(rng, "replicas", seed)
    drawn["jobs"] = [_job(rng, f"j{j}", drawn, gangs=False) for j in range(int(rng.integers(1, 5)))]
    hosts = drawn["cluster"]["hosts"]
    for host in hosts:
        host["healthy"] = bool(rng.random() < 0.93)
    room = {h["name"]: list(range(h["gpus"])) for h in hosts}
    for job in drawn["jobs"]:
        if rng.random() < 0.2:
            _run(rng, job, hosts, room)
    _lose(rng, hosts)
    return Round.model_validate(as_document(drawn))


def _base(rng: np.random.Generator, policy: Literal["geo", "replicas"], seed: int) -> Entry:
    regions = [f"r{r}" for r in range(int(rng.integers(2, 4)))]
    hosts = [
        {
            "name": f"{region}h{h}",
            "parent": region,
            "gpus": int(rng.integers(1, 4)),
            "gpu_model": str(rng.choice(MODELS, p=(0.75, 0.25))),
        }
        for region in regions
        for h in range(int(rng.integers(1, 3)))
    ]
    datasets = [_dataset(rng, f"d{d}", regions) for d in range(int(rng.integers(1, 4)))]
    copying = [
        {"dataset": d["name"], "region": r, "ready": int(rng.choice((50, 100, 160)))}
        for d in datasets
        for r in regions
        if r in (d.get("regions") or regions) and r not in d["replicas"] and rng.random() < 0.1
    ]
    models = sorted({str(h["gpu_model"]) for h in hosts})
    entries = [_region(rng, name, datasets, copying, models) for name in regions]
    links = [
        {
            "source": source,
            "target": target,
            "bandwidth": int(rng.choice((0, 10**6), p=(0.1, 0.9))),
            "egress": int(rng.integers(0, 4)),
            "budget": int(rng.integers(0, 6)),
        }
        for source in regions
        for target in regions
        if source != target and rng.random() < 0.8
    ]
    return {
        "name": f"{policy}-{seed}",
        "now": 100,
        "cluster": {
            "levels": ["region"],
            "domains": [{"name": r, "level": "region"} for r in regions],
            "hosts": hosts,
        },
        "geo": {"regions": entries, "links": links, "datasets": datasets, "copying": copying},
        "policy": {"formulation": policy},
    }


def _dataset(rng: np.random.Generator, name: str, regions: list[str]) -> Entry:
    lawful = _some(rng, regions) if rng.random() < 0.25 else None
    holders = _some(rng, lawful or regions)[: int(rng.integers(1, 3))]
    entry: Entry = {"name": name, "size": int(rng.integers(1, 4))}
    entry["replicas"] = [] if rng.random() < 0.07 else holders
    return entry if lawful is None else {**entry, "regions": lawful}


def _region(
    rng: np.random.Generator,
    name: str,
    datasets: list[Entry],
    copying: list[Entry],
    models: list[str],
) -> Entry:
    held = {d["name"] for d in datasets if name in d["replicas"]}
    held |= {c["dataset"] for c in copying if c["region"] == name}
    used = sum(d["size"] for d in datasets if d["name"] in held)
    entry: Entry = {"name": name, "prices": {m: int(rng.integers(1, 5)) for m in models}}
    if rng.random() < 0.7:
        entry["storage"] = used + int(rng.integers(0, 4))
    return entry


def _job(rng: np.random.Generator, name: str, drawn: Entry, *, gangs: bool) -> Entry:
    datasets = drawn["geo"]["datasets"]
    chosen = rng.permutation(len(datasets))[: int(rng.integers(0, 3))]
    group: Entry = {"count": 1, "gpu": 1000 * int(rng.choice((1, 1, 2)))}
    if gangs:
        group["count"] = int(rng.choice((1, 1, 2)))
    if rng.random() < 0.25:
        models = sorted({h["gpu_model"] for h in drawn["cluster"]["hosts"]})
        group["gpu_models"] = [str(rng.choice(models))]
    job: Entry = {
        "name": name,
        "priority": int(rng.integers(0, 3)),
        "weight": int(rng.integers(1, 4)),
        "options": [{"groups": [group]}],
        "reads": [
            {
                "dataset": datasets[d]["name"],
                "gib": int(rng.integers(1, 6)),
                "remote": bool(rng.random() < 0.7),
            }
            for d in chosen
        ],
    }
    if rng.random() < 0.15:
        regions = [d["name"] for d in drawn["cluster"]["domains"]]
        job["regions"] = _some(rng, regions)
    if gangs:
        job["tenant"] = str(rng.choice(("t0", "t1")))
    return job


def _run(
    rng: np.random.Generator, job: Entry, hosts: list[Entry], room: dict[str, list[int]]
) -> None:
    """Let a job run somewhere in one region, if there is room."""
    group = job["options"][0]["groups"][0]
    need, models = group["gpu"] // 1000, group.get("gpu_models", MODELS)
    regions = sorted({h["parent"] for h in hosts})
    region = str(rng.choice(job.get("regions", regions)))
    free = {
        h["name"]: list(room[h["name"]])
        for h in hosts
        if h["parent"] == region and h["gpu_model"] in models
    }
    tasks = []
    for index in range(group["count"]):
        host = next((name for name, gpus in free.items() if len(gpus) >= need), None)
        if host is None:
            return
        tasks.append({"index": index, "host": host, "gpus": free[host][:need]})
        free[host] = free[host][need:]
    room.update(free)
    job["running"] = {"tasks": tasks, "pinned": bool(rng.random() < 0.2)}


def _lose(rng: np.random.Generator, hosts: list[Entry]) -> None:
    """Let all hosts of a region be broken, in one round of ten."""
    if rng.random() < 0.1:
        for host in hosts:
            host["healthy"] &= host["parent"] != hosts[0]["parent"]


def _some(rng: np.random.Generator, names: list[str]) -> list[str]:
    """Return some of the names, at least one, in their order."""
    number = int(rng.integers(1, len(names) + 1))
    chosen = set(rng.permutation(len(names))[:number].tolist())
    return [name for i, name in enumerate(names) if i in chosen]
