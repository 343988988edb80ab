"""Ejection chains and exchanges: jobs change hosts, or give way, so that one more fits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.moves import (
    ANY_ACCOUNT,
    Accounts,
    LoggedMoves,
    MovableJob,
)
from placewright.formulations.gang.placement.disruption_budget import BudgetGuard
from placewright.formulations.gang.placement.greedy import fill_by_policy, greedy_order
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, JobPlacement, TaskPlacement
from placewright.formulations.session import Session
from placewright.topology.units import WHOLE_GPU

# Ejection chains (Glover 1996): a task is inserted on a host whose jobs move to other hosts.
#
# A task goes to the fullest host that fits it (best fit). If no host fits it, one-task jobs are
# ejected from a host. Each goes to a host that fits it or, deeper in the chain, that fits it after
# further ejections. All moves are logged and can be rolled back (`moves.py`).


NOWHERE = -1


class EjectionMoves(LoggedMoves):
    """Insertion of tasks: others are ejected to other hosts, or stop for it (displacement)."""

    def __init__(self, placement: Placement) -> None:
        super().__init__(placement)
        # Per shape, the GPUs that were free when no host was found for it.
        self._infeasible: dict[int, int] = {}

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
        for host in np.argsort(least, kind="stable").tolist():
            if least[host] >= best:
                break
            wanted, lost, found = int(lack[host]), 0.0, []
            changes = [(shape, host, 1)]
            room = self.placement.pools.allow(changes)
            for mover in self.movable.preemptable(host, shape, int(level_limit[host]), accounts):
                if (wanted <= 0 and room) or lost >= best:
                    break
                if mover.moved and not self.preempted_lawfully(mover.job):
                    continue
                found.append(mover.number)
                wanted, lost = wanted - mover.gpus, lost + mover.value_per_gpu * mover.gpus
                if not room:
                    changes.append((mover.shape, host, -1))
                    room = self.placement.pools.allow(changes)
            if wanted <= 0 and room and lost < best:
                best, chosen, target = lost, found, host
        if target == NOWHERE:
            return None
        stopped = [self.remove(number) for number in chosen]
        if not self.fits(shape, target, 1):
            self.rollback(before)
            return None
        self.insert(start, target)
        return stopped

    def least_loss(self, size: int, rank: int) -> Floats:
        """Return the least value lost (hosts,) if a task of `size` GPUs displaces jobs there."""
        return self.movable.least_loss(size - self.placement.whole, self._level_limit(rank))

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
        running = self.problem.running[job]
        came = self.placement.arrivals[[host for _, _, host, _ in running.places]]
        return bool(came.any() and not came[:, : running.level + 1].any())

    def jobs_to_move(self, shape: int, host: int, count: int) -> list[int]:
        """Return numbers of jobs that must leave a host to free GPUs for `count` tasks."""
        lack = count * self.gpus_of(shape) - int(self.placement.whole[host])
        return _covering_jobs(self.movable.on_host(host), lack)

    def _level_limit(self, rank: int) -> Ints:
        """Return the level (hosts,) below which jobs may stop for a task of the rank.

        All arrivals on the host of a preempted job must precede it. So the limit is the rank, or
        the least rank among the tasks that have arrived, whichever is less.
        """
        came = self.placement.arrivals > 0
        least_rank = np.where(came.any(axis=1), came.argmax(axis=1), came.shape[1])
        limit: Ints = np.minimum(rank, least_rank)
        return limit

    def _best_fit(self, shape: int, excluded: int = NOWHERE) -> int | None:
        """Return the fullest host but `excluded` that fits a task (best fit); None if none does.

        Ties go to the GPU model of which most GPUs are free on hosts that fit the task.
        """
        num_tasks, whole = self.placement.fits(shape), self.placement.whole
        if excluded != NOWHERE:
            num_tasks[excluded] = 0
        hosts = np.flatnonzero(num_tasks)
        if not len(hosts):
            return None
        model = self.problem.cluster.gpu_model
        free = np.bincount(model[hosts], weights=whole[hosts])
        return int(hosts[np.lexsort((-free[model[hosts]], whole[hosts]))[0]])

    def _eject(self, shape: int, max_depth: int) -> int | None:
        """Eject jobs from a host until it fits a task; return it, None if there is none.

        Short chains are tried first; the longest are `max_depth` ejections deep.
        """
        whole, size, eligible = (
            self.placement.whole,
            self.gpus_of(shape),
            self.eligible_hosts(shape),
        )
        # An ejected job takes as many GPUs elsewhere as it leaves.
        if whole[self.problem.open].sum() < size:
            return None
        hosts = np.flatnonzero(
            eligible & (whole < size) & (whole + self.movable.gpus_on_host >= size)
        )
        hosts = hosts[np.argsort(-whole[hosts], kind="stable")]
        held, tuning = self.movable.gpus_of_shape[:, hosts], parameters.PARAMETERS.insertion
        for depth in range(max_depth):
            could = self._relocatable_shapes(np.flatnonzero(held.any(axis=1)), eligible, depth)
            relocatable = set(could.tolist())
            enough = held[could].sum(axis=0) >= size - whole[hosts]
            most = tuning.max_deep_ejection_hosts if depth else tuning.max_ejection_hosts
            tried: list[int] = hosts[enough][:most].tolist()
            for host in tried:
                lack, before = size - int(whole[host]), self.num_moves
                movers = [
                    mover for mover in self.movable.on_host(host) if mover.shape in relocatable
                ]
                moved = self._relocate_all(_covering_jobs(movers, lack), host, depth)
                if moved and self.fits(shape, host, 1):
                    return host
                self.rollback(before)
        return None

    def _relocatable_shapes(self, shapes: Ints, eligible: Bools, depth: int) -> Ints:
        """Return those of some shapes whose tasks may find another host.

        At depth 0, shapes that some host fits as it is. Deeper, where that host may be cleared by
        further ejections, shapes allowed on a host outside `eligible` (hosts,).
        """
        problem, placement = self.problem, self.placement
        hosts = problem.shape_hosts[shapes]
        if depth:
            return shapes[(hosts & ~eligible).any(axis=1)]
        fits = hosts & (placement.least_rank <= problem.shape_rank[shapes, None])
        fits &= placement.whole * WHOLE_GPU >= problem.shape_gpu[shapes, None]
        demand = problem.shape_demand[shapes]
        for r in np.flatnonzero(demand.any(axis=0)).tolist():
            fits &= placement.free[:, r] >= demand[:, r, None]
        return shapes[fits.any(axis=1)]

    def _relocate_all(self, numbers: Iterable[int], host: int, depth: int) -> bool:
        """Move jobs from a host to others one by one; return whether all found a host."""
        for number in numbers:
            start = self.remove(number)
            shape = self.shape_of(start)
            target = self._best_fit(shape, host)
            if target is None and depth:
                target = self._eject(shape, depth)
            if target is None or target == host:
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


# Two-step ejection across GPU models: a pending job displaces jobs on a model it cannot use.
#
# A running job that may use both models moves there and displaces jobs worth less; the pending one
# takes its place.


def eject_across_models(
    moves: EjectionMoves, start: JobPlacement, most: float
) -> list[JobPlacement] | None:
    """Insert a one-task job where a running one moves away; return the jobs that stop for that.

    They are worth less than `most`. None if there is no such move; then nothing has changed.
    """
    shape = moves.shape_of(start)
    eligible, of_shape = moves.eligible_hosts(shape), moves.movable.gpus_of_shape
    options = []
    of_rank: dict[int, Floats] = {}
    for other in np.flatnonzero(of_shape[:, eligible].any(axis=1)).tolist():
        if moves.gpus_of(other) == moves.gpus_of(shape):
            rank = int(moves.problem.shape_rank[other])
            if rank not in of_rank:
                of_rank[rank] = moves.least_loss(moves.gpus_of(other), rank)
            least = of_rank[rank][moves.eligible_hosts(other) & ~eligible]
            options.append((float(least.min(initial=np.inf)), other))
    for lost, other in sorted(options):
        mover = _mover(moves, other, eligible) if lost < most else None
        if mover is None:
            continue
        moving = moves.remove(mover.number)
        host = moving.tasks[0].host
        if moves.fits(shape, host, 1):
            moves.insert(start, host)
            stopped = moves.displace(moving, most)
            if stopped is not None:
                return stopped
        moves.rollback()
    return None


def _mover(moves: EjectionMoves, shape: int, eligible: Bools) -> MovableJob | None:
    """Return a running movable job of a shape on one of the eligible hosts, `eligible` (hosts,)."""
    for host in np.flatnonzero(eligible & (moves.movable.gpus_of_shape[shape] > 0)).tolist():
        for mover in moves.movable.on_host(host):
            if mover.shape == shape and mover.job != ANY_JOB:
                return mover
    return None


# Drop/add: a running gang is preempted, and the greedy refills its hosts; kept if worth more.
#
# Displacement preempts what is worth less than one job that starts (`displace.py`,
# `gang_insertion.py`). A large gang is worth more than each waiting job, but may be worth less than
# all those that fit its hosts.


def drop_and_add(session: Session, placement: Placement) -> None:
    """Preempt running gangs, least value per GPU first, where waiting jobs are worth more.

    Jobs of higher precedence take the hosts.
    """
    fill_by_policy(placement)
    options = [_option_of(placement, c, o) for c, o in greedy_order(placement.problem)]
    for job in _gangs_by_value_density(placement):
        if session.expired():
            return
        if (
            placement.in_place(job)
            and placement.may_be_preempted(job)
            and _may_be_profitable(placement, job, options)
        ):
            _drop_and_refill(placement, job)


class _Option(NamedTuple):
    """An option of a class: the shapes of its groups, its milli-GPU and its value."""

    job_class: int
    shapes: frozenset[int]
    milli: int
    value: int


def _option_of(placement: Placement, c: int, o: int) -> _Option:
    choice = placement.problem.classes[c].choices[o]
    milli = sum(group.milli_gpu for group in choice.groups)
    return _Option(c, frozenset(group.shape for group in choice.groups), milli, choice.value)


def _gangs_by_value_density(placement: Placement) -> list[int]:
    """Return the running jobs of several tasks, those of least value per GPU first."""
    large: dict[int, tuple[float, int]] = {}
    for c, job_class in enumerate(placement.problem.classes):
        mine = _option_of(placement, c, 0)
        if job_class.running and not job_class.choices[0].is_single_task and mine.milli:
            large[c] = mine.value / mine.milli, -mine.milli
    running = placement.problem.running.items()
    found = sorted((*large[r.job_class], job) for job, r in running if r.job_class in large)
    return [job for _, _, job in found]


def _may_be_profitable(placement: Placement, job: int, options: Sequence[_Option]) -> bool:
    """Whether waiting jobs of higher precedence could be worth more: a fractional knapsack.

    They fill its GPUs and all free ones in the order of their value per GPU.
    """
    problem, mine = placement.problem, placement.problem.running[job]
    dropped = _option_of(placement, mine.job_class, 0)
    rows = problem.shape_hosts[:, [host for _, _, host, _ in mine.places]].any(axis=1)
    eligible = set(
        np.flatnonzero(rows & problem.over(np.arange(problem.shape_rank.size), mine)).tolist()
    )
    left = dropped.milli + int(placement.free_milli_gpu.sum())
    value = 0.0
    for other in options:
        waiting = placement.waiting[other.job_class]
        if waiting and other.shapes <= eligible:
            demanded = waiting * other.milli
            value += waiting * other.value * min(1.0, left / max(1, demanded))
            left -= demanded
            if left <= 0 or value > dropped.value:
                break
    return value > dropped.value


def _drop_and_refill(placement: Placement, job: int) -> None:
    """Preempt a gang and run the greedy; undo both unless the value rises."""
    before, started = placement.value, {number for number, _ in placement.started()}
    guard, number = BudgetGuard(placement), placement.start_of(job)
    start = placement.get(number)
    placement.stop(number)
    fill_by_policy(placement)
    if start is None or (placement.value > before and guard.holds()):
        return
    for came in [number for number, _ in placement.started() if number not in started]:
        placement.stop(came)
    placement.restart(start)


# Exchange neighbourhood: two jobs change hosts so that one more waiting job fits.
#
# A host may have free GPUs that no waiting job can use. Where other resources lack, a one-task
# job on it changes hosts with a lighter one of as many GPUs. Where a stopped job keeps lower
# ranks out, a job of a higher rank moves in, and the waiting one takes its place.


def exchange_jobs(placement: Placement, hosts: Iterable[int]) -> None:
    """Start waiting one-task jobs on or beside these hosts while exchanges make them fit.

    Only for rounds without shares, quotas and reserved GPUs; others stay as they are.
    """
    problem = placement.problem
    if not problem.is_share.any() and not problem.quota and problem.usable.all():
        exchange = _Exchange(placement)
        for host in hosts:
            while placement.whole[host] and exchange.improve_host(host):
                pass


class _Exchange:
    """One-task jobs that may move, as arrays: their starts, shapes and hosts."""

    def __init__(self, placement: Placement) -> None:
        self.placement, problem = placement, placement.problem
        self.problem = problem
        self.sizes = np.column_stack([problem.shape_gpu // WHOLE_GPU, problem.shape_demand])
        self.free = np.column_stack([placement.whole, placement.free])
        table = [
            (number, start.tasks[0].host, choice.groups[0].shape)
            for number, start in placement.changed()
            if (choice := problem.classes[start.job_class].choices[start.choice]).is_single_task
        ]
        moved = np.array(table, dtype=np.int64).reshape(-1, 3)
        both = np.concatenate([moved, _in_place(placement)])
        self.number, self.at, self.shape = both[problem.open[both[:, 1]]].T
        self.size = self.sizes[self.shape]
        self.rank = problem.shape_rank[self.shape]
        self.waiting = self._waiting_shapes()
        self._most = parameters.PARAMETERS.insertion.max_exchange_partners

    def _waiting_shapes(self) -> list[tuple[int, int, int]]:
        """Return (shape, class, choice) of waiting one-task jobs, the most valuable first."""
        best: dict[int, tuple[int, int, int]] = {}
        for c, job_class in enumerate(self.problem.classes):
            for o, choice in enumerate(job_class.choices if self.placement.waiting[c] else ()):
                shape = choice.groups[0].shape
                if choice.is_single_task and self.sizes[shape, 0]:
                    best[shape] = max(best.get(shape, (-1, -1, -1)), (choice.value, c, o))
        order = sorted(best, key=lambda s: (-best[s][0], self.sizes[s].tolist()))
        kept: defaultdict[tuple[int, bytes], list[int]] = defaultdict(list)
        most = parameters.PARAMETERS.insertion.max_exchange_shapes
        for s in order:
            equal_value = kept[best[s][0], self.problem.shape_hosts[s].tobytes()]
            if len(equal_value) < most and not any(
                (self.sizes[s] >= self.sizes[t]).all() for t in equal_value
            ):
                equal_value.append(s)
        chosen = {s for equal_value in kept.values() for s in equal_value}
        return [(s, *best[s][1:]) for s in order if s in chosen]

    def improve_host(self, host: int) -> bool:
        """Start one more job by the first exchange found; return whether there was one."""
        closed = int(self.placement.least_rank[host])
        for shape, c, o in self.waiting:
            if not self.placement.waiting[c]:
                continue
            size = self.sizes[shape]
            if size[0] > self.free[host, 0]:
                continue
            eligible = self.problem.shape_hosts[shape, host] and (
                self.problem.shape_rank[shape] >= closed
            )
            if eligible and self._swap_and_start(host, shape, c, o):
                return True
            if closed and self._move_and_start(host, shape, c, o):
                return True
        return False

    def _swap_and_start(self, host: int, shape: int, c: int, o: int) -> bool:
        """Start a job on a host that it fits once one of its jobs has changed places."""
        size = self.sizes[shape]
        lack = (size - self.free[host]).clip(min=0)
        if not lack.any() and self.placement.pools.fits_host(shape, host):
            self._start(shape, c, o, host)
            return True
        others = (self.free >= lack).all(axis=1)
        others[host] = False
        partners = np.flatnonzero(others[self.at])
        if not len(partners):
            return False
        mine = np.flatnonzero(self.at == host)
        # What may come here at all, and may be left.
        partners = partners[
            self.problem.shape_hosts[self.shape[partners], host]
            & (self.rank[partners] >= self.placement.least_rank[host])
        ]
        for a in mine.tolist():
            fits = (self.size[partners] <= self.free[host] + self.size[a] - size).all(axis=1)
            fits &= self.size[partners, 0] == self.size[a, 0]
            some = partners[fits]
            there = self.at[some]
            some = some[
                (self.size[a] <= self.free[there] + self.size[some]).all(axis=1)
                & self.problem.shape_hosts[self.shape[a], there]
                & (self.rank[a] >= self.placement.least_rank[there])
            ]
            for b in some[: self._most].tolist():
                to = {a: int(self.at[b]), b: host}
                if self._pools_allow(shape, host, to):
                    self._move(to)
                    self._start(shape, c, o, host)
                    return True
        return False

    def _move_and_start(self, host: int, shape: int, c: int, o: int) -> bool:
        """Move a job of a rank that may come here, and start one in its place."""
        problem, placement = self.problem, self.placement
        size, rank = self.sizes[shape], problem.shape_rank[shape]
        fits = (self.rank >= placement.least_rank[host]) & (self.size <= self.free[host]).all(
            axis=1
        )
        some = np.flatnonzero(fits & (self.at != host))
        there = self.at[some]
        some = some[
            (size <= self.free[there] + self.size[some]).all(axis=1)
            & (size[0] > self.free[there, 0])
            & problem.shape_hosts[self.shape[some], host]
            & problem.shape_hosts[shape, there]
            & (placement.least_rank[there] <= rank)
        ]
        for i in some[: self._most].tolist():
            left = int(self.at[i])
            if self._pools_allow(shape, left, {i: host}):
                self._move({i: host})
                self._start(shape, c, o, left)
                return True
        return False

    def _pools_allow(self, shape: int, host: int, to: Mapping[int, int]) -> bool:
        """Whether pools have room for one more task on a host once jobs have moved."""
        changes = [(shape, host, 1)]
        for i, there in to.items():
            mine = int(self.shape[i])
            changes += [(mine, int(self.at[i]), -1), (mine, int(there), 1)]
        return self.placement.pools.allow(changes)

    def _move(self, to: dict[int, int]) -> None:
        """Move jobs to other hosts, all at once."""
        placement = self.placement
        starts = {}
        for i in to:
            start = placement.get(int(self.number[i]))
            if start is None:
                raise ValueError(f"start {self.number[i]} has stopped")
            starts[i] = start
            placement.stop(int(self.number[i]))
        for i, start in starts.items():
            shape, host = int(self.shape[i]), to[i]
            self.free[self.at[i]] += self.size[i]
            self.free[host] -= self.size[i]
            puts = [TaskPlacement(0, host, 1, placement.put(shape, host))]
            self.number[i] = placement.start(start.job_class, start.choice, puts, start.job)
            self.at[i] = host

    def _start(self, shape: int, c: int, o: int, host: int) -> None:
        puts = [TaskPlacement(0, host, 1, self.placement.put(shape, host))]
        self.placement.start(c, o, puts)
        self.free[host] -= self.sizes[shape]


def _in_place(placement: Placement) -> Ints:
    """Start, host and shape of the running one-task jobs that are where they were."""
    problem = placement.problem
    single = {c for c, k in enumerate(problem.classes) if k.running and k.choices[0].is_single_task}
    here = [
        placement.start_of(job) if r.job_class in single and placement.in_place(job) else -1
        for job, r in problem.running.items()
    ]
    job, _, host, shape = problem.running_tasks.T
    number = np.array(here, dtype=np.int64)[np.searchsorted(list(problem.running), job)]
    table: Ints = np.stack([number, host, shape], axis=1)[number >= 0]
    return table
