"""Placements: which jobs are on which hosts, and what those have left."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.placement.host_state import HostState
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    NO_LABEL,
    Choice,
    Group,
    JobPlacement,
    TaskPlacement,
)
from placewright.formulations.gang.problem.limits import CLASS_VALUES, QuotaKey
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate, Place
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

# Order of the tasks of a group: whole slices in a domain, ranks of collectives along the tree.


def task_indices(
    cluster: Cluster, group: Group, hosts: Sequence[int], kept: Mapping[int, int]
) -> list[int]:
    """Return the index in the group of each task that arrives, in the order of `hosts`.

    Tasks go by domain, outermost level first, so that a ring or tree leaves each domain as rarely
    as possible, and each slice is inside one domain if domains hold whole slices. `kept` has the
    host of each task that stays, by index; slices with such tasks are filled first.
    """
    begun: defaultdict[int, list[int]] = defaultdict(list)  # by domain, indices in slices of `kept`
    domain = cluster.domain[-1 if group.slices is None else group.slices.level]
    size = 1 if group.slices is None else group.slices.size
    for index, host in sorted(kept.items()):
        mine, first = begun[int(domain[host])], index - index % size
        mine += [i for i in range(first, first + size) if i not in kept and i not in mine]
    others = set(range(group.count)) - set(kept) - {i for mine in begun.values() for i in mine}
    left = iter(sorted(others))
    indices = [-1] * len(hosts)
    inside = cluster.host_model[hosts]  # an NVLink domain may be all hosts of a model in a domain
    keys = (cluster.domain[-1, hosts], inside, *cluster.domain[-2::-1, hosts])
    for p in np.lexsort(keys).tolist():
        mine = begun[int(domain[hosts[p]])]
        indices[p] = mine.pop(0) if mine else next(left)
    return indices


# Placement: which jobs are on which hosts, and what those have left (host_state.py).
#
# Running jobs hold the GPUs that they run on until they are stopped. Then they wait like pending
# jobs, and may start elsewhere.
#
# A job may be preempted for strictly higher precedence only: on a host that a stopped job of
# level k has left no task of rank k or less may arrive, and no job may leave a host where one
# has.


class Placement(HostState):
    """Jobs of a problem on its hosts; starts with the running jobs where they are.

    Each placed job has a number, by which it is looked up and stopped. `cleared`: start with all
    running jobs that may move stopped instead, as if that had no consequences.

    `waiting` has per job class how many jobs hold nothing; they are interchangeable, and in the end
    those of highest priority start. `stopped` has per class of running jobs which ones hold
    nothing.
    """

    def __init__(self, problem: Problem, *, cleared: bool = False) -> None:
        super().__init__(problem, cleared=cleared)
        cluster = problem.cluster
        self._stopped_levels = np.zeros_like(self.arrivals)
        if cleared:
            job, level, host, _ = problem.running_tasks.T
            each = np.unique(job * cluster.num_hosts + host, return_index=True)[1]
            np.add.at(self._stopped_levels, (host[each], level[each]), 1)
        self.stopped = [list(c.jobs) if c.running and cleared else [] for c in problem.classes]
        self.waiting = [
            len(off) if c.running else len(c.jobs)
            for c, off in zip(problem.classes, self.stopped, strict=True)
        ]
        self._starts = {} if cleared else dict(enumerate(problem.running_placements))
        self._start_of = {start.job: i for i, start in self._starts.items()}
        # Lower numbers are those of running jobs that have never been stopped.
        self._first = self._next = len(self._starts)
        # Tasks that are not in place, per label and domain.
        self._labelled = [
            np.zeros(len(cluster.names[label.level]), dtype=np.int64) for label in problem.labels
        ]
        self._worth = 0 if cleared else problem.running_value
        self._ranked = True
        self._quota = dict(problem.quota)
        for c, off in zip(problem.classes, self.stopped, strict=True):
            if c.running:
                problem.charge_quota(self._quota, c.accounts, c.choices[0], len(c.jobs) - len(off))
        for start in self._starts.values() if self.pools.counts_jobs else ():
            self.pools.charge_job(self.choice_of(start), start.tasks)

    def choice_of(self, start: JobPlacement) -> Choice:
        """Return the option of a placed job."""
        return self.problem.classes[start.job_class].choices[start.choice]

    @property
    def class_values(self) -> dict[str, int]:
        """Values of the terms of the priority classes, less those of all running jobs."""
        problem = self.problem
        sums = dict.fromkeys(CLASS_VALUES[: len(problem.priority_classes)], 0)
        names = list(sums)
        for job_class in problem.classes:
            if job_class.running:
                choice = job_class.choices[0]
                sums[names[choice.priority_class]] -= len(job_class.jobs) * choice.own_value
        for start in self._starts.values():
            choice = problem.classes[start.job_class].choices[start.choice]
            sums[names[choice.priority_class]] += choice.own_value
        return sums

    def open_to(self, label: int) -> Bools:
        """Return the hosts where a job with an anti-affinity label may arrive, bool (hosts,).

        Domains where running jobs with the label were stay theirs.
        """
        if label == NO_LABEL:
            return np.ones(len(self.whole), dtype=np.bool_)
        level, homes = self.problem.labels[label].level, self.problem.labels[label].running_domains
        taken = self._labelled[label] > 0
        taken[[domain for home in homes.values() for domain in home]] = True
        open_: Bools = ~taken[self.problem.cluster.domain[level]]
        return open_

    def labelled_arrivals(self, label: int) -> Ints:
        """Return the tasks with a label that are not where they ran, per domain of its level."""
        return self._labelled[label]

    def _note_label(self, start: JobPlacement, times: int) -> None:
        """Record that a labelled job has arrived in its domains (`times` 1) or left (-1)."""
        label = self.problem.classes[start.job_class].choices[start.choice].label
        if label != NO_LABEL and not start.in_place:
            domain = self.problem.cluster.domain[self.problem.labels[label].level]
            for put in start.tasks:
                self._labelled[label][domain[put.host]] += times

    def start(
        self, job_class: int, choice: int, puts: Sequence[TaskPlacement], job: int = ANY_JOB
    ) -> int:
        """Start a waiting job of a class whose tasks have been charged; return its number."""
        started = self.problem.classes[job_class]
        self.waiting[job_class] -= 1
        self._worth += started.choices[choice].value
        self.problem.charge_quota(self._quota, started.accounts, started.choices[choice])
        if started.running:
            if job == ANY_JOB:
                job = self.stopped[job_class][-1]
            self.stopped[job_class].remove(job)
            self._note_stop(job, -1)
            self._start_of[job] = self._next
        self._starts[self._next] = JobPlacement(job_class, choice, puts, job)
        self.pools.charge_job(started.choices[choice], puts)
        self._note_label(self._starts[self._next], 1)
        self._next += 1
        return self._next - 1

    def stop(self, start: int) -> None:
        """Stop the job with a number and release what it holds."""
        stopped = self._starts.pop(start)
        self._note_label(stopped, -1)
        job_class = self.problem.classes[stopped.job_class]
        choice = job_class.choices[stopped.choice]
        self._worth -= choice.value
        self.problem.charge_quota(self._quota, job_class.accounts, choice, -1)
        self.pools.charge_job(choice, stopped.tasks, -1)
        for put in stopped.tasks:
            self.lift(choice.groups[put.group].shape, put)
        self.waiting[stopped.job_class] += 1
        if stopped.job != ANY_JOB:
            del self._start_of[stopped.job]
            self.stopped[stopped.job_class].append(stopped.job)
            self._note_stop(stopped.job, 1)

    def restart(self, start: JobPlacement) -> int:
        """Start a job on the GPUs that it had before it was stopped; return its number."""
        groups = self.problem.classes[start.job_class].choices[start.choice].groups
        for put in start.tasks:
            shape = groups[put.group].shape
            if put.gpus or put.stays:
                self.keep(shape, put)
            else:
                self.put(shape, put.host, put.count)
        return self.start(start.job_class, start.choice, start.tasks, start.job)

    def fits_in_place(self, job: int) -> bool:
        """Whether a stopped running job would fit where it was."""
        start = self.problem.running_placement_of[job]
        groups = self.problem.classes[start.job_class].choices[start.choice].groups
        done: list[tuple[int, TaskPlacement]] = []
        for put in start.tasks:
            shape = groups[put.group].shape
            if not self.fits_gpus(shape, put) or not self.pools.fits_host(shape, put.host):
                break
            self.keep(shape, put)
            done.append((shape, put))
        for shape, put in done:
            self.lift(shape, put)
        return len(done) == len(start.tasks) and self.pools.fits_job(
            self.choice_of(start), start.tasks
        )

    def may_be_preempted(self, job: int) -> bool:
        """Whether all that has arrived on a running job's hosts is of higher precedence."""
        running, least = self.problem.running[job], self.least_arrived
        return all(running.level < least[host] for _, _, host, _ in running.places)

    @contextmanager
    def without_rank_limits(self, jobs: Sequence[int]) -> Iterator[None]:
        """Context: tasks of any rank may arrive where these stopped jobs were."""
        for job in jobs:
            self._note_stop(job, -1)
        yield
        for job in jobs:
            self._note_stop(job, 1)

    @contextmanager
    def unranked(self) -> Iterator[None]:
        """Context: tasks of any rank may arrive wherever running jobs have been stopped."""
        self._ranked = False
        self.least_rank[:] = 0
        yield
        self._ranked = True
        level = np.arange(1, self._stopped_levels.shape[1] + 1)
        self.least_rank = np.where(self._stopped_levels > 0, level, 0).max(axis=1, initial=0)

    @contextmanager
    def only_on(self, hosts: Bools) -> Iterator[None]:
        """Context: no task arrives on hosts other than these, bool (hosts,)."""
        before = self.least_rank
        self.least_rank = np.where(hosts, before, self.none_arrived)
        yield
        self.least_rank = before

    @contextmanager
    def only_from_rank(self, rank: int) -> Iterator[None]:
        """Context: no pending job below a rank starts."""
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

    def _note_stop(self, job: int, change: int) -> None:
        """Record that a running job has left its hosts (`change` 1) or is back (-1)."""
        running = self.problem.running[job]
        for host in {host for _, _, host, _ in running.places}:
            self._stopped_levels[host, running.level] += change
            if not self._ranked:
                continue
            levels = np.flatnonzero(self._stopped_levels[host])
            self.least_rank[host] = levels[-1] + 1 if len(levels) else 0

    def milli_gpu_held(self, job: int, host: int) -> Ints:
        """Return the usable milli-GPU that a running job in place holds of each GPU of a host."""
        problem, running = self.problem, self.problem.running[job]
        groups = problem.classes[running.job_class].choices[0].groups
        held = np.zeros(self.gpu_free.shape[1], dtype=np.int64)
        for group, _, at, gpus in running.places:
            if at == host and gpus:
                held[list(gpus)] += min(int(problem.shape_gpu[groups[group].shape]), WHOLE_GPU)
        held[~self._usable[host]] = 0
        return held

    def is_running(self, job: int) -> bool:
        """Whether a running job is not stopped."""
        return job in self._start_of

    def in_place(self, job: int) -> bool:
        """Whether a running job is where it was."""
        number = self._start_of.get(job)
        return number is not None and (number < self._first or self._starts[number].in_place)

    def resizes(self, job: int) -> bool:
        """Whether a running job that is not stopped has another option than before."""
        return self._starts[self._start_of[job]].choice > 0

    def resizes_in_place(self, job: int) -> bool:
        """Whether a job that resizes takes no more milli-GPU on any host, or less on none."""
        problem, start = self.problem, self._starts[self._start_of[job]]
        groups = problem.classes[start.job_class].choices[start.choice].groups
        more: Counter[int] = Counter()
        for put in start.tasks:
            more[put.host] += put.count * int(problem.shape_gpu[groups[put.group].shape])
        more.subtract(problem.milli_held(job))
        return min(more.values()) >= 0 or max(more.values()) <= 0

    def may_resize(self, job: int) -> bool:
        """Whether a job that resizes may be where it is: anywhere, if it is not pinned."""
        budget = self.problem.budget
        return budget is None or not budget.is_pinned(job) or self.resizes_in_place(job)

    def start_of(self, job: int) -> int:
        """Return the number of a running job that is not stopped."""
        return self._start_of[job]

    def get(self, number: int) -> JobPlacement | None:
        """Return the placed job with a number, None if it was stopped."""
        return self._starts.get(number)

    def started(self) -> Iterator[tuple[int, JobPlacement]]:
        """Yield (number, job) of each job that holds something, including running jobs."""
        yield from self._starts.items()

    def changed(self) -> Iterator[tuple[int, JobPlacement]]:
        """Yield (number, job) of each job that starts or migrates."""
        for number, start in self._starts.items():
            if number >= self._first and not start.in_place:
                yield number, start

    def displaced_jobs(self) -> Iterator[int]:
        """Yield the running jobs that are not where they were."""
        for job in self.problem.running:
            if not self.in_place(job):
                yield job

    def quota_left(self) -> dict[QuotaKey, int]:
        """Return what may still be taken of quotas and caps."""
        return dict(self._quota)

    def quota_excess(self, accounts: tuple[int, ...], choice: Choice) -> dict[QuotaKey, int]:
        """Return by how much one more job would exceed its quotas and caps."""
        over = {
            key: self.problem.demand_of(choice, key[1]) - self._quota[key]
            for key in self.problem.quota_keys.get(accounts, ())
        }
        return {key: amount for key, amount in over.items() if amount > 0}

    @property
    def value(self) -> int:
        """Values of the options that run, less those of all running jobs before the round."""
        return self._worth - self.problem.running_value


# A candidate as a placement, so that a search may go on from a plan.


def placement_of(problem: Problem, candidate: Candidate) -> Placement:
    """Return the placement of a candidate: kept jobs in place, others where they start or go.

    GPUs of started jobs whose tasks take whole ones are left to the assignment.
    """
    placement = Placement(problem)
    for job in (*candidate.preempted, *candidate.starts):
        if job in problem.running:
            placement.stop(placement.start_of(job))
    # Running jobs first: their GPUs have names.
    for job in sorted(candidate.starts, key=lambda job: job not in problem.running):
        placement.restart(_start(problem, candidate, job))
    return placement


def _start(problem: Problem, candidate: Candidate, job: int) -> JobPlacement:
    option, places = candidate.starts[job]
    job_class = problem.classes[problem.class_of[job]]
    choice = job_class.choice_of(option)
    groups = job_class.choices[choice].groups
    slots = candidate.slots.get(job) or (None,) * len(places)
    tasks: list[TaskPlacement] = []
    unnamed: defaultdict[tuple[int, int], int] = defaultdict(int)
    runs = job in problem.running
    before = _placed(problem, job) if runs and not choice else set()
    for place, slot in zip(places, slots, strict=True):
        group, _, host, gpus = place
        shape = groups[group].shape
        parts = problem.part_demands
        part = parts is not None and (parts.is_slice[shape] or parts.memory[shape])
        if not runs and not part and not 0 < problem.shape_gpu[shape] < WHOLE_GPU:
            unnamed[group, host] += 1
        else:
            tasks.append(TaskPlacement(group, host, 1, gpus, (place, slot) in before, slot))
    tasks += [TaskPlacement(group, host, n, ()) for (group, host), n in unnamed.items()]
    return JobPlacement(problem.class_of[job], choice, tasks, job if runs else ANY_JOB)


def _placed(problem: Problem, job: int) -> set[tuple[Place, int | None]]:
    """Return place and MIG slot of each task of a running job."""
    running = problem.running[job]
    slots = running.slots or (None,) * len(running.places)
    return set(zip(running.places, slots, strict=True))
