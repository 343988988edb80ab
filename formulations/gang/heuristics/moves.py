"""Moves of jobs in a placement: which may move or stop, and a log to roll moves back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, NOWHERE, JobPlacement, TaskPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.topology.units import WHOLE_GPU

# Movable jobs: one-task jobs of whole GPUs, by host, with the value lost if they stop.


_ClassFacts: TypeAlias = tuple[float, int, tuple[int, ...], int]
"""Value per GPU, GPUs, accounts and shape."""

Accounts: TypeAlias = frozenset[int]
"""Quotas and caps that are exceeded, so that jobs which count in one of them have to stop."""

ANY_ACCOUNT: Accounts = frozenset()
"""None is exceeded: all jobs may stop."""

TIE_BREAK = 1e-6
"""Fraction of the loss that decides between hosts of equal loss."""

PENDING = -1
"""Level of a job that starts in this round: a job of any rank may displace it."""


MOST_HOSTS_AT_ONCE = 64
"""Hosts whose jobs are looked at first for a task that displaces others."""


class MovableJob(NamedTuple):
    """A movable job, by the number of its placement; `gpus` are the whole GPUs it holds.

    `moved`: it runs, but not on the host where it ran before the round.
    """

    value_per_gpu: float
    gpus: int
    number: int
    job: int
    level: int
    moved: bool
    accounts: tuple[int, ...]
    shape: int


class MovableJobs:
    """Table of movable jobs by host, kept up to date as jobs are added and removed.

    Attributes
    ----------
    gpus_on_host, gpus_of_shape : int64 (hosts,), (shapes, hosts)
        Whole GPUs that movable jobs hold.
    """

    def __init__(self, problem: Problem, starts: Iterable[tuple[int, JobPlacement]]) -> None:
        self.problem = problem
        hosts = problem.cluster.num_hosts
        levels = 2 + max((running.level for running in problem.running.values()), default=PENDING)
        self.gpus_on_host = np.zeros(hosts, dtype=np.int64)
        self.gpus_of_shape = np.zeros((len(problem.shape_gpu), hosts), dtype=np.int64)
        # By level limit, of the jobs that may stop: GPUs; least value per GPU and per job.
        self._gpus_below = np.zeros((levels, hosts), dtype=np.int64)
        self._least_values = np.full((2, levels, hosts), np.inf)
        # (hosts, jobs, 7): value per GPU, GPUs, level, kind, home, shape and number of `_accounts`,
        # in the order of `preemptable`, then zeros. Rows of changed hosts are old.
        most = int(problem.cluster.gpu_count.max(initial=1))
        self._rows = np.zeros((hosts, most, 7))
        self._changed: set[int] = set()
        self._accounts: dict[tuple[int, ...], int] = {(): 0}
        self._facts: dict[tuple[int, int], _ClassFacts | None] = {}
        self._on: defaultdict[int, dict[int, MovableJob]] = defaultdict(dict)
        self._by_worth: dict[int, list[MovableJob]] = {}
        known = [
            (start.tasks[0].host, mover)
            for number, start in starts
            if (mover := self._mover(number, start))
        ]
        for host, mover in known:
            self._on[host][mover.number] = mover
            self._changed.add(host)
        where = np.array([host for host, _ in known], dtype=np.int64)
        row = np.array([_first_row(mover) for _, mover in known], dtype=np.int64)
        gpus = np.array([mover.gpus for _, mover in known], dtype=np.int64)
        np.add.at(self.gpus_on_host, where, gpus)
        np.add.at(
            self.gpus_of_shape, (np.array([m.shape for _, m in known], dtype=int), where), gpus
        )
        np.add.at(self._gpus_below, (row, where), gpus)
        for least, lost in zip(
            self._least_values,
            ([m.value_per_gpu for _, m in known], [m.value_per_gpu * m.gpus for _, m in known]),
            strict=True,
        ):
            np.minimum.at(least, (row, where), lost)
        # So far a row has the jobs of one limit; from here on those of all limits up to it.
        self._gpus_below.cumsum(axis=0, out=self._gpus_below)
        np.minimum.accumulate(self._least_values, axis=1, out=self._least_values)

    def add(self, number: int, start: JobPlacement) -> None:
        """Add a job if it may move."""
        mover = self._mover(number, start)
        if mover is not None:
            host, row = start.tasks[0].host, _first_row(mover)
            self._on[host][number] = mover
            self._note_change(host)
            self._add_gpus(host, mover, mover.gpus)
            mine = self._least_values[:, row:, host]
            np.minimum(mine, _least_values(mover)[:, None], out=mine)

    def remove(self, number: int, host: int) -> None:
        """Remove a job from a host, if it is in the table."""
        mover = self._on[host].pop(number, None)
        if mover is not None:
            self._note_change(host)
            self._add_gpus(host, mover, -mover.gpus)
            per_gpu, whole_job = self._least_values[:, _first_row(mover), host].tolist()
            if per_gpu == mover.value_per_gpu or whole_job == mover.value_per_gpu * mover.gpus:
                self._least_values[:, :, host] = self._least_values_on(host)

    def _note_change(self, host: int) -> None:
        self._by_worth.pop(host, None)
        self._changed.add(host)

    def _least_values_on(self, host: int) -> tuple[list[float], list[float]]:
        """Return the least value per GPU and the least value on a host, by level limit."""
        per_gpu, whole_job = ([inf] * len(self._gpus_below) for _ in range(2))
        for mover in self._on[host].values():
            row = _first_row(mover)
            per_gpu[row] = min(per_gpu[row], mover.value_per_gpu)
            whole_job[row] = min(whole_job[row], mover.value_per_gpu * mover.gpus)
        return list(accumulate(per_gpu, min)), list(accumulate(whole_job, min))

    def _add_gpus(self, host: int, mover: MovableJob, gpus: int) -> None:
        self.gpus_on_host[host] += gpus
        self.gpus_of_shape[mover.shape, host] += gpus
        self._gpus_below[_first_row(mover) :, host] += gpus

    def _mover(self, number: int, start: JobPlacement) -> MovableJob | None:
        """Return a job as a movable one; None if it may not move."""
        key = start.job_class, start.choice
        if key not in self._facts:
            self._facts[key] = self._compute_facts(*key)
        facts = self._facts[key]
        if facts is None:
            return None
        pending = start.job == ANY_JOB
        level = PENDING if pending else self.problem.running[start.job].level
        moved = not (pending or start.tasks[0].stays)
        value_per_gpu, gpus, accounts, shape = facts
        return MovableJob(value_per_gpu, gpus, number, start.job, level, moved, accounts, shape)

    def _compute_facts(self, job_class: int, option: int) -> _ClassFacts | None:
        """Return what all jobs of a class with an option share; None if they may not move."""
        mine = self.problem.classes[job_class]
        choice = mine.choices[option]
        shape = choice.groups[0].shape
        gpus, links = int(self.problem.shape_gpu[shape]) // WHOLE_GPU, self.problem.link_demands
        return (
            (choice.value / gpus, gpus, mine.accounts, shape)
            if gpus and choice.is_single_task and not (links is not None and links.required[shape])
            else None
        )

    def on_host(self, host: int) -> Iterable[MovableJob]:
        """Return the movable jobs of a host."""
        return self._on[host].values()

    def __iter__(self) -> Iterator[MovableJob]:
        """Yield all of them, host by host."""
        for movers in self._on.values():
            yield from movers.values()

    def preemptable(
        self, host: int, shape: int, level_limit: int, accounts: Accounts = ANY_ACCOUNT
    ) -> Iterator[MovableJob]:
        """Yield the jobs of a host that a task of a shape may preempt, least value per GPU first.

        Their level is below its rank and, unless they have moved, below the limit.
        """
        over, running = self.problem.over, self.problem.running
        for m in self._sorted(host):
            # The limit is at most the rank of the shape.
            below = m.level < level_limit
            if (
                (below or m.moved)
                and not (accounts and accounts.isdisjoint(m.accounts))
                and (
                    m.job == ANY_JOB or (below and over.sets is None) or over(shape, running[m.job])
                )
            ):
                yield m

    def _sorted(self, host: int) -> list[MovableJob]:
        """Return the movable jobs of a host, least value per GPU first."""
        if host not in self._by_worth:
            self._by_worth[host] = sorted(self._on[host].values())
        return self._by_worth[host]

    def _update_rows(self) -> None:
        """Bring the rows of changed hosts up to date."""
        running = self.problem.running
        for host in self._changed:
            facts = [
                (
                    m.value_per_gpu,
                    m.gpus,
                    m.level,
                    0 if m.job == ANY_JOB else running[m.job].kind,
                    running[m.job].places[0][2] if m.moved else NOWHERE,
                    m.shape,
                    self._accounts.setdefault(m.accounts, len(self._accounts)),
                )
                for m in self._sorted(host)
            ]
            self._rows[host] = 0.0
            if facts:
                self._rows[host, : len(facts)] = facts
        self._changed.clear()

    def losses(
        self,
        hosts: Ints,
        shape: int,
        needs: tuple[Ints, Ints, Ints],
        arrived: Ints,
        accounts: Accounts,
    ) -> Floats:
        """Return the value lost on some hosts (n,) if their `preemptable` jobs stop for a task.

        As many of them as it takes, one after the other, without those that have moved and may not
        stop; inf if all are too few. What pools have left does not count.

        Parameters
        ----------
        needs
            Of each of the hosts (n,): level limit, and the GPUs and other resources (n, resources)
            that the task lacks.
        arrived
            The least rank (hosts,) that has arrived, `PENDING` without any.
        """
        self._update_rows()
        problem, (level_limit, lack, short) = self.problem, needs
        worth, gpus, *numbers = np.moveaxis(self._rows[hosts], 2, 0)
        level, kind, home, of, number = (one.astype(np.int64) for one in numbers)
        moved, over = home != NOWHERE, problem.over
        leave = over.rank[shape] > level
        if over.sets is not None and over.sets.size:
            leave &= over.sets[over.leave[shape], kind]
        may = ((level < level_limit[:, None]) | moved) & ((level == PENDING) | leave)
        may &= (gpus > 0) & (~moved | (level < arrived[home]))
        if accounts:
            may &= np.array([not accounts.isdisjoint(one) for one in self._accounts])[number]
        gpus = gpus * may
        freed = (problem.shape_demand[of] * may[:, :, None]).cumsum(axis=1)
        enough = (gpus.cumsum(axis=1) >= lack[:, None]) & (freed >= short[:, None]).all(axis=2)
        lost = (gpus * worth).cumsum(axis=1)[np.arange(len(hosts)), enough.argmax(axis=1)]
        lost[~enough.any(axis=1)] = np.inf
        lost[(lack <= 0) & (short <= 0).all(axis=1)] = 0.0
        found: Floats = lost
        return found

    def least_loss(self, lack: Ints, level_limit: Ints) -> Floats:
        """Return a lower bound (hosts,) on the value lost to free `lack` GPUs; inf if impossible.

        Jobs may stop whose level is below `level_limit` (hosts,), or that have moved.
        """
        row, host = np.minimum(level_limit, len(self._gpus_below) - 1), np.arange(len(lack))
        enough = self._gpus_below[row, host] >= lack
        found: Floats = np.full(len(lack), np.inf)
        found[enough] = 0.0
        some = np.flatnonzero(enough & (lack > 0))
        per_gpu, whole_job = self._least_values[:, row[some], some]
        # At least one job stops, with all its GPUs; ties go where more of these are left over.
        found[some] = np.maximum(lack[some] * per_gpu, whole_job) - TIE_BREAK * (
            whole_job - lack[some] * per_gpu
        )
        return found


def _least_values(mover: MovableJob) -> Floats:
    """Return the value of a job per GPU, and all of it."""
    return np.array((mover.value_per_gpu, mover.value_per_gpu * mover.gpus))


def _first_row(mover: MovableJob) -> int:
    """Return the least level limit at which a job may stop."""
    return 0 if mover.moved else mover.level + 1


# Ejection chains (Glover 1996): a task is inserted on a host whose jobs move to other hosts.
#
# A task goes to the fullest host that fits it (best fit). If no host fits it, one-task jobs are
# ejected from a host. Each goes to a host that fits it or, deeper in the chain, that fits it after
# further ejections. All moves are logged and can be rolled back.


class EjectionMoves:
    """Moves of jobs in a placement: others are ejected to other hosts, or stop (displacement).

    Methods take the number that `Placement.start` gave a job. Rolling back a removal restarts the
    job under a new number. `movable` is the table of jobs that may move.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement, self.problem = placement, placement.problem
        self.movable = MovableJobs(self.problem, placement.started())
        self._demand: list[list[int]] = self.problem.shape_demand.tolist()
        self._undo_log: list[Callable[[], object]] = []
        self._renumbered: dict[int, int] = {}
        # Per shape, the GPUs that were free when no host was found for it.
        self._infeasible: dict[int, int] = {}

    @property
    def num_moves(self) -> int:
        """Moves since the last commit."""
        return len(self._undo_log)

    def gpus_of(self, shape: int) -> int:
        """Return the whole GPUs of a task."""
        return int(self.problem.shape_gpu[shape]) // WHOLE_GPU

    def shape_of(self, start: JobPlacement) -> int:
        """Return the shape of a job's first group."""
        return self.problem.classes[start.job_class].choices[start.choice].groups[0].shape

    def value_of(self, start: JobPlacement) -> int:
        """Return the value of a job."""
        return self.problem.classes[start.job_class].choices[start.choice].value

    def eligible_hosts(self, shape: int) -> Bools:
        """Return the hosts (hosts,) where a task may arrive if it fits."""
        rank = self.problem.shape_rank[shape]
        found: Bools = self.problem.shape_hosts[shape] & (self.placement.least_rank <= rank)
        return found

    def fits(self, shape: int, host: int, count: int) -> bool:
        """Whether `count` tasks of a shape fit a host as it is."""
        problem, placement = self.problem, self.placement
        enough = placement.whole[host] * WHOLE_GPU >= count * problem.shape_gpu[shape]
        enough &= (placement.free[host] >= count * problem.shape_demand[shape]).all()
        if not enough or not placement.pools.fits_host(shape, host, count):
            return False
        return placement.link_state is None or placement.link_state.fits_host(shape, host, count)

    def insert(self, start: JobPlacement, host: int) -> None:
        """Insert a removed job on a host that it fits."""
        puts = [TaskPlacement(0, host, 1, self.placement.put(self.shape_of(start), host))]
        self._start(start.job_class, start.choice, puts, start.job)

    def start(self, c: int, o: int, hosts: Iterable[tuple[int, int]]) -> None:
        """Start a waiting job of one group on (host, number of tasks) pairs."""
        shape = self.problem.classes[c].choices[o].groups[0].shape
        puts = [
            TaskPlacement(0, host, count, self.placement.put(shape, host, count))
            for host, count in hosts
        ]
        self._start(c, o, puts, ANY_JOB)

    def remove(self, number: int) -> JobPlacement:
        """Remove a job from the placement and return it."""
        start = self._stop(number)
        self._undo_log.append(partial(self._undo_removal, number, start))
        return start

    def commit(self) -> None:
        """Commit all moves: clear the log."""
        self._undo_log = []

    def rollback(self, before: int = 0) -> None:
        """Undo moves, the last one first, until the log has `before` moves."""
        while len(self._undo_log) > before:
            self._undo_log.pop()()

    def current_number(self, number: int) -> int:
        """Return the current number of a job by any of its numbers."""
        while number in self._renumbered:
            number = self._renumbered[number]
        return number

    def get(self, number: int) -> JobPlacement:
        """Return a job by its number; KeyError if it has stopped."""
        start = self.placement.get(number)
        if start is None:
            raise KeyError(number)
        return start

    def _start(self, c: int, o: int, puts: Sequence[TaskPlacement], job: int) -> None:
        number = self.placement.start(c, o, puts, job)
        self.movable.add(number, JobPlacement(c, o, puts, job))
        self._undo_log.append(partial(self._undo_start, number))

    def _undo_start(self, number: int) -> None:
        self._stop(self.current_number(number))

    def _undo_removal(self, number: int, start: JobPlacement) -> None:
        self._renumbered[number] = self.placement.restart(start)
        self.movable.add(self._renumbered[number], start)

    def _stop(self, number: int) -> JobPlacement:
        start = self.get(number)
        self.placement.stop(number)
        self.movable.remove(number, start.tasks[0].host)
        return start

    def find_host(self, shape: int) -> int | None:
        """Return a host that fits a task, after ejections if need be; None if there is none.

        After a failure a shape is tried again only once more GPUs are free.
        """
        free = int(self.placement.whole[self.problem.open].sum())
        if self._infeasible.get(shape, -1) >= free:
            return None
        host = self._best_fit(shape)
        if host is None:
            host = self._eject(shape, parameters.PARAMETERS.insertion.max_ejection_depth)
        if host is None:
            self._infeasible[shape] = free
        return host

    def reinsert(self, start: JobPlacement) -> bool:
        """Insert a removed job on another host, by ejection if need be; return whether it was."""
        host = self.find_host(self.shape_of(start))
        if host is not None:
            self.insert(start, host)
        return host is not None

    def displace(
        self, start: JobPlacement, max_loss: float, accounts: Accounts = ANY_ACCOUNT
    ) -> list[JobPlacement] | None:
        """Insert a removed job where others worth less than `max_loss` stop; return those.

        A stopped job waits again if it was pending, and is preempted if it was running. If
        `accounts` are given, only jobs of one of them stop. None if there is no such host.
        """
        shape, best, chosen, target = self.shape_of(start), max_loss, [], NOWHERE
        rank = int(self.problem.shape_rank[shape])
        level_limit, lack = self._level_limit(rank), self.gpus_of(shape) - self.placement.whole
        least, before = self.movable.least_loss(lack, level_limit), self.num_moves
        least[~self.eligible_hosts(shape)] = np.inf
        order = np.flatnonzero(least < max_loss)
        order = order[np.argsort(least[order], kind="stable")]
        short = self.problem.shape_demand[shape] - self.placement.free
        came = self.placement.least_arrived
        came = np.where(came < self.placement.none_arrived, came, PENDING)
        first = 0
        while first < len(order) and least[order[first]] < best:
            # As many again as all before: most often one of the first is the best.
            some = order[first : max(MOST_HOSTS_AT_ONCE, 2 * first)]
            first += len(some)
            needs = level_limit[some], lack[some], short[some]
            losses = self.movable.losses(some, shape, needs, came, accounts)
            for i in np.argsort(losses, kind="stable").tolist():
                if losses[i] >= best:
                    break
                host = int(some[i])
                asked = int(level_limit[host]), int(lack[host]), short[host].tolist()
                found, lost = self._victims_on(host, shape, *asked, best, accounts)
                if lost < best:
                    best, chosen, target = lost, found, host
        if target == NOWHERE:
            return None
        stopped = [self.remove(number) for number in chosen]
        if not self.fits(shape, target, 1):
            self.rollback(before)
            return None
        self.insert(start, target)
        return stopped

    def _victims_on(
        self,
        host: int,
        shape: int,
        level_limit: int,
        wanted: int,
        short: list[int],
        best: float,
        accounts: Accounts,
    ) -> tuple[list[int], float]:
        """Return who stops on a host for a task, and their value; inf if not below the best.

        `wanted` and `short` are the GPUs and other resources that the task lacks there.
        """
        pools, lost, found, changes = self.placement.pools, 0.0, [], [(shape, host, 1)]
        room = not self.problem.pools or pools.allow(changes)
        for mover in self.movable.preemptable(host, shape, level_limit, accounts):
            if (wanted <= 0 and room and max(short, default=0) <= 0) or lost >= best:
                break
            if mover.moved and not self.preempted_lawfully(mover.job):
                continue
            found.append(mover.number)
            wanted, lost = wanted - mover.gpus, lost + mover.value_per_gpu * mover.gpus
            taken = self._demand[mover.shape]
            short = [asked - has for asked, has in zip(short, taken, strict=True)]
            if not room:
                changes.append((mover.shape, host, -1))
                room = pools.allow(changes)
        fits = wanted <= 0 and room and max(short, default=0) <= 0
        return found, lost if fits else inf

    def preemptable_gpus(self, accounts: Accounts, shape: int) -> Ints:
        """Return the GPUs (hosts,) of jobs of some accounts that a task of a shape may preempt."""
        found = np.zeros_like(self.movable.gpus_on_host)
        level_limit = self._level_limit(int(self.problem.shape_rank[shape]))
        for host in np.flatnonzero(self.movable.gpus_on_host).tolist():
            mine = self.movable.preemptable(host, shape, int(level_limit[host]), accounts)
            found[host] = sum(mover.gpus for mover in mine)
        return found

    def preempted_lawfully(self, job: int) -> bool:
        """Whether tasks arrived on the hosts where a job ran, and all are of higher precedence."""
        least, none = self.placement.least_arrived, self.placement.none_arrived
        return self.placement.may_be_preempted(job) and any(
            least[host] < none for _, _, host, _ in self.problem.running[job].places
        )

    def jobs_to_move(self, shape: int, host: int, count: int) -> list[int]:
        """Return numbers of jobs that must leave a host to free GPUs for `count` tasks."""
        lack = count * self.gpus_of(shape) - int(self.placement.whole[host])
        return _covering_jobs(self.movable.on_host(host), lack)

    def _level_limit(self, rank: int) -> Ints:
        """Return the level (hosts,) below which jobs may stop for a task of the rank.

        All arrivals on the host of a preempted job must precede it. So the limit is the rank, or
        the least rank among the tasks that have arrived, whichever is less.
        """
        limit: Ints = np.minimum(rank, self.placement.least_arrived)
        return limit

    def _best_fit(self, shape: int, excluded: Sequence[int] = ()) -> int | None:
        """Return the fullest host but `excluded` that fits a task (best fit); None if none does.

        Ties go to the GPU model of which most GPUs are free on hosts that fit the task.
        """
        num_tasks, whole = self.placement.fits(shape), self.placement.whole
        num_tasks[list(excluded)] = 0
        hosts = np.flatnonzero(num_tasks)
        if not len(hosts):
            return None
        model = self.problem.cluster.gpu_model
        free = np.bincount(model[hosts], weights=whole[hosts])
        return int(hosts[np.lexsort((-free[model[hosts]], whole[hosts]))[0]])

    def _eject(self, shape: int, max_depth: int, clearing: Sequence[int] = ()) -> int | None:
        """Eject jobs from a host until it fits a task; return it, None if there is none.

        Short chains are tried first; the longest are `max_depth` ejections deep. Nothing goes to
        the hosts that are `clearing`, from which the chain began.
        """
        whole, size, eligible = (
            self.placement.whole,
            self.gpus_of(shape),
            self.eligible_hosts(shape),
        )
        demand = self.problem.shape_demand
        # An ejected job takes as many GPUs elsewhere as it leaves.
        if whole[self.problem.open].sum() < size:
            return None
        able = eligible & (whole < size) & (whole + self.movable.gpus_on_host >= size)
        able[list(clearing)] = False
        hosts = np.flatnonzero(able)
        hosts = hosts[np.argsort(-whole[hosts], kind="stable")]
        of_shape, tuning = self.movable.gpus_of_shape, parameters.PARAMETERS.insertion
        shapes = np.flatnonzero(of_shape.any(axis=1))
        for depth in range(max_depth):
            may = self._may_relocate(shapes, hosts, eligible, clearing, depth)
            # Where GPUs are scarce, tasks of most shapes fit nowhere else.
            some = np.flatnonzero(may.any(axis=1))
            relocated, may = shapes[some], may[some]
            gpus = self.problem.shape_gpu[relocated] // WHOLE_GPU
            jobs = of_shape[np.ix_(relocated, hosts)] // gpus[:, None] * may  # their number
            enough = np.flatnonzero(gpus @ jobs >= size - whole[hosts])
            left = self.placement.free[hosts[enough]] + jobs[:, enough].T @ demand[relocated]
            enough = enough[(left >= demand[shape]).all(axis=1)]
            most = tuning.max_deep_ejection_hosts if depth else tuning.max_ejection_hosts
            for i in enough[:most].tolist():
                host, before = int(hosts[i]), self.num_moves
                relocatable = set(relocated[may[:, i]].tolist())
                movers = {
                    mover.number: mover
                    for mover in self.movable.on_host(host)
                    if mover.shape in relocatable
                }
                leaving = _covering_jobs(movers.values(), size - int(whole[host]))
                freed = demand[[movers[number].shape for number in leaving]].sum(axis=0)
                if (self.placement.free[host] + freed < demand[shape]).any():
                    continue
                moved = self._relocate_all(leaving, (*clearing, host), depth)
                if moved and self.fits(shape, host, 1):
                    return host
                self.rollback(before)
        return None

    def _may_relocate(
        self, shapes: Ints, hosts: Ints, eligible: Bools, clearing: Sequence[int], depth: int
    ) -> Bools:
        """Return whether a task of a shape may find another host than its own, (shapes, hosts).

        At depth 0, where some other host that is not `clearing` fits it as it is. Deeper, where
        that host may be cleared by further ejections, if the shape is allowed on a host outside
        `eligible` (hosts,).
        """
        problem, placement = self.problem, self.placement
        allowed = problem.shape_hosts[shapes]
        if depth:
            outside: Bools = np.any(allowed & ~eligible, axis=1)
            return np.repeat(outside[:, None], len(hosts), axis=1)
        # Each of these jobs needs whole GPUs, of which most hosts may have none left.
        free = np.flatnonzero(placement.whole)
        here = allowed[:, free] & (placement.least_rank[free] <= problem.shape_rank[shapes, None])
        here &= placement.whole[free] * WHOLE_GPU >= problem.shape_gpu[shapes, None]
        demand = problem.shape_demand[shapes]
        for r in np.flatnonzero(demand.any(axis=0)).tolist():
            here &= placement.free[free, r] >= demand[:, r, None]
        fits = np.zeros(allowed.shape, dtype=np.bool_)
        fits[:, free] = here
        fits[:, list(clearing)] = False
        others: Bools = fits.sum(axis=1)[:, None] > fits[:, hosts]
        return others

    def _relocate_all(self, numbers: Iterable[int], clearing: Sequence[int], depth: int) -> bool:
        """Move jobs from hosts that are clearing to others one by one; return whether all moved."""
        for number in numbers:
            start = self.remove(number)
            shape = self.shape_of(start)
            target = self._best_fit(shape, clearing)
            if target is None and depth:
                target = self._eject(shape, depth, clearing)
            if target is None:
                return False
            self.insert(start, target)
        return True


def _covering_jobs(movers: Iterable[MovableJob], lack: int) -> list[int]:
    """Return jobs that hold at least `lack` GPUs together, with small excess (greedy cover).

    The largest first, as long as they hold no more than is lacking; then the smallest of the
    others, if some GPUs still are. All jobs if they hold fewer.
    """
    if lack <= 0:
        return []
    sizes = sorted((-mover.gpus, mover.number) for mover in movers)
    found = []
    for size, number in sizes:
        if -size <= lack:
            found.append(number)
            lack += size
    if lack > 0:
        chosen = set(found)
        found += [n for _, n in reversed(sizes) if n not in chosen][:1]
    return found
