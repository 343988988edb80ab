"""Two plans side by side: who is decided otherwise, what each term gains, and what stays free.

The plans may be of two rounds, such as one before and after an edit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from placewright.explain.free_domains import FreeDomains, free_domains
from placewright.explain.term_differences import TermDifference, term_differences
from placewright.instances.checks.round import checked
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import (
    Decision,
    DecisionKind,
    Plan,
    Reason,
    TermResult,
)
from placewright.instances.documents.round import Round
from placewright.instances.policies import sense_of
from placewright.instances.verify import verify

Change = Literal[
    "stops",
    "no longer starts",
    "restarts",
    "starts",
    "no longer stops",
    "moves",
    "no longer moves",
    "other option",
    "new",
    "gone",
    "other reason",
    "other place",
    "other facts",
]
"""`stops` is of a running job, `no longer starts` of a pending one; `restarts` of one that runs in
the round before and starts anew in the round after, since its host fails.
"""

CHANGES: tuple[Change, ...] = get_args(Change)
"""In the order in which they are told."""

OF_DECISIONS = ("moves", "shares", "communication")
"""Kinds of sections that follow from the decisions."""

RUNS = (DecisionKind.START, DecisionKind.KEEP, DecisionKind.MIGRATE)


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job that two plans do not decide alike.

    Parameters
    ----------
    job
        The job, as in the round after; as in the one before if it is gone.
    change
        What is different.
    before, after
        The two decisions; None where the job is not in the round.
    """

    job: Job
    change: Change
    before: Decision | None
    after: Decision | None

    @property
    def milli_gpu(self) -> int:
        """What the job holds in the later plan in which it runs; if it waits in both, asks."""
        for one in (self.after, self.before):
            if one is not None and one.option is not None and one.option < len(self.job.options):
                return self.job.options[one.option].milli_gpu
        if self.job.running is not None:
            return self.job.options[self.job.running.option].milli_gpu
        return max(option.milli_gpu for option in self.job.options)


class WaitingJobs(NamedTuple):
    """Jobs that wait in the plan after for one reason, of a quota for that of one tenant or cap.

    `used` and `limit` are of the quota of `resource`; of a cap, of GPUs of a `gpu_model` or `jobs`.
    """

    reason: Reason | None
    jobs: tuple[str, ...]
    milli_gpu: int
    tenant: str | None = None
    resource: str | None = None
    used: int | None = None
    limit: int | None = None
    cap: str | None = None
    gpu_model: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference between two plans.

    Parameters
    ----------
    jobs
        Those decided otherwise, what costs most first (`CHANGES`), then by priority and size.
    terms
        Every term of both.
    free
        Whole domains that are free, of each level.
    waiting
        Why jobs wait in the plan after, most GPUs first.
    sections
        Kinds of sections that differ, without those that say how jobs are decided: where data goes,
        who takes turns, which leases were promised.
    """

    jobs: tuple[JobChange, ...]
    terms: tuple[TermDifference, ...]
    free: tuple[FreeDomains, ...]
    waiting: tuple[WaitingJobs, ...]
    sections: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs: no decision, no section, no term, nothing free."""
        return (
            not self.jobs
            and not self.sections
            and not any(one.difference != 0 for one in self.terms)
            and not any(one.before != one.after or one.added for one in self.free)
        )

    def of(self, *changes: Change) -> list[JobChange]:
        """Return the jobs with one of these changes."""
        return [one for one in self.jobs if one.change in changes]


def compare(round_: Round, plan: Plan, round_after: Round, plan_after: Plan) -> Comparison:
    """Compare two valid plans, of one round or of two.

    Parameters
    ----------
    round_, plan
        The first round and its plan.
    round_after, plan_after
        The second round and its plan. Jobs, hosts and domains of one name are the same.
    """
    round_, round_after = checked(round_), checked(round_after)
    plan, plan_after = plan.completed(round_.names), plan_after.completed(round_after.names)
    jobs = {job.name: job for job in round_after.jobs}
    changes = _job_changes({job.name: job for job in round_.jobs}, plan, jobs, plan_after)
    order = {change: number for number, change in enumerate(CHANGES)}
    return Comparison(
        jobs=tuple(sorted(changes, key=lambda c: (order[c.change], -c.job.priority, -c.milli_gpu))),
        terms=tuple(
            term_differences(
                _terms(round_, plan),
                _terms(round_after, plan_after),
                of_all_plans=_bounds_all_plans(round_) and _bounds_all_plans(round_after),
            )
        ),
        free=free_domains(round_, plan, round_after, plan_after),
        waiting=tuple(_waiting(jobs, plan_after)),
        sections=tuple(_sections(plan, plan_after)),
    )


def _job_changes(
    jobs: Mapping[str, Job], plan: Plan, jobs_after: Mapping[str, Job], plan_after: Plan
) -> Iterator[JobChange]:
    before = {decision.job: decision for decision in plan.decisions}
    after = {decision.job: decision for decision in plan_after.decisions}
    for name, old in before.items():
        if name not in after:
            yield JobChange(jobs[name], "gone", old, None)
            continue
        change = _change(old, after[name])
        if change is not None:
            yield JobChange(jobs_after[name], change, old, after[name])
    for name, new in after.items():
        if name not in before:
            yield JobChange(jobs_after[name], "new", None, new)


def _change(old: Decision, new: Decision) -> Change | None:
    ran, runs = old.decision in RUNS, new.decision in RUNS
    was_running, is_running = (
        one.decision in (DecisionKind.KEEP, DecisionKind.MIGRATE, DecisionKind.PREEMPT)
        for one in (old, new)
    )
    if ran != runs:
        if runs:
            return "no longer stops" if was_running else "starts"
        return "stops" if was_running or is_running else "no longer starts"
    if runs and was_running and not is_running:
        return "restarts"
    if not runs:
        if (old.decision, old.reason) != (new.decision, new.reason):
            return "other reason"
        return None if old.detail == new.detail else "other facts"
    moved, moves = (one.decision is DecisionKind.MIGRATE for one in (old, new))
    if moved != moves:
        return "moves" if moves else "no longer moves"
    if old.option != new.option:
        return "other option"
    return None if old.tasks == new.tasks else "other place"


def _terms(round_: Round, plan: Plan) -> list[TermResult]:
    """Return the terms of a plan's certificate; without one only values are known."""
    if plan.certificate is not None:
        return list(plan.certificate.terms)
    values = verify(round_, plan).terms
    return [TermResult(name=name, sense=sense_of(name), value=v) for name, v in values.items()]


def _sections(plan: Plan, plan_after: Plan) -> Iterator[str]:
    """Yield the kinds of sections that differ and do not follow from the decisions."""
    old, new = ({s["kind"]: s for s in one.sections} for one in (plan, plan_after))
    for kind in dict.fromkeys((*old, *new)):
        if kind not in OF_DECISIONS and old.get(kind) != new.get(kind):
            yield kind


def _bounds_all_plans(round_: Round) -> bool:
    """Whether bounds speak of all plans: cells and backfilling place some jobs by a rule."""
    return round_.policy.backfill is None and not any(one.cells for one in round_.tenants)


def _waiting(jobs: Mapping[str, Job], plan: Plan) -> list[WaitingJobs]:
    groups: dict[tuple[object, ...], list[Decision]] = {}
    for decision in plan.decisions:
        if decision.decision is DecisionKind.WAIT:
            detail = decision.detail if decision.reason is Reason.QUOTA else None
            key = (
                decision.reason,
                detail and detail.tenant,
                detail and detail.cap,
                detail and detail.resource,
                detail and detail.gpu_model,
                detail and detail.region,
            )
            groups.setdefault(key, []).append(decision)
    found: list[WaitingJobs] = []
    for decisions in groups.values():
        first = decisions[0]
        names = tuple(decision.job for decision in decisions)
        milli = sum(max(o.milli_gpu for o in jobs[name].options) for name in names)
        if first.reason is Reason.QUOTA and first.detail is not None:
            one = first.detail
            found.append(
                WaitingJobs(
                    first.reason,
                    names,
                    milli,
                    one.tenant,
                    one.resource,
                    one.used,
                    one.limit,
                    one.cap,
                    one.gpu_model,
                )
            )
        else:
            found.append(WaitingJobs(first.reason, names, milli))
    return sorted(found, key=lambda group: -group.milli_gpu)
