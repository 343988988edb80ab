"""What a round says of regions, links and data, read from its document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from fuzz.policy import Raw

Replica: TypeAlias = tuple[str, str]
"""Dataset and region."""

Road: TypeAlias = tuple[str, str]
"""The regions where a link begins and ends."""

WHOLE = 1000
GIBIT = 8 * 2**30
"""Bits of a GiB."""

MEGABIT = 10**6
WINDOW = 86_400


@dataclass(frozen=True, slots=True)
class Link:
    """A link that carries something: Mbit/s, micro-dollars per GiB, GiB of copies in the window."""

    bandwidth: int
    egress: int
    budget: int


@dataclass(frozen=True, slots=True)
class World:
    """Regions, links and data of a round.

    Attributes
    ----------
    held : frozenset of Replica
        Replicas that are complete now, copies under way among them whose time has come.
    coming : dict of Replica to int
        Copies under way, and when they are ready.
    may : dict of str to frozenset of str
        The regions in which each dataset may be.
    supply : dict of (region, model) to int
        Milli-GPU of healthy hosts, without reserved GPUs; what has none has no entry.
    """

    now: int
    end: int
    regions: tuple[str, ...]
    links: dict[Road, Link]
    size: dict[str, int]
    listed: frozenset[Replica]
    held: frozenset[Replica]
    coming: dict[Replica, int]
    may: dict[str, frozenset[str]]
    storage: dict[str, int]
    supply: dict[tuple[str, str], int]
    region_of: dict[str, str]

    def allowed(self, job: Raw) -> list[str]:
        """Return the regions in which a job and all its data may be."""
        named = set(job.get("regions") or self.regions)
        for read in job.get("reads", ()):
            named &= self.may[read["dataset"]]
        return [region for region in self.regions if region in named]

    def sources(self, dataset: str, region: str, holders: Collection[Replica]) -> list[str]:
        """Return the regions from which a job in a region may read a dataset over a link."""
        if region not in self.may[dataset]:
            return []
        return [
            other
            for other in self.regions
            if (dataset, other) in holders and (other, region) in self.links
        ]

    def used(self, replicas: Iterable[Replica]) -> dict[str, int]:
        """Return the GiB that replicas take in each region."""
        gib: defaultdict[str, int] = defaultdict(int)
        for dataset, region in replicas:
            gib[region] += self.size[dataset]
        return gib

    def limits(self) -> dict[str, int]:
        """Return the most that each region with a limit may hold at any moment."""
        before = self.used(self.held | self.coming.keys())
        return {region: max(gib, before[region]) for region, gib in self.storage.items()}


def read_world(round_: Raw) -> World:
    """Read the section `geo`, and what hosts have."""
    geo, cluster, now = round_["geo"], round_["cluster"], round_.get("now", 0)
    level = geo.get("level", "region")
    parents = {domain["name"]: domain.get("parent") for domain in cluster["domains"]}
    regions = tuple(d["name"] for d in cluster["domains"] if d["level"] == level)
    window = geo.get("window_s", WINDOW)
    datasets, copying = geo.get("datasets", ()), geo.get("copying", ())
    listed = {(d["name"], region) for d in datasets for region in d.get("replicas", ())}
    coming = {(copy["dataset"], copy["region"]): copy["ready"] for copy in copying}
    region_of = {}
    for host in cluster["hosts"]:
        above = host["parent"]
        while above not in regions:
            above = parents[above]
        region_of[host["name"]] = above
    return World(
        now=now,
        end=now + window,
        regions=regions,
        links={
            (link["source"], link["target"]): _link(link, window)
            for link in geo.get("links", ())
            if link["bandwidth"]
        },
        size={d["name"]: d["size"] for d in datasets},
        listed=frozenset(listed),
        held=frozenset(listed | {replica for replica, ready in coming.items() if ready <= now}),
        coming=coming,
        may={d["name"]: frozenset(d.get("regions") or regions) for d in datasets},
        storage={r["name"]: r["storage"] for r in geo.get("regions", ()) if "storage" in r},
        supply=_supply(round_, region_of),
        region_of=region_of,
    )


def _link(link: Raw, window: int) -> Link:
    carries = link["bandwidth"] * window * MEGABIT // GIBIT
    return Link(link["bandwidth"], link.get("egress", 0), min(carries, link.get("budget", carries)))


def _supply(round_: Raw, region_of: dict[str, str]) -> dict[tuple[str, str], int]:
    kept: defaultdict[str, set[int]] = defaultdict(set)
    gpus = {host["name"]: host["gpus"] for host in round_["cluster"]["hosts"]}
    for entry in round_.get("reservations", ()):
        kept[entry["host"]].update(entry.get("gpus", range(gpus[entry["host"]])))
    supply: defaultdict[tuple[str, str], int] = defaultdict(int)
    for host in round_["cluster"]["hosts"]:
        free = host["gpus"] - len(kept[host["name"]])
        if host.get("healthy", True) and free:
            supply[region_of[host["name"]], host["gpu_model"]] += WHOLE * free
    return dict(supply)
