"""Disruption budget: what one round may do to running jobs (docs/formulations/disruption.md).

A stopped job counts with one preempted job, its GPUs and the work it loses, a job that migrates
with one migrated job and the work it loses. Jobs on hosts that failed, are away now or are to be
vacated count with nothing. A protected job, which has not run long enough, is not preempted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, TypeAlias

from placewright.instances.derived.outages import unavailable_hosts
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import DisruptionLimits
from placewright.instances.documents.round import Round
from placewright.topology.units import WHOLE_GPU


class Disruption(NamedTuple):
    """Amounts that a budget limits; milli-GPU, and milli-GPU-seconds of lost work."""

    preempted_jobs: int = 0
    preempted_gpus: int = 0
    migrated_jobs: int = 0
    lost_gpu_s: int = 0

    def plus(self, other: Disruption, times: int = 1) -> Disruption:
        """Return the sum with `times` another one."""
        return Disruption(*(a + times * b for a, b in zip(self, other, strict=True)))


NOTHING = Disruption()
BudgetPrices: TypeAlias = tuple[float, ...]
"""What a unit of each limit is worth, in the order of `Disruption`."""
NO_BUDGET_PRICES: BudgetPrices = (0.0,) * len(NOTHING)


class Stop(NamedTuple):
    """What a running job counts with when it is preempted or migrates, and whether it may stop."""

    preempted: Disruption
    migrated: Disruption
    protected: bool


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """The limits of a round, None for none, and the jobs that count, by index in the round."""

    limits: tuple[int | None, ...]
    stops: Mapping[int, Stop]

    @classmethod
    def of(cls, round_: Round) -> Self | None:
        """Return the budget of a round, None if its policy has none."""
        limits = round_.policy.limits
        if limits is None or limits.disruption is None:
            return None
        given = limits.disruption
        lost = None if given.lost_gpu_s is None else given.lost_gpu_s * WHOLE_GPU
        exempt = _exempt_hosts(round_)
        return cls(
            (given.preempted_jobs, given.preempted_gpus, given.migrated_jobs, lost),
            {
                j: _stop(round_, job, given)
                for j, job in enumerate(round_.jobs)
                if job.running is not None
                and not job.running.pinned
                and exempt.isdisjoint(task.host for task in job.running.tasks)
            },
        )

    def used(self, preempted: Iterable[int], migrated: Iterable[int]) -> Disruption:
        """Return what these jobs count with together."""
        total = NOTHING
        for job in preempted:
            if job in self.stops:
                total = total.plus(self.stops[job].preempted)
        for job in migrated:
            if job in self.stops:
                total = total.plus(self.stops[job].migrated)
        return total

    def excess(self, used: Disruption) -> Disruption:
        """Return by how much the limits are exceeded."""
        pairs = zip(used, self.limits, strict=True)
        return Disruption(*(0 if most is None else max(0, has - most) for has, most in pairs))

    def is_protected(self, job: int) -> bool:
        """Whether a running job has not run long enough to be preempted."""
        return job in self.stops and self.stops[job].protected

    def allows(self, preempted: Collection[int], migrated: Collection[int]) -> bool:
        """Whether a plan that preempts and migrates these jobs is within the budget."""
        within = self.excess(self.used(preempted, migrated)) == NOTHING
        return within and not any(self.is_protected(job) for job in preempted)

    def after(self, used: Disruption) -> DisruptionBudget:
        """Return what is left of the budget."""
        pairs = zip(used, self.limits, strict=True)
        left = tuple(None if most is None else max(0, most - has) for has, most in pairs)
        return replace(self, limits=left)


def _exempt_hosts(round_: Round) -> set[str]:
    """Return the hosts that failed, are away now or are to be vacated."""
    failed = {
        name for entry in round_.cluster.hosts if not entry.healthy for name in expand(entry.name)
    }
    failed |= unavailable_hosts(round_.leases, round_.now)
    return failed.union(name for entry in round_.policy.vacate for name in expand(entry))


def _stop(round_: Round, job: Job, limits: DisruptionLimits) -> Stop:
    running = job.running
    if running is None:
        raise ValueError(f"job {job.name!r} is pending; expected a running one")
    milli = job.options[running.option].milli_gpu
    lost = milli * (running.unsaved_s(round_.now) + running.restart_s)
    protected = (
        limits.min_run_s is not None
        and running.started is not None
        and round_.now - running.started < limits.min_run_s
    )
    return Stop(Disruption(1, milli, 0, lost), Disruption(0, 0, 1, lost), protected)
