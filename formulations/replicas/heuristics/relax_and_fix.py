"""Replicas to choose among: a point of the program that SCIP finds, the largest datasets first.

All copies at once are too many to find good points among. So few columns are free at first, those
that an optimum of the relaxation has or nearly has, and only the largest datasets are whole: they
are few, most GiB are theirs, and what is left in parts still tells them what the others will need.
Then these stay as they are, and smaller ones are made whole as well (relax and fix). The smallest
are left to who decides where each job runs: in the program classes of jobs may be split.

What is copied so is often all that is missing from a good solution, or it is where the search has
never been. So it need not be better than a solution to be of use: it is crossed with it.

References
----------
Pochet and Wolsey, "Production planning by mixed integer programming", Springer 2006, section 3.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, takewhile

import numpy as np

from placewright.formulations.common.wan.arrays import Bools
from placewright.formulations.replicas.bounds.branch_and_bound import (
    RelaxationResult,
    copy_fractions,
    try_relaxation,
)
from placewright.formulations.replicas.bounds.minimum_remote_reads import (
    least_remote_reads,
    restrict_to_values,
)
from placewright.formulations.replicas.models.integer_program import (
    IntegerProgram,
    Restriction,
    promising_copies,
)
from placewright.formulations.replicas.models.relaxation import build_relaxation
from placewright.formulations.replicas.problem.job_classes import (
    AggregateProblem,
    aggregate_problem,
)
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.problem.restriction import count_for_share, largest_datasets
from placewright.formulations.replicas.solution import Solution
from placewright.formulations.session import Session
from placewright.solver import Arrays

LARGER = 0.96
"""Share of all GiB that datasets have of which copies are whole in the end."""

FREE = (-1.0, 0.03, 0.1, 0.3, 9.0)
"""What a copy that is free may cost beyond its worth, in parts of its size.

None costs so much less than it is worth as the first says, or so much more as the last.
"""

FIRST = 0.75
"""Of the time left, for a better aim than the last one."""

SHARE = 0.5
"""Of the time left, for each step: what follows hangs on the points that SCIP finds first."""

BETTER, LOSS = 2e-3, 1.02
"""Relative gap of a step, and what it may copy in times of the one before."""

LARGE, GROWTH = 33, 2
"""Datasets that are made whole first, and how many times as many each later step."""

TRIES = 2
"""How many of `FREE` are tried first where nothing is overloaded, and more only without a point.

One where something is, as the others then take long.
"""

STAYS, OPEN = 0.9, 0.1
"""What may still be chosen after all steps.

Of all GiB, the share of the largest datasets, which stay, and what others may cost beyond their
worth.
"""


MUCH = 0.4
"""So much of a replica in the relaxation is a place where it may well be."""


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedReplicas:
    """Where replicas may be of plans that copy little.

    Attributes
    ----------
    rank
        What the point overloads, reads from afar and copies at most, like `Solution.objective`.
    chosen : Bools
        (dataset classes, regions): its replicas, and some that it nearly has.
    relaxed : Bools
        (dataset classes, regions): those of which the relaxation that it begins with has much.
    """

    objective: tuple[int, int, float]
    chosen: Bools
    relaxed: Bools


def relax_and_fix(
    problem: Problem, session: Session, solution: Solution, refused: Bools, seconds: float
) -> RestrictedReplicas | None:
    """Return where replicas may be of plans that copy little; None without a point in this time.

    It overloads no more than the solution and reads no more from afar; both are as little as can be
    if such points are found. It may copy more.

    Parameters
    ----------
    refused
        (dataset classes, regions): copies that are not to be made.
    """
    aggregate = aggregate_problem(problem.wan)
    allowed = aggregate.copyable & ~refused[problem.dataset_class]
    end = session.remaining() - seconds
    overload, remote_reads, _ = solution.objective(problem)
    aims = _aims(aggregate, session, {"overload": overload, "remote_reads": remote_reads})

    def replicas(copies: Bools) -> Bools:
        found = problem.current.copy()
        np.logical_or.at(found, problem.dataset_class, copies)
        return found

    for k, holds in enumerate(aims):
        left = max(0.0, session.remaining() - end)
        until = session.remaining() - left * (FIRST if k < len(aims) - 1 else 1.0)
        found = _point(
            session, IntegerProgram.of(restrict_to_values(aggregate, holds)), holds, allowed, until
        )
        if found is not None:
            gib, chosen, much = found
            rank = (holds["overload"], holds["remote_reads"], gib)
            return RestrictedReplicas(rank, replicas(chosen), replicas(much))
    return None


def _aims(
    aggregate: AggregateProblem, session: Session, held: dict[str, int]
) -> list[dict[str, int]]:
    """Return what points are to be no worse than, the best first; what is held is the last."""
    aims = [held]
    if held["overload"]:
        arrays = build_relaxation(aggregate).arrays(
            "overload", {"remote_reads": held["remote_reads"]}
        )
        least = try_relaxation(arrays, session)
        overload = held["overload"] if least is None else least.bound
        if overload < held["overload"]:
            aims.insert(0, {**held, "overload": overload})
    remote_reads = least_remote_reads(aggregate)
    if remote_reads < held["remote_reads"]:
        aims.insert(0, {**aims[0], "remote_reads": remote_reads})
    return aims


def _point(
    session: Session,
    integer_program: IntegerProgram,
    holds: Mapping[str, int],
    allowed: Bools,
    end: float,
) -> tuple[float, Bools, Bools] | None:
    """Return the GiB that a point copies, and which copies (datasets, regions) to choose among.

    Those that it has or nearly has, and those of which the relaxation has much. None without a
    point when so many seconds are left.
    """
    arrays = integer_program.relaxation.arrays("copies", holds)
    barred = np.zeros(arrays.columns, dtype=np.bool_)
    barred[
        integer_program.relaxation.replica[integer_program.relaxation.aggregate.copyable & ~allowed]
    ] = True
    arrays = arrays.without_columns(barred)
    root = try_relaxation(arrays, session)
    if root is None:
        return None
    aggregate = integer_program.relaxation.aggregate
    whole_problem = float(aggregate.wan.size @ aggregate.copyable.sum(axis=1))
    fixing = _RelaxAndFix(session, integer_program, holds, allowed, end, arrays, root)
    last = max(1, count_for_share(aggregate, LARGER))
    run_in_background = (LARGE * GROWTH**step for step in count())
    numbers = [*takewhile(lambda number: number < last, run_in_background), last]
    reached, least = None, FREE[0]
    tries = 1 if holds["overload"] else TRIES
    for number, beyond in enumerate(FREE):
        if number >= tries and (reached is not None or not fixing.exhausted):
            break
        most = whole_problem if reached is None else reached * (1 - BETTER)
        found = fixing.decide(numbers[0], beyond, most)
        if found is not None:
            reached, least = found, beyond
    if reached is None:
        return None
    settled = numbers[0]
    for number in numbers[1:]:
        for beyond in sorted({least, max(least, FREE[1])}):
            found = fixing.decide(number, beyond, reached * LOSS, settled)
            if found is not None or not fixing.exhausted:
                break
        if found is not None:
            reached, settled = found, number
    stays = largest_datasets(aggregate, min(settled, count_for_share(aggregate, STAYS)))[:, None]
    free = fixing.free(max(OPEN, least))
    copies: Bools = np.where(stays, fixing.copied, fixing.copied | free)
    return (
        reached,
        copies,
        allowed & (copy_fractions(integer_program.relaxation, root.point) > MUCH),
    )


class _RelaxAndFix:
    """A program of which ever more is made whole.

    Attributes
    ----------
    copied : Bools
        (datasets, regions): copies of the last point, by halves at least.
    exhausted : bool
        Whether the last step ended without a point because there is none.
    """

    def __init__(
        self,
        session: Session,
        integer_program: IntegerProgram,
        holds: Mapping[str, int],
        allowed: Bools,
        end: float,
        arrays: Arrays,
        root: RelaxationResult,
    ) -> None:
        self._session, self._whole, self._end = session, integer_program, end
        self._holds, self._allowed = holds, allowed
        self._arrays, self._root = arrays, root
        self.copied, self.exhausted = np.zeros_like(allowed), False

    def free(self, beyond: float) -> Bools:
        """Return copies (datasets, regions) that cost so much more than their worth at most.

        It is counted in parts of their size.
        """
        worth = promising_copies(self._whole.relaxation, self._arrays, self._root, beyond)
        free: Bools = self._allowed & worth
        return free

    def decide(self, large: int, beyond: float, most: float, kept: int = 0) -> float | None:
        """Make the largest datasets whole, and return the GiB copied; None without a point.

        Parameters
        ----------
        large, kept
            So many of the largest datasets are whole, and stay as they are.
        beyond
            As in `free`.
        most
            GiB that may be copied.
        """
        self.exhausted = False
        left = self._session.remaining() - self._end
        if left <= 0:
            return None
        integer_program, aggregate = self._whole, self._whole.relaxation.aggregate
        stays = largest_datasets(aggregate, kept)[:, None]
        free = (self.free(beyond) | self.copied) & ~stays
        choice = Restriction(free, self.copied & stays, largest_datasets(aggregate, large))
        outcome = self._session.optimise(
            integer_program.arrays("copies", self._holds, choice),
            most=SHARE * left,
            gap=BETTER,
            cutoff=most,
        )
        if outcome is None or outcome.values is None:
            bound = None if outcome is None else outcome.bound
            self.exhausted = bound is not None and bound >= most * (1 - BETTER)
            return None
        point = integer_program.relaxation.replicas(outcome.values)
        self.copied = self._allowed & (point > 0.5)
        return outcome.objective
