"""The admission problem as arrays: alternatives of jobs, their leases, and priority classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.priority_classes import (
    PriorityClass,
    classes_by_precedence,
    classes_by_term,
    lexicographic_weights,
    precedence_of,
)
from placewright.formulations.deadline import parameters
from placewright.instances.derived.leases import work_per_lease
from placewright.instances.documents.deadline import Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.topology.units import MILLION

# The admission problem as arrays: alternatives of jobs, and the capacity of each lease.
#
# Time is divided into leases of equal length; lease 0 is the current one. A job with a promise
# holds all that it asks, or nothing, in each lease.
#
# References
# ----------
# Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21.


BROKEN, ADMITTED = "broken", "admitted"
"""The terms that admission decides, the first before the second."""

NONE = -1
"""The alternative of a job without a promise."""


@dataclass(frozen=True, slots=True, eq=False)
class AdmittedClasses:
    """The priority classes of `admitted`, the highest first."""

    number: Ints  # (jobs,): The class of each job
    # weights, units, asked: Of each class what a unit of value counts, what divides the values of
    # its promises, and what gaps are relative to.
    weights: tuple[int, ...]
    units: tuple[int, ...]
    asked: tuple[int, ...]

    def values(self, problem: Problem, schedule: Schedule) -> list[int]:
        """Return the value of the promises of each class."""
        chosen = schedule.alternative[schedule.alternative != NONE]
        total = np.zeros(len(self.weights), dtype=np.int64)
        np.add.at(total, self.number[problem.job[chosen]], problem.value[chosen])
        return [int(value) for value in total]

    def bound(self, value: int, k: int, values: Sequence[int]) -> int:
        """Return the bound of a class that a bound of the weighted sum proves.

        It holds where the classes before have at least these values.
        """
        rest = value - sum(w * v for w, v in zip(self.weights[:k], values, strict=False))
        return rest // self.weights[k] // self.units[k] * self.units[k]

    def up_to(self, k: int, ratio: int) -> AdmittedClasses:
        """Return the classes up to one, with weights of this ratio; those after count nothing."""
        numbers = range(len(self.weights))
        return replace(self, weights=tuple(ratio ** (k - i) if i <= k else 0 for i in numbers))


@dataclass(frozen=True, slots=True)
class Problem:
    """Jobs that ask for a promise, and their alternatives: an option and a due time each."""

    # (rows, horizon): what each row has in each lease, milli-GPU. A row is a set of GPU models, or
    # what a quota or cap leaves.
    capacity: Ints
    loss: Ints  # (jobs,): value of the promise that a job has already; 0 for one without
    # job, need, first, end, value: (alternatives,): the alternative's job; leases that it needs;
    # the first lease that it can use, and the one after the last, so that it needs `need` of `end -
    # first`; its value. Alternatives of one job lie together, and jobs in order.
    job: Ints
    need: Ints
    first: Ints
    end: Ints
    value: Ints
    # (alternatives, rows): what the alternative asks of each row in each of its leases.
    demand: Ints
    # The priority classes of `admitted`; None where it is one term.
    classes: AdmittedClasses | None = None

    @property
    def jobs(self) -> int:
        """The number of jobs."""
        return len(self.loss)

    @property
    def alternatives(self) -> int:
        """The number of alternatives."""
        return len(self.job)

    @property
    def horizon(self) -> int:
        """The number of leases."""
        return int(self.capacity.shape[1])

    @property
    def counted(self) -> Ints:
        """What each alternative counts in `admitted`, its classes weighted (alternatives,)."""
        if self.classes is None:
            return self.value
        weights = np.array(self.classes.weights, dtype=np.int64)
        counted: Ints = self.value * weights[self.classes.number[self.job]]
        return counted

    @property
    def lost(self) -> Ints:
        """Value that each alternative loses of its job's present promise (alternatives,)."""
        lost: Ints = np.maximum(0, self.loss[self.job] - self.value)
        return lost

    def restrict(self, alternatives: Ints) -> Problem:
        """Return the problem with these alternatives only, in their order."""
        return replace(
            self,
            job=self.job[alternatives],
            need=self.need[alternatives],
            first=self.first[alternatives],
            end=self.end[alternatives],
            value=self.value[alternatives],
            demand=self.demand[alternatives],
        )


@dataclass(frozen=True, slots=True)
class Schedule:
    """An alternative per job, and the leases in which it runs."""

    alternative: Ints  # (jobs,): the alternative of each job, or `NONE`
    # (jobs, horizon): whether the job runs in the lease; exactly `need` of them, inside `first ..
    # end - 1`.
    runs: Bools

    def admitted(self, problem: Problem) -> int:
        """Value of all promises, priority classes weighted."""
        return int(problem.counted[self.alternative[self.alternative != NONE]].sum())

    def broken(self, problem: Problem) -> int:
        """Value lost of the promises that jobs have already."""
        lost = problem.loss.copy()
        has = self.alternative != NONE
        lost[has] = problem.lost[self.alternative[has]]
        return int(lost.sum())

    def usage(self, problem: Problem) -> Ints:
        """Milli-GPU used of each row in each lease (rows, horizon)."""
        has = np.flatnonzero(self.alternative != NONE)
        return usage_of(problem.demand[self.alternative[has]], self.runs[has])

    def fits(self, problem: Problem) -> bool:
        """Whether every job runs as its alternative demands, within all rows."""
        has = np.flatnonzero(self.alternative != NONE)
        alternatives, leases = self.alternative[has], np.arange(problem.horizon)
        inside = (problem.first[alternatives, None] <= leases) & (
            leases < problem.end[alternatives, None]
        )
        runs = self.runs[has]
        return bool(
            (problem.job[alternatives] == has).all()
            and not (runs & ~inside).any()
            and (runs.sum(axis=1) == problem.need[alternatives]).all()
            and not np.delete(self.runs, has, axis=0).any()
            and (self.usage(problem) <= problem.capacity).all()
        )


def usage_of(demand: Ints, runs: Bools) -> Ints:
    """Return the use of each row in each lease (rows, horizon).

    `demand`: (number,) by rows: what each asks in a lease. `runs` (number, horizon): where each
    runs.
    """
    used = np.zeros((demand.shape[1], runs.shape[1]), dtype=np.int64)
    for part in chunks(len(runs), runs.shape[1]):
        used += demand[part].T @ runs[part].astype(np.int64)
    return used


def chunks(number: int, each: int) -> Iterator[slice]:
    """Yield slices of `number` items, `each` array cells apiece, of about `chunk_cells` cells."""
    step = max(1, parameters.PARAMETERS.chunk_cells // max(1, each))
    for first in range(0, number, step):
        yield slice(first, first + step)


def demand_classes_of(demand: Ints) -> tuple[Ints, Ints]:
    """Return the distinct demands (classes, rows), and the class of each alternative.

    Classes are in lexicographic order, as `np.unique` has them, which takes ten times as long.
    """
    order = np.lexsort(demand.T[::-1]) if demand.size else np.arange(len(demand))
    new = np.ones(len(order), dtype=bool)
    for part in chunks(len(order) - 1, demand.shape[1]):
        before, after = demand[order[:-1][part]], demand[order[1:][part]]
        new[1:][part] = (before != after).any(axis=1)
    class_of = np.empty(len(order), dtype=np.int64)
    class_of[order] = np.cumsum(new) - 1
    return demand[order[new]], class_of


def intervals(leases: Ints) -> tuple[tuple[int, int], ...]:
    """Return ascending leases as half-open intervals."""
    breaks = np.flatnonzero(np.diff(leases) > 1)
    first = leases[np.concatenate([[0], breaks + 1])] if len(leases) else leases
    end = leases[np.concatenate([breaks, [-1]])] + 1 if len(leases) else leases
    return tuple(zip(first.tolist(), end.tolist(), strict=True))


# Strict priority: the priority classes by which `admitted` and `best_effort` are written out.
#
# Of `admitted` these are the classes of the jobs that have due times or a promise, of `best_effort`
# those of the jobs that may run now; pinned ones too, since they may be promised something or not.


BEST_EFFORT = "best_effort"

MAX_EXACT_SUM = 1 << 44
"""Beyond this a sum of weighted classes is not exact in a solver, and weights are smaller."""


def priority_classes(round_: Round, term: str) -> tuple[PriorityClass, ...]:
    """Return the classes of a term, highest first; () where it stays one term."""
    if term not in round_.policy.by_class:
        return ()
    jobs = round_.jobs
    counted = ((j, job) for j, job in enumerate(jobs) if counts(round_, term, job))
    return classes_by_precedence(
        counted,
        lambda job, option: _worth(round_, term, job, option),
        lambda j, _: precedence_of(jobs[j]),
        pinned=True,
    )


def classes_of_terms(round_: Round) -> dict[str, PriorityClass]:
    """Return all classes of a round by the terms that count them."""
    return {
        name: one
        for term in (ADMITTED, BEST_EFFORT)
        for name, one in classes_by_term(term, priority_classes(round_, term)).items()
    }


def number_of(classes: tuple[PriorityClass, ...], job: Job) -> int:
    """Return the class that a job is in; 0 of one that counts in none."""
    level = precedence_of(job)
    return next((k for k, one in enumerate(classes) if level in one.precedences), 0)


def counts(round_: Round, term: str, job: Job) -> bool:
    """Whether a job may count in a term."""
    if term == ADMITTED:
        return any(values_of(job))
    ready = None if job.deadline is None else job.deadline.ready
    return job.running is not None or ready is None or ready <= round_.now


def values_of(job: Job) -> Iterator[int]:
    """Yield the values of all promises that a job may have."""
    if job.deadline is not None:
        yield from (due.value for due in job.deadline.due)
        if job.deadline.promise is not None:
            yield job.deadline.promise.value


def work_share(round_: Round, job: Job, option: int) -> int:
    """Return the most that a job adds to `best_effort` with an option, on whichever hosts."""
    leases, deadline = round_.leases, job.deadline
    work = 1000 * leases.horizon * leases.length_s if deadline is None else deadline.work
    pace = Pace() if deadline is None else deadline.pace(option)
    spread = (1, *(most for most, _ in pace.spanning))
    done = max(work_per_lease(pace, leases.length_s, hosts) for hosts in spread)
    return job.weight * min(MILLION, MILLION * done // work)


def units_of(round_: Round, classes: tuple[PriorityClass, ...]) -> tuple[int, ...]:
    """Return of each class a number that divides the values of all its promises."""
    units = [0] * len(classes)
    for job in round_.jobs:
        if counts(round_, ADMITTED, job):
            k = number_of(classes, job)
            units[k] = gcd(units[k], *values_of(job))
    return tuple(max(unit, 1) for unit in units)


def weights_of(classes: tuple[PriorityClass, ...], units: tuple[int, ...]) -> tuple[int, ...]:
    """Return weights with which a sum over the classes of `admitted` is lexicographic.

    So it is as long as the sum is small enough for solvers; else it is nearly so.
    """
    total = [one.pending + one.running for one in classes]
    weights = [1]
    below = total[-1]
    for k in reversed(range(len(classes) - 1)):
        weights.insert(0, below // units[k] + 1)
        below += weights[0] * total[k]
    return tuple(weights) if below <= MAX_EXACT_SUM else lexicographic_weights(classes, {})


def _worth(round_: Round, term: str, job: Job, option: int) -> int:
    """Return what a job is worth in a term."""
    return max(values_of(job)) if term == ADMITTED else work_share(round_, job, option)
