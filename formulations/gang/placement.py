"""A plan under construction: what is still free, and on which hosts the started tasks are.

Whole GPUs are counted per host and named at the end (`places`); shares of a GPU are put on a GPU at
once, because which one they take decides what still fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.problem import Problem
from placewright.formulations.session import Place
from placewright.instances.documents import WHOLE_GPU

UNLIMITED = 1 << 40


@dataclass(frozen=True, slots=True)
class Put:
    """`count` tasks of group `group` on `host`; for shares, one entry of `gpus` per task."""

    group: int
    host: int
    count: int
    gpus: tuple[int, ...]


class Placement:
    """Started jobs of a problem on its hosts; starts as the state that the running jobs leave.

    Attributes
    ----------
    free : int64 (hosts, resources)
        Free resources besides GPUs.
    whole : int64 (hosts,)
        Whole GPUs that are free and not promised to a task.
    partial : int64 (hosts, most GPUs of a host)
        Free milli-GPU of partly used GPUs, 0 for all others.
    waiting : list of int
        Per job class how many jobs are not started. Which ones are is settled at the end, since the
        jobs of a class are interchangeable: those of highest priority start.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        cluster = problem.cluster
        self.free = problem.state.free.copy()
        most = int(cluster.gpu_count.max(initial=1))
        self._gpu = np.zeros((cluster.num_hosts, max(most, 1)), dtype=np.int64)
        held = np.arange(self._gpu.shape[1]) < cluster.gpu_count[:, None]
        self._gpu[held] = problem.state.gpu_free
        self.whole = problem.state.whole_free(cluster).astype(np.int64)
        self.partial = np.where(self._gpu < WHOLE_GPU, self._gpu, 0)
        self.waiting = [len(c.jobs) for c in problem.classes]
        self._starts: dict[int, tuple[int, int, list[Put]]] = {}
        self._next = 0

    def fits(self, shape: int) -> NDArray[np.int64]:
        """Return per host how many tasks of a shape fit it now."""
        problem = self.problem
        gpu, demand = int(problem.shape_gpu[shape]), problem.shape_demand[shape]
        if gpu == 0:
            room = np.full(len(self.whole), UNLIMITED, dtype=np.int64)
        elif gpu < WHOLE_GPU:
            room = self.whole * (WHOLE_GPU // gpu)
            if self.partial.any():
                room += (self.partial // gpu).sum(axis=1)
        else:
            room = self.whole // (gpu // WHOLE_GPU)
        for r in np.flatnonzero(demand):
            np.minimum(room, self.free[:, r] // demand[r], out=room)
        room[~problem.shape_hosts[shape]] = 0
        return room

    def fits_host(self, shape: int, host: int) -> bool:
        """Whether one task of a shape fits one host now."""
        problem = self.problem
        gpu = int(problem.shape_gpu[shape])
        if not problem.shape_hosts[shape, host]:
            return False
        if gpu >= WHOLE_GPU and self.whole[host] * WHOLE_GPU < gpu:
            return False
        if 0 < gpu < WHOLE_GPU and not self.whole[host] and self.partial[host].max() < gpu:
            return False
        return bool((self.free[host] >= problem.shape_demand[shape]).all())

    def put(self, shape: int, host: int, count: int = 1) -> tuple[int, ...]:
        """Take what `count` tasks need from a host that they fit; returns the GPUs of shares."""
        gpu = int(self.problem.shape_gpu[shape])
        self.free[host] -= count * self.problem.shape_demand[shape]
        if gpu >= WHOLE_GPU:
            self.whole[host] -= count * (gpu // WHOLE_GPU)
            return ()
        return tuple(self._share(host, gpu) for _ in range(count)) if gpu else ()

    def hold(self, shape: int, host: int, gpus: tuple[int, ...]) -> None:
        """Take what one task needs, on the GPUs that it was given."""
        gpu = int(self.problem.shape_gpu[shape])
        self.free[host] -= self.problem.shape_demand[shape]
        if gpu >= WHOLE_GPU:
            self.whole[host] -= gpu // WHOLE_GPU
            self._gpu[host, list(gpus)] = 0
        for chosen in gpus if gpu < WHOLE_GPU else ():
            self.whole[host] -= self._gpu[host, chosen] == WHOLE_GPU
            self._gpu[host, chosen] -= gpu
            self.partial[host, chosen] = self._gpu[host, chosen]

    def free_gpus(self, host: int) -> list[int]:
        """Wholly free GPUs of a host, last first; as many as are promised to tasks stay unnamed."""
        free: list[int] = np.flatnonzero(self._gpu[host] == WHOLE_GPU)[::-1].tolist()
        return free

    def _share(self, host: int, gpu: int) -> int:
        """Take a share from the fullest GPU that has it, else from a free one."""
        partial = self.partial[host]
        left = np.where(partial >= gpu, partial, UNLIMITED)
        chosen = int(left.argmin())
        if left[chosen] == UNLIMITED:
            chosen = self.free_gpus(host)[0]
            self.whole[host] -= 1
        self._gpu[host, chosen] -= gpu
        self.partial[host, chosen] = self._gpu[host, chosen]
        return chosen

    def lift(self, shape: int, put: Put) -> None:
        """Give back what `put` took."""
        gpu = int(self.problem.shape_gpu[shape])
        self.free[put.host] += put.count * self.problem.shape_demand[shape]
        if gpu >= WHOLE_GPU:
            self.whole[put.host] += put.count * (gpu // WHOLE_GPU)
        for chosen in put.gpus:
            self._gpu[put.host, chosen] += gpu
            back = self._gpu[put.host, chosen] == WHOLE_GPU
            self.partial[put.host, chosen] = 0 if back else self._gpu[put.host, chosen]
            self.whole[put.host] += back

    def start(self, job_class: int, choice: int, puts: list[Put]) -> None:
        """Start a waiting job of a class, whose tasks have been put."""
        self.waiting[job_class] -= 1
        self._starts[self._next] = (job_class, choice, puts)
        self._next += 1

    def stop(self, start: int) -> None:
        """Undo a start."""
        job_class, choice, puts = self._starts.pop(start)
        groups = self.problem.classes[job_class].choices[choice].groups
        for put in puts:
            self.lift(groups[put.group].shape, put)
        self.waiting[job_class] += 1

    def restart(self, job_class: int, choice: int, puts: list[Put]) -> None:
        """Start a job on the very GPUs that it had before it was stopped."""
        groups = self.problem.classes[job_class].choices[choice].groups
        for put in puts:
            shape = groups[put.group].shape
            if put.gpus:
                for gpu in put.gpus:
                    self.hold(shape, put.host, (gpu,))
            else:
                self.put(shape, put.host, put.count)
        self.start(job_class, choice, puts)

    def started(self) -> Iterator[tuple[int, int, int, list[Put]]]:
        """Yield (start, class, choice, puts)."""
        for start, (job_class, choice, puts) in self._starts.items():
            yield start, job_class, choice, puts

    def quota_left(self) -> dict[tuple[int, int], int]:
        """Return what tenants may still take, per (tenant, resource or -1 for milli-GPU)."""
        left = dict(self.problem.quota)
        if left:
            for job_class, choice, _ in self._starts.values():
                started = self.problem.classes[job_class]
                self.problem.charge_quota(left, started.tenant, started.choices[choice])
        return left

    @property
    def value(self) -> int:
        """Sum of the started options' values."""
        classes = self.problem.classes
        return sum(classes[c].choices[o].value for c, o, _ in self._starts.values())

    def places(self) -> dict[int, tuple[int, tuple[Place, ...]]]:
        """Name the GPUs: per started job its option and the place of every task."""
        problem = self.problem
        names: dict[int, list[int]] = {}
        result = {}
        jobs = [iter(c.jobs) for c in problem.classes]
        for job_class, choice, puts in self._starts.values():
            option = problem.classes[job_class].choices[choice]
            next_index = [0] * len(option.groups)
            tasks: list[Place] = []
            for put in puts:
                gpus_each = int(problem.shape_gpu[option.groups[put.group].shape]) // WHOLE_GPU
                for k in range(put.count):
                    gpus: tuple[int, ...]
                    if put.gpus:
                        gpus = (put.gpus[k],)
                    else:
                        if gpus_each and put.host not in names:
                            names[put.host] = self.free_gpus(put.host)
                        pool = names[put.host] if gpus_each else []
                        gpus = tuple(pool.pop() for _ in range(gpus_each))
                    tasks.append((put.group, next_index[put.group], put.host, gpus))
                    next_index[put.group] += 1
            result[next(jobs[job_class])] = (option.index, tuple(tasks))
        return result
