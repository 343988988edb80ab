"""Waiting jobs: which may start, in which order, where, and when running ones should end.

docs/formulations/backfill.md has the definitions.
"""

from __future__ import annotations

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round


def eligible(job: Job, now: int) -> bool:
    """Whether a pending job may start now, for all that it says itself."""
    return not job.held and (job.not_before is None or job.not_before <= now)


def submitted_at(job: Job, now: int) -> int:
    """Return when a job was submitted; one that does not say so just has been."""
    return now if job.submitted is None else job.submitted


def age(job: Job, now: int) -> int:
    """Return the seconds for which a waiting job has been eligible."""
    return max(0, now - max(submitted_at(job, now), job.not_before or 0))


def aged_value(round_: Round, job: Job, option: int) -> int:
    """Return the value of an option of a waiting job, raised by the policy's aging."""
    value, aging = job.value_of(option), round_.policy.aging
    return value if aging is None else aging.aged(value, age(job, round_.now))


def queue(round_: Round) -> list[int]:
    """Return the eligible pending jobs by priority, time of submission, and order in the round.

    In the order of the round alone where the policy says so.
    """
    jobs = round_.jobs
    waiting = [j for j, job in enumerate(jobs) if not job.running and eligible(job, round_.now)]
    if round_.policy.as_listed:
        return waiting
    return sorted(waiting, key=lambda j: (-jobs[j].priority, submitted_at(jobs[j], round_.now)))


def hosts_away(round_: Round, start: int, end: int | None) -> frozenset[str]:
    """Return the hosts that maintenance takes at a time from `start` to `end` (None: for ever)."""
    return frozenset(
        name
        for outage in round_.maintenance
        if (outage.start is None or end is None or outage.start < end)
        and (outage.end is None or outage.end > start)
        for name in expand(outage.host)
    )


def expected_end(job: Job, now: int) -> int | None:
    """Return when a job is expected to end, None for never: a pending one if it starts now.

    One that overran is expected to run on for as long again as it has overrun; with a stage it ends
    when that says.
    """
    if job.stage is not None and job.running is not None:
        return end_of(job, now)
    if job.expected_runtime_s is None:
        return None
    if job.running is None:
        return now + job.expected_runtime_s
    if job.running.started is None:
        return None
    end = job.running.started + job.expected_runtime_s
    return end if end > now else now + max(1, now - end)


def end_of(job: Job, now: int) -> int:
    """Return when a running job with a stage ends, on the round's clock."""
    if job.running is None or job.stage is None:
        raise ValueError(f"job {job.name!r} does not run a stage; expected one that does")
    started = now if job.running.started is None else job.running.started
    return max(now + 1, started + job.stage.seconds(job.running.option))
