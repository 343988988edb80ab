"""Host sets in drawn rounds: some lists of hosts become what sets have in common."""

from __future__ import annotations

from random import Random

from fuzz.book.facts import named
from fuzz.policy import Raw

MOST_SETS = 3


def with_host_sets(rng: Random, round_: Raw) -> Raw:
    """Return a round in which half of the lists of hosts are sets, or in part; equal ones alike.

    A list becomes one to three sets, and perhaps a list, each with further hosts: in all of them
    are those of the list alone.
    """
    hosts = [name for entry in round_["cluster"]["hosts"] for name in named(entry["name"])]
    sets: Raw = {}
    known: dict[tuple[str, ...], Raw] = {}

    def parts(listed: list[str]) -> Raw:
        members = [name for entry in listed for name in named(entry)]
        if not set(members) <= set(hosts) or rng.random() < 0.5:
            return {"hosts": listed}
        others = [host for host in hosts if host not in members]
        more: list[list[str]] = [[] for _ in range(rng.randint(1, MOST_SETS))]
        if len(more) > 1:
            for host in others:  # each is missing somewhere
                out = rng.randrange(len(more))
                for i, there in enumerate(more):
                    if i != out and rng.random() < 0.5:
                        there.append(host)
        made: Raw = {}
        if len(more) > 1 and rng.random() < 0.3:
            made["hosts"] = [*more.pop(), *listed]
        made["host_sets"] = []
        for there in more:
            name = f"s{len(sets)}"
            sets[name] = [*listed, *there]
            made["host_sets"].append(name)
        return made

    def of(group: Raw) -> Raw:
        listed = group.get("hosts")
        if listed is None:
            return group
        if tuple(listed) not in known:
            known[tuple(listed)] = parts(listed)
        rest = {key: value for key, value in group.items() if key != "hosts"}
        return {**rest, **known[tuple(listed)]}

    jobs = [
        {
            **job,
            "options": [
                {**option, "groups": [of(group) for group in option["groups"]]}
                for option in job["options"]
            ],
        }
        for job in round_.get("jobs", ())
    ]
    if not sets:
        return round_
    return {**round_, "host_sets": sets, "jobs": jobs}
