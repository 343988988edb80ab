"""Rules that schedulers go by when jobs ask for deadlines, as functions from arrays to schedules.

Each is written from its description and may be given a deadline after its best one where a job has
several. Jobs that have a promise go first under every rule. Where a description leaves a choice, it
is made in favour of the rule: no lease is spent on a job that is refused in the end.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21. Gu
et al., "ElasticFlow: an elastic serverless training platform for distributed deep learning",
ASPLOS'23.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule

__all__ = [
    "RULES",
    "Rule",
    "by_density",
    "chronus",
    "chronus_at_once",
    "earliest_deadline",
    "least_laxity",
    "least_share",
]

Rule: TypeAlias = Callable[[Problem], Schedule]


@dataclass(slots=True)
class _Leases:
    """A schedule that grows: what is free, and who runs when."""

    problem: Problem
    free: Ints = field(init=False)
    alternative: Ints = field(init=False)
    runs: Bools = field(init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        self.free = problem.capacity.copy()
        self.alternative = np.full(problem.jobs, NONE, dtype=np.int64)
        self.runs = np.zeros((problem.jobs, problem.horizon), dtype=np.bool_)

    def open(self, alternative: int) -> Ints:
        """Return the leases of an alternative's window in which it fits."""
        problem = self.problem
        first, end = problem.first[alternative], problem.end[alternative]
        fits = (self.free[:, first:end] >= problem.demand[alternative][:, None]).all(axis=0)
        found: Ints = first + np.flatnonzero(fits)
        return found

    def give(self, alternative: int, leases: Ints) -> None:
        """Let an alternative's job run in these leases."""
        job = self.problem.job[alternative]
        self.alternative[job] = alternative
        self.runs[job, leases] = True
        self.free[:, leases] -= self.problem.demand[alternative][:, None]

    def done(self) -> Schedule:
        """Return the schedule."""
        return Schedule(self.alternative, self.runs)


def _alternatives(problem: Problem) -> list[Ints]:
    """Return the alternatives of each job, the best first and then the earliest deadline."""
    order = np.lexsort((problem.end, -problem.value, problem.job))
    edges = np.searchsorted(problem.job[order], np.arange(1, problem.jobs))
    return np.split(order, edges)


def _size(problem: Problem) -> Ints:
    """Return milli-GPU of each alternative: what it asks of the row of which it asks most."""
    size: Ints = problem.demand.max(axis=1, initial=0)
    return size


def earliest_deadline(problem: Problem) -> Schedule:
    """Take jobs by their deadline, each in its earliest free leases (Jackson's rule).

    One that would be late goes on with its next deadline, in the order of that.
    """
    made, alternatives = _Leases(problem), _alternatives(problem)
    fresh = problem.loss == 0
    queue = [
        (bool(fresh[job]), int(problem.end[of[0]]), job, 0)
        for job, of in enumerate(alternatives)
        if len(of)
    ]
    heapq.heapify(queue)
    while queue:
        new, _, job, which = heapq.heappop(queue)
        alternative = int(alternatives[job][which])
        leases = made.open(alternative)
        if len(leases) >= problem.need[alternative]:
            made.give(alternative, leases[: problem.need[alternative]])
        elif which + 1 < len(alternatives[job]):
            end = int(problem.end[alternatives[job][which + 1]])
            heapq.heappush(queue, (new, end, job, which + 1))
    return made.done()


def least_laxity(problem: Problem) -> Schedule:
    """Run in each lease, one after another, the jobs with the least time to spare.

    A job with too little time left goes on with its next deadline. One that misses its last is
    refused, and time begins anew without it; those refused get what is left in the end.
    """
    alternatives = _alternatives(problem)
    left = np.array([len(of) > 0 for of in alternatives], dtype=np.bool_)
    while True:
        runs, alternative = _laxity(problem, alternatives, left)
        if not (late := left & (alternative == NONE)).any():
            break
        left &= ~late
    made = _Leases(problem)
    for job in np.flatnonzero(left).tolist():
        made.give(int(alternative[job]), np.flatnonzero(runs[job]))
    return _rest(made, alternatives, [job for job in range(problem.jobs) if not left[job]])


def _laxity(problem: Problem, alternatives: list[Ints], taking: Bools) -> tuple[Bools, Ints]:
    """Go through the leases once; return who runs, and the alternatives of those in time."""
    jobs = np.flatnonzero(taking)
    at = np.array([alternatives[job][0] for job in jobs], dtype=np.int64)
    done = np.zeros(len(jobs), dtype=np.int64)
    later = [list(map(int, alternatives[job][1:])) for job in jobs]
    runs = np.zeros((problem.jobs, problem.horizon), dtype=np.bool_)
    lost = np.zeros(len(jobs), dtype=np.bool_)
    for lease in range(problem.horizon):
        spare = problem.end[at] - np.maximum(lease, problem.first[at]) - (problem.need[at] - done)
        for i in np.flatnonzero((spare < 0) & ~lost & (done < problem.need[at])).tolist():
            while spare[i] < 0 and later[i]:
                # Another option does another amount of work in a lease, so it begins again.
                next_ = later[i].pop(0)
                if _same(problem, at[i], next_):
                    at[i] = next_
                    spare[i] = problem.end[next_] - max(lease, problem.first[next_])
                    spare[i] -= problem.need[next_] - done[i]
            lost[i] = spare[i] < 0
        ready = np.flatnonzero(~lost & (problem.first[at] <= lease) & (done < problem.need[at]))
        order = ready[np.lexsort((jobs[ready], spare[ready], problem.loss[jobs[ready]] == 0))]
        chosen = order[_fitting(problem.demand[at[order]], problem.capacity[:, lease])]
        done[chosen] += 1
        runs[jobs[chosen], lease] = True
    lost |= done < problem.need[at]
    alternative = np.full(problem.jobs, NONE, dtype=np.int64)
    alternative[jobs[~lost]] = at[~lost]
    return runs, alternative


def _same(problem: Problem, alternative: int, other: int) -> bool:
    """Whether two alternatives of a job differ in their deadlines only."""
    return bool(
        problem.need[alternative] == problem.need[other]
        and (problem.demand[alternative] == problem.demand[other]).all()
    )


def _fitting(demand: Ints, capacity: Ints) -> Bools:
    """Return which of the rows of `demand` are taken, in their order, each that still fits."""
    free = capacity.copy()
    taken = np.zeros(len(demand), dtype=np.bool_)
    left = np.flatnonzero((demand <= free).all(axis=1))
    while len(left):
        fits = (np.cumsum(demand[left], axis=0) <= free).all(axis=1)
        number = len(left) if fits.all() else int(np.argmin(fits))
        taken[left[:number]] = True
        free -= demand[left[:number]].sum(axis=0)
        left = left[number:]
        left = left[(demand[left] <= free).all(axis=1)]
    return taken


def _rest(made: _Leases, alternatives: list[Ints], jobs: Iterable[int]) -> Schedule:
    """Give jobs, in their order, the first alternative that fits, in its latest free leases."""
    for job in jobs:
        for alternative in alternatives[job].tolist():
            leases = made.open(alternative)
            if len(leases) >= made.problem.need[alternative]:
                made.give(alternative, leases[-made.problem.need[alternative] :])
                break
    return made.done()


def chronus(problem: Problem) -> Schedule:
    """Admit as Chronus's artifact does when jobs arrive one after another, in their order.

    Each gets the latest leases with capacity before its best deadline. A job that finds none is
    given the earliest end before which it fits, found by bisection, if a later deadline of its own
    allows that.
    """
    return _latest_first(problem, np.arange(problem.jobs))


def chronus_at_once(problem: Problem) -> Schedule:
    """Admit as Chronus's artifact does when all jobs arrive at once.

    As `chronus`, the largest gang first, then least slack, then the latest deadline.
    """
    alternatives = _alternatives(problem)
    jobs = np.array([job for job, of in enumerate(alternatives) if len(of)], dtype=np.int64)
    best = np.array([alternatives[job][0] for job in jobs], dtype=np.int64)
    slack = problem.end[best] - problem.first[best] - problem.need[best]
    return _latest_first(
        problem, jobs[np.lexsort((-problem.end[best], slack, -_size(problem)[best]))]
    )


def _latest_first(problem: Problem, jobs: Ints) -> Schedule:
    made, alternatives = _Leases(problem), _alternatives(problem)
    for job in jobs[np.argsort(problem.loss[jobs] == 0, kind="stable")].tolist():
        for i, alternative in enumerate(alternatives[job].tolist()):
            leases, need = made.open(alternative), problem.need[alternative]
            if len(leases) >= need:
                # Packing latest first before the earliest feasible end fills all leases before.
                made.give(alternative, leases[:need] if i else leases[-need:])
                break
    return made.done()


def by_density(problem: Problem) -> Schedule:
    """Take alternatives by value per milli-GPU and lease; the best of three choices of leases.

    The earliest leases, the latest ones, or those that have most left, the latest first.
    """
    size = _size(problem)
    density = problem.value / (size * problem.need)
    order = np.lexsort((-density, problem.loss[problem.job] == 0)).tolist()
    found = [_greedily(problem, order, pick) for pick in ("earliest", "latest", "emptiest")]
    return max(found, key=lambda made: (-made.broken(problem), made.admitted(problem)))


def _greedily(problem: Problem, order: list[int], pick: str) -> Schedule:
    made = _Leases(problem)
    for alternative in order:
        if made.alternative[problem.job[alternative]] != NONE:
            continue
        leases, need = made.open(alternative), problem.need[alternative]
        if len(leases) < need:
            continue
        if pick == "emptiest":
            asked = problem.demand[alternative] > 0
            left = made.free[asked][:, leases].min(axis=0, initial=np.iinfo(np.int64).max)
            leases = leases[np.lexsort((leases, left))]
        made.give(alternative, leases[:need] if pick == "earliest" else leases[-need:])
    return made.done()


def least_share(problem: Problem) -> Schedule:
    """Admit as ElasticFlow does: a job that arrives has the least GPUs that make its deadline.

    Jobs in their order, alternatives by the GPUs that they ask, and then by value; each in its
    earliest free leases, or each in its latest, whichever admits more. A job has the same GPUs in
    all its leases, which the paper does not ask.
    """
    size = _size(problem)
    order = np.lexsort((-problem.value, size, problem.job, problem.loss[problem.job] == 0)).tolist()
    found = [_greedily(problem, order, pick) for pick in ("earliest", "latest")]
    return max(found, key=lambda made: (-made.broken(problem), made.admitted(problem)))


RULES: Mapping[str, Rule] = {
    "earliest deadline": earliest_deadline,
    "least laxity": least_laxity,
    "Chronus": chronus,
    "Chronus, at once": chronus_at_once,
    "density": by_density,
}
"""The rules by the names that rows call them."""
