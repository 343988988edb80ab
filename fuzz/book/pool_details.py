"""Whether the facts of a reason that names a pool are true, by trying all places."""

from __future__ import annotations

from dataclasses import replace

from fuzz.book.facts import Job
from fuzz.book.states import State
from fuzz.policy import Raw


def untrue_pool(state: State, job: Job, number: int, detail: Raw) -> str:
    """Say what is not true of a pool that has too little for an option, "" if all is."""
    option, pools = job.options[number], state.pools
    if not state.finds(job, number, list(option.tasks())):
        return "hosts alone have no places"
    found = [
        k
        for k, entry in enumerate(pools.entries)
        if (entry["resource"], entry.get("level")) == (detail["resource"], detail.get("level"))
    ]
    if not found:
        return "there is no such pool"
    where = found[0], detail.get("domain", "")
    hosts = [host for host in state.facts.hosts if pools.domain(found[0], host.number) == where]
    asked = option.uses.get(detail["resource"], 0)
    if pools.entries[found[0]].get("per") != "job":
        asked = 0
        for g, group in enumerate(option.groups):
            places = sum(_places(state, job, number, g, host.name) for host in hosts)
            asked += dict(group.wants).get(detail["resource"], 0) * min(places, group.count)
    true = asked, state.pool_left(where), state.pool_limit(where)
    if (detail["asked"], detail["free"], detail["limit"]) != true or true[0] <= true[1]:
        return f"asked, free and limit are {true}"
    return ""


def _places(state: State, job: Job, number: int, g: int, host: str) -> int:
    """Return how many tasks of a group a host has places for."""
    option = job.options[number]
    group = option.groups[g]
    for count in range(group.count, 0, -1):
        few = replace(group, count=count, slices=None, apart=None, on_hosts=None, required=None)
        alone = replace(option, groups=(few,), required=None, on_hosts=None)
        one = replace(job, options=(alone,))
        if state.finds(one, 0, [(0, i) for i in range(count)], host):
            return count
    return 0
