"""Rules and terms of the policy `deadline`."""

from __future__ import annotations

from placewright.instances.documents.deadline import UNIT, Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.verify.policies import PolicyRules
from placewright.instances.verify.reading import ClassTerm, Reading
from placewright.instances.verify.rules.deadline import leases
from placewright.instances.verify.rules.deadline.leases import (
    RULES_OF_LEASES,
    LeaseProgress,
    lease_work,
)
from placewright.instances.verify.rules.deadline.promises import (
    RULES_OF_PROMISES,
    RULES_OF_REFUSALS,
)
from placewright.instances.verify.rules.gang.priority import by_class, classes_of
from placewright.instances.verify.rules.gang.reasons import RULES_OF_REASONS
from placewright.instances.verify.rules.gang.terms import PLACEMENT_TERMS
from placewright.instances.verify.rules.gang.waiting import Entitlement
from placewright.topology.units import MILLION

# The terms of promises, recomputed.


def broken(reading: Reading) -> int:
    """Value lost by broken promises: that of the earlier promise less that of the present one."""
    total = 0
    for job in reading.round.jobs:
        old = job.deadline.promise if job.deadline is not None else None
        if old is not None:
            now = reading.promise_of(job.name)
            total += max(0, old.value - (0 if now is None else now.promise.value))
    return total


def admitted(reading: Reading) -> int | dict[str, int]:
    """Sum of the values of the promises after the round; by priority class if there are several."""
    promises = reading.promises
    values = (
        (reading.jobs[job], 0, promises.section.jobs[number].promise.value)
        for job, number in (promises.numbers.items() if promises is not None else ())
        if promises is not None
    )
    return by_class(reading.round, _classes_of_admitted(reading.round), values)


def best_effort(reading: Reading) -> int | dict[str, int]:
    """Weight times millionths of the work that the current lease does, of jobs without a promise.

    The work of a job that says none is as long as the horizon. By priority class if there are
    several.
    """
    pacing = LeaseProgress(reading)
    counted = (
        (placed.job, 0, _share(reading.round, placed.job, pacing.gained(placed.job, placed.chosen)))
        for placed in reading.placed
        if reading.promise_of(placed.job.name) is None
    )
    return by_class(reading.round, _classes_of_best_effort(reading.round), counted)


def class_terms(round_: Round) -> dict[str, ClassTerm]:
    """Return the terms of priority classes of a round."""
    return {**_classes_of_admitted(round_), **_classes_of_best_effort(round_)}


def _classes_of_admitted(round_: Round) -> dict[str, ClassTerm]:
    """Return the classes of the jobs that may have a promise: each asks its most valuable one."""
    if "admitted" not in round_.policy.by_class:
        return {}
    most = {job.name: max(_values(job), default=0) for job in round_.jobs}
    asking = [job for job in round_.jobs if any(_values(job))]
    of = Entitlement(round_).of
    return classes_of("admitted", asking, lambda job, _: most[job.name], of, pinned=True)


def _classes_of_best_effort(round_: Round) -> dict[str, ClassTerm]:
    """Return the classes of the jobs that may run now: each asks what a lease does at most."""
    if "best_effort" not in round_.policy.by_class:
        return {}

    def worth(job: Job, option: int) -> int:
        pace = Pace() if job.deadline is None else job.deadline.pace(option)
        hosts = [1, *(entry for entry, _ in pace.spanning)]
        return _share(round_, job, max(lease_work(pace, round_.leases.length_s, n) for n in hosts))

    ready = [job for job in round_.jobs if job.running is not None or _is_ready(round_, job)]
    return classes_of("best_effort", ready, worth, Entitlement(round_).of, pinned=True)


def _values(job: Job) -> list[int]:
    if job.deadline is None:
        return []
    given = [] if job.deadline.promise is None else [job.deadline.promise.value]
    return given + [due.value for due in job.deadline.due]


def _is_ready(round_: Round, job: Job) -> bool:
    ready = None if job.deadline is None else job.deadline.ready
    return ready is None or ready <= round_.now


def _share(round_: Round, job: Job, gained: int) -> int:
    """Return the weight of a job times the millionths that something is of its work."""
    leases = round_.leases
    work = UNIT * leases.horizon * leases.length_s if job.deadline is None else job.deadline.work
    return job.weight * min(MILLION, MILLION * gained // work)


def early(reading: Reading) -> int:
    """Milli-GPU that jobs with a promise hold after the round."""
    return sum(
        placed.option.milli_gpu
        for placed in reading.placed
        if reading.promise_of(placed.job.name) is not None
    )


POLICY = PolicyRules(
    terms={
        **PLACEMENT_TERMS,
        "broken": broken,
        "admitted": admitted,
        "best_effort": best_effort,
        "early": early,
    },
    rules=(*RULES_OF_LEASES, *RULES_OF_PROMISES, *RULES_OF_REFUSALS, *RULES_OF_REASONS),
    forms={leases.KIND: leases.form},
    read=leases.with_promises,
    classes=class_terms,
)
