"""Edits of the clock: who is expected to have ended is gone, and copies of data have arrived."""

from __future__ import annotations

from placewright.instances.derived.arrived_copies import with_arrived_copies
from placewright.instances.derived.work_done import jobs_after_work, work_left
from placewright.instances.documents.base import MAX_NOW
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import Leases
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError


def at(round_: Round, now: int) -> Round:
    """Set the clock to a time, no earlier than that of the round."""
    if now < round_.now:
        raise InvalidInputError(f"expected no earlier than now, {round_.now}", value=now)
    return advance(round_, now - round_.now)


def advance(round_: Round, seconds: int) -> Round:
    """Move the clock by some seconds.

    Jobs that run and say when they started and how long they take are gone once that time is
    over. Those with deadlines have done work, and are gone once all of it is done. Copies of data
    under way have arrived if they are ready.
    """
    now = round_.now + seconds
    if now > MAX_NOW:
        raise InvalidInputError(f"expected a time of at most {MAX_NOW}", value=now)
    if not seconds:
        return round_
    ended = {job.name for job in round_.jobs if _has_ended(job, now, round_.leases, seconds)}
    left = round_.without_jobs(ended)
    jobs = jobs_after_work(left.jobs, round_.leases, seconds)
    update = {"now": now, "jobs": jobs, "geo": with_arrived_copies(round_.geo, now)}
    return left.model_copy(update=update)


def _has_ended(job: Job, now: int, leases: Leases, seconds: int) -> bool:
    if job.running is None:
        return False
    left = work_left(job, leases, seconds)
    if left is not None:
        return left <= 0
    started, runtime = job.running.started, job.expected_runtime_s
    return started is not None and runtime is not None and started + runtime <= now
