"""A fast oracle of gangs: what fits is counted on arrays, and no round is solved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.explain.conflict import Answer, SolvingOracle
from placewright.explain.facts import gang, stages
from placewright.explain.facts.fact import Fact, Stratum, World, named
from placewright.explain.facts.rules import PARTLY, causes_of
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.feasibility import fits
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import Label
from placewright.formulations.gang.problem.limits import (
    Account,
    QuotaKey,
    account_numbers,
    accounts_of,
    amount_numbers,
    limits_of,
    of_use,
    use_numbers,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import Pool, host_mask
from placewright.instances.derived.arrays import PoolDomains, build_cluster, places_of, pools_of
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.waiting import eligible, expected_end, hosts_away
from placewright.instances.documents.arrangement import AntiAffinity
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round
from placewright.instances.policies import GANG, STAGES
from placewright.topology import State
from placewright.topology.units import WHOLE_GPU

# Running jobs as arrays: what hosts have left once any of them are taken away.


def has_gpu_parts(job: Job) -> bool:
    """Whether a job asks for GPU memory or MIG slices."""
    return any(
        group.mig is not None or group.gpu_memory
        for option in job.options
        for group in option.groups
    )


class RunningJobs:
    """The cluster and the running jobs of a round.

    Attributes
    ----------
    cluster
        The cluster as arrays.
    jobs, index
        The jobs that run, in the order of the round, and where they are in it, by name.
    has_gpu_parts
        Whether one of them asks for GPU memory or MIG slices, of which `state` knows nothing.
    """

    def __init__(self, round_: Round) -> None:
        self._document = round_.cluster
        self.cluster = cluster = build_cluster(round_.cluster)
        self.jobs = [job for job in round_.jobs if job.running is not None]
        self._number = {id(job): j for j, job in enumerate(self.jobs)}
        self.index = {job.name: j for j, job in enumerate(self.jobs)}
        self.has_gpu_parts = any(map(has_gpu_parts, self.jobs))
        self._held: dict[tuple[Account, Measure], Ints] = {}
        self._taken: dict[tuple[str, str | None], Ints] = {}
        names = cluster.resources
        rows: dict[int, int] = {}
        demands: list[list[int]] = []
        task_job: list[int] = []
        task_host: list[int] = []
        task_row: list[int] = []
        gpu_job: list[int] = []
        gpus: list[int] = []
        milli: list[int] = []
        # Tasks of one group ask alike, and jobs that were read together share their groups.
        alive: list[TaskGroup] = []
        start, host_index = cluster.gpu_start.tolist(), cluster.host_index
        for j, job in enumerate(self.jobs):
            if job.running is None:
                continue
            groups = job.options[job.running.option].groups
            for task in job.running.tasks:
                group, host = groups[task.group], host_index[task.host]
                if id(group) not in rows:
                    wanted = {"cpu": group.cpu, "memory": group.memory, **group.resources}
                    rows[id(group)] = len(demands)
                    demands.append([wanted.get(name, 0) for name in names])
                    alive.append(group)
                task_job.append(j)
                task_host.append(host)
                task_row.append(rows[id(group)])
                each = min(group.gpu, WHOLE_GPU)
                for gpu in task.gpus:
                    gpu_job.append(j)
                    gpus.append(start[host] + gpu)
                    milli.append(each)
        self._task_job, self._task_host = _ints(task_job), _ints(task_host)
        self._asked = np.array(demands, dtype=np.int64).reshape(-1, len(names))[_ints(task_row)]
        self._gpu_job, self._gpus = _ints(gpu_job), _ints(gpus)
        self._milli = np.array(milli, dtype=np.int32)

    def present(self, round_: Round) -> Bools | None:
        """Return which of the jobs run in another round (jobs,).

        None if that has another cluster, or runs other jobs than these.
        """
        if round_.cluster is not self._document:
            return None
        jobs = round_.jobs
        numbers = np.fromiter(map(self._number.get, map(id, jobs), repeat(-1)), np.int64, len(jobs))
        if any(jobs[k].running is not None for k in np.flatnonzero(numbers < 0).tolist()):
            return None
        present = np.zeros(len(self.jobs), dtype=np.bool_)
        present[numbers[numbers >= 0]] = True
        return present

    def state(self, kept: Bools) -> State:
        """Return the hosts, all of them healthy, beside some of the jobs (jobs,)."""
        state = State.empty(self.cluster)
        on, of = kept[self._task_job], kept[self._gpu_job]
        np.subtract.at(state.free, self._task_host[on], self._asked[on])
        np.subtract.at(state.gpu_free, self._gpus[of], self._milli[of])
        return state

    def held(self, account: Account, measure: Measure) -> Ints:
        """Return what each job counts in an account: 0 if it is in another one (jobs,)."""
        if (account, measure) not in self._held:
            self._held[account, measure] = _ints(
                [
                    measure.asked_by(job.options[job.running.option])
                    if job.running is not None and account in accounts_of(job)
                    else 0
                    for job in self.jobs
                ]
            )
        return self._held[account, measure]

    def held_of_pool(self, pool: PoolDomains, kept: Bools) -> Ints:
        """Return what some of the jobs (jobs,) take of each domain of a pool (domains,)."""
        key = pool.pool.resource, pool.pool.level
        if key not in self._taken:
            taken = [
                (j, domain, amount)
                for j, job in enumerate(self.jobs)
                if job.running is not None
                for domain, amount in pool.taken(
                    job.options[job.running.option], places_of(job.running.tasks, self.cluster)
                ).items()
            ]
            self._taken[key] = np.array(taken, dtype=np.int64).reshape(-1, 3)
        job, domain, amount = self._taken[key].T
        held = np.zeros(len(pool.names), dtype=np.int64)
        np.add.at(held, domain[kept[job]], amount[kept[job]])
        return held

    def domains(self, j: int, domain: Ints) -> frozenset[int]:
        """Return the domains in which a job has tasks; `domain` is that of each host."""
        return frozenset(domain[self._task_host[self._task_job == j]].tolist())


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


# What pools have left for a job that waits, beside some of the running jobs.


class PoolsBeside:
    """The pools of a round in which nobody but one job waits, beside running jobs.

    Parameters
    ----------
    alone
        The round, without the running jobs.
    """

    def __init__(self, running: RunningJobs, alone: Round) -> None:
        self._running, cluster = running, running.cluster
        self._pools = pools_of(alone, cluster)
        numbers, accounts = use_numbers(alone), account_numbers(alone)
        self._keys: list[QuotaKey] = [
            (
                accounts["pool", name],
                of_use(numbers[name]) if name in numbers else cluster.resources.index(name),
            )
            for name in (pool.pool.resource for pool in self._pools)
        ]

    def left(self, kept: Bools) -> list[Ints]:
        """Return what jobs that run leave of each domain, (domains,), by pool."""
        return [
            (pool.capacity - self._running.held_of_pool(pool, kept)).clip(min=0)
            for pool in self._pools
        ]

    def of_levels(self, problem: Problem, left: list[Ints]) -> tuple[Pool, ...]:
        """Return the pools of levels of a problem with what is left of them."""
        mine = (one for pool, one in zip(self._pools, left, strict=True) if pool.pool.level)
        return tuple(
            replace(pool, limit=limit) for pool, limit in zip(problem.pools, mine, strict=True)
        )

    def totals(self, left: list[Ints]) -> dict[QuotaKey, int]:
        """Return what is left of each resource in all domains; of several pools the least."""
        totals: dict[QuotaKey, int] = {}
        for key, mine in zip(self._keys, left, strict=True):
            total = int(mine.sum())
            totals[key] = min(total, totals.get(key, total))
        return totals


# The oracle of gangs: whether the tasks of a job have places is counted, not solved.
#
# Of one task group the count is exact, whatever it asks of racks, slices or GPUs; several groups
# at once are packed host by host, up to a number of steps. What that leaves open, and jobs that
# go into cells, are for the oracle that solves.


MAX_KNOWN = 3
"""Rounds of which the running jobs are kept as arrays: the first, and some with other hosts."""


class ArrayOracle:
    """Answers questions of gangs, and of stages, by counting; `solving` answers all others."""

    def __init__(self, solving: SolvingOracle) -> None:
        self._solving = solving
        self._last: _Arrays | None = None
        self._gangs: tuple[Round, Round] | None = None
        self._running: list[RunningJobs] = []

    def start(self, world: World) -> Answer:
        """Return whether the job of a world starts, without a plan; not once the time is over."""
        if self._solving.left() <= 0:
            return Answer(None)
        spec, counted = world.base.policy.spec, world
        if spec is STAGES:
            if stages.waits(world):
                return Answer(False)
            if self._gangs is None or self._gangs[0] is not world.base:
                self._gangs = world.base, stages.as_gangs(world.base, world.job)
            counted = World(self._gangs[1], world.job, world.removed)
        starts = self._counted(counted) if spec in (GANG, STAGES) else None
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
