"""Options of jobs in their regions: what each costs, and what regions can place."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.gang.problem.jobs import Choice
from placewright.formulations.geo import parameters
from placewright.formulations.geo.problem.compile import Problem, RunningJobs
from placewright.formulations.geo.problem.job_classes import (
    Holding,
    JobClassBuilder,
    JobClasses,
    PreemptionRows,
    Rows,
    sum_rows,
)
from placewright.instances.derived.names import AllowedHosts
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.topology.units import WHOLE_GPU

COSTS = ("remote_reads", "egress_cost", "gpu_cost")


@dataclass(frozen=True, slots=True)
class RegionOption:
    """An option restricted to a region and to GPU models of one price, its value and its costs."""

    number: int
    option: Option
    value: int
    costs: tuple[int, ...]


class RegionOptions:
    """Region options of the jobs of a round.

    `terms` are `value` and the costs that directly follow it in the policy.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.round = problem, problem.round
        self.terms = _scored_terms(problem)
        self._named = AllowedHosts(self.round.host_sets)

    def of(self, j: int, job: Job) -> Iterator[RegionOption]:
        """Yield the region options of a job; a running job has one, in its region."""
        if job.running is not None:
            r, number = int(self.problem.current_region[j]), job.running.option
            paid = self._current_gpu_cost(job, job.running, r)
            costs = self._costs(j, r, paid)
            yield RegionOption(
                number, self._current_option(job, job.running, r), job.value_of(number), costs
            )
            return
        for r in np.flatnonzero(self.problem.eligible[j]).tolist():
            for number, option in enumerate(job.options):
                for part, price in self._price_variants(option, r):
                    yield RegionOption(number, part, job.value_of(number), self._costs(j, r, price))

    def _current_option(self, job: Job, running: Running, r: int) -> Option:
        """Return the option of a running job, which may move within its region."""
        option = job.options[running.option]
        groups = []
        for g, group in enumerate(option.groups):
            hosts = self._hosts_of_group(group, r) or {
                t.host for t in running.tasks if t.group == g
            }
            groups.append(self._restrict_group(group, hosts, r))
        return option.model_copy(update={"groups": tuple(groups)})

    def _hosts_of_group(self, group: TaskGroup, r: int) -> Collection[str]:
        """Return the hosts of a region that a group may use."""
        named = self._named.of(group)
        return self._hosts[r] if named is None else self._hosts[r] & named

    def _restrict_group(self, group: TaskGroup, hosts: Collection[str], r: int) -> TaskGroup:
        """Return a group restricted to hosts of a region, counted in the quotas there."""
        update: dict[str, Any] = {"hosts": tuple(sorted(hosts)), "host_sets": ()}
        if r in self.regions_with_quotas:
            update["resources"] = group.resources | {quota_resource(r): group.gpu}
        return group.model_copy(update=update)

    def _current_gpu_cost(self, job: Job, running: Running, r: int) -> int:
        """Return the GPU cost per hour of a running job on its current GPUs, in micro-dollars."""
        cluster, groups = self.problem.cluster, job.options[running.option].groups
        milli = 0
        for task in running.tasks:
            model = int(cluster.gpu_model[cluster.host_index[task.host]])
            milli += groups[task.group].gpu * int(self.problem.gpu_price[r, model])
        return milli // WHOLE_GPU

    def _costs(self, j: int, r: int, price: int) -> tuple[int, ...]:
        each = {
            "remote_reads": int(self.problem.remote_gib[j, r]),
            "egress_cost": int(self.problem.egress[j, r]),
            "gpu_cost": price,
        }
        return tuple(each[term] for term in self.terms[1:])

    def _price_variants(self, option: Option, r: int) -> Iterator[tuple[Option, int]]:
        """Yield an option in a region with its GPU cost, one per GPU price if that is ranked."""
        variants = []
        for group in option.groups:
            hosts = self._hosts_of_group(group, r)
            if not hosts:
                return
            placed = self._restrict_group(group, hosts, r)
            if "gpu_cost" not in self.terms:
                variants.append([(placed, 0)])
                continue
            prices = self._prices(group.gpu_models, r)
            if group.count > 1 and len(prices) > 1:
                # Its tasks may be on unlike GPUs.
                variants.append([(placed, min(prices))])
                continue
            variants.append(
                [
                    (placed.model_copy(update={"gpu_models": models}), price)
                    for price, models in prices.items()
                ]
            )
        for parts in product(*variants):
            groups = tuple(group for group, _ in parts)
            price = sum(group.milli_gpu * price for group, price in parts) // WHOLE_GPU
            yield option.model_copy(update={"groups": groups}), price

    def _prices(self, allowed: Sequence[str] | None, r: int) -> dict[int, tuple[str, ...]]:
        """Return the GPU models that a group may use in a region, by price."""
        found: dict[int, tuple[str, ...]] = {}
        for m, model in enumerate(self.problem.wan.models):
            if allowed is None or model in allowed:
                price = int(self.problem.gpu_price[r, m])
                found[price] = (*found.get(price, ()), model)
        return found

    @cached_property
    def _hosts(self) -> list[frozenset[str]]:
        names, region = self.problem.cluster.hosts, self.problem.wan.host_region
        return [
            frozenset(names[h] for h in np.flatnonzero(region == r).tolist())
            for r in range(len(self.problem.wan.regions))
        ]

    @cached_property
    def regions_with_quotas(self) -> frozenset[int]:
        """Regions in which tenants have quotas."""
        return frozenset(r for r, _ in self.problem.quota)

    @cached_property
    def costs_are_exact(self) -> bool:
        """Whether costs are whole numbers and every option has GPUs of one price."""
        if (self.problem.gpu_price % WHOLE_GPU).any() and any(
            group.gpu % WHOLE_GPU
            for job in self.round.jobs
            for option in job.options
            for group in option.groups
        ):
            return False
        return not any(self._cost_varies(j, job) for j, job in enumerate(self.round.jobs))

    def _cost_varies(self, j: int, job: Job) -> bool:
        if job.running is None:
            groups = [g for option in job.options for g in option.groups if g.count > 1]
            regions = np.flatnonzero(self.problem.eligible[j]).tolist()
        else:
            groups = [] if job.running.pinned else [*job.options[job.running.option].groups]
            regions = [int(self.problem.current_region[j])]
        return any(len(self._prices(g.gpu_models, r)) > 1 for g in groups for r in regions)


def quota_resource(region: int) -> str:
    """Return the name of the resource whose quotas are those of a region."""
    return f"milli-GPU in region {region}"


def _scored_terms(problem: Problem) -> tuple[str, ...]:
    """Return `value` and the costs that directly follow it in the policy."""
    counted = ["value"]
    for term in problem.round.policy.terms[1:]:
        if term not in COSTS:
            break
        counted.append(term)
    return tuple(counted)


# Job classes at current capacity: what regions can place without moving running jobs.
#
# The rows of bounds (job_classes.py) count what the gang rounds could do at best. To choose
# regions, these rows are more conservative: an assignment uses GPUs of one model, running jobs
# stay in place or are preempted, and a task that needs several GPUs needs them on one host. For
# each model and each task size s in GPUs, a row counts slots of s GPUs,
#
#     sum over tasks of at least s of floor(gpus / s)  <=  sum over hosts of floor(free / s)
#
# which is exact for sizes that divide each other. Jobs that are preempted or move give back their
# GPUs and the fraction of slots that these would make; freed GPUs serve only jobs of higher rank
# (job_classes.py).


SLOT_SCALE = 1000
"""Parts of a slot, as of a GPU."""


def classes_at_current_capacity(running_jobs: RunningJobs) -> JobClasses:
    """Return the job classes of a round at the capacity that is free now."""
    return _CurrentCapacityBuilder(running_jobs).build()


def classes_at_residual_capacity(
    running_jobs: RunningJobs, taken: Ints, fixed: Collection[int]
) -> JobClasses:
    """Return the classes of pending jobs at the capacity that a partial plan leaves.

    `taken` (hosts,) is the milli-GPU that the plan takes of hosts, `fixed` are the jobs that it
    decides.
    """
    return _CurrentCapacityBuilder(running_jobs, taken, fixed).build()


class _CurrentCapacityBuilder(JobClassBuilder):
    def __init__(
        self, running_jobs: RunningJobs, taken: Ints | None = None, fixed: Collection[int] = ()
    ) -> None:
        super().__init__(running_jobs)
        self.fixed = fixed
        gangs, cluster = self.gangs, self.gangs.cluster
        self._taken_milli = np.zeros(cluster.num_hosts, dtype=np.int64) if taken is None else taken
        self.running = taken is None
        self._move_continuations: dict[tuple[int, int, Holding], list[tuple[int, int, Rows]]] = {}
        self._usage_in_place: dict[int, Rows] = {}
        self._slots_of: dict[tuple[tuple[int, int], ...], Rows] = {}
        self.models = len(self.wan.models)
        sizes = {
            int(gangs.shape_gpu[group.shape])
            for job_class in gangs.classes
            if not job_class.running
            for choice in job_class.choices
            for group in choice.groups
        }
        large = sorted(size for size in sizes if size > WHOLE_GPU)[
            -parameters.PARAMETERS.max_task_sizes :
        ]
        self.sizes = (WHOLE_GPU, *large)
        self.first_quota = self.regions * self.models * len(self.sizes)
        gpus = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
        self._free = self._milli(gangs.state.gpu_free, gpus)

    def _milli(self, gpu_free: NDArray[np.int32], gpus: Ints) -> Ints:
        free = np.where(self.gangs.usable, gpu_free, 0)
        each = np.bincount(gpus, weights=free, minlength=self.gangs.cluster.num_hosts)
        each[~self.gangs.open] = 0
        left: Ints = np.maximum(0, each.astype(np.int64) - self._taken_milli)
        return left

    def capacities(self) -> Ints:
        """Return the slots of each region, GPU model and task size, then the quotas."""
        capacity = np.zeros((self.regions, self.models, len(self.sizes)), dtype=np.int64)
        cluster = self.gangs.cluster
        mine = cluster.gpu_model >= 0
        where = self.wan.host_region[mine], cluster.gpu_model[mine]
        for s, size in enumerate(self.sizes):
            free = self._slots(self._free, size) if s else self._free
            np.add.at(capacity[:, :, s], where, free[mine])
        every: Ints = capacity.ravel()
        for jobs in self.equivalent:
            for row, amount in self._in_place(jobs[0]) if self._on_open_hosts(jobs[0]) else ():
                every[row] += len(jobs) * amount
        return np.append(every, np.array(self.quota_limits, dtype=np.int64))

    def build_preemption_rows(self, preemptible: Bools, first: int) -> PreemptionRows:
        """Return preemption rows of the jobs whose hosts are open."""
        found = np.zeros_like(preemptible)
        for jobs in self.equivalent:
            found[jobs] = preemptible[jobs[0]] and self._on_open_hosts(jobs[0])
        return PreemptionRows(
            self.gangs, self.regions, [1 << m for m in range(self.models)], found, first
        )

    def model_set_capacity(self, capacity: Ints) -> Ints:
        """Return the milli-GPU of each GPU model (regions, models)."""
        found: Ints = capacity[: self.first_quota].reshape(self.regions, self.models, -1)[:, :, 0]
        return found

    def _slots(self, milli: Ints, size: int) -> Ints:
        """Return the slots of a size on each host, scaled."""
        slots: Ints = milli // size * SLOT_SCALE
        return slots

    def models_in(self, choice: Choice, r: int) -> list[int]:
        """Return the models that all groups of an option may use and that a region has."""
        model_mask = -1
        for group in choice.groups:
            model_mask &= self.model_mask[group.shape]
        every = self._supplied[r]
        return [m for m in range(self.models) if model_mask >> m & 1 and every[m]]

    def rows(
        self, choice: Choice, r: int, accounts: tuple[int, ...], floats: bool, model: int
    ) -> list[tuple[int, int]]:
        """Return the use of rows by an option in a region on GPUs of one model."""
        found = []
        for s, size in enumerate(self.sizes):
            amount = 0
            for group in choice.groups:
                gpu = int(self.gangs.shape_gpu[group.shape])
                amount += group.milli_gpu if not s else group.count * (gpu // size) * SLOT_SCALE
            if amount and floats:
                found.append(((r * self.models + model) * len(self.sizes) + s, amount))
        found += self.preemption_rows.demands(r, self.demands(choice, 1 << model))
        return found + self.quota_usage(choice, r, accounts)

    def continuations(self, job: int) -> Iterator[tuple[int, int, Rows]]:
        """Yield a running job in place, then as if it moved, at a slightly lower value."""
        running = self.gangs.running[job]
        choice = self.gangs.classes[running.job_class].choices[0]
        if not self._on_open_hosts(job):
            yield choice.value, NONE, ()
            return
        r, holding = int(self.problem.current_region[job]), self.preemption_rows.holding_of(job)
        in_place = self._in_place(job)
        if (in_place, holding) not in self._running_usage:
            # In place it uses the capacity of all ranks.
            there = self.preemption_rows.demands(r, ((0, m, milli) for _, m, milli in holding[1]))
            self._running_usage[in_place, holding] = sum_rows(
                in_place, there, self.preemption_rows.continuation(holding, r)
            )
        yield choice.value, NONE, self._running_usage[in_place, holding]
        if self.gangs.competes(running):
            key = running.job_class, r, holding
            if key not in self._move_continuations:
                left = self.preemption_rows.continuation(holding, r)
                self._move_continuations[key] = [
                    (less, model, sum_rows(rows, left))
                    for less, model, rows in self._moved(choice, r)
                ]
            yield from self._move_continuations[key]

    def _moved(self, choice: Choice, r: int) -> Iterator[tuple[int, int, Rows]]:
        """Yield how a running job may go on elsewhere in its region."""
        less = choice.value - max(1, choice.value // parameters.PARAMETERS.move_discount_parts)
        for model in self.models_in(choice, r):
            amount = {self._first_row(r, model): sum(g.milli_gpu for g in choice.groups)}
            barred = self.preemption_rows.demands(r, self.demands(choice, 1 << model))
            yield less, model, sum_rows(self._with_slots(amount), barred)

    def _on_open_hosts(self, job: int) -> bool:
        """Whether all hosts of a running job are open, so that what it gives back is there."""
        return all(self.gangs.open[place[2]] for place in self.gangs.running[job].places)

    def _first_row(self, r: int, model: int) -> int:
        """Return the row of a model's milli-GPU in a region."""
        return (r * self.models + model) * len(self.sizes)

    def _in_place(self, job: int) -> Rows:
        """Return the use of rows by a running job where it is."""
        if job not in self._usage_in_place:
            found: dict[int, int] = {}
            for group, _, host, _ in self.gangs.running[job].places:
                model = int(self.gangs.cluster.gpu_model[host])
                if model >= 0:
                    row = self._first_row(int(self.wan.host_region[host]), model)
                    found[row] = found.get(row, 0) + self._task_milli(job, group)
            self._usage_in_place[job] = self._with_slots(found)
        return self._usage_in_place[job]

    def _with_slots(self, milli: dict[int, int]) -> Rows:
        """Return milli-GPU of models together with the fraction of slots that they make."""
        key = tuple(sorted(milli.items()))
        if key not in self._slots_of:
            self._slots_of[key] = tuple(
                (row + s, amount * SLOT_SCALE // size if s else amount)
                for row, amount in key
                for s, size in enumerate(self.sizes)
            )
        return self._slots_of[key]

    def _task_milli(self, job: int, group: int) -> int:
        groups = self.gangs.classes[self.gangs.running[job].job_class].choices[0].groups
        return int(self.gangs.shape_gpu[groups[group].shape])

    def prepare(self) -> None:
        """Find the GPU models that each region has on open hosts."""
        supplied = np.zeros((self.regions, self.models), dtype=np.bool_)
        cluster = self.gangs.cluster
        mine = self.gangs.open & (cluster.gpu_model >= 0)
        supplied[self.wan.host_region[mine], cluster.gpu_model[mine]] = True
        self._supplied = supplied.tolist()
