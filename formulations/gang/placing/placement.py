"""A plan under construction: what is still free, and on which hosts the jobs are.

Whole GPUs are counted per host and named at the end (naming.py); shares of a GPU are put on a GPU
at once, because which one they take decides what still fits. Running jobs hold the GPUs that they
run on until they are stopped; then they wait like the others, and may start elsewhere.

A job may be preempted for strictly higher priority only: on a host that a stopped job of level k
has left, no task of rank k or less may arrive, and it may not leave a host where one has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.jobs import ANY, NO_LABEL, Put, Start
from placewright.formulations.gang.layouts import FREE
from placewright.formulations.gang.problem import Problem
from placewright.formulations.gang.sharing import Ints, Parts
from placewright.instances.documents import WHOLE_GPU

UNLIMITED = 1 << 40
_ALL = slice(None)


class Placement:
    """Jobs of a problem on its hosts; starts with the running jobs where they are.

    Parameters
    ----------
    cleared
        Start with all running jobs that may move stopped instead, as if that had no consequences.

    Attributes
    ----------
    free : int64 (hosts, resources)
        Free resources besides GPUs.
    whole : int64 (hosts,)
        Whole GPUs that are free and not promised to a task.
    partial : int64 (hosts, most GPUs of a host)
        Free milli-GPU of partly used GPUs, 0 for all others and for those that hold MIG slices.
    parts : Parts or None
        Memory and slices of each GPU, in rounds where some task asks for them.
    gpu : int64 (hosts, most GPUs of a host)
        Free milli-GPU of each GPU; what is promised to tasks without a name is still free here.
    waiting : list of int
        Per job class how many jobs hold nothing. Which pending ones are is settled at the end,
        since the jobs of a class are interchangeable: those of highest priority start.
    stopped : list of list of int
        Per class of running jobs which ones hold nothing.
    arrivals : int64 (hosts, ranks)
        Tasks of each rank that have arrived.
    closed : int64 (hosts,)
        Least rank that may still arrive.
    """

    def __init__(self, problem: Problem, *, cleared: bool = False) -> None:
        self.problem = problem
        cluster = problem.cluster
        state = problem.cleared if cleared else problem.state
        self.free = state.free.copy()
        most = max(int(cluster.gpu_count.max(initial=1)), 1)
        exists = np.arange(most) < cluster.gpu_count[:, None]
        self.gpu = np.zeros((cluster.num_hosts, most), dtype=np.int64)
        self.gpu[exists] = state.gpu_free
        self._usable = np.zeros((cluster.num_hosts, most), dtype=np.bool_)
        self._usable[exists] = problem.usable
        self.whole = state.whole_free(cluster).astype(np.int64)
        self.partial = np.where(self.gpu < WHOLE_GPU, self.gpu, 0)
        self.parts: Parts | None = None
        if problem.sharing is not None:
            self.parts = Parts(problem.sharing, cluster, state, exists)
            self.partial[self.parts.layout != FREE] = 0
        levels = 1 + int(problem.places[:, 1].max(initial=-1))
        ranks = max(levels, int(problem.shape_rank.max(initial=0))) + 1
        self.arrivals = np.zeros((cluster.num_hosts, ranks), dtype=np.int64)
        self._left = np.zeros((cluster.num_hosts, levels), dtype=np.int64)
        self.closed = np.zeros(cluster.num_hosts, dtype=np.int64)
        if cleared:
            job, level, host, _ = problem.places.T
            each = np.unique(job * cluster.num_hosts + host, return_index=True)[1]
            np.add.at(self._left, (host[each], level[each]), 1)
        self.stopped = [list(c.jobs) if c.running and cleared else [] for c in problem.classes]
        self.waiting = [
            len(off) if c.running else len(c.jobs)
            for c, off in zip(problem.classes, self.stopped, strict=True)
        ]
        self._starts = {} if cleared else dict(enumerate(problem.starts))
        self._start_of = {start.job: i for i, start in self._starts.items()}
        # Lower numbers are those of running jobs that have never been stopped.
        self._first = self._next = len(self._starts)
        # Tasks that are not in place, per label and domain.
        self._labelled = [
            np.zeros(len(cluster.names[label.level]), dtype=np.int64) for label in problem.labels
        ]
        self._worth = 0 if cleared else problem.running_value
        self._quota = dict(problem.quota)
        for c, off in zip(problem.classes, self.stopped, strict=True):
            if c.running:
                problem.charge_quota(self._quota, c.tenant, c.choices[0], len(c.jobs) - len(off))

    def fits(self, shape: int) -> NDArray[np.int64]:
        """Return per host how many tasks of a shape may arrive now."""
        problem = self.problem
        gpu, demand = int(problem.shape_gpu[shape]), problem.shape_demand[shape]
        if gpu == 0:
            room = np.full(len(self.whole), UNLIMITED, dtype=np.int64)
        elif gpu < WHOLE_GPU:
            room = self.whole * self._on_free(shape)
            if self.parts is not None or self.partial.any():
                room += self.on_part(shape).sum(axis=1)
        else:
            room = self.whole // (gpu // WHOLE_GPU)
        for r in demand.nonzero()[0]:
            np.minimum(room, self.free[:, r] // demand[r], out=room)
        room *= problem.shape_hosts[shape] & (self.closed <= problem.shape_rank[shape])
        return room

    def open_to(self, label: int) -> NDArray[np.bool_]:
        """Return the hosts where a job of a label may come; homes of running jobs stay theirs."""
        if label == NO_LABEL:
            return np.ones(len(self.whole), dtype=np.bool_)
        level, homes = self.problem.labels[label].level, self.problem.labels[label].homes
        taken = self._labelled[label] > 0
        taken[[domain for home in homes.values() for domain in home]] = True
        open_: NDArray[np.bool_] = ~taken[self.problem.cluster.domain[level]]
        return open_

    def _note_label(self, start: Start, times: int) -> None:
        """Keep the book of where labelled jobs have come to."""
        label = self.problem.classes[start.job_class].choices[start.choice].label
        if label != NO_LABEL and not start.in_place:
            domain = self.problem.cluster.domain[self.problem.labels[label].level]
            for put in start.puts:
                self._labelled[label][domain[put.host]] += times

    def fits_host(self, shape: int, host: int) -> bool:
        """Whether one task of a shape may arrive on one host now."""
        problem = self.problem
        gpu = int(problem.shape_gpu[shape])
        if not problem.shape_hosts[shape, host] or self.closed[host] > problem.shape_rank[shape]:
            return False
        if gpu >= WHOLE_GPU and self.whole[host] * WHOLE_GPU < gpu:
            return False
        if 0 < gpu < WHOLE_GPU and not self.whole[host] and not self.on_part(shape, host).any():
            return False
        return bool((self.free[host] >= problem.shape_demand[shape]).all())

    def put(self, shape: int, host: int, count: int = 1) -> tuple[int, ...]:
        """Take what `count` tasks need from a host that they fit; returns the GPUs of shares."""
        gpu = int(self.problem.shape_gpu[shape])
        self.free[host] -= count * self.problem.shape_demand[shape]
        self.arrivals[host, self.problem.shape_rank[shape]] += count
        if gpu >= WHOLE_GPU:
            self.whole[host] -= count * (gpu // WHOLE_GPU)
            return ()
        return tuple(self._share(shape, host) for _ in range(count)) if gpu else ()

    def hold(self, shape: int, host: int, gpus: tuple[int, ...], slot: int | None = None) -> None:
        """Take what one task needs, on the GPUs that it was given; `slot` where it has one."""
        self.free[host] -= self.problem.shape_demand[shape]
        self._take(shape, host, gpus, 1, slot)

    def on_part(self, shape: int, hosts: Ints | slice | int = _ALL) -> Ints:
        """Return how many tasks of a share each partly used GPU of some hosts takes."""
        gpu, partial = int(self.problem.shape_gpu[shape]), self.partial[hosts]
        if self.parts is not None and self.parts.concern(shape):
            return self.parts.on_part(shape, gpu, partial, hosts)
        room: Ints = partial // gpu
        return room

    def _on_free(self, shape: int) -> Ints | int:
        """Return how many tasks of a share one wholly free GPU takes, by host if that matters."""
        gpu = int(self.problem.shape_gpu[shape])
        if self.parts is not None and self.parts.concern(shape):
            return self.parts.on_free(shape, gpu)
        return WHOLE_GPU // gpu

    @property
    def free_milli(self) -> Ints:
        """Free milli-GPU of each host, those beside MIG slices included."""
        partial = self.partial
        if self.parts is not None:
            partial = np.where(self.gpu < WHOLE_GPU, self.gpu, 0)
        free: Ints = self.whole * WHOLE_GPU + partial.sum(axis=1)
        return free

    def free_gpus(self, host: int) -> list[int]:
        """Wholly free GPUs of a host, last first; as many as are promised to tasks stay unnamed."""
        free: list[int] = np.flatnonzero(self.gpu[host] == WHOLE_GPU)[::-1].tolist()
        return free

    def promised(self, host: int) -> bool:
        """Whether some of a host's free GPUs are promised to tasks, without a name."""
        return bool((self.gpu[host] == WHOLE_GPU).sum() > self.whole[host])

    def _share(self, shape: int, host: int) -> int:
        """Take a share from the fullest GPU that has it, else from a free one."""
        left = np.where(self.on_part(shape, host) > 0, self.gpu[host], UNLIMITED)
        chosen = int(left.argmin())
        if left[chosen] == UNLIMITED:
            chosen = self.free_gpus(host)[0]
        self._take(shape, host, (chosen,))
        return chosen

    def _take(
        self,
        shape: int,
        host: int,
        gpus: tuple[int, ...],
        times: int = 1,
        slot: int | None = None,
    ) -> None:
        """Take what a task has of each of these GPUs, or give it back (-1)."""
        milli = times * min(int(self.problem.shape_gpu[shape]), WHOLE_GPU)
        for gpu in gpus:
            if self._usable[host, gpu]:
                before = self.gpu[host, gpu]
                after = before - milli
                self.gpu[host, gpu] = after
                self.partial[host, gpu] = 0 if after == WHOLE_GPU else after
                if self.parts is not None:
                    self.parts.take(shape, host, gpu, slot, times)
                    if self.parts.layout[host, gpu] != FREE:
                        self.partial[host, gpu] = 0
                self.whole[host] += int(after == WHOLE_GPU) - int(before == WHOLE_GPU)

    def lift(self, shape: int, put: Put) -> None:
        """Give back what `put` took."""
        problem = self.problem
        gpu = int(problem.shape_gpu[shape])
        self.free[put.host] += put.count * problem.shape_demand[shape]
        if not put.stays:
            self.arrivals[put.host, problem.shape_rank[shape]] -= put.count
        if put.gpus:
            self._take(shape, put.host, put.gpus, -1, put.slot)
        else:
            self.whole[put.host] += put.count * (gpu // WHOLE_GPU)

    def start(self, job_class: int, choice: int, puts: Sequence[Put], job: int = ANY) -> int:
        """Start a waiting job of a class, whose tasks have been put; return the start's number."""
        started = self.problem.classes[job_class]
        self.waiting[job_class] -= 1
        self._worth += started.choices[choice].value
        self.problem.charge_quota(self._quota, started.tenant, started.choices[choice])
        if started.running:
            if job == ANY:
                job = self.stopped[job_class][-1]
            self.stopped[job_class].remove(job)
            self._close(job, -1)
            self._start_of[job] = self._next
        self._starts[self._next] = Start(job_class, choice, puts, job)
        self._note_label(self._starts[self._next], 1)
        self._next += 1
        return self._next - 1

    def stop(self, start: int) -> None:
        """Undo a start."""
        stopped = self._starts.pop(start)
        self._note_label(stopped, -1)
        job_class = self.problem.classes[stopped.job_class]
        choice = job_class.choices[stopped.choice]
        self._worth -= choice.value
        self.problem.charge_quota(self._quota, job_class.tenant, choice, -1)
        for put in stopped.puts:
            self.lift(choice.groups[put.group].shape, put)
        self.waiting[stopped.job_class] += 1
        if stopped.job != ANY:
            del self._start_of[stopped.job]
            self.stopped[stopped.job_class].append(stopped.job)
            self._close(stopped.job, 1)

    def restart(self, start: Start) -> int:
        """Start a job on the very GPUs that it had before it was stopped; returns its number."""
        groups = self.problem.classes[start.job_class].choices[start.choice].groups
        for put in start.puts:
            shape = groups[put.group].shape
            if put.gpus or put.stays:
                self.keep(shape, put)
            else:
                self.put(shape, put.host, put.count)
        return self.start(start.job_class, start.choice, start.puts, start.job)

    def keep(self, shape: int, put: Put) -> None:
        """Take what the tasks of a put hold, on the GPUs that it names."""
        each = len(put.gpus) // put.count
        for k in range(put.count):
            self.hold(shape, put.host, put.gpus[k * each : (k + 1) * each], put.slot)
        if not put.stays:
            self.arrivals[put.host, self.problem.shape_rank[shape]] += put.count

    def fits_in_place(self, job: int) -> bool:
        """Whether a stopped running job could be where it was."""
        start = self.problem.start_of[job]
        groups = self.problem.classes[start.job_class].choices[start.choice].groups
        done: list[tuple[int, Put]] = []
        for put in start.puts:
            shape = groups[put.group].shape
            if not self.fits_gpus(shape, put):
                break
            self.keep(shape, put)
            done.append((shape, put))
        for shape, put in done:
            self.lift(shape, put)
        return len(done) == len(start.puts)

    def fits_gpus(self, shape: int, put: Put) -> bool:
        """Whether a task could be on the GPUs that a put of one task names."""
        milli = min(int(self.problem.shape_gpu[shape]), WHOLE_GPU)
        used = [g for g in put.gpus if self._usable[put.host, g]]
        had = self.gpu[put.host, used]
        if self.parts is not None and not all(
            self.parts.holds(shape, put.host, gpu, put.slot) for gpu in used
        ):
            return False
        return bool(
            (self.free[put.host] >= self.problem.shape_demand[shape]).all()
            and (had >= milli).all()
            and (had == WHOLE_GPU).sum() <= self.whole[put.host]
        )

    def may_leave(self, job: int) -> bool:
        """Whether a running job may be preempted for all that has arrived on its hosts."""
        running = self.problem.running[job]
        hosts = [host for _, _, host, _ in running.places]
        return not self.arrivals[hosts, : running.level + 1].any()

    @contextmanager
    def reopened(self, jobs: Sequence[int]) -> Iterator[None]:
        """Let tasks arrive where these stopped jobs were, as if they had left nothing behind."""
        for job in jobs:
            self._close(job, -1)
        yield
        for job in jobs:
            self._close(job, 1)

    @contextmanager
    def held_back(self, rank: int) -> Iterator[None]:
        """Let no pending jobs below a rank start meanwhile."""
        classes, of_shape = self.problem.classes, self.problem.shape_rank
        back = {
            c: n
            for c, n in enumerate(self.waiting)
            if not classes[c].running
            and all(of_shape[o.groups[0].shape] < rank for o in classes[c].choices)
        }
        for c in back:
            self.waiting[c] = 0
        yield
        for c, n in back.items():
            self.waiting[c] += n

    def _close(self, job: int, change: int) -> None:
        """Keep the book of which stopped jobs have left a host."""
        running = self.problem.running[job]
        for host in {host for _, _, host, _ in running.places}:
            self._left[host, running.level] += change
            levels = np.flatnonzero(self._left[host])
            self.closed[host] = levels[-1] + 1 if len(levels) else 0

    def held_by(self, job: int, host: int) -> NDArray[np.int64]:
        """Return the usable milli-GPU that a running job holds of each GPU of a host in place."""
        problem, running = self.problem, self.problem.running[job]
        groups = problem.classes[running.job_class].choices[0].groups
        held = np.zeros(self.gpu.shape[1], dtype=np.int64)
        for group, _, at, gpus in running.places:
            if at == host and gpus:
                held[list(gpus)] += min(int(problem.shape_gpu[groups[group].shape]), WHOLE_GPU)
        held[~self._usable[host]] = 0
        return held

    def runs(self, job: int) -> bool:
        """Whether a running job is not stopped."""
        return job in self._start_of

    def in_place(self, job: int) -> bool:
        """Whether a running job is where it was."""
        number = self._start_of.get(job)
        return number is not None and (number < self._first or self._starts[number].in_place)

    def start_of(self, job: int) -> int:
        """Return the start of a running job that is not stopped."""
        return self._start_of[job]

    def get(self, number: int) -> Start | None:
        """Return a start by its number, None if it was stopped."""
        return self._starts.get(number)

    def started(self) -> Iterator[tuple[int, Start]]:
        """Yield (number, start) of each job that holds something, running jobs included."""
        yield from self._starts.items()

    def moved(self) -> Iterator[tuple[int, Start]]:
        """Yield (number, start) of all but the running jobs that stay in place."""
        for number, start in self._starts.items():
            if number >= self._first and not start.in_place:
                yield number, start

    def away(self) -> Iterator[int]:
        """Yield the running jobs that are not where they were."""
        for job in self.problem.running:
            if not self.in_place(job):
                yield job

    def quota_left(self) -> dict[tuple[int, int], int]:
        """Return what tenants may still take, per (tenant, resource or -1 for milli-GPU)."""
        return dict(self._quota)

    @property
    def overfull(self) -> bool:
        """Whether some host gives more than it has: `hold` and `keep` do not ask."""
        return bool((self.free < 0).any() or (self.whole < 0).any() or (self.gpu < 0).any())

    @property
    def value(self) -> int:
        """Sum of the started options' values, less those of the stopped jobs."""
        return self._worth - self.problem.running_value
