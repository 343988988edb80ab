"""Residual capacity: what hosts and the pools of domains have left, and who may still arrive."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.problem.gpu_links import (
    GpuSet,
    LinkDemands,
    LinkTables,
    LinkTask,
    Packing,
    bits,
    set_of,
)
from placewright.formulations.gang.problem.gpu_parts import FREE, GpuPartState
from placewright.formulations.gang.problem.jobs import Choice, TaskPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import PER_TASK
from placewright.topology.units import WHOLE_GPU

# Residual capacity of pools: what is left of each domain, and how many tasks it has room for.


class PoolState:
    """The pools of levels of a problem, and what they have left."""

    def __init__(self, problem: Problem) -> None:
        self.pools = problem.pools
        self.counts_jobs = any(pool.use != PER_TASK for pool in problem.pools)
        # Per pool, (domains,): what may still be taken; below 0 where too much is taken.
        self.left = [pool.limit.copy() for pool in problem.pools]
        takers = np.array([pool.demand for pool in problem.pools], dtype=np.int64)
        self._of_shape: list[list[int]] = [
            np.flatnonzero(column).tolist() for column in (takers.T if self.pools else ())
        ]

    def charge(self, shape: int, host: int, count: int) -> None:
        """Charge tasks on a host to the pools around it; a negative count releases them."""
        for k in self._of_shape[shape] if self._of_shape else ():
            pool = self.pools[k]
            self.left[k][pool.domain[host]] -= count * pool.demand[shape]

    def charge_tasks(self, shapes: Ints, hosts: Ints) -> None:
        """Charge tasks of these shapes, one on each of the hosts."""
        for pool, left in zip(self.pools, self.left, strict=True):
            np.subtract.at(left, pool.domain[hosts], pool.demand[shapes])

    def charge_job(self, choice: Choice, puts: Iterable[TaskPlacement], times: int = 1) -> None:
        """Charge what a job of several tasks uses of each domain; -1 releases it."""
        for k, amount in self._uses(choice):
            hosts = np.array([put.host for put in puts], dtype=np.int64)
            self.left[k][np.unique(self.pools[k].domain[hosts])] -= times * amount

    def _uses(self, choice: Choice) -> Iterator[tuple[int, int]]:
        """Yield (pool, amount) of what an option of several tasks uses in each domain."""
        if choice.uses and self.pools and choice.num_tasks > 1:
            for k, pool in enumerate(self.pools):
                if amount := pool.used_by(choice.uses):
                    yield k, amount

    def limit_fits(self, shape: int, number: Ints) -> None:
        """Lower numbers of tasks per host, int64 (hosts,), to what the pools have room for."""
        for k in self._of_shape[shape] if self._of_shape else ():
            pool = self.pools[k]
            room = np.maximum(self.left[k], 0) // pool.demand[shape]
            np.minimum(number, room[pool.domain], out=number)

    def fits_host(self, shape: int, host: int, count: int = 1) -> bool:
        """Whether the pools around a host have room for so many more tasks of a shape."""
        return all(
            self.left[k][self.pools[k].domain[host]] >= count * self.pools[k].demand[shape]
            for k in (self._of_shape[shape] if self._of_shape else ())
        )

    def allow(self, changes: Iterable[tuple[int, int, int]]) -> bool:
        """Whether tasks may come, and leave, at once: (shape, host, number), which is then below 0.

        Domains of which no more is taken than before are not asked.
        """
        more: Counter[tuple[int, int]] = Counter()
        for shape, host, number in changes if self._of_shape else ():
            for k in self._of_shape[shape]:
                pool = self.pools[k]
                more[k, int(pool.domain[host])] += number * int(pool.demand[shape])
        return all(n <= 0 or self.left[k][d] >= n for (k, d), n in more.items())

    def is_within(self, hosts: Sequence[int]) -> bool:
        """Whether no domain around some hosts has too much taken of it."""
        each = zip(self.pools, self.left, strict=True)
        return all(bool((left[pool.domain[hosts]] >= 0).all()) for pool, left in each)

    def room_by_level(self, shape: int) -> dict[int, Ints]:
        """Return, by level, how many tasks of a shape each domain has room for, (domains,)."""
        found: dict[int, Ints] = {}
        for k in self._of_shape[shape] if self._of_shape else ():
            level, room = self.pools[k].level, np.maximum(self.left[k], 0)
            room = room // self.pools[k].demand[shape]
            found[level] = np.minimum(found[level], room) if level in found else room
        return found

    def open_to(self, choice: Choice, hosts: int) -> Bools:
        """Return the hosts in domains that have what a job uses in each, bool (hosts,)."""
        open_ = np.ones(hosts, dtype=np.bool_)
        for k, amount in self._uses(choice):
            open_ &= (self.left[k] >= amount)[self.pools[k].domain]
        return open_

    def fits_job(self, choice: Choice, puts: Sequence[TaskPlacement]) -> bool:
        """Whether each domain of a job of several tasks has what the job uses there."""
        hosts = [put.host for put in puts]
        return all(
            bool((self.left[k][self.pools[k].domain[hosts]] >= amount).all())
            for k, amount in self._uses(choice)
        )

    @contextmanager
    def no_more_than(self, most: Iterable[Ints]) -> Iterator[None]:
        """Context: no more than some amounts is left of each domain, int64 (domains,) by pool."""
        kept = [left - np.minimum(left, few) for left, few in zip(self.left, most, strict=True)]
        for left, amount in zip(self.left, kept, strict=True):
            left -= amount
        yield
        for left, amount in zip(self.left, kept, strict=True):
            left += amount


# Links between GPUs: how many tasks that require some a host has room for, where its GPUs differ.
#
# Whole GPUs have no names yet; that the tasks which require links can all have their sets at once
# is what counts. Any other task takes what is left.


class LinkState:
    """The tasks that require links on each host, and how many more there is room for."""

    def __init__(self, demands: LinkDemands, gpu_free: Ints) -> None:
        self.demands, self._gpu_free = demands, gpu_free
        self._came: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._room: dict[int, dict[int, int]] = {}
        self._hosts = np.flatnonzero(demands.differ)

    def charge(self, shape: int, host: int, count: int) -> None:
        """Charge tasks without names for their GPUs to a host; a negative count releases them."""
        if self.demands.required[shape]:
            self._came[host][shape] += count
        self.touch(host)

    def touch(self, host: int) -> None:
        """Note that what a host has left has changed."""
        self._room.pop(host, None)

    def limit_fits(self, shape: int, number: Ints) -> None:
        """Lower numbers of tasks per host, int64 (hosts,), to what links leave room for."""
        if self.demands.required[shape]:
            number *= self.demands.able[shape]
            for host in self._hosts[number[self._hosts] > 0].tolist():
                number[host] = min(int(number[host]), self._room_for(shape, host))

    def fits_host(self, shape: int, host: int, count: int = 1) -> bool:
        """Whether a host has room for so many more tasks of a shape."""
        if not self.demands.required[shape] or not self.demands.differ[host]:
            return bool(self.demands.able[shape, host])
        return self._room_for(shape, host) >= count

    def fits_without(self, host: int, gpus: Sequence[int]) -> bool:
        """Whether the tasks that came have room beside a task on these GPUs."""
        if not self.demands.differ[host]:
            return all(self.demands.able[shape, host] for shape in self.promised(host))
        return self._packed(host, self._free(host) & ~set_of(gpus)) is not None

    def promised(self, host: int) -> Counter[int]:
        """Return how many tasks that require links were promised GPUs of a host, by shape."""
        return +self._came[host]

    def crowded_hosts(self) -> list[int]:
        """Return the hosts whose GPUs are not joined as all the tasks that came ask."""
        return [h for h in self._came if self.promised(h) and not self.fits_without(h, ())]

    def spare_gpu(self, host: int) -> int:
        """Return the free GPU of a host that its tasks, and those to come, miss the least."""
        free = self._free(host)
        found = self._packed(host, free, LinkTask(1, None, free))
        return next(bits(free if found is None else found.sets[-1]))

    def _room_for(self, shape: int, host: int) -> int:
        known = self._room.setdefault(host, {})
        if shape not in known:
            free = self._free(host)
            more, known[shape] = self.demands.task(shape, free), 0
            while self._packed(host, free, *[more] * (known[shape] + 1)) is not None:
                known[shape] += 1
        return known[shape]

    def _free(self, host: int) -> GpuSet:
        """Return the wholly free GPUs of a host, promised ones among them."""
        return set_of(np.flatnonzero(self._gpu_free[host] == WHOLE_GPU))

    def _packed(self, host: int, free: GpuSet, *more: LinkTask) -> Packing | None:
        tasks = [self.demands.task(shape, free) for shape in sorted(self._came[host].elements())]
        table: LinkTables = self.demands.tables[self.demands.of_host[host]]
        return table.pack(free, (*tasks, *more))


# Residual capacity of hosts: GPUs whole and in part, other resources, and who may still arrive.
#
# Whole GPUs are counted per host and assigned at the end (assignment.py). Shares are put on a GPU
# at once, because the choice of the GPU decides what still fits.


UNLIMITED = 1 << 40
_ALL = slice(None)


class HostState:
    """The hosts of a problem, and what they have left; `cleared`: without jobs that may move."""

    def __init__(self, problem: Problem, *, cleared: bool = False) -> None:
        self.problem = problem
        cluster = problem.cluster
        state = problem.cleared if cleared else problem.state
        self.free = state.free.copy()  # (hosts, resources), besides GPUs
        most = max(int(cluster.gpu_count.max(initial=1)), 1)
        # (hosts, most GPUs of a host): free milli-GPU; GPUs promised to tasks are free here.
        exists = np.arange(most) < cluster.gpu_count[:, None]
        self.gpu_free = np.zeros((cluster.num_hosts, most), dtype=np.int64)
        self.gpu_free[exists] = state.gpu_free
        self._usable = np.zeros((cluster.num_hosts, most), dtype=np.bool_)
        self._usable[exists] = problem.usable
        # (hosts,): whole GPUs that are free and not promised to a task.
        self.whole = state.whole_free(cluster).astype(np.int64)
        # (hosts, most GPUs): of partly used GPUs; 0 for those that hold MIG slices.
        self.partial_free = np.where(self.gpu_free < WHOLE_GPU, self.gpu_free, 0)
        self.part_state: GpuPartState | None = None
        if problem.part_demands is not None:
            self.part_state = GpuPartState(problem.part_demands, cluster, state, exists)
            self.partial_free[self.part_state.layout != FREE] = 0
        self.link_state: LinkState | None = None
        links = problem.link_demands
        if links is not None and links.required.any():
            self.link_state = LinkState(links, self.gpu_free)
        levels = 1 + int(problem.running_tasks[:, 1].max(initial=-1))
        self.none_arrived = ranks = max(levels, int(problem.shape_rank.max(initial=0))) + 1
        # (hosts, ranks): tasks of each rank that have arrived; (hosts,): the least rank of these,
        # or `none_arrived`, above every rank; and the least rank that still may arrive, above the
        # level of every stopped job that was there.
        self.arrivals = np.zeros((cluster.num_hosts, ranks), dtype=np.int64)
        self.least_arrived = np.full(cluster.num_hosts, ranks, dtype=np.int64)
        self.least_rank = np.zeros(cluster.num_hosts, dtype=np.int64)
        self.pools = PoolState(problem)
        if problem.pools and not cleared:
            _, _, host, shape = problem.running_tasks.T
            self.pools.charge_tasks(shape, host)

    def fits(self, shape: int, *, linked: bool = True) -> Ints:
        """Return how many tasks of a shape may arrive on each host now, int64 (hosts,).

        Without `linked` whatever it asks of links between GPUs.
        """
        problem = self.problem
        gpu, demand = int(problem.shape_gpu[shape]), problem.shape_demand[shape]
        if gpu == 0:
            number = np.full(len(self.whole), UNLIMITED, dtype=np.int64)
        elif gpu < WHOLE_GPU:
            number = self.whole * self._fits_free_gpu(shape)
            if self.part_state is not None or self.partial_free.any():
                number += self.fits_partial_gpus(shape).sum(axis=1)
        else:
            number = self.whole // (gpu // WHOLE_GPU)
        for r in demand.nonzero()[0]:
            np.minimum(number, self.free[:, r] // demand[r], out=number)
        self.pools.limit_fits(shape, number)
        if self.link_state is not None and linked:
            self.link_state.limit_fits(shape, number)
        number *= problem.shape_hosts[shape] & (self.least_rank <= problem.shape_rank[shape])
        return number

    def fits_host(self, shape: int, host: int) -> bool:
        """Whether one task of a shape may arrive on one host now."""
        problem = self.problem
        gpu = int(problem.shape_gpu[shape])
        if (
            not problem.shape_hosts[shape, host]
            or self.least_rank[host] > problem.shape_rank[shape]
        ):
            return False
        if gpu >= WHOLE_GPU and self.whole[host] * WHOLE_GPU < gpu:
            return False
        if (
            0 < gpu < WHOLE_GPU
            and not self.whole[host]
            and not self.fits_partial_gpus(shape, host).any()
        ):
            return False
        links = self.link_state
        if links is not None and not links.fits_host(shape, host):
            return False
        fits = bool((self.free[host] >= problem.shape_demand[shape]).all())
        return fits and self.pools.fits_host(shape, host)

    def fits_gpus(self, shape: int, put: TaskPlacement) -> bool:
        """Whether one task could be on the GPUs that `put` names, whatever its rank and pools."""
        milli = min(int(self.problem.shape_gpu[shape]), WHOLE_GPU)
        used = [g for g in put.gpus if self._usable[put.host, g]]
        had = self.gpu_free[put.host, used]
        if self.part_state is not None and not all(
            self.part_state.fits(shape, put.host, gpu, put.slot, free)
            for gpu, free in zip(used, had.tolist(), strict=True)
        ):
            return False
        links = self.link_state
        if links is not None and not links.fits_without(put.host, used):
            return False
        return bool(
            (self.free[put.host] >= self.problem.shape_demand[shape]).all()
            and (had >= milli).all()
            and (had == WHOLE_GPU).sum() <= self.whole[put.host]
        )

    def put(self, shape: int, host: int, count: int = 1) -> tuple[int, ...]:
        """Charge `count` tasks to a host that they fit; return the GPUs of shares, one per task."""
        gpu = int(self.problem.shape_gpu[shape])
        self.free[host] -= count * self.problem.shape_demand[shape]
        self.pools.charge(shape, host, count)
        self.note_arrivals(shape, host, count)
        if gpu >= WHOLE_GPU:
            self.whole[host] -= count * (gpu // WHOLE_GPU)
            if self.link_state is not None:
                self.link_state.charge(shape, host, count)
            return ()
        return tuple(self._share(shape, host) for _ in range(count)) if gpu else ()

    def hold(self, shape: int, host: int, gpus: tuple[int, ...], slot: int | None = None) -> None:
        """Charge one task to the GPUs that it has; `slot` is the start of its MIG slice."""
        self.free[host] -= self.problem.shape_demand[shape]
        self.pools.charge(shape, host, 1)
        self._take(shape, host, gpus, 1, slot)

    def keep(self, shape: int, put: TaskPlacement) -> None:
        """Charge tasks to the GPUs that `put` names."""
        each = len(put.gpus) // put.count
        for k in range(put.count):
            self.hold(shape, put.host, put.gpus[k * each : (k + 1) * each], put.slot)
        if not put.stays:
            self.note_arrivals(shape, put.host, put.count)

    def note_arrivals(self, shape: int, host: int, count: int) -> None:
        """Note that `count` tasks of a shape have arrived on a host, or left it if negative."""
        rank = int(self.problem.shape_rank[shape])
        self.arrivals[host, rank] += count
        if count > 0:
            self.least_arrived[host] = min(rank, self.least_arrived[host])
        elif rank == self.least_arrived[host]:
            some = np.flatnonzero(self.arrivals[host])
            self.least_arrived[host] = some[0] if len(some) else self.none_arrived

    def lift(self, shape: int, put: TaskPlacement) -> None:
        """Release what tasks hold."""
        problem = self.problem
        gpu = int(problem.shape_gpu[shape])
        self.free[put.host] += put.count * problem.shape_demand[shape]
        self.pools.charge(shape, put.host, -put.count)
        if not put.stays:
            self.note_arrivals(shape, put.host, -put.count)
        if put.gpus:
            self._take(shape, put.host, put.gpus, -1, put.slot)
        else:
            self.whole[put.host] += put.count * (gpu // WHOLE_GPU)
            if self.link_state is not None and gpu:
                self.link_state.charge(shape, put.host, -put.count)

    def fits_partial_gpus(self, shape: int, hosts: Ints | slice | int = _ALL) -> Ints:
        """Return how many tasks of a share fit each partly used GPU of some hosts."""
        gpu, partial = int(self.problem.shape_gpu[shape]), self.partial_free[hosts]
        if self.part_state is not None and self.part_state.restricts(shape):
            return self.part_state.fits_partial_gpus(shape, gpu, partial, hosts)
        number: Ints = partial // gpu
        return number

    def _fits_free_gpu(self, shape: int) -> Ints | int:
        """Return how many tasks of a share fit one wholly free GPU, per host if hosts differ."""
        gpu = int(self.problem.shape_gpu[shape])
        if self.part_state is not None and self.part_state.restricts(shape):
            return self.part_state.fits_free_gpu(shape, gpu)
        return WHOLE_GPU // gpu

    @property
    def free_milli_gpu(self) -> Ints:
        """Free milli-GPU of each host, including GPUs that hold MIG slices, int64 (hosts,)."""
        partial = self.partial_free
        if self.part_state is not None:
            partial = np.where(self.gpu_free < WHOLE_GPU, self.gpu_free, 0)
        free: Ints = self.whole * WHOLE_GPU + partial.sum(axis=1)
        return free

    def arrivable_milli_gpu(self) -> Ints:
        """Return the milli-GPU that tasks may still take of each GPU, int64 (hosts, most GPUs).

        Wholly free GPUs of a host are equal: as many are left out as are promised to tasks. GPUs
        that hold MIG slices have nothing for other tasks.
        """
        by_size = np.sort(self.partial_free, axis=1)
        unassigned = np.arange(by_size.shape[1]) < self.whole[:, None]
        return np.where(unassigned, WHOLE_GPU, by_size)

    def free_gpu_ids(self, host: int) -> list[int]:
        """Return the wholly free GPUs of a host, last first; some may be promised to tasks."""
        free: list[int] = np.flatnonzero(self.gpu_free[host] == WHOLE_GPU)[::-1].tolist()
        return free

    def has_unnamed_gpus(self, host: int) -> bool:
        """Whether some free GPUs of a host are promised to tasks and not assigned yet."""
        return bool((self.gpu_free[host] == WHOLE_GPU).sum() > self.whole[host])

    def _share(self, shape: int, host: int) -> int:
        """Charge a share to the fullest GPU where it fits, else to a free one; return the GPU."""
        left = np.where(self.fits_partial_gpus(shape, host) > 0, self.gpu_free[host], UNLIMITED)
        chosen = int(left.argmin())
        if left[chosen] == UNLIMITED:
            links = self.link_state
            differ = links is not None and links.demands.differ[host]
            chosen = links.spare_gpu(host) if links and differ else self.free_gpu_ids(host)[0]
        self._take(shape, host, (chosen,))
        return chosen

    def _take(
        self, shape: int, host: int, gpus: tuple[int, ...], times: int = 1, slot: int | None = None
    ) -> None:
        """Charge one task to each of these GPUs (`times` 1), or release it (-1)."""
        milli = times * min(int(self.problem.shape_gpu[shape]), WHOLE_GPU)
        if self.link_state is not None:
            self.link_state.touch(host)
        for gpu in gpus:
            if self._usable[host, gpu]:
                before = self.gpu_free[host, gpu]
                after = before - milli
                self.gpu_free[host, gpu] = after
                self.partial_free[host, gpu] = 0 if after == WHOLE_GPU else after
                if self.part_state is not None:
                    self.part_state.charge(shape, host, gpu, slot, times)
                    if self.part_state.layout[host, gpu] != FREE:
                        self.partial_free[host, gpu] = 0
                self.whole[host] += int(after == WHOLE_GPU) - int(before == WHOLE_GPU)

    @property
    def is_overcommitted(self) -> bool:
        """Whether some host gives more than it has, since `hold` and `keep` do not check."""
        return bool((self.free < 0).any() or (self.whole < 0).any() or (self.gpu_free < 0).any())
