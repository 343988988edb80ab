"""Two plans side by side: who is decided otherwise, what each term gains, and what it comes to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal, NamedTuple, TypeAlias, get_args

from placewright.explain.places import FreeDomains, free_domains
from placewright.instances.checks.round import checked
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import (
    Decision,
    DecisionKind,
    Plan,
    Precedence,
    Reason,
    TermResult,
)
from placewright.instances.documents.quantities import amount_text, part_text
from placewright.instances.documents.round import Round
from placewright.instances.policies import sense_of, term_of
from placewright.instances.verify import verify

# Terms of two plans side by side, and what is proven of their difference.
#
# A difference in a term is *proven* if it holds between the best plans of the two rounds, whatever
# the search missed. The best value of a term lies between the plan's value and its bound, if every
# earlier term is proven; these two intervals are compared. If they overlap, the difference is
# undecided.


Verdict = Literal["same", "proven", "undecided"]
"""Of a difference between the best plans: there is none, there is one, or it is not known."""

_Key: TypeAlias = tuple[str, tuple[Precedence, ...]]
_Known: TypeAlias = tuple[TermResult, tuple[float, float]]
"""A term, and the interval in which its value in the best plan lies."""


@dataclass(frozen=True, slots=True)
class TermDifference:
    """A term of both plans; None for that of a round that has no such term.

    Parameters
    ----------
    difference
        Value after less value before.
    verdict
        What is proven of the difference between the best plans.
    at_least, at_most
        Bounds on that difference; infinite if there is none.
    """

    before: TermResult | None
    after: TermResult | None
    difference: int | None
    verdict: Verdict
    at_least: float = -inf
    at_most: float = inf

    @property
    def term(self) -> TermResult:
        """The term itself, as it is after."""
        known = self.after or self.before
        if known is None:
            raise ValueError("expected a term of one of the two plans")
        return known


def term_differences(
    before: Sequence[TermResult], after: Sequence[TermResult], *, of_all_plans: bool = True
) -> Iterator[TermDifference]:
    """Yield the terms in their order after, those of before alone where they were.

    Unless bounds are `of_all_plans`, nothing is known of the best ones.
    """
    old, new = (
        {_key(term): (term, span) for term, span in _with_intervals(one, of_all_plans)}
        for one in (before, after)
    )
    stems = {term_of(term.name) for term in (*before, *after) if term.precedences}
    unlike = {stem for stem in stems if _levels(old, stem) != _levels(new, stem)}
    old, new = _with_totals(old, unlike), _with_totals(new, unlike)
    for key in _merged(list(old), list(new)):
        if key not in old or key not in new:
            alone = old[key][0] if key in old else None, new[key][0] if key in new else None
            yield TermDifference(*alone, difference=None, verdict="undecided")
            continue
        (one, (low, high)), (other, (low_after, high_after)) = old[key], new[key]
        at_least, at_most = low_after - high, high_after - low
        difference = other.value - one.value
        # A claimed bound that makes a term optimal may be off by the tolerance of its solver.
        optimal = one.status == other.status == "optimal" and isfinite(at_most - at_least)
        verdict: Verdict = "undecided"
        if at_least == at_most == 0 or (optimal and difference == 0):
            verdict = "same"
        elif at_least > 0 or at_most < 0:
            verdict = "proven"
        yield TermDifference(one, other, difference, verdict, at_least, at_most)


def _key(term: TermResult) -> _Key:
    """Return what makes a term the same in two rounds: of a priority class its precedences."""
    return term_of(term.name) if term.precedences else term.name, term.precedences


def _levels(terms: Mapping[_Key, _Known], stem: str) -> list[_Key]:
    return [key for key in terms if key[0] == stem and key[1]]


def _with_totals(terms: Mapping[_Key, _Known], stems: Collection[str]) -> dict[_Key, _Known]:
    """Return terms with the sum of all priority classes before each first class of these."""
    made: dict[_Key, _Known] = {}
    for key, known in terms.items():
        stem, precedences = key
        if precedences and stem in stems and (stem, ()) not in made:
            made[stem, ()] = _total(stem, [terms[level] for level in _levels(terms, stem)])
        made[key] = known
    return made


def _total(stem: str, classes: Sequence[_Known]) -> _Known:
    """Return the sum of the priority classes of a term, and the interval of it."""
    total = sum(term.value for term, _ in classes)
    span = sum(low for _, (low, _) in classes), sum(high for _, (_, high) in classes)
    return TermResult(name=stem, sense=sense_of(stem), value=total), span


def _merged(old: Sequence[_Key], new: Sequence[_Key]) -> list[_Key]:
    """Return the keys of two lists, each once: those of the second, others where they were."""
    keys = list(new)
    for place, key in enumerate(old):
        if key not in keys:
            keys.insert(place, key)
    return keys


def _with_intervals(
    terms: Sequence[TermResult], known: bool
) -> Iterator[tuple[TermResult, tuple[float, float]]]:
    """Yield each term with the interval of its value in the best plan."""
    for term in terms:
        low, high = -inf, inf
        if known and term.bound is not None:
            low, high = sorted((float(term.value), float(term.bound)))
        elif known:
            low, high = (term.value, inf) if term.sense == "max" else (-inf, term.value)
        known = known and (low == high or term.status == "optimal")
        yield term, (low, high)


# Two plans side by side: who is decided otherwise, what each term gains, and what stays free.
#
# The plans may be of two rounds, such as one before and after an edit.


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

RUNS = (
    DecisionKind.START,
    DecisionKind.KEEP,
    DecisionKind.MIGRATE,
    DecisionKind.RESIZE,
)


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
        one.decision in (DecisionKind.KEEP, DecisionKind.PREEMPT) or one.decision.moves
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


# What a comparison of two plans comes to, in a few sentences.


_SAID: tuple[tuple[Change, str, str], ...] = (
    ("starts", "starts", "start"),
    ("no longer starts", "no longer starts", "no longer start"),
    ("stops", "stops", "stop"),
    ("no longer stops", "no longer stops", "no longer stop"),
    ("restarts", "restarts", "restart"),
    ("moves", "moves", "move"),
    ("no longer moves", "no longer moves", "no longer move"),
    ("other option", "runs with another option", "run with another option"),
    ("other place", "is elsewhere", "are elsewhere"),
    ("other reason", "waits for another reason", "wait for another reason"),
    ("other facts", "waits for the same reason with other facts",
     "wait for the same reason with other facts"),
)  # fmt: skip


def conclusions(comparison: Comparison) -> tuple[str, ...]:
    """Return the difference as sentences: who starts and stops, and whether quotas are why not."""
    if comparison.is_empty:
        return ("Nothing differs.",)
    return tuple(_sentences(comparison))


def _sentences(comparison: Comparison) -> Iterator[str]:
    parts = [
        f"{len(found):,} {one if len(found) == 1 else many}"
        for change, one, many in _SAID
        if (found := comparison.of(change))
    ]
    new = comparison.of("new")
    placed = [one for one in new if one.after is not None and one.after.tasks]
    if new:
        parts.insert(0, f"{len(placed):,} of {len(new):,} new jobs run")
    gone = comparison.of("gone")
    if gone:
        parts.append(f"{len(gone):,} {'is' if len(gone) == 1 else 'are'} gone")
    yield f"Jobs: {', '.join(parts)}." if parts else "Every job is decided as before."
    if not comparison.of("starts") and not placed:
        yield "Nobody starts who did not start before."
        yield from _quotas(comparison)
    if comparison.sections:
        yield f"Sections that differ: {', '.join(comparison.sections)}."
    chance = [
        one.term.name for one in comparison.terms if one.difference and one.verdict == "undecided"
    ]
    if chance and comparison.jobs:
        yield f"Undecided, and maybe due to the searches alone: {', '.join(chance)}."


def _quotas(comparison: Comparison) -> Iterator[str]:
    """Say how many of the waiting jobs wait for quotas, and how full these are."""
    limited = [one for one in comparison.waiting if one.reason is Reason.QUOTA]
    waiting = sum(len(one.jobs) for one in comparison.waiting)
    if limited:
        jobs = sum(len(one.jobs) for one in limited)
        full = ", ".join(text for one in limited if (text := quota_text(one)))
        who = f"{jobs:,} of {waiting:,} waiting jobs" if waiting > 1 else "The waiting job"
        yield f"{who} {'waits' if jobs == 1 else 'wait'} for a quota{f': {full}' if full else ''}."


def quota_text(waiting: WaitingJobs) -> str:
    """Return how full the quota or cap is that jobs wait for; nothing for any other reason."""
    if waiting.limit is None or waiting.used is None or waiting.resource is None:
        return ""
    if waiting.cap is not None:
        measure = Measure.named(waiting.resource, waiting.gpu_model)
        held = measure.text(waiting.used).partition(" ")[0]
        limit = measure.text(waiting.limit)
        if not waiting.used:
            return f"cap {waiting.cap} allows {limit} in all"
        return f"cap {waiting.cap} holds {held} of {limit}"
    if not waiting.used:
        return f"tenant {waiting.tenant} may hold {amount_text(waiting.resource, waiting.limit)}"
    used = part_text(waiting.resource, waiting.used, waiting.limit)
    return f"tenant {waiting.tenant} uses {used}"
