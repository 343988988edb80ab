"""What an export needs of the round that it is of, and what it says despite of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from placewright.instances.checks.round import checked
from placewright.instances.derived.joined_tasks import joined_tasks
from placewright.instances.derived.phrases import count, several
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.caveats import Caveat, hard_caveats
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round

STOPS = (DecisionKind.PREEMPT, DecisionKind.MIGRATE, DecisionKind.RESIZE)
VAIN = "jobs that wait for others, or stop for them, of which it cannot be told"
"""What is counted of jobs that `Needs.consistent` leaves out."""


class Needs:
    """Dependencies between the jobs that stop and those that start.

    A job that starts needs all that leave one of its hosts, or are displaced by it. It is not to
    start while one of these runs on; and none of these is to stop if no job for which it does can
    start. `round_`, `plan`: what was decided. `stops`, `starts`: the jobs that leave hosts, and
    those that come to some; a job that moves may be both. `of`: the jobs that each one that starts
    needs, sorted. `users`: the jobs for which each one that stops does, sorted.
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


# Plans without what would act on jobs whose rules are told and not obeyed.

_SENDS = (DecisionKind.START, DecisionKind.MIGRATE, DecisionKind.RESIZE)
_GOES = (*_SENDS, DecisionKind.PREEMPT)


GPU_LINKS = Caveat(
    rule="gpu-links",
    text="which GPUs of a host it gets is not told, and not all are joined as it asks",
)


def _unjoined(round_: Round, plan: Plan) -> set[str]:
    """Return the jobs that need some GPUs of a host rather than others, for the links of these."""
    return {
        one.job
        for one in joined_tasks(round_, plan)
        if one.group.gpu_links is not None
        and one.group.gpu_links.is_required
        and not one.links.is_uniform
        and len(one.task.gpus) < one.links.gpus
    }


class Obeying(NamedTuple):
    """What is left of a plan, and a line for each rule for which something is left out."""

    plan: Plan
    lines: tuple[str, ...]


def obeying(round_: Round, plan: Plan, despite: Collection[str] = ()) -> Obeying:
    """Return a plan that starts and moves no job against a hard caveat of it or of its hosts.

    Such jobs wait, or stay where they are, as do those that would stop for them alone, and those
    that need their room. `despite` are rules of caveats that do not matter. Jobs that require links
    between GPUs have one where other GPUs of a host would not do, as nobody is told which they get.
    """
    jobs = {job.name: job for job in checked(round_).jobs}
    of_host = {
        name: hard_caveats(host.annotations)
        for host in round_.cluster.hosts
        for name in expand(host.name)
    }
    unjoined = _unjoined(round_, plan)
    left: dict[tuple[str, str], list[str]] = {}
    goes = {one.job for one in plan.decisions if one.decision in _GOES}
    can = set(goes)
    for one in plan.decisions:
        if one.decision in _SENDS:
            hosts = dict.fromkeys(task.host for task in one.tasks)
            mine = hard_caveats(jobs[one.job].annotations)
            mine += (GPU_LINKS,) if one.job in unjoined else ()
            told = dict.fromkeys((*mine, *(c for h in hosts for c in of_host[h])))
            for caveat in (caveat for caveat in told if caveat.rule not in despite):
                left.setdefault((caveat.rule, caveat.text), []).append(one.job)
                can.discard(one.job)
    if not left:
        return Obeying(plan, ())
    sends = [one.job for one in plan.decisions if one.decision in _SENDS]
    said = Needs(round_, plan, stops=stopping(plan), starts=sends).consistent(can)
    decisions = tuple(
        _stays(jobs[one.job]) if one.job in goes - said else one for one in plan.decisions
    )
    lines = [
        f"not done: {count(len(names), 'job')} ({several(names)}): {text}; "
        f"--despite {rule} does it all the same"
        for (rule, text), names in sorted(left.items())
    ]
    if more := sorted(can - said):
        lines.append(f"not done: {count(len(more), 'job')} ({several(more)}): depends on these")
    return Obeying(plan.model_copy(update={"decisions": decisions}), tuple(lines))


def _stays(job: Job) -> Decision:
    running = job.running
    if running is None:
        return Decision(job=job.name, decision=DecisionKind.WAIT)
    return Decision(
        job=job.name, decision=DecisionKind.KEEP, option=running.option, tasks=running.tasks
    )
