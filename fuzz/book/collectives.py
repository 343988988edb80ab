"""How long the collectives of a job take (docs/formulations/topology.md), without host models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple, TypeAlias

from fuzz.book.choices import Choice
from fuzz.book.facts import Facts, Job

MIB_BITS = 2**23
Link: TypeAlias = tuple[str, ...]


class Collective(NamedTuple):
    """What the section `communication` says of a group."""

    job: str
    group: int
    bottleneck_mbit: int | None
    time_us: int


def collectives(facts: Facts, job: Job, choice: Choice) -> list[Collective]:
    """Return the collectives of a job that starts or migrates."""
    found = []
    for g, group in enumerate(job.options[choice.option].groups) if choice.anew else ():
        if group.communication is not None and "data_mib" in group.communication:
            mine = sorted(place for place in choice.places if place[0] == g)
            ranks = [place[2] for place in mine for _ in place[3]]
            found.append(Collective(job.name, g, *_measured(facts, group.communication, ranks)))
    return found


def _measured(facts: Facts, asked: Mapping[str, Any], ranks: list[int]) -> tuple[int | None, int]:
    """Return the bottleneck in whole Mbit/s and the time; `ranks` are the hosts of the GPUs."""
    n = len(ranks)
    ring = asked.get("pattern", "ring") == "ring"
    if n < 2:
        return None, 0
    crossed: defaultdict[Link, int] = defaultdict(int)
    width: dict[Link, int] = {}
    for a, b in [(i, (i + 1) % n) for i in range(n)] if ring else _tree(0, n - 1):
        for link, bandwidth in _way(facts, ranks[a], ranks[b]):
            crossed[link] += 1
            width[link] = bandwidth
    if not crossed:
        return None, 0
    slowest = min(Fraction(width[link], crossed[link]) for link in crossed)
    part = Fraction(n - 1, n) if ring else Fraction(1)
    return int(slowest), ceil(2 * part * asked["data_mib"] * MIB_BITS / slowest)


def _tree(first: int, last: int) -> list[tuple[int, int]]:
    """Messages of a tree, one for each direction pair: child to parent, for a span of ranks."""
    if first >= last:
        return []
    root = (first + last + 1) // 2
    found = []
    for low, high in ((first, root - 1), (root + 1, last)):
        if low <= high:
            found += [((low + high + 1) // 2, root), *_tree(low, high)]
    return found


def _way(facts: Facts, a: int, b: int) -> list[tuple[Link, int]]:
    """Return the links from a GPU of host a to one of host b; inside a host none limits it."""
    one, other = facts.hosts[a].domains, facts.hosts[b].domains
    wan = facts.raw["cluster"].get("wan", ())
    way: list[tuple[Link, int]] = []
    for position, level in enumerate(facts.levels):
        x, y = one[position], other[position]
        if x == y:
            continue
        if position == 0 and wan:
            between = [entry for entry in wan if set(entry["between"]) == {x, y}]
            way += [(("wan", x, y), entry["bandwidth_mbps"]) for entry in between]
            continue
        for domain, direction in ((x, "out"), (y, "in")):
            bandwidth = facts.uplink(level, domain)
            if bandwidth is not None:
                way.append(((level, domain, direction), bandwidth))
    if facts.fabric is not None and one[-2] != other[-2]:
        ends = frozenset({one[-2]}), frozenset({other[-2]})
        way.append((("fabric", one[-2], other[-2]), facts.fabric.between(*ends)))
    return way
