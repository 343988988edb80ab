"""The rule about the disruption budget: how much a plan may do to running jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from placewright.instances.documents.plan import Reason
from placewright.instances.documents.policy import DisruptionLimits
from placewright.instances.documents.quantities import amount_text
from placewright.instances.verify.outages import unavailable_hosts
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.gang.terms import lost_work
from placewright.topology.units import WHOLE_GPU


class _Limit(NamedTuple):
    """A limit, None for none, and what the plan does, as amounts and as text."""

    most: int | None
    done: int
    text: str
    limit: str


def disruption_budget(reading: Reading) -> Iterator[Finding]:
    """Require that preempted and migrated jobs together stay within each limit of the policy.

    Jobs on hosts that failed, are away now or are to be vacated do not count. No other job is
    preempted that started less than `min_run_s` ago.
    """
    limits = reading.round.policy.limits
    budget = None if limits is None else limits.disruption
    if budget is None:
        return
    gone = unavailable_hosts(reading)
    preempted = {
        victim.job.name: victim.path
        for victim in reading.preempted
        if _counts(reading, victim.job.name, gone)
    }
    migrated = {
        placed.job.name: placed.path
        for placed in reading.migrated
        if _counts(reading, placed.job.name, gone)
    }
    paths = list((preempted | migrated).values())
    for limit in _limits(reading, budget, list(preempted), list(migrated)):
        if limit.most is not None and limit.done > limit.most:
            yield Finding(paths[-1], f"{limit.text}; expected at most {limit.limit}")
    least = budget.min_run_s or 0
    for name, path in preempted.items():
        started = reading.running[name].started
        if started is not None and reading.round.now < started + least:
            yield Finding(
                path,
                f"job {name!r} is preempted {reading.round.now - started} s after its start; "
                f"expected at least {least} s (min_run_s)",
            )


def _counts(reading: Reading, job: str, gone: frozenset[str]) -> bool:
    """Whether no host of a running job has failed, is to be vacated or `gone`."""
    return all(
        task.host not in reading.vacated | gone and reading.cluster.hosts[task.host].healthy
        for task in reading.running[job].tasks
    )


def _limits(
    reading: Reading, budget: DisruptionLimits, preempted: list[str], migrated: list[str]
) -> Iterator[_Limit]:
    """Yield each limit with what the plan does."""
    jobs, gpus, moves = budget.preempted_jobs, budget.preempted_gpus, budget.migrated_jobs
    stopped = sum(reading.option_run(name).milli_gpu for name in preempted)
    most = budget.lost_gpu_s
    lost = sum(lost_work(reading, name) for name in (*preempted, *migrated))
    stops, goes = len(preempted), len(migrated)
    yield _Limit(jobs, stops, f"{stops} jobs are preempted", f"{jobs} (preempted_jobs)")
    yield _Limit(
        gpus,
        stopped,
        f"jobs of {amount_text('gpu', stopped)} are preempted",
        "" if gpus is None else f"{amount_text('gpu', gpus)} (preempted_gpus)",
    )
    yield _Limit(moves, goes, f"{goes} jobs migrate", f"{moves} (migrated_jobs)")
    yield _Limit(
        None if most is None else most * WHOLE_GPU,
        lost,
        f"{lost / WHOLE_GPU:g} GPU-seconds of work are lost",
        f"{most} (lost_gpu_s)",
    )


def disruption_limit(reading: Reading) -> Iterator[Finding]:
    """Require a budget where a job waits for its sake, and that the job is a guaranteed one.

    Only the evictions of guaranteed jobs are made without asking what they are worth.
    """
    limits = reading.round.policy.limits
    owners = {tenant.name for tenant in reading.round.tenants if tenant.cells}
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        if decision.reason is not Reason.DISRUPTION_LIMIT or job is None:
            continue
        given = limits is not None and limits.disruption is not None
        if not given or job.tenant not in owners or job.opportunistic:
            yield Finding(
                ("decisions", index, "reason"),
                f"reason {decision.reason.value!r} of job {job.name!r}; expected it of guaranteed "
                "jobs under a disruption budget only",
            )


RULES_OF_DISRUPTION_BUDGET: tuple[Rule[Reading], ...] = (
    Rule("disruption_budget", disruption_budget),
    Rule("disruption_limit", disruption_limit),
)
