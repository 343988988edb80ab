"""Rules about promises: work, completion times, broken promises, refusals and offers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind, Reason
from placewright.instances.documents.plan_leases import Interval, Offer
from placewright.instances.documents.quantities import amount_text
from placewright.instances.errors import Path
from placewright.instances.verify.reading import Promises, Reading, unavailable_hosts
from placewright.instances.verify.result import Finding, rules
from placewright.instances.verify.rules.deadline.leases import (
    LeaseCapacity,
    LeaseProgress,
    first_usable,
    in_order,
    interval_minima,
    spans,
)

# Rules about promises: the leases in which the work is done, completion times, broken promises.


_OF_LEASES = (Reason.PROMISED_LATER, Reason.REFUSED, Reason.NOT_BEFORE)


def promise(reading: Reading) -> Iterator[Finding]:
    """Require that a promise is one of the job's due times, or its promise of an earlier round."""
    for promises, number, job in _given(reading):
        deadline, given = job.deadline, promises.section.jobs[number].promise
        if deadline is not None and given not in deadline.due and given != deadline.promise:
            yield Finding(
                (*promises.path, "jobs", number, "promise"),
                f"job {job.name!r} has no due time {given.at} of value {given.value}; "
                "expected one of its own, or its promise of before",
            )


def lease_times(reading: Reading) -> Iterator[Finding]:
    """Require ascending intervals with gaps, from the job's first usable lease to the horizon.

    A pinned job runs on without a break.
    """
    for promises, number, job in _given(reading):
        promised = promises.section.jobs[number]
        path: Path = (*promises.path, "jobs", number, "leases")
        if number not in promises.timely:
            yield interval_finding(reading, job, promised.option, promised.leases, path)
        elif problem := pinned_problem(job, promised.leases):
            yield Finding(path, problem)


def current_lease(reading: Reading) -> Iterator[Finding]:
    """Require that a promised job runs exactly if its leases begin now, with its option."""
    if reading.promises is None:
        return
    runs = {placed.job.name: placed for placed in reading.placed}
    for promises, number, job in _given(reading):
        promised, placed = promises.section.jobs[number], runs.get(job.name)
        path: Path = (*promises.path, "jobs", number)
        begins = promised.leases[0][0] == 0
        if begins and placed is None:
            problem = "has the current lease, and does not run; expected it to run"
            yield Finding((*path, "leases"), f"job {job.name!r} {problem}")
        elif placed is not None and not begins:
            problem = "runs, and has not the current lease; expected its leases to begin with 0"
            yield Finding((*path, "leases"), f"job {job.name!r} {problem}")
        elif placed is not None and placed.chosen != promised.option:
            yield Finding(
                (*path, "option"),
                f"job {job.name!r} is promised option {promised.option}; "
                f"expected option {placed.chosen}, with which it runs",
            )


def ready(reading: Reading) -> Iterator[Finding]:
    """Require that no job starts before it is ready."""
    for placed in reading.started:
        if first_usable(reading, placed.job, placed.chosen):
            yield Finding(
                placed.path,
                f"job {placed.job.name!r} starts before it is ready; expected it to wait",
            )


def lease_work(reading: Reading) -> Iterator[Finding]:
    """Require as many leases as the work needs, the completion time that follows, and no delay."""
    promises = reading.promises
    if promises is None:
        return
    pacing = LeaseProgress(reading)
    for number, job in promises.timely.items():
        promised = promises.section.jobs[number]
        path: Path = (*promises.path, "jobs", number)
        found = pacing.finish(job, promised.option, promised.leases, placed=True)
        if isinstance(found, str):
            yield Finding((*path, "leases"), found)
        elif found != promised.finish:
            yield Finding(
                (*path, "finish"),
                f"finish {promised.finish} of job {job.name!r} does not follow from its leases; "
                f"expected {found}",
            )
        elif found > promised.promise.at:
            yield Finding(
                (*path, "finish"),
                f"job {job.name!r} is done at {found}; "
                f"expected at most {promised.promise.at}, as promised",
            )


def lease_capacity(reading: Reading) -> Iterator[Finding]:
    """Require that the promised jobs of each later lease fit its capacity, in every row.

    What fits the current lease is for the rules about places.
    """
    promises = reading.promises
    if promises is None:
        return
    given = promises.timely.items()
    capacity = LeaseCapacity(
        reading, [(job, promises.section.jobs[number].option) for number, job in given]
    )
    taken = capacity.taken(promises)
    over = taken > capacity.free
    over[:, 0] = False
    for row in np.flatnonzero(over.any(axis=1)):
        lease = int(over[row].argmax())
        yield Finding(
            (*promises.path, "jobs"),
            f"promised jobs ask {amount_text('gpu', taken[row, lease])} in lease {lease} "
            f"({capacity.names()[row]}); expected at most "
            f"{amount_text('gpu', capacity.free[row, lease])}",
        )


def kept_promises(reading: Reading) -> Iterator[Finding]:
    """Require that `broken` names exactly the promises of earlier rounds that are not kept.

    A promise is kept by one for its time or an earlier one.
    """
    promises = reading.promises
    if promises is None:
        return
    broken = {}
    for job in reading.round.jobs:
        old = job.deadline.promise if job.deadline is not None else None
        if old is not None:
            now = promises.of(job.name)
            if now is None or now.promise.at > old.at:
                broken[job.name] = old
    seen: set[str] = set()
    for number, entry in enumerate(promises.section.broken):
        was = broken.get(entry.job)
        if was is None:
            problem = f"job {entry.job!r} has no promise that is broken; expected those that have"
        elif entry.job in seen:
            problem = f"job {entry.job!r} is named already; expected it once"
        elif entry.promise != was:
            problem = (
                f"job {entry.job!r} was not promised {entry.promise.at} of value "
                f"{entry.promise.value}; expected {was.at} of value {was.value}"
            )
        else:
            seen.add(entry.job)
            continue
        yield Finding((*promises.path, "broken", number), problem)
    for name in broken:
        if name not in seen:
            yield Finding(
                (*promises.path, "broken"),
                f"the promise of job {name!r} is broken and not named; expected all that are",
            )


def lease_reason(reading: Reading) -> Iterator[Finding]:
    """Require of a job with a promise, a refused one or one that is not ready to wait for that.

    Nobody else does. With the reason comes the time at which the job runs next, of a refused one
    that of the offer.
    """
    for index, decision in enumerate(reading.plan.decisions):
        job, given = reading.jobs.get(decision.job), decision.reason
        if job is None or job.running is not None or decision.decision is not DecisionKind.WAIT:
            continue
        true, at = _reason_of_leases(reading, job)
        said = None if decision.detail is None else decision.detail.at
        path: Path = ("decisions", index, "reason")
        if given is not None and given is not true and (true or given in _OF_LEASES):
            yield Finding(
                path,
                f"reason {given.value!r} of job {job.name!r}, of which its times and the section "
                f"'leases' say otherwise; expected {true.value if true else 'another'}",
            )
        elif given is not None and given is true and said is not None and said != at:
            yield Finding(
                path,
                f"reason {given.value!r} of job {job.name!r} with the time {said}; expected {at}",
            )


def _reason_of_leases(reading: Reading, job: Job) -> tuple[Reason | None, int | None]:
    """Return why a job that does not start waits, None if leases do not say, and the time of it."""
    promised, deadline, now = reading.promise_of(job.name), job.deadline, reading.round.now
    if promised is not None:
        begins = now + promised.leases[0][0] * reading.round.leases.length_s
        return Reason.PROMISED_LATER, begins
    if deadline is None or reading.promises is None:
        return None, None
    if deadline.due:
        offers = (one.offer for one in reading.promises.section.refused if one.job == job.name)
        offer = next(offers, None)
        return Reason.REFUSED, None if offer is None else offer.at
    if deadline.ready is not None and deadline.ready > now:
        return Reason.NOT_BEFORE, deadline.ready
    return None, None


def away(reading: Reading) -> Iterator[Finding]:
    """Refuse tasks, also kept ones, on hosts with an outage in the current lease."""
    gone = unavailable_hosts(reading)
    for task in reading.placed_tasks() if gone else ():
        if task.host.name in gone:
            yield Finding(
                (*task.path, "host"),
                f"host {task.host.name!r} is away in the current lease; "
                "expected hosts that are there all of it",
            )


def interval_finding(
    reading: Reading, job: Job, option: int, intervals: Sequence[Interval], path: Path
) -> Finding:
    """Return a finding about the first interval that is empty, out of reach or not separate."""
    horizon, least = reading.round.leases.horizon, first_usable(reading, job, option)
    number, (first, end) = 0, intervals[0]
    while least <= first < end <= horizon:
        least, number = end + 1, number + 1
        first, end = intervals[number]
    return Finding(
        (*path, number),
        f"interval [{first}, {end}) of job {job.name!r} is not within reach; "
        f"expected a lease or more from {least} to {horizon - 1}",
    )


def pinned_problem(job: Job, intervals: Sequence[Interval]) -> str | None:
    """Return the problem if the leases of a pinned job have a gap; None otherwise."""
    if job.running is not None and job.running.pinned and (len(intervals) > 1 or intervals[0][0]):
        return f"pinned job {job.name!r} stops; expected one interval, from lease 0"
    return None


def _given(reading: Reading) -> Iterator[tuple[Promises, int, Job]]:
    """Yield each promise to a job of the round: its number in the section, and the job."""
    if reading.promises is not None:
        for name, number in reading.promises.numbers.items():
            yield reading.promises, number, reading.jobs[name]


RULES_OF_PROMISES = (
    *rules(promise, lease_times, current_lease, ready, lease_work, lease_capacity),
    *rules(kept_promises, lease_reason, away),
)


# Rules about refused jobs, and the offers made to them.


def refusals(reading: Reading) -> Iterator[Finding]:
    """Require that `refused` names exactly the jobs with due times and no promise, each once."""
    promises = reading.promises
    if promises is None:
        return
    refused = {
        job.name: None
        for job in reading.round.jobs
        if job.deadline is not None and job.deadline.due and promises.of(job.name) is None
    }
    seen: set[str] = set()
    for number, entry in enumerate(promises.section.refused):
        if entry.job in refused and entry.job not in seen:
            seen.add(entry.job)
            continue
        problem = "is named already" if entry.job in seen else "is not refused"
        yield Finding(
            (*promises.path, "refused", number, "job"),
            f"job {entry.job!r} {problem}; expected each job once that asked and has no promise",
        )
    for name in refused:
        if name not in seen:
            yield Finding(
                (*promises.path, "refused"),
                f"job {name!r} asked for a promise and has none; expected it among the refused",
            )


def offer(reading: Reading) -> Iterator[Finding]:
    """Require that each offer could be promised: its leases do the work, and fit beside the plan's.

    Each offer is looked at on its own, and the current lease is counted here as the others are, but
    without the places of those that run where nobody else may come.
    """
    promises = reading.promises
    if promises is None:
        return
    pacing = LeaseProgress(reading)
    sound: list[tuple[Path, Job, Offer]] = []
    for path, job, made in _offers(reading, promises):
        if made.option >= len(job.options):
            yield Finding(
                (*path, "option"),
                f"job {job.name!r} has no option {made.option}; "
                f"expected at most {len(job.options) - 1}",
            )
            continue
        here = (*path, "leases")
        least = first_usable(reading, job, made.option)
        if not in_order(spans([made.leases]), [least], reading.round.leases.horizon).all():
            yield interval_finding(reading, job, made.option, made.leases, here)
        elif problem := pinned_problem(job, made.leases):
            yield Finding(here, problem)
        elif isinstance(found := pacing.finish(job, made.option, made.leases, placed=False), str):
            yield Finding(here, found)
        elif found != made.at:
            yield Finding(
                (*path, "at"),
                f"finish {made.at} of job {job.name!r} does not follow from its leases; "
                f"expected {found}",
            )
        else:
            sound.append((path, job, made))
    if sound:
        yield from _beside(reading, promises, sound)


def _beside(
    reading: Reading, promises: Promises, offers: list[tuple[Path, Job, Offer]]
) -> Iterator[Finding]:
    asking = [(job, made.option) for _, job, made in offers]
    beside = [
        (job, promises.section.jobs[number].option) for number, job in promises.timely.items()
    ]
    capacity = LeaseCapacity(reading, [*beside, *asking])
    left = capacity.free - capacity.taken(promises)
    left[:, 0] -= capacity.tolerated
    wanted = spans(made.leases for _, _, made in offers)
    asked = capacity.demand(asking)[wanted.owner]
    short = (interval_minima(left, wanted) < asked) & (asked > 0)
    for index in np.unique(wanted.owner[short.any(axis=1)]):
        path, job, _ = offers[index]
        row = int(short[wanted.owner == index].any(axis=0).argmax())
        yield Finding(
            (*path, "leases"),
            f"job {job.name!r} finds no room in {capacity.names()[row]} beside the promises; "
            "expected leases in which it does",
        )


def _offers(reading: Reading, promises: Promises) -> Iterator[tuple[Path, Job, Offer]]:
    """Yield the offers to jobs of the round that ask for a promise."""
    for number, entry in enumerate(promises.section.refused):
        job = reading.jobs.get(entry.job)
        if entry.offer is not None and job is not None and job.deadline is not None:
            yield (*promises.path, "refused", number, "offer"), job, entry.offer


RULES_OF_REFUSALS = rules(refusals, offer)
