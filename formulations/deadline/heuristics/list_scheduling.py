"""Constructed schedules of leases: priority rules, ejection chains, offers to refused jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.problem.compile import (
    Admission,
    CapacityRows,
    first_with,
    hosts_of,
    largest_host_gpus,
    options_of,
)
from placewright.formulations.deadline.problem.leases import ScheduleState, Slack
from placewright.formulations.deadline.problem.problem import (
    NONE,
    Problem,
    Schedule,
    chunks,
    intervals,
)
from placewright.formulations.plan_messages import Promise
from placewright.instances.derived.leases import (
    completion_time,
    leases_needed,
    work_per_lease,
)
from placewright.instances.documents.deadline import Deadline
from placewright.instances.documents.job import Job

# Ejection chains: insert a job by moving other jobs' leases, one after another.
#
# A job that lacks a lease takes a full one; a job that must leave it moves to another lease of
# its window, from which, if that is full too, another job is ejected in turn. With gangs of one
# size the chains are augmenting paths of a flow of leases to jobs, so that a job is rejected only
# if no schedule of the same promises can hold it. With gangs of several sizes a lease is freed by
# several chains, and within a chain one job replaces one job: a heuristic.
#
# References
# ----------
# Glover, "Ejection chains, reference structures and alternating path methods for traveling salesman
# problems", Discrete Applied Mathematics 65, 1996; Ford and Fulkerson, "Maximal flow through a
# network", Canadian Journal of Mathematics 8, 1956.


Move = tuple[int, int, int]
"""A job, the lease that it leaves, or `NOWHERE`, and the lease that it enters."""

NOWHERE = -1


class EjectionChains:
    """Inserts jobs into a schedule state; rejected ones are remembered until a job is removed.

    `work_limit`: jobs times leases that all insertions together may examine; None: as the
    parameters say.
    """

    def __init__(self, state: ScheduleState, work_limit: int | None = None) -> None:
        self.state = state
        if work_limit is None:
            work_limit = parameters.PARAMETERS.max_chain_cells
        self.work_left = work_limit
        self._rejected: list[tuple[int, int, int, int]] = []

    def forget_rejected(self) -> None:
        """Forget rejected alternatives, since a job was removed and they may fit now."""
        self._rejected.clear()

    def insert(self, alternative: int) -> bool:
        """Insert a job by an alternative; return whether it fits, else change nothing."""
        state, problem = self.state, self.state.problem
        job = int(problem.job[alternative])
        need = int(problem.need[alternative])
        leases = state.free_leases(alternative)
        if len(leases) >= need:
            state.add(alternative, leases[-need:])
            return True
        if self._dominated(alternative):
            return False
        state.add(alternative, leases)
        dead_ends = np.zeros(problem.horizon, dtype=np.bool_)
        if self.extend(job, need - len(leases), dead_ends) is not None:
            return True
        state.remove(job)
        if self.work_left > 0:
            self._rejected.append(self._signature(alternative))
        return False

    def extend(self, job: int, number: int, dead_ends: Bools) -> list[Move] | None:
        """Give a job of the schedule more leases, and return all moves in order; None: no change.

        Leases in `dead_ends` (horizon,) are neither taken nor entered; leases found to have no
        chain are added to it.
        """
        state, moves, left = self.state, list[Move](), number
        demand = state.class_demand[state.demand_class[state.alternative[job]]]
        holds = (state.problem.capacity >= demand[:, None]).all(axis=0)
        untried = np.flatnonzero(state.idle[job] & holds & ~dead_ends)
        shortage = np.maximum(0, demand[:, None] - state.residual[:, untried]).sum(axis=0)
        # Those that lack least first, of them the latest.
        order = np.lexsort((-untried, shortage))
        failures_left = parameters.PARAMETERS.max_failed_leases
        for position, lease in enumerate(untried[order].tolist()):
            if (
                not left
                or len(untried) - position < left
                or self.work_left <= 0
                or not failures_left
            ):
                break
            if dead_ends[lease] or not state.idle[job, lease]:
                continue
            if self._free_lease(lease, demand, dead_ends, moves):
                state.assign(job, lease)
                moves.append((job, NOWHERE, lease))
                left -= 1
            elif not dead_ends[lease]:
                failures_left -= 1
        if left:
            self.undo(moves, 0)
            return None
        return moves

    def undo(self, moves: list[Move], number: int) -> None:
        """Undo all moves but the first `number`, the last one first."""
        while len(moves) > number:
            job, left, entered = moves.pop()
            self.state.unassign(job, entered)
            if left != NOWHERE:
                self.state.assign(job, left)

    def _signature(self, alternative: int) -> tuple[int, int, int, int]:
        problem = self.state.problem
        first = int(problem.first[alternative])
        end = int(problem.end[alternative])
        need = int(problem.need[alternative])
        return int(self.state.demand_class[alternative]), first, end, need

    def _dominated(self, alternative: int) -> bool:
        """Whether an alternative that asks no more, in no smaller a window, was rejected."""
        demand_class, first, end, need = self._signature(alternative)
        demand = self.state.class_demand[demand_class]
        return any(
            first >= other_first
            and end <= other_end
            and need >= other_need
            and (demand >= self.state.class_demand[other]).all()
            for other, other_first, other_end, other_need in self._rejected
        )

    def _free_lease(self, lease: int, demand: Ints, dead_ends: Bools, moves: list[Move]) -> bool:
        """Free the demand in a lease by ejection chains; where that fails, change nothing."""
        state, before = self.state, len(moves)
        while ((shortage := demand - state.residual[:, lease])[demand > 0] > 0).any():
            # After moves that are taken back again nothing is known of other leases.
            reached = dead_ends if len(moves) == before else dead_ends.copy()
            chain = self._find_chain(lease, np.where(demand > 0, shortage, 0), reached)
            if chain is None:
                self.undo(moves, before)
                return False
            # The last step first: it enters a lease with capacity.
            for job, left, entered in chain:
                state.unassign(job, left)
                state.assign(job, entered)
            moves.extend(chain)
        return True

    def _find_chain(self, lease: int, shortage: Ints, dead_ends: Bools) -> list[Move] | None:
        """Return a shortest chain that frees a lease, last first; None if there is none.

        Breadth-first search. `shortage` (rows,) is what must be freed; where no single job holds as
        much, one that holds part of it leaves. Leases in `dead_ends` are not entered; if there is
        no chain, all leases reached are added to them.
        """
        state, visited = self.state, dead_ends.copy()
        fits, row = state.fits_by_class()
        visited[lease] = True
        parent: dict[int, Move] = {}
        queue = [(lease, np.maximum(0, shortage))]
        for at, deficit in queue:
            if self.work_left <= 0:
                return None
            candidates = self._candidates(at, deficit, partial=at == lease)
            self.work_left -= (
                len(candidates) + parameters.PARAMETERS.lease_visit_cost_jobs
            ) * state.problem.horizon
            if not len(candidates):
                continue
            allowed = state.idle[candidates]
            allowed &= ~visited
            classes = state.demand_class[state.alternative[candidates]]
            direct = allowed & fits[row[classes]]
            if len(out := np.flatnonzero(direct.any(axis=1))):
                job, to = int(candidates[out[0]]), int(np.flatnonzero(direct[out[0]])[-1])
                chain = [(job, at, to)]
                while chain[-1][1] != lease:
                    chain.append(parent[chain[-1][1]])
                return chain
            reached = np.flatnonzero(allowed.any(axis=0))
            visited[reached] = True
            smallest = allowed[:, reached].argmax(axis=0)
            for to, by in zip(reached.tolist(), smallest.tolist(), strict=True):
                parent[to] = (int(candidates[by]), at, to)
                demand = state.class_demand[classes[by]]
                next_deficit = np.maximum(0, demand - state.residual[:, to])
                queue.append((to, np.where(demand > 0, next_deficit, 0)))
        dead_ends |= visited
        return None

    def _candidates(self, lease: int, deficit: Ints, *, partial: bool) -> Ints:
        """Return jobs that could leave a lease: those that free all of the deficit, smallest first.

        Those that free some of it follow if `partial`, largest first.
        """
        state = self.state
        jobs = np.flatnonzero(state.runs[:, lease])
        demand = state.class_demand[state.demand_class[state.alternative[jobs]]]
        enough: Bools = np.all(demand >= deficit, axis=1)
        size: Ints = demand.sum(axis=1)
        if partial:
            some = (demand[:, deficit > 0] > 0).any(axis=1)
            jobs, enough, size = jobs[some], enough[some], size[some]
        else:
            jobs, enough, size = jobs[enough], enough[enough], size[enough]
        return jobs[np.lexsort((np.where(enough, size, -size), ~enough))]


# List scheduling: leases for selected alternatives, by priority rules, with repair.
#
# Three rules are tried until one of them drops no job. `backwards` and `forwards` go lease by lease
# and schedule the jobs of least slack (usable leases less leases still needed). `gangs` goes job by
# job, the largest gang first, then the least slack, in the latest leases that fit. Dropped jobs are
# then inserted by ejection chains; one that has a promise already may displace jobs that lose less.
#
# `backwards` is exact where every job asks one GPU of one row and all may begin at once: seen
# from the horizon all jobs are due together, and the longest remaining work first is optimal
# whatever the capacity of each lease.
#
# References
# ----------
# McNaughton, "Scheduling with deadlines and loss functions", Management Science 1959.


Order = Literal["backwards", "forwards", "gangs"]

ORDERS: tuple[Order, ...] = ("backwards", "forwards", "gangs")
"""The one that loses least, as a rule, first."""


def list_schedule(
    problem: Problem,
    alternative: Ints,
    *,
    orders: Sequence[Order] = ORDERS,
    work_limit: int | None = None,
) -> Schedule:
    """Return a list schedule of the selected alternatives; what does not fit is dropped.

    `alternative` (jobs,): the alternative of each job, or `NONE`. `orders`: tried one after the
    other until nothing is dropped; the best schedule counts: the least broken, then the most
    admitted. One at least. `work_limit`: of `EjectionChains`, for each order.
    """
    chosen = alternative[alternative != NONE]
    found = []
    for order in orders:
        state = ScheduleState(problem)
        lost = (
            _schedule_by_job(state, chosen)
            if order == "gangs"
            else schedule_by_lease(state, chosen, order)
        )
        repair(state, lost, work_limit)
        found.append(state.schedule())
        if (state.alternative == alternative).all():
            break
    return max(found, key=lambda schedule: objective(problem, schedule))


def objective(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Return the lexicographic objective of a schedule, larger is better: (-broken, admitted)."""
    return -schedule.broken(problem), schedule.admitted(problem)


def complete(
    problem: Problem,
    schedule: Schedule,
    *,
    work_limit: int | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> Schedule:
    """Greedy completion: add jobs without an alternative by kept promises, then by value density.

    Value counts per GPU and lease. What is promised stays, but may run in other leases. Once time
    is `expired`, which is checked now and then, no more jobs are added.
    """
    state = ScheduleState.of(problem, schedule)
    chains = EjectionChains(state, work_limit)
    slack = Slack(problem, schedule.alternative)
    waiting = np.flatnonzero(schedule.alternative[problem.job] == NONE)
    waiting = waiting[slack.admits_each(waiting)]
    interval = parameters.PARAMETERS.clock_check_cells // problem.horizon
    for number, alternative in enumerate(by_density(problem, waiting).tolist(), 1):
        if number % interval == 0 and expired():
            break
        if (
            state.alternative[problem.job[alternative]] == NONE
            and slack.admits(alternative)
            and chains.insert(alternative)
        ):
            slack.add(alternative)
    return state.schedule()


def by_density(problem: Problem, alternatives: Ints) -> Ints:
    """Sort alternatives by what they keep of a promise, then by value per milli-GPU and lease."""
    area = np.maximum(1, problem.need[alternatives]) * problem.demand[alternatives].max(
        axis=1, initial=1
    )
    saved = problem.loss[problem.job[alternatives]] - problem.lost[alternatives]
    return alternatives[np.lexsort((-problem.counted[alternatives] / area, -saved))]


def repair(state: ScheduleState, alternatives: Ints, work_limit: int | None) -> None:
    """Insert dropped alternatives, densest first; those that keep promises may displace others."""
    chains, slack = EjectionChains(state, work_limit), Slack(state.problem, state.alternative)
    loss = state.problem.loss[state.problem.job]
    for alternative in by_density(state.problem, alternatives).tolist():
        if slack.admits(alternative) and chains.insert(alternative):
            slack.add(alternative)
        elif loss[alternative]:
            _displace(chains, slack, alternative)


def _displace(chains: EjectionChains, slack: Slack, alternative: int) -> None:
    """Insert an alternative that keeps a promise in place of jobs that lose less, if possible.

    They leave one by one, those first that lose least for the leases that become free by it, until
    the alternative fits, and come back where they can. `slack` stays what the schedule state
    leaves.
    """
    state, problem = chains.state, chains.state.problem
    saved = problem.loss[problem.job] - problem.lost
    if not (saved[state.alternative[state.alternative != NONE]] < saved[alternative]).any():
        return
    before, slack_before, left = state.copy(), slack.residual.copy(), list[int]()
    victims = _displacement_order(state, alternative)
    for victim in victims[saved[victims] < saved[alternative]].tolist():
        state.remove(int(problem.job[victim]))
        slack.drop(victim)
        chains.forget_rejected()
        left.append(victim)
        # Chains are tried after 1, 2, 4, ... jobs have left.
        fits = len(state.free_leases(alternative)) >= problem.need[alternative]
        due = len(left).bit_count() == 1 and slack.admits(alternative)
        if (fits or due) and chains.insert(alternative):
            break
    lost = []
    for victim in by_density(problem, np.array(left, dtype=np.int64)).tolist():
        if chains.insert(victim):
            slack.add(victim)
        else:
            lost.append(victim)
    if (
        state.alternative[problem.job[alternative]] == NONE
        or saved[lost].sum() >= saved[alternative]
    ):
        state.restore(before)
        slack.residual = slack_before
        chains.forget_rejected()
    else:
        slack.add(alternative)


def _displacement_order(state: ScheduleState, alternative: int) -> Ints:
    """Return the alternatives that hold leases the given one lacks, cheapest per lease first.

    Jobs that lose no promise come first, then those of least value per lease.
    """
    problem = state.problem
    needed = problem.demand[alternative]
    window = slice(problem.first[alternative], problem.end[alternative])
    shortage = np.maximum(0, needed[:, None] - state.residual[:, window])
    jobs = np.flatnonzero(state.runs[:, window].any(axis=1))
    alternatives = state.alternative[jobs]
    freed = np.zeros(len(alternatives))
    for row in np.flatnonzero(needed):
        deficit = np.maximum(1, shortage[row])
        for some in chunks(len(alternatives), len(deficit)):
            part = np.minimum(1.0, problem.demand[alternatives[some], row, None] / deficit)
            part *= shortage[row] > 0
            freed[some] += (part * state.runs[jobs[some], window]).sum(axis=1)
    saved = problem.loss[jobs] - problem.lost[alternatives]
    cost_per_lease = problem.counted[alternatives] / np.maximum(freed, 1e-9)
    order = np.lexsort((cost_per_lease, saved))
    useful: Ints = alternatives[order[freed[order] > 0]]
    return useful


def _schedule_by_job(state: ScheduleState, alternatives: Ints) -> Ints:
    """Schedule job by job, largest gang first, then least slack; return those dropped."""
    problem = state.problem
    slack = problem.end[alternatives] - problem.first[alternatives] - problem.need[alternatives]
    size = problem.demand[alternatives].max(axis=1, initial=0)
    lost = []
    for alternative in alternatives[np.lexsort((slack, -size))].tolist():
        leases, need = state.free_leases(alternative), int(problem.need[alternative])
        if len(leases) < need:
            lost.append(alternative)
            continue
        state.add(alternative, leases[-need:])
    return np.array(lost, dtype=np.int64)


def schedule_by_lease(state: ScheduleState, alternatives: Ints, order: Order) -> Ints:
    """Fill an empty schedule state lease by lease, least slack first; return the dropped ones."""
    problem, leases = state.problem, np.arange(state.problem.horizon)
    classes, class_of = np.unique(state.demand_class[alternatives], return_inverse=True)
    fits = np.array([state.fits(one) for one in classes.tolist()], dtype=np.bool_)
    usable: Bools = fits.reshape(len(classes), problem.horizon)[class_of.reshape(-1)].T
    usable &= (problem.first[alternatives] <= leases[:, None]) & (
        leases[:, None] < problem.end[alternatives]
    )
    demand, need = problem.demand[alternatives], problem.need[alternatives].copy()
    size, slack = demand.max(axis=1, initial=0), usable.sum(axis=0) - need
    # Value decides only among jobs without slack.
    rank = np.empty(problem.alternatives, dtype=np.int64)
    rank[by_density(problem, alternatives)] = np.arange(len(alternatives))
    rank = rank[alternatives]
    runs = np.zeros((problem.horizon, len(alternatives)), dtype=np.bool_)
    for lease in leases[::-1] if order == "backwards" else leases:
        candidates = np.flatnonzero(usable[lease] & (need > 0) & (slack >= 0))
        urgent = np.where(slack[candidates] == 0, rank[candidates], 0)
        candidates = candidates[np.lexsort((-size[candidates], urgent, slack[candidates]))]
        chosen = candidates[_first_fit(demand[candidates], state.residual[:, lease])]
        slack[candidates] -= 1
        slack[chosen] += 1
        need[chosen] -= 1
        runs[lease, chosen] = True
    done = need == 0
    state.add_all(alternatives[done], runs[:, done].T)
    lost: Ints = alternatives[~done]
    return lost


def _first_fit(demand: Ints, residual: Ints) -> Ints:
    """Return which demands (number, rows) fit in turn, skipping those that do not: indices."""
    waiting, chosen = np.arange(len(demand)), []
    while len(waiting):
        sums = demand[waiting].cumsum(axis=0)
        met = int((sums <= residual).all(axis=1).sum())
        chosen.append(waiting[:met])
        residual = residual - (sums[met - 1] if met else 0)
        waiting = waiting[met:]
        waiting = waiting[(demand[waiting] <= residual).all(axis=1)]
    accepted: Ints = np.concatenate([np.zeros(0, dtype=np.int64), *chosen])
    return accepted


# Offers to refused jobs: the earliest finish that fits beside a plan.
#
# Each job is offered, on its own, the first leases with capacity for it; no other job moves.


@dataclass(frozen=True, slots=True)
class _Request:
    """An option of a job that asks for a promise: its demand, leases needed, and time of the last.

    `need` leases, of which the last one ends `last_s` seconds after it has begun.
    """

    job: int
    option: int
    need: int
    first: int
    last_s: int
    demand: tuple[int, ...]


class Offers:
    """Earliest finishes of the jobs of a round beside a schedule, their due times left aside.

    `admission`: its jobs with due times may be refused, and are made offers then. The current lease
    is not offered in a round in which something runs where nothing new may arrive.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        jobs = admission.round.jobs
        rows = CapacityRows(admission.round, (jobs[j] for j in admission.jobs))
        largest = largest_host_gpus(admission.round)
        # Capacity that only jobs already there may use is not offered to others.
        self._earliest = 1 if rows.has_closed_running_gpus() else 0
        self._requests = [
            request
            for number, j in enumerate(admission.jobs)
            if (deadline := jobs[j].deadline) is not None and deadline.due
            for request in self._of(number, jobs[j], deadline, rows, largest)
        ]
        demands = np.array([request.demand for request in self._requests], dtype=np.int64)
        self._class_demand, class_of = np.unique(
            demands.reshape(len(self._requests), rows.count), axis=0, return_inverse=True
        )
        self._class_of: Ints = class_of.reshape(-1)
        self._job = np.array([request.job for request in self._requests], dtype=np.int64)
        self._need = np.array([request.need for request in self._requests], dtype=np.int64)
        self._first = np.array([request.first for request in self._requests], dtype=np.int64)
        self._last_s = np.array([request.last_s for request in self._requests], dtype=np.int64)

    def _of(
        self,
        number: int,
        job: Job,
        deadline: Deadline,
        rows: CapacityRows,
        largest: Mapping[str, int],
    ) -> Iterator[_Request]:
        round_, running = self._admission.round, job.running
        length = round_.leases.length_s
        for o in options_of(job):
            option = job.options[o]
            pace, hosts = deadline.pace(o), hosts_of(job, option, largest)
            first = first_with(round_, job, o)
            if running is None or not running.pinned:
                first = max(first, self._earliest)
            count = leases_needed(deadline.work, pace, length, hosts)
            if count is None:
                continue
            left = deadline.work - (count - 1) * work_per_lease(pace, length, hosts)
            yield _Request(
                job=number,
                option=o,
                need=count,
                first=first,
                last_s=completion_time(0, left, pace, hosts),
                demand=tuple(rows.demand(job, o)),
            )

    def for_refused(self, kept: Schedule) -> tuple[Promise, ...]:
        """Return an offer for each refused job that fits before the horizon, in their order."""
        admission = self._admission
        refused = np.flatnonzero(kept.alternative[self._job] == NONE)
        if not len(refused):
            return ()
        residual = admission.problem.capacity - kept.usage(admission.problem)
        fits: Bools = np.ones((len(self._class_demand), residual.shape[1]), dtype=np.bool_)
        for row, have in enumerate(residual):
            fits &= self._class_demand[:, row, None] <= have
        last = _last_lease(fits, self._class_of[refused], self._first[refused], self._need[refused])
        refused, last = refused[last != NONE], last[last != NONE]
        done = last * admission.round.leases.length_s + self._last_s[refused]
        # The earliest finish of each job, and of those the option that needs the fewest leases.
        order = np.lexsort((self._need[refused], done, self._job[refused]))
        _, best = np.unique(self._job[refused[order]], return_index=True)
        offers = []
        for position in order[best].tolist():
            number = int(refused[position])
            request, at = self._requests[number], admission.round.now + int(done[position])
            usable = fits[self._class_of[number], request.first : int(last[position]) + 1]
            leases = intervals(np.flatnonzero(usable) + request.first)
            offers.append(Promise(admission.jobs[request.job], request.option, at, 0, at, leases))
        return tuple(offers)


def _last_lease(fits: Bools, class_of: Ints, first: Ints, need: Ints) -> Ints:
    """Return the lease by which each request has had as many fitting leases as it needs, or `NONE`.

    `fits` (classes, horizon): the leases in which a request of each demand class fits. `class_of`,
    `first` and `need` (requests,): its demand class, the first lease that it can use, the leases
    that it needs.
    """
    horizon = fits.shape[1]
    last = np.full(len(class_of), NONE, dtype=np.int64)
    for one in np.unique(class_of):
        mine = np.flatnonzero((class_of == one) & (first < horizon))
        counted = np.concatenate([[0], np.cumsum(fits[one])])
        end = np.searchsorted(counted, counted[first[mine]] + need[mine])
        last[mine] = np.where(end <= horizon, end - 1, NONE)
    return last
