"""Right shift: the same promises, with as little as possible in the current lease (ALAP).

Work that later leases can hold need not run now. So leases are filled from the horizon
backwards, around as many as possible of the running jobs that would otherwise be preempted.
Then single jobs are exchanged: jobs that should run now move in, where there is capacity or in
place of others; and the costliest of the others move out, to a later lease that is free or
freed by ejection chains. Each change lowers the cost of the current lease. A heuristic.

Headroom is capacity of later leases that is reserved for jobs yet to come, which pulls work into
the current lease. It is at most a share of the slack that promises leave before each lease. Where
the promises do not fit beside it, it is halved twice, then dropped.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.heuristics.list_scheduling import (
    EjectionChains,
    schedule_by_lease,
)
from placewright.formulations.deadline.problem.leases import ScheduleState, Slack
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule, chunks

THOUSAND = 1000


def right_shift(
    problem: Problem,
    schedule: Schedule,
    cost: Ints,
    headroom: int = 0,
    *,
    work_limit: int | None = None,
) -> Schedule:
    """Return a schedule of the same promises with the least cost of the current lease found.

    `schedule`: fits. `cost` (jobs,): of running in the current lease; negative where it is better
    to run. The sum over the jobs that run there is what counts. `headroom`: thousandths of the
    capacity of later leases that are left free where that is possible. `work_limit`: of
    `EjectionChains`, in all.
    """
    for headroom_share in (headroom, headroom // 2, headroom // 4):
        state = _reschedule(
            problem, schedule, cost, _with_headroom(problem, schedule, headroom_share)
        )
        if state is not None:
            break
    else:
        state = _reschedule(problem, schedule, cost, problem.capacity)
    if state is None:
        state = ScheduleState.of(problem, schedule)
    current = _CurrentLease(state, cost, work_limit)
    current.move_in()
    current.move_out()
    current.exchange()
    current.move_in()
    costlier = int(cost[state.runs[:, 0]].sum()) > int(cost[schedule.runs[:, 0]].sum())
    # Headroom justifies its cost; without it a schedule is changed for the better only.
    return schedule if costlier and not headroom else state.schedule()


def _with_headroom(problem: Problem, schedule: Schedule, headroom_share: int) -> Ints:
    """Return the capacity less headroom, which is at most a share of the slack (rows, horizon)."""
    part = problem.capacity * headroom_share // THOUSAND
    part[:, :1] = 0
    wanted = part.cumsum(axis=1)
    slack = np.maximum(0, Slack(problem, schedule.alternative).residual)
    most = np.minimum(
        wanted, (parameters.PARAMETERS.max_headroom_of_slack_share * slack).astype(np.int64)
    )
    most = np.minimum.accumulate(most[:, ::-1], axis=1)[:, ::-1]
    # As much as is wanted of each lease, until some prefix has no more to spare.
    total = wanted + np.minimum.accumulate(most - wanted, axis=1)
    return problem.capacity - np.diff(total, prepend=0, axis=1)


def _reschedule(
    problem: Problem, schedule: Schedule, cost: Ints, capacity: Ints
) -> ScheduleState | None:
    """Schedule all leases anew around as many preferred jobs as possible; None: some lost.

    They stay in the order of their cost; how many can is found by bisection.
    """
    alternatives = schedule.alternative[schedule.alternative != NONE]
    jobs = problem.job[alternatives]
    stay_preferred = np.flatnonzero((cost[jobs] < 0) & (problem.first[alternatives] == 0))
    stay_preferred = stay_preferred[np.argsort(cost[jobs[stay_preferred]], kind="stable")]
    used = problem.demand[alternatives[stay_preferred]].cumsum(axis=0)
    stay_preferred = stay_preferred[(used <= capacity[:, 0]).all(axis=1)]
    state = _schedule_around(problem, alternatives, stay_preferred[:0], capacity)
    fewest, most = 0, len(stay_preferred)
    tried = most
    while state is not None and fewest < most:
        found = _schedule_around(problem, alternatives, stay_preferred[:tried], capacity)
        if found is None:
            most = tried - 1
        else:
            state, fewest = found, tried
        tried = (fewest + most + 1) // 2
    return state


def _schedule_around(
    problem: Problem, alternatives: Ints, stay: Ints, capacity: Ints
) -> ScheduleState | None:
    """Schedule all leases around those, by position, that keep the current lease; None: some lost.

    Where that is needed, less than nothing is free in a lease of the schedule state.
    """
    need, first, left = problem.need.copy(), problem.first.copy(), capacity.copy()
    need[alternatives[stay]] -= 1
    first[alternatives[stay]] = 1
    left[:, 0] -= problem.demand[alternatives[stay]].sum(axis=0)
    rest = ScheduleState(replace(problem, need=need, first=first), left)
    lost = schedule_by_lease(rest, alternatives, "backwards")
    if len(lost) > parameters.PARAMETERS.max_inserted_share * len(alternatives):
        return None
    rest.residual += problem.capacity - capacity
    chains = EjectionChains(
        rest,
        parameters.PARAMETERS.max_chain_cells // parameters.PARAMETERS.num_right_shift_schedules,
    )
    if not all(chains.insert(alternative) for alternative in lost.tolist()):
        return None
    schedule = rest.schedule()
    schedule.runs[problem.job[alternatives[stay]], 0] = True
    return ScheduleState.of(problem, schedule, capacity)


class _CurrentLease:
    """The current lease of a schedule state, made cheaper by moves."""

    def __init__(self, state: ScheduleState, cost: Ints, work_limit: int | None) -> None:
        self.state, self.cost = state, cost
        self.chains = EjectionChains(state, work_limit)

    def move_in(self) -> None:
        """Move jobs of negative cost into the current lease, each from one of its later leases."""
        state, cost = self.state, self.cost
        outside = np.flatnonzero((cost < 0) & state.idle[:, 0] & state.runs.any(axis=1))
        for job in outside[np.argsort(cost[outside], kind="stable")].tolist():
            if state.fits(int(state.demand_class[state.alternative[job]]))[0]:
                self._move(job, int(np.flatnonzero(state.runs[job])[-1]), 0)
            elif not self._exchange_for_dearer(job):
                self._displace(job)

    def move_out(self) -> None:
        """Move jobs of positive cost out of the current lease, the costliest first."""
        state, cost = self.state, self.cost
        inside = np.flatnonzero((cost > 0) & state.runs[:, 0])
        # No job moves back in, so a lease without a chain has none later.
        dead_ends = np.zeros((len(state.class_demand), state.problem.horizon), dtype=np.bool_)
        dead_ends[:, 0] = True
        for job in inside[np.argsort(-cost[inside], kind="stable")].tolist():
            demand_class = int(state.demand_class[state.alternative[job]])
            less = (state.class_demand <= state.class_demand[demand_class]).all(axis=1)
            dead_ends[demand_class] = dead_ends[less].any(axis=0)
            state.unassign(job, 0)
            if self.chains.extend(job, 1, dead_ends[demand_class]) is None:
                state.assign(job, 0)

    def exchange(self) -> None:
        """Exchange costlier jobs of the current lease for cheaper ones."""
        inside = np.flatnonzero((self.cost > 0) & self.state.runs[:, 0])
        for job in inside[np.argsort(-self.cost[inside], kind="stable")].tolist():
            if self.chains.work_left > 0:
                self._exchange_for_cheaper(job)

    def _exchange_for_cheaper(self, job: int) -> None:
        state, cost = self.state, self.cost
        demand = state.class_demand[state.demand_class[state.alternative[job]]]
        others = np.flatnonzero(state.idle[:, 0] & (cost < cost[job]) & (state.alternative != NONE))
        demands = state.class_demand[state.demand_class[state.alternative[others]]]
        fits = (state.residual[:, 0] + demand >= demands).all(axis=1)
        others, leases = others[fits], np.flatnonzero(state.idle[job])
        self.chains.work_left -= len(others) * len(leases)
        found = self._find_exchange(others[np.argsort(cost[others], kind="stable")], leases, demand)
        if found is not None:
            other, lease = found
            state.unassign(job, 0)
            self._move(other, lease, 0)
            state.assign(job, lease)

    def _find_exchange(self, others: Ints, leases: Ints, demand: Ints) -> tuple[int, int] | None:
        """Return the first job that leaves capacity for `demand` in one of its leases.

        And the first of those leases.
        """
        state = self.state
        for part in chunks(len(others), len(leases)):
            jobs = others[part]
            leaves_enough = state.runs[np.ix_(jobs, leases)]
            demands = state.class_demand[state.demand_class[state.alternative[jobs]]]
            for row, each in enumerate(demand.tolist()):
                leaves_enough &= state.residual[row, leases] + demands[:, row, None] >= each
            able = np.flatnonzero(leaves_enough.any(axis=1))
            if len(able):
                return int(jobs[able[0]]), int(leases[leaves_enough[able[0]].argmax()])
        return None

    def _move(self, job: int, left: int, entered: int) -> None:
        self.state.unassign(job, left)
        self.state.assign(job, entered)

    def _exchange_for_dearer(self, job: int) -> bool:
        """Exchange a job with a costlier one of the current lease; return whether there was one."""
        state = self.state
        demands = state.class_demand[state.demand_class[state.alternative]]
        others = np.flatnonzero(state.runs[:, 0] & (self.cost > self.cost[job]))
        others = others[(state.residual[:, 0] + demands[others] >= demands[job]).all(axis=1)]
        leases = np.flatnonzero(state.runs[job])
        left = state.residual[:, leases] + demands[job][:, None]
        others = others[np.argsort(-self.cost[others], kind="stable")]
        for part in chunks(len(others), len(leases)):
            fits = state.idle[np.ix_(others[part], leases)]
            for row, residual in enumerate(left):
                fits &= residual >= demands[others[part], row, None]
            able = np.flatnonzero(fits.any(axis=1))
            if len(able):
                lease = int(leases[fits[able[0]].argmax()])
                state.unassign(job, lease)
                self._move(int(others[part][able[0]]), 0, lease)
                state.assign(job, 0)
                return True
        return False

    def _displace(self, job: int) -> None:
        """Move a job in and several costlier ones out."""
        state, cost = self.state, self.cost
        demand_class = int(state.demand_class[state.alternative[job]])
        lease = int(np.flatnonzero(state.runs[job])[-1])
        state.unassign(job, lease)
        others = np.flatnonzero(state.runs[:, 0] & (cost > cost[job]))
        others = others[np.argsort(-cost[others], kind="stable")]
        fits, row = state.fits_by_class()
        able_to_move = state.idle[others] & fits[row[state.demand_class[state.alternative[others]]]]
        moved: list[tuple[int, int]] = []
        change = int(cost[job])
        for other in others[able_to_move.any(axis=1)].tolist():
            free = state.idle[other] & state.fits(int(state.demand_class[state.alternative[other]]))
            if change - cost[other] < 0 and free.any():
                change -= int(cost[other])
                moved.append((other, int(np.flatnonzero(free)[-1])))
                self._move(other, 0, moved[-1][1])
            if state.fits(demand_class)[0]:
                state.assign(job, 0)
                return
        for other, place in reversed(moved):
            self._move(other, place, 0)
        state.assign(job, lease)
