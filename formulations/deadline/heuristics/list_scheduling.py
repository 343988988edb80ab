"""List scheduling: leases for selected alternatives, by priority rules, with repair.

Three rules are tried until one of them drops no job. `backwards` and `forwards` go lease by lease
and schedule the jobs of least slack (usable leases less leases still needed). `gangs` goes job by
job, the largest gang first, then the least slack, in the latest leases that fit. Dropped jobs are
then inserted by ejection chains; one that has a promise already may displace jobs that lose less.

`backwards` is exact where every job asks one GPU of one row and all may begin at once: seen from
the horizon all jobs are due together, and the longest remaining work first is optimal whatever the
capacity of each lease.

References
----------
McNaughton, "Scheduling with deadlines and loss functions", Management Science 1959.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.heuristics.ejection_chains import EjectionChains
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule, chunks
from placewright.formulations.deadline.problem.schedule import ScheduleState
from placewright.formulations.deadline.problem.slack import Slack

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

    Parameters
    ----------
    alternative
        (jobs,): the alternative of each job, or `NONE`.
    orders
        Tried one after the other until nothing is dropped; the best schedule counts: the least
        broken, then the most admitted. One at least.
    work_limit
        Of `EjectionChains`, for each order.
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
    needed, window = (
        problem.demand[alternative],
        slice(problem.first[alternative], problem.end[alternative]),
    )
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
