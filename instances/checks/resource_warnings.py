"""Warnings of resources that nobody has: valid, but a job that asks for one fits nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.documents.round import Round
from placewright.instances.errors import most_similar, path_text


def resource_warnings(round_: Round) -> Iterator[str]:
    """Yield a line for each resource that a task asks for and that no host and no pool has.

    Each is named once, where it is first asked for.
    """
    pools = {pool.resource: pool.per for pool in round_.cluster.pools}
    known = {name for host in round_.cluster.hosts for name in host.resources}
    known.update(name for name, per in pools.items() if per == "task")
    seen = set(known)
    for j, job in enumerate(round_.jobs):
        for o, option in enumerate(job.options):
            for g, group in enumerate(option.groups):
                for name, amount in group.resources.items():
                    if amount and name not in seen:
                        seen.add(name)
                        path = ("jobs", j, "options", o, "groups", g, "resources", name)
                        yield f"{path_text(path)}: {amount}: {_nobody(name, name in pools, known)}"


def _nobody(name: str, per_job: bool, known: set[str]) -> str:
    if per_job:
        return "no host has any, and its pool is per job; is uses of the option meant?"
    similar = most_similar(name, known)
    meant = "" if similar is None else f"; is {similar} meant?"
    return f"no host and no pool has any{meant}"
