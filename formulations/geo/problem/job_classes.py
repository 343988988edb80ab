"""Aggregation: group the jobs of a round into job classes with common capacity rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, Group
from placewright.formulations.geo import parameters
from placewright.formulations.geo.problem.class_arrays import JobClasses
from placewright.formulations.geo.problem.preemption_rows import (
    Demand,
    Holding,
    PreemptionRows,
    Rows,
)
from placewright.formulations.geo.problem.running_jobs import RunningJobs


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
        self.running_jobs, self.problem, self.gangs = (
            running_jobs,
            running_jobs.problem,
            running_jobs.gangs,
        )
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
        assignments: list[tuple[int, int, int, int, int]] = []
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
                    tuple(self._group_key(group) for group in choice.groups),
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
                for r in range(self.regions):
                    for model in self.models_in(choice, r) if self._fits_region(choice, r) else ():
                        for row, amount in self.rows(choice, r, accounts, True, model):
                            entries.append((len(assignments), row, amount))
                        assignments.append((job_class, r, choice.index, choice.value, model))
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
                    assignments.append((job_class, r, choice.index, value, model))
                    counts.append((choice.priority_class, choice.own_value))
        capacity = self.capacities()
        assignment = np.array(assignments, dtype=np.int64).reshape(-1, 5)
        counted = np.array(counts, dtype=np.int64).reshape(-1, 2)
        entry = np.array(entries, dtype=np.int64).reshape(-1, 3)
        return JobClasses(
            problem=self.problem,
            class_of_job=class_of_job,
            current_region=np.array(class_region, dtype=np.int64),
            preemptible=np.array(class_preemptible, dtype=np.bool_),
            assignment_class=assignment[:, 0],
            assignment_region=assignment[:, 1],
            assignment_option=assignment[:, 2],
            value=assignment[:, 3],
            priority_class=counted[:, 0],
            own_value=counted[:, 1],
            assignment_model=assignment[:, 4],
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

    def _group_key(self, group: Group) -> tuple[int, int, int, int]:
        return self.model_mask[group.shape], group.milli_gpu, group.shape, group.count

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

    def _fits_region(self, choice: Choice, r: int) -> bool:
        """Whether each group of an option alone fits an empty region."""
        return all(bool(self._regions_with_hosts(group)[r]) for group in choice.groups)

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
