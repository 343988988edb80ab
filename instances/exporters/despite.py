"""Plans without what would act on jobs whose rules are told and not obeyed."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from placewright.instances.checks.round import checked
from placewright.instances.derived.phrases import count, several
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.caveats import hard_caveats
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.exporters.needs import Needs, stopping

_SENDS = (DecisionKind.START, DecisionKind.MIGRATE)
_GOES = (*_SENDS, DecisionKind.PREEMPT)


class Obeying(NamedTuple):
    """What is left of a plan, and a line for each rule for which something is left out."""

    plan: Plan
    lines: tuple[str, ...]


def obeying(round_: Round, plan: Plan, despite: Collection[str] = ()) -> Obeying:
    """Return a plan that starts and moves no job against a hard caveat of it or of its hosts.

    Such jobs wait, or stay where they are, as do those that would stop for them alone, and those
    that need their room. `despite` are rules of caveats that do not matter.
    """
    jobs = {job.name: job for job in checked(round_).jobs}
    of_host = {
        name: hard_caveats(host.annotations)
        for host in round_.cluster.hosts
        for name in expand(host.name)
    }
    left: dict[tuple[str, str], list[str]] = {}
    goes = {one.job for one in plan.decisions if one.decision in _GOES}
    can = set(goes)
    for one in plan.decisions:
        if one.decision in _SENDS:
            hosts = dict.fromkeys(task.host for task in one.tasks)
            told = dict.fromkeys(
                (*hard_caveats(jobs[one.job].annotations), *(c for h in hosts for c in of_host[h]))
            )
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
