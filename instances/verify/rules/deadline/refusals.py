"""Rules about refused jobs, and the offers made to them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placewright.instances.documents.job import Job
from placewright.instances.documents.plan_leases import Offer
from placewright.instances.errors import Path
from placewright.instances.verify.reading import Promises, Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.deadline.lease_capacity import (
    LeaseCapacity,
    interval_minima,
)
from placewright.instances.verify.rules.deadline.lease_work import (
    LeaseProgress,
    first_usable,
    in_order,
)
from placewright.instances.verify.rules.deadline.leases import spans
from placewright.instances.verify.rules.deadline.promises import interval_finding, pinned_problem


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


RULES_OF_REFUSALS: tuple[Rule[Reading], ...] = (
    Rule("refusals", refusals),
    Rule("offer", offer),
)
