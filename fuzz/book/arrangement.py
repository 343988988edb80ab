"""How the tasks of one job lie to each other."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise, permutations

from fuzz.book.facts import LINK_RANKS, Facts, Group, Host, Job, Place


def arrangement(facts: Facts, job: Job, number: int, places: tuple[Place, ...]) -> str:
    """Return the rule that the places of a started or migrated job break, "" if they break none."""
    option = job.options[number]
    domains = [(place[0], place[1], facts.hosts[place[2]].domains) for place in places]
    if option.required is not None and len({d[option.required] for _, _, d in domains}) > 1:
        return "joint_level"
    if not _on_so_many(option.on_hosts, [place[2] for place in places]):
        return "num_hosts"
    for g, group in enumerate(option.groups):
        if not _on_so_many(group.on_hosts, [place[2] for place in places if place[0] == g]):
            return "num_hosts"
        mine = [(index, d) for of, index, d in domains if of == g]
        if group.required is not None and len({d[group.required] for _, d in mine}) > 1:
            return "required_level"
        if group.slices is not None:
            size, level = group.slices
            if len({(index // size, d[level]) for index, d in mine}) > group.count // size:
                return "slices"
        if group.apart is not None:
            level, most = group.apart
            if max(Counter(d[level] for _, d in mine).values()) > most:
                return "apart"
    return ""


def are_joined(group: Group, host: Host, gpus: tuple[int, ...]) -> bool:
    """Whether a task may arrive on GPUs, by what its group asks of the links between them."""
    asked = group.gpu_links
    if asked is None or ("required" not in asked and "at_least_mbps" not in asked):
        return True
    least = LINK_RANKS.index(asked["required"]) if "required" in asked else 1

    def good(pair: tuple[int, int]) -> bool:
        rank, mbps = host.gpu_links.get(pair, (0, 0))
        return rank >= least and mbps >= asked.get("at_least_mbps", 0)

    how = asked.get("joined", "all")
    if how == "all":
        return all(map(good, combinations(gpus, 2)))
    orders = permutations(gpus)
    return any(all(map(good, _steps(order, around=how == "ring"))) for order in orders)


def _steps(order: tuple[int, ...], *, around: bool) -> list[tuple[int, int]]:
    return [*pairwise(order), *([(order[-1], order[0])] if around else [])]


def joined_mbps(group: Group, host: Host, gpus: tuple[int, ...]) -> int:
    """Return the Mbit/s that a task counts in the term `gpu_links`."""
    asked = group.gpu_links
    if asked is None:
        return 0
    widths = {pair: mbps for pair, (_, mbps) in host.gpu_links.items()}
    if asked.get("measure", "ring") == "pairs":
        return sum(widths.get(pair, 0) for pair in combinations(gpus, 2))
    rings = (_steps(order, around=True) for order in permutations(gpus))
    return max(min(widths.get(pair, 0) for pair in ring) for ring in rings)


def _on_so_many(asked: tuple[int, int] | None, hosts: list[int]) -> bool:
    return asked is None or asked[0] <= len(set(hosts)) <= asked[1]
