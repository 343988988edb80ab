"""The oracle of gangs: whether the tasks of a job have places is counted, not solved.

Of one task group the count is exact, whatever it asks of racks, slices or GPUs; several groups at
once are packed host by host, up to a number of steps. What that leaves open, and jobs that go into
cells, are for the oracle that solves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from placewright.array_types import Bools
from placewright.explain.facts import gang
from placewright.explain.facts.away import PARTLY, causes_of
from placewright.explain.facts.fact import Fact, Stratum, World, named
from placewright.explain.gang.pools import PoolsBeside
from placewright.explain.gang.running import RunningJobs, has_gpu_parts
from placewright.explain.oracle import Answer, SolvingOracle
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.feasibility import fits
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import Label
from placewright.formulations.gang.problem.limits import (
    QuotaKey,
    account_numbers,
    accounts_of,
    amount_numbers,
    limits_of,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import host_mask
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.waiting import eligible, expected_end, hosts_away
from placewright.instances.documents.arrangement import AntiAffinity
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.policies import GANG

MAX_KNOWN = 3
"""Rounds of which the running jobs are kept as arrays: the first, and some with other hosts."""


class ArrayOracle:
    """Answers questions of gangs by counting; `solving` answers all others."""

    def __init__(self, solving: SolvingOracle) -> None:
        self._solving = solving
        self._last: _Arrays | None = None
        self._running: list[RunningJobs] = []

    def start(self, world: World) -> Answer:
        """Return whether the job of a world starts, without a plan; not once the time is over."""
        if self._solving.left() <= 0:
            return Answer(None)
        starts = self._counted(world) if world.base.policy.spec is GANG else None
        return self._solving.start(world) if starts is None else Answer(starts)

    def _counted(self, world: World) -> bool | None:
        if self._last is None or self._last.base is not world.base or self._last.job != world.job:
            self._last = _Arrays(world.base, world.job, *self._running_in(world.base))
        return self._last.starts(world)

    def _running_in(self, base: Round) -> tuple[RunningJobs, Bools]:
        """Return running jobs as arrays, and which of them run in a base round."""
        for known in self._running:
            if (present := known.present(base)) is not None:
                return known, present
        running = RunningJobs(base)
        self._running = [*self._running[: MAX_KNOWN - 1], running]
        return running, np.ones(len(running.jobs), dtype=np.bool_)


def _starts_in(world: World) -> bool | None:
    """Return whether the job starts in a world, compiled as a whole."""
    question = gang.question(world)
    job = named(world.job, question)
    if not eligible(job, question.now):
        return False
    problem = compile_round(question)
    away = hosts_away(question, question.now, expected_end(job, question.now))
    closed = host_mask(problem.cluster, sorted(away))
    return _can_start(replace(problem, open=problem.open & ~closed))


def _can_start(problem: Problem) -> bool | None:
    """Return whether an option of the one job that waits has places and quota; None: not known."""
    (job_class,) = problem.classes
    placement, steps = Placement(problem), parameters.PARAMETERS.placement.max_feasibility_steps
    known = True
    for choice in job_class.choices:
        if placement.quota_excess(job_class.accounts, choice):
            continue
        fitting = fits(placement, choice, steps)
        if fitting:
            return True
        known = known and fitting is not None
    return False if known else None


class _Arrays:
    """The worlds of one base round and job; with GPU memory or MIG slices each is compiled."""

    def __init__(self, base: Round, job: str, running: RunningJobs, present: Bools) -> None:
        self.base, self.job, self._waits = base, job, named(job, base)
        owners = {tenant.name for tenant in base.tenants if tenant.cells}
        self._in_cells = self._waits.tenant in owners and not self._waits.opportunistic
        self._parted = running.has_gpu_parts or has_gpu_parts(self._waits)
        self.running, self._cluster, self._present = running, running.cluster, present
        self._alone = base.model_copy(update={"jobs": (self._waits,)})
        self._causes = causes_of(base, self._waits)
        self._reserved = _reserved_gpus(base)
        self._compiled: dict[frozenset[int], tuple[Problem, Round]] = {}
        self._alive: list[tuple[Fact, ...]] = []

    def starts(self, world: World) -> bool | None:
        """Return whether the job starts in a world of this base; None if that is not known."""
        if self._in_cells:
            return None
        if self._parted:
            return _starts_in(world)
        of_jobs = [f for f in world.removed if f.stratum >= Stratum.HELD and f.names]
        of_hosts = [f for f in world.removed if f.stratum is Stratum.AWAY and f.names]
        others = tuple(f for f in world.removed if not f.names)
        problem, alone = self._without(others)
        if not eligible(named(self.job, alone), alone.now):
            return False
        kept = self._present.copy()
        kept[[self.running.index[name] for f in of_jobs for name in f.names]] = False
        back = {name for f in of_hosts for name in f.names}
        return _can_start(self._beside(problem, alone, kept, back))

    def _without(self, facts: tuple[Fact, ...]) -> tuple[Problem, Round]:
        """Return the job alone on open hosts, without some of what it asks and of the rules."""
        key = frozenset(map(id, facts))
        if key not in self._compiled:
            alone = World(self._alone, self.job, facts).round
            question = gang.question(World(alone, self.job))
            problem = compile_round(question, self._cluster)
            self._compiled[key] = problem, alone
            self._alive.append(facts)
        return self._compiled[key]

    def _beside(
        self, problem: Problem, alone: Round, kept: Bools, back: Collection[str]
    ) -> Problem:
        """Return the problem beside some running jobs, and with some hosts back."""
        cluster, state = self._cluster, self.running.state(kept)
        index, start = cluster.host_index, cluster.gpu_start
        open_ = np.ones(cluster.num_hosts, dtype=np.bool_)
        usable = np.ones(cluster.num_gpus, dtype=np.bool_)
        for name, causes in self._causes.items():
            if name not in back:
                host = index[name]
                open_[host] = set(causes) == {PARTLY}
                usable[start[host] + np.array(self._reserved.get(name, ()), dtype=np.int64)] = False
        state.gpu_free[~usable] = 0
        labels = tuple(self._label(label, kept) for label in problem.labels)
        pools = PoolsBeside(self.running, alone)
        left = pools.left(kept)
        return replace(
            problem,
            state=state,
            cleared=state,
            open=open_,
            usable=usable,
            labels=labels,
            quota=self._quota(problem, alone, kept) | pools.totals(left),
            pools=pools.of_levels(problem, left),
        )

    def _label(self, label: Label, kept: Bools) -> Label:
        """Return the waiting job's label with the domains where running jobs have it."""
        rule = self._waits.anti_affinity
        domain = self._cluster.domain[label.level]
        homes = {
            j: self.running.domains(j, domain)
            for j, job in enumerate(self.running.jobs)
            if kept[j] and _has_label(job, rule)
        }
        return Label(label.level, homes)

    def _quota(self, problem: Problem, alone: Round, kept: Bools) -> dict[QuotaKey, int]:
        """Return what is left of the quota and caps of the job, as `remaining_quotas` does."""
        left = dict(problem.quota)  # in `alone` nobody runs: all that may be held
        numbers, amounts = account_numbers(alone), amount_numbers(self._cluster, alone)
        limits = limits_of(alone)
        for account in accounts_of(self._waits):
            for measure in limits.get(account, ()):
                if measure in amounts:
                    key = numbers[account], amounts[measure]
                    held = int(self.running.held(account, measure)[kept].sum())
                    left[key] = max(left[key] - held, 0)
        return left


def _has_label(job: Job, rule: AntiAffinity | None) -> bool:
    return (
        rule is not None and job.anti_affinity is not None and job.anti_affinity.label == rule.label
    )


def _reserved_gpus(round_: Round) -> dict[str, list[int]]:
    """Return the reserved GPUs of hosts that are reserved in part, by name."""
    reserved: defaultdict[str, list[int]] = defaultdict(list)
    for one in round_.reservations:
        for name in expand(one.host) if one.gpus is not None else ():
            reserved[name] += one.gpus or ()
    return reserved
