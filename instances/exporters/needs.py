"""Which jobs of a plan have to stop before which start: none stops in vain, or starts too early."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round

STOPS = (DecisionKind.PREEMPT, DecisionKind.MIGRATE)
VAIN = "jobs that wait for others, or stop for them, of which it cannot be told"
"""What is counted of jobs that `Needs.consistent` leaves out."""


class Needs:
    """Dependencies between the jobs that stop and those that start.

    A job that starts needs all that leave one of its hosts, or are displaced by it. It is not to
    start while one of these runs on; and none of these is to stop if no job for which it does can
    start.

    Parameters
    ----------
    round_, plan
        What was decided.
    stops, starts
        The jobs that leave hosts, and those that come to some; a job that moves may be both.

    Attributes
    ----------
    of : mapping of str to tuple of str
        The jobs that each one that starts needs, sorted.
    users : mapping of str to tuple of str
        The jobs for which each one that stops does, sorted.
    """

    def __init__(
        self, round_: Round, plan: Plan, *, stops: Collection[str], starts: Collection[str]
    ) -> None:
        by: dict[str, set[str]] = {one.job: set(one.displaced_by) for one in plan.decisions}
        leaving: dict[str, set[str]] = defaultdict(set)
        for job in round_.jobs:
            if job.name in stops and job.running is not None:
                for task in job.running.tasks:
                    leaving[task.host].add(job.name)
        displaced: dict[str, set[str]] = defaultdict(set)
        for name in stops:
            for other in by[name]:
                displaced[other].add(name)
        hosts = {one.job: {task.host for task in one.tasks} for one in plan.decisions}
        needed = {
            name: displaced[name].union(*(leaving[host] for host in hosts[name])) - {name}
            for name in starts
        }
        users: dict[str, set[str]] = {name: set() for name in stops}
        for name, others in needed.items():
            for other in others:
                users[other].add(name)
        self.of: Mapping[str, tuple[str, ...]] = _sorted(needed)
        self.users: Mapping[str, tuple[str, ...]] = _sorted(users)

    def consistent(self, can: Collection[str]) -> set[str]:
        """Return the jobs of some that are left if none starts too early, or stops in vain."""
        found = set(can)

        def goes(name: str) -> bool:
            users = self.users.get(name, ())
            return found.issuperset(self.of.get(name, ())) and (
                not users or not found.isdisjoint(users)
            )

        while wrong := [name for name in found if not goes(name)]:
            found.difference_update(wrong)
        return found


def stopping(plan: Plan) -> list[str]:
    """Return the jobs that are preempted or move, in the order of the plan's section `moves`."""
    section = next((one for one in plan.sections if one["kind"] == "moves"), {})
    stops = {one.job for one in plan.decisions if one.decision in STOPS}
    ordered = [*section.get("steps", ()), *section.get("needs_spare", ())]
    return list(dict.fromkeys((*(name for name in ordered if name in stops), *sorted(stops))))


def _sorted(sets: Mapping[str, set[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(sorted(names)) for name, names in sets.items()}
