"""Job classes: jobs of equal demand and value, with the capacity rows that they share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, Group
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.geo import parameters
from placewright.formulations.geo.problem.compile import Problem, RunningJobs
from placewright.topology.units import WHOLE_GPU

# Job classes: sets of jobs with equal demand and value, and the capacity rows that they share.
#
# An **assignment** is an option of a job class in a region. It uses milli-GPU of rows, one for
# each region and set of GPU models: the row of a set counts the task groups that may use no model
# outside the set (a Hall condition). A class holds pending jobs whose assignments are equal in
# use and value, or running jobs of one region. The rows are a relaxation: tasks may move within
# their region, so a running job counts anywhere in it. What pinned jobs hold is not part of the
# capacity. Preemption adds rows of its own.


@dataclass(frozen=True, slots=True, eq=False)
class JobClasses:
    """Job classes, their assignments and the capacity rows, as arrays."""

    problem: Problem
    class_of_job: Ints  # (jobs,): the class of each job, NONE for pinned jobs
    # (classes,): the region of a class of running jobs, NONE for pending ones.
    current_region: Ints
    # (classes,): whether running jobs of the class may be preempted by some pending job.
    preemptible: Bools
    # assignment_class, assignment_region: (assignments,): the job class and region of each.
    assignment_class: Ints
    assignment_region: Ints
    # (assignments,): the GPU model of all its tasks, NONE if models are not distinguished.
    assignment_model: Ints
    # (assignments,): value of a job started this way; for a running job, the value lost if it is
    # preempted. Under strict priority it is weighted by priority class.
    value: Ints
    # priority_class, own_value: (assignments,): the priority class that a job counts in, and its
    # value there.
    priority_class: Ints
    own_value: Ints
    # entry_assignment, entry_row, entry_usage: (entries,): sparse use of rows by assignments. A
    # negative use is capacity that a running job adds to a row by going on.
    entry_assignment: Ints
    entry_row: Ints
    entry_usage: Ints
    capacity: Ints  # (rows,): right-hand sides

    def with_value(self, value: Ints) -> JobClasses:
        """Return the classes with other values of assignments (assignments,)."""
        return replace(self, value=value)

    def value_of_class(self, k: int) -> Ints:
        """Return what assignments add to the term of a priority class (assignments,)."""
        return np.where(self.priority_class == k, self.own_value, 0)

    @property
    def num_assignments(self) -> int:
        """The number of assignments."""
        return len(self.assignment_class)


# Preemption rows: freed capacity serves only jobs of higher rank than the preempted job.
#
# A job is preempted only by jobs of strictly higher precedence, and no task of rank k or lower
# comes to a host on which a job of level k or higher was preempted (see `gang/problem`). So for
# each region, each set of GPU models and each level k at which jobs may be preempted,
#
#     sum over tasks up to rank k, of running jobs too, of their milli-GPU
#         + sum over preempted jobs of level k or higher of what they held  <=  capacity
#
# Running jobs above rank k are not counted: they may move to what was freed and leave their own
# places to any job.


Demand = tuple[int, int, int]
"""Rank, allowed GPU models as a bit mask, and milli-GPU."""

Holding = tuple[bool, tuple[Demand, ...]]
"""Whether a running job may be preempted, and what it holds of each GPU model."""

Rows = tuple[tuple[int, int], ...]
"""(row, amount) pairs."""


class PreemptionRows:
    """Preemption rows of a round.

    `gangs`: all jobs as one gang round. `regions`: number of regions. `model_sets`: sets of GPU
    models, as bit masks. `preemptible` (jobs,): which running jobs may be preempted. `first`: index
    of the first row.
    """

    def __init__(
        self, gangs: Gangs, regions: int, model_sets: Sequence[int], preemptible: Bools, first: int
    ) -> None:
        self._gangs, self._regions, self._model_sets = gangs, regions, model_sets
        self._preemptible, self._first = preemptible, first
        self._usage_of_demands: dict[tuple[Demand, ...], tuple[tuple[int, int, int], ...]] = {}
        self._continuation: dict[tuple[Holding, int], Rows] = {}
        self._holding_of_job: dict[int, Holding] = {}
        known = {running.level for j, running in gangs.running.items() if preemptible[j]}
        self._levels = sorted(known)[: parameters.PARAMETERS.max_preemption_levels]

    def capacities(
        self, capacity: Ints, current_region: Ints, equivalent: Iterable[Sequence[int]]
    ) -> Ints:
        """Return the right-hand sides of the rows (levels * regions * sets,).

        `capacity` (regions, sets): milli-GPU of each set of GPU models. `current_region` (jobs,):
        the region of each running job. `equivalent`: equivalence classes of running jobs.
        """
        every = np.repeat(capacity[None], len(self._levels), axis=0).reshape(-1)
        for jobs in equivalent:
            for row, amount in self.continuation(
                self.holding_of(jobs[0]), int(current_region[jobs[0]])
            ):
                every[row - self._first] += len(jobs) * amount
        return every

    def demands(self, r: int, groups: Iterable[Demand]) -> Iterator[tuple[int, int]]:
        """Yield (row, milli-GPU) of tasks with these demands in a region."""
        mine = tuple(groups)
        if mine not in self._usage_of_demands:
            self._usage_of_demands[mine] = tuple(
                (k, s, amount)
                for k, level in enumerate(self._levels)
                for s, mask in enumerate(self._model_sets)
                for amount in [sum(a for rank, m, a in mine if rank <= level and not m & ~mask)]
                if amount
            )
        for k, s, amount in self._usage_of_demands[mine]:
            yield self._row(k, r, s), amount

    def continuation(self, holding: Holding, r: int) -> Rows:
        """Return (row, negative milli-GPU) of a running job that goes on.

        The right-hand sides are reduced as if every preemptible job were preempted; a job that goes
        on gives its part back.
        """
        may_stop, held = holding
        known = self._continuation.get((holding, r))
        if known is None:
            known = self._continuation[holding, r] = tuple(
                (self._row(k, r, s), -amount)
                for k, level in enumerate(self._levels)
                for s, mask in enumerate(self._model_sets)
                for amount in [sum(milli for rank, m, milli in held if not m & ~mask)]
                if may_stop and level <= held[0][0] and amount
            )
        return known

    def holding_of(self, job: int) -> Holding:
        """Return whether a running job may be preempted, and what it holds on open hosts."""
        if job not in self._holding_of_job:
            gangs, running = self._gangs, self._gangs.running[job]
            groups = gangs.classes[running.job_class].choices[0].groups
            found: dict[int, int] = {}
            for group, _, host, gpus in running.places:
                start = int(gangs.cluster.gpu_start[host])
                model = int(gangs.cluster.gpu_model[host])
                if gangs.open[host] and model >= 0:
                    each = min(int(gangs.shape_gpu[groups[group].shape]), WHOLE_GPU)
                    milli = sum(each for gpu in gpus if gangs.usable[start + gpu])
                    found[1 << model] = found.get(1 << model, 0) + milli
            held = tuple((running.level, mask, milli) for mask, milli in sorted(found.items()))
            self._holding_of_job[job] = bool(self._preemptible[job] and held), held
        return self._holding_of_job[job]

    def _row(self, k: int, r: int, s: int) -> int:
        return self._first + (k * self._regions + r) * len(self._model_sets) + s


def build_job_classes(running_jobs: RunningJobs) -> JobClasses:
    """Return the job classes of a round, with rows that are valid for every plan."""
    return JobClassBuilder(running_jobs).build()


class JobClassBuilder:
    """Builds job classes whose rows relax what the gang round of each region may do.

    `running`: whether running jobs form classes; otherwise they keep what they hold. Jobs in
    `fixed` are left out if all jobs of their gang class are in it.
    """

    running = True
    fixed: Collection[int] = ()

    def __init__(self, running_jobs: RunningJobs) -> None:
        self.running_jobs = running_jobs
        self.problem = running_jobs.problem
        self.gangs = running_jobs.gangs
        self.wan = self.problem.wan
        self.regions = len(self.wan.regions)
        self.model_sets = self._model_sets()
        self.first_quota = self.regions * len(self.model_sets)
        self._fits: dict[tuple[int, int, int], Bools] = {}
        self._empty = Placement(self.gangs, cleared=True)
        self._usage_of_groups: dict[tuple[Group, ...], Rows] = {}
        self._continuation_usage: dict[tuple[int, int, bool], Rows] = {}
        self._running_usage: dict[tuple[object, Holding], Rows] = {}

    def build(self) -> JobClasses:
        """Return the job classes."""
        current_region = self.problem.current_region
        self.quota_limits = list(self.running_jobs.quota_limits.values())
        quota_rows = self._rows_of_quota = self._index_quota_rows()
        self.prepare()
        preemptible = self.running_jobs.preemptible
        self.equivalent = self.running_jobs.equivalent if self.running else []
        self.preemption_rows = self.build_preemption_rows(
            preemptible, self.first_quota + len(self.quota_limits)
        )
        class_of_job = np.full(len(self.wan.round.jobs), NONE, dtype=np.int64)
        number_of: dict[tuple[object, ...], int] = {}
        class_region: list[int] = []
        class_preemptible: list[bool] = []
        assignments: list[tuple[int, int, int, int]] = []
        counts: list[tuple[int, int]] = []  # of each: its priority class, and its value there
        entries: list[tuple[int, int, int]] = []
        stoppable = preemptible.tolist()
        for gang_class in self.gangs.classes:
            if gang_class.running or all(j in self.fixed for j in gang_class.jobs):
                continue
            accounts = tuple(a for a in gang_class.accounts if a in quota_rows)
            demands: tuple[object, ...] = tuple(
                (
                    choice.index,
                    choice.value,
                    choice.priority_class,
                    tuple(
                        (self.model_mask[g.shape], g.milli_gpu, g.shape, g.count)
                        for g in choice.groups
                    ),
                )
                for choice in gang_class.choices
            )
            job_class = number_of.setdefault((demands, accounts), len(number_of))
            class_of_job[list(gang_class.jobs)] = job_class
            if job_class < len(class_region):
                continue
            class_region.append(NONE)
            class_preemptible.append(False)
            for choice in gang_class.choices:
                # Each group alone fits an empty region.
                fits = np.all([self._regions_with_hosts(group) for group in choice.groups], axis=0)
                for r in range(self.regions):
                    for model in self.models_in(choice, r) if fits[r] else ():
                        for row, amount in self.rows(choice, r, accounts, True, model):
                            entries.append((len(assignments), row, amount))
                        assignments.append((job_class, r, choice.value, model))
                        counts.append((choice.priority_class, choice.own_value))
        for jobs in self.equivalent:
            j = jobs[0]
            gang_class = self.gangs.classes[self.gangs.running[j].job_class]
            accounts = tuple(a for a in gang_class.accounts if a in quota_rows)
            choice, r = gang_class.choices[0], int(current_region[j])
            quotas = self.quota_usage(choice, r, accounts)
            continuations = tuple((v, m, (*rows, *quotas)) for v, m, rows in self.continuations(j))
            key = r, stoppable[j], choice.priority_class, continuations
            job_class = number_of.setdefault(key, len(number_of))
            class_of_job[jobs] = job_class
            if job_class == len(class_region):
                class_region.append(r)
                class_preemptible.append(stoppable[j])
                for value, model, rows in continuations:
                    entries += [(len(assignments), row, amount) for row, amount in rows]
                    assignments.append((job_class, r, value, model))
                    counts.append((choice.priority_class, choice.own_value))
        capacity = self.capacities()
        assignment = np.array(assignments, dtype=np.int64).reshape(-1, 4)
        counted = np.array(counts, dtype=np.int64).reshape(-1, 2)
        entry = np.array(entries, dtype=np.int64).reshape(-1, 3)
        return JobClasses(
            problem=self.problem,
            class_of_job=class_of_job,
            current_region=np.array(class_region, dtype=np.int64),
            preemptible=np.array(class_preemptible, dtype=np.bool_),
            assignment_class=assignment[:, 0],
            assignment_region=assignment[:, 1],
            value=assignment[:, 2],
            priority_class=counted[:, 0],
            own_value=counted[:, 1],
            assignment_model=assignment[:, 3],
            entry_assignment=entry[:, 0],
            entry_row=entry[:, 1],
            entry_usage=entry[:, 2],
            capacity=np.append(
                capacity,
                self.preemption_rows.capacities(
                    self.model_set_capacity(capacity), current_region, self.equivalent
                ),
            ),
        )

    def prepare(self) -> None:
        """Compute what the rows of a subclass need."""

    def build_preemption_rows(self, preemptible: Bools, first: int) -> PreemptionRows:
        """Return preemption rows for these preemptible jobs (jobs,), numbered from `first`."""
        return PreemptionRows(
            self.gangs, self.regions, self.model_sets.tolist(), preemptible, first
        )

    def model_set_capacity(self, capacity: Ints) -> Ints:
        """Return the capacity of each set of GPU models (regions, sets), from that of all rows."""
        return capacity[: self.first_quota].reshape(self.regions, -1)

    def models_in(self, choice: Choice, r: int) -> Sequence[int]:  # noqa: ARG002
        """Return the GPU models with separate assignments in a region; NONE: not distinguished."""
        return (NONE,)

    def continuations(self, job: int) -> Iterator[tuple[int, int, Rows]]:
        """Yield (value, GPU model, use of rows) of each way in which a running job may go on."""
        running, r = self.gangs.running[job], int(self.problem.current_region[job])
        choice = self.gangs.classes[running.job_class].choices[0]
        key = running.job_class, r, self.gangs.competes(running)
        if key not in self._continuation_usage:
            self._continuation_usage[key] = tuple(self.rows(choice, r, (), key[2], NONE))
        holding = self.preemption_rows.holding_of(job)
        if (key, holding) not in self._running_usage:
            self._running_usage[key, holding] = sum_rows(
                self._continuation_usage[key], self.preemption_rows.continuation(holding, r)
            )
        yield choice.value, NONE, self._running_usage[key, holding]

    def _model_sets(self) -> Ints:
        """Return bit masks of GPU models: those of task shapes, then unions up to the limit."""
        model, allowed = self.gangs.cluster.gpu_model, self.gangs.shape_allowed
        found = np.zeros(len(allowed), dtype=np.int64)
        for m in range(len(self.wan.models)):
            found |= allowed[:, model == m].any(axis=1).astype(np.int64) << m
        self.model_mask: list[int] = found.tolist()
        masks = set(self.model_mask) - {0}
        every = sum(1 << m for m in range(len(self.wan.models)))
        found_sets = sorted(masks | {every})
        for model_mask in list(found_sets):
            for other in list(found_sets):
                if (
                    len(found_sets) < parameters.PARAMETERS.max_model_sets
                    and (model_mask | other) not in found_sets
                ):
                    found_sets.append(model_mask | other)
        return np.array(found_sets[: parameters.PARAMETERS.max_model_sets], dtype=np.int64)

    def rows(
        self,
        choice: Choice,
        r: int,
        accounts: tuple[int, ...],
        floats: bool,
        model: int,  # noqa: ARG002
    ) -> list[tuple[int, int]]:
        """Return the use of rows by an option in a region, as (row, amount) pairs."""
        amounts = self._group_usage(choice.groups) if floats else ()
        found = [(r * len(self.model_sets) + i, amount) for i, amount in amounts]
        if floats:
            found += self.preemption_rows.demands(r, self.demands(choice))
        return found + self.quota_usage(choice, r, accounts)

    def _group_usage(self, groups: tuple[Group, ...]) -> Rows:
        """Return (set, milli-GPU): what groups need that may use no model outside of the set."""
        if groups not in self._usage_of_groups:
            every = [
                sum(g.milli_gpu for g in groups if not self.model_mask[g.shape] & ~model_mask)
                for model_mask in self.model_sets.tolist()
            ]
            self._usage_of_groups[groups] = tuple(
                (i, milli) for i, milli in enumerate(every) if milli
            )
        return self._usage_of_groups[groups]

    def demands(self, choice: Choice, model_mask: int | None = None) -> list[Demand]:
        """Return the rank, GPU models (or `model_mask`) and milli-GPU of each group."""
        rank = self.gangs.shape_rank
        return [
            (
                int(rank[g.shape]),
                self.model_mask[g.shape] if model_mask is None else model_mask,
                g.milli_gpu,
            )
            for g in choice.groups
        ]

    def quota_usage(
        self, choice: Choice, r: int, accounts: tuple[int, ...]
    ) -> list[tuple[int, int]]:
        """Return the use of rows of quotas and caps by an option in a region."""
        return [
            (row, asked)
            for account in accounts
            for row, region, amount in self._rows_of_quota.get(account, ())
            if region in (NONE, r) and (asked := self.gangs.demand_of(choice, amount))
        ]

    def _regions_with_hosts(self, group: Group) -> Bools:
        """Return the regions with hosts for a group, in one domain if required (regions,)."""
        key = group.shape, group.count, group.required
        if key not in self._fits:
            capacity = np.minimum(self._empty.fits(group.shape), group.count).astype(np.float64)
            region, cluster = self.wan.host_region, self.gangs.cluster
            most = np.zeros(self.regions)
            if group.required == NO_LEVEL:
                np.add.at(most, region, capacity)
            else:
                domain = cluster.domain[group.required]
                np.maximum.at(most, region, np.bincount(domain, weights=capacity)[domain])
            self._fits[key] = np.asarray(most >= group.count)
        return self._fits[key]

    def _index_quota_rows(self) -> dict[int, list[tuple[int, int, int]]]:
        """Return row, region and amount of the rows of each account.

        The region NONE is the whole round.
        """
        rows: dict[int, list[tuple[int, int, int]]] = {}
        for row, ((account, amount), region) in enumerate(
            self.running_jobs.quota_limits, self.first_quota
        ):
            rows.setdefault(account, []).append((row, region, amount))
        return rows

    def capacities(self) -> Ints:
        """Return the capacity of the rows of GPU models, of quotas and caps."""
        cluster = self.gangs.cluster
        gpus = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
        free = np.where(self.gangs.usable, self.gangs.cleared.gpu_free, 0)
        each = np.bincount(gpus, weights=free, minlength=cluster.num_hosts).astype(np.int64)
        each[~self.gangs.open] = 0
        capacity = np.zeros((self.regions, len(self.model_sets)), dtype=np.int64)
        for s, model_mask in enumerate(self.model_sets.tolist()):
            mine = (cluster.gpu_model >= 0) & (
                (model_mask >> np.maximum(0, cluster.gpu_model)) & 1 > 0
            )
            np.add.at(capacity[:, s], self.wan.host_region[mine], each[mine])
        return np.append(capacity.ravel(), np.array(self.quota_limits, dtype=np.int64))


def sum_rows(*rows: Iterable[tuple[int, int]]) -> Rows:
    """Return (row, amount) pairs added up by row, without zeros."""
    found: dict[int, int] = {}
    for row, amount in chain(*rows):
        found[row] = found.get(row, 0) + amount
    return tuple((row, amount) for row, amount in found.items() if amount)
