"""How the tasks of one job lie to each other."""

from __future__ import annotations

from collections import Counter

from fuzz.book.facts import Facts, Job, Place


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


def _on_so_many(asked: tuple[int, int] | None, hosts: list[int]) -> bool:
    return asked is None or asked[0] <= len(set(hosts)) <= asked[1]
