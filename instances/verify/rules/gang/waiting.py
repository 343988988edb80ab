"""Facts of jobs that wait or run: who may start, since when, and until when it is expected to run.

Read from docs/formulations/backfill.md, apart from what the engine uses.
"""

from __future__ import annotations

from typing import TypeAlias

from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round


def may_start(job: Job, now: int) -> bool:
    """Whether a job is not held, and its eligible time has come."""
    return not job.held and (job.not_before or 0) <= now


Turn: TypeAlias = tuple[int, ...]
"""What jobs are taken in the order of."""


def queue_key(job: Job, position: int, now: int) -> Turn:
    """Return what jobs wait in the order of: priority, submission, position in the round."""
    return -job.priority, now if job.submitted is None else job.submitted, position


def end_of(job: Job, now: int) -> float:
    """Return when a job is expected to end, infinity for never."""
    if job.expected_runtime_s is None:
        return float("inf")
    if job.running is None:
        return now + job.expected_runtime_s
    if job.running.started is None:
        return float("inf")
    overrun = now - job.running.started - job.expected_runtime_s
    return now + max(overrun, 1) if overrun >= 0 else now - overrun


def start_value(round_: Round, job: Job, option: int) -> int:
    """Return what starting a job adds to `value`: with aging more, the longer it has waited."""
    value, aging = job.value_of(option), round_.policy.aging
    if aging is None or job.submitted is None:
        return value
    waited = max(round_.now - max(job.submitted, job.not_before or 0), 0)
    doubles = aging.doubles_after_s
    return value * min(doubles + waited, aging.limit * doubles) // doubles
