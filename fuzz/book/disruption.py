"""The disruption budget: what a plan does to running jobs, summed and compared."""

from __future__ import annotations

from fuzz.book.choices import MIGRATE, PREEMPT, RESIZE, Choices
from fuzz.book.facts import WHOLE, Facts, Job


def beyond_budget(facts: Facts, choices: Choices) -> bool:
    """Whether a plan exceeds a limit of the policy, or preempts a job that started too late."""
    limits = (facts.policy.get("limits") or {}).get("disruption")
    if limits is None:
        return False
    decided = list(zip(facts.jobs, choices, strict=True))
    stopped = [job for job, choice in decided if choice.kind == PREEMPT and _counts(facts, job)]
    moved = [job for job, choice in decided if choice.kind == MIGRATE and _counts(facts, job)]
    sized = [job for job, choice in decided if choice.kind == RESIZE and _counts(facts, job)]
    done = {
        "preempted_jobs": len(stopped),
        "preempted_gpus": sum(_gpus(job) for job in stopped),
        "migrated_jobs": len(moved),
        "resized_jobs": len(sized),
        "lost_gpu_s": sum(_lost(facts, job) for job in (*stopped, *moved, *sized)),
    }
    for name, amount in done.items():
        unit = WHOLE if name in ("preempted_gpus", "lost_gpu_s") else 1
        if limits.get(name) is not None and amount > unit * limits[name]:
            return True
    least = limits.get("min_run_s") or 0
    starts = (facts.raw["jobs"][job.number]["running"].get("started") for job in stopped)
    return any(start is not None and facts.raw["now"] - start < least for start in starts)


def _counts(facts: Facts, job: Job) -> bool:
    assert job.running is not None
    hosts = [facts.hosts[place[2]] for place in job.running.places]
    return all(host.healthy and not host.vacated and not host.away for host in hosts)


def _gpus(job: Job) -> int:
    assert job.running is not None
    return job.options[job.running.option].asks["gpu"]


def _lost(facts: Facts, job: Job) -> int:
    running = facts.raw["jobs"][job.number]["running"]
    seconds = running.get("restart_s", 0)
    saved = running.get("started") if running.get("checkpoint") is None else running["checkpoint"]
    seconds += 0 if saved is None else facts.raw.get("now", 0) - saved
    return int(_gpus(job) * seconds)
