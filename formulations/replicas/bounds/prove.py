"""Lower bounds of the terms of policy `replicas`, proven one by one with earlier terms held.

Any multipliers of the LP relaxation (`models/relaxation.py`) prove a certified bound in whole
numbers by weak duality, and so do those of the nodes of a branch and bound (`branch_and_bound.py`).
`docs/formulations/replicas.md` says what the relaxations leave out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from placewright.formulations.bound_arithmetic import SHARPNESS, near
from placewright.formulations.plan_messages import Bound
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.bounds.data_relaxation import data_relaxation, is_beyond
from placewright.formulations.replicas.bounds.target import (
    BoundTarget,
    has_few_copies,
    is_large,
)
from placewright.formulations.replicas.models.relaxation import Relaxation, build_relaxation
from placewright.formulations.replicas.models.solve_relaxation import (
    try_relaxation,
)
from placewright.formulations.replicas.problem.job_classes import (
    AggregateProblem,
    aggregate_problem,
)
from placewright.formulations.replicas.problem.minimum_remote_reads import (
    least_remote_reads,
    restrict_to_values,
)
from placewright.formulations.replicas.problem.problem import DATA, HOMELESS, Problem
from placewright.formulations.replicas.problem.restriction import (
    largest_datasets,
    restrict_to_datasets,
)
from placewright.formulations.session import Session

if TYPE_CHECKING:
    from placewright.formulations.replicas.bounds.replica_tree import ReplicaTree


def prove_bounds(
    problem: Problem, session: Session, held: Mapping[str, int], tree: ReplicaTree | None = None
) -> Iterator[Bound]:
    """Yield bounds of every term, the quick ones first, then better ones until the time is over.

    It ends early if all terms of the round's best plan are proven.

    Parameters
    ----------
    held
        Values of a plan by term. Each term is bounded among plans that are no worse in those
        before it.
    tree
        A replica tree that was grown before, at the values that it holds.
    """
    if is_beyond(problem):
        yield from (Bound(term, 0, certified=True) for term in problem.terms)
        return
    targets = _Targets(problem, session, held)
    yield from targets.immediate_bounds()
    if session.expired():
        return
    spare = parameters.PARAMETERS.last_terms_time_share * session.remaining()
    yield from targets.largest_dataset_bounds()
    data = targets.data_target(tree)
    hard = [] if data is None else [data]
    for target in hard:
        yield target.relaxation_bound
    for term in ("overload", *DATA):
        # Where a tree answers it, no more comes of a program of its own.
        answered = data is not None and data.uses_tree and term == data.term
        if not answered and (found := targets.target_of(term)) is not None:
            yield found.relaxation_bound
            if term in DATA and term in held:
                hard.append(found)
    yield from _improve_targets(hard, session, spare)
    for term in ("imbalance", "hottest"):
        if (found := targets.target_of(term)) is not None:
            yield found.relaxation_bound


class _Targets:
    """The terms to bound at the values of a plan, and the bounds that are known at once."""

    def __init__(self, problem: Problem, session: Session, held: Mapping[str, int]) -> None:
        self.terms, self.session, self.held = problem.terms, session, held
        self.aggregate = aggregate_problem(problem.wan)
        trivial = _trivial_bounds(self.aggregate)
        self._proven = {term: trivial.get(term, 0) for term in self.terms}
        self._programs: dict[tuple[str, ...], Relaxation] = {}

    def immediate_bounds(self) -> Iterator[Bound]:
        """Yield trivial bounds, and those of an LP without data for `overload` and `hottest`."""
        for term in self.terms:
            yield Bound(term, self._proven[term], certified=True)
        coarse = build_relaxation(
            restrict_to_datasets(self.aggregate, np.zeros_like(self.aggregate.has_replica))
        )
        for term in [name for name in ("overload", "hottest") if name in self.terms]:
            found = try_relaxation(coarse.arrays(term, {}), self.session)
            if found is not None:
                self._proven[term] = max(self._proven[term], found.bound)
                yield Bound(term, self._proven[term], certified=True)

    def largest_dataset_bounds(self) -> Iterator[Bound]:
        """Yield bounds of the data terms by the largest datasets alone, in very large rounds."""
        for term in self._data if is_large(self.aggregate) else ():
            if self._reached(term):
                continue
            few, known = self._restricted(term), self._earlier_values(term)
            few = restrict_to_datasets(
                few, largest_datasets(few, parameters.PARAMETERS.restricted_datasets)
            )
            found = try_relaxation(
                build_relaxation(few).arrays(term, known),
                self.session,
                parameters.PARAMETERS.restricted_time_share,
            )
            if found is not None:
                yield Bound(term, found.bound, tuple(known.items()), certified=True)

    def data_target(self, tree: ReplicaTree | None) -> BoundTarget | None:
        """Return the target of the last data term by the sum of both, in rounds with many copies.

        One tree then serves the search, for which remote reads are still open, and the bound. None
        without a plan, a solver or time, or where the trivial bounds prove the plan.
        """
        if not set(DATA) <= self.held.keys():
            return None
        first, last = self._data
        known = self._earlier_values(first)
        goal, holds = float(self.held[first] + self.held[last]), tuple(known.items())
        if near(self._trivial_data_bound, goal, SHARPNESS) or has_few_copies(self.aggregate):
            return None
        less = ((first, self.held[first]),)
        if tree is not None and tree.holds == holds:
            same = tree.relaxation, tree.arrays, tree.root
            return BoundTarget(*same, goal, last, holds, less, tree)
        found = data_relaxation(restrict_to_values(self.aggregate, known), self.session, known)
        return None if found is None else BoundTarget(*found, goal, last, holds, less)

    def target_of(self, term: str) -> BoundTarget | None:
        """Return the target of a term; None if the round lacks it or it is proven."""
        # The last data term gets a certified bound even where a solver claims that all is proven.
        proven = self.session.proven and term not in self._data[-1:]
        if term not in self.terms or proven or self._reached(term):
            return None
        known = self._earlier_values(term)
        matters = self._restricting_terms(term)
        if matters not in self._programs:
            self._programs[matters] = build_relaxation(self._restricted(term))
        relaxation = self._programs[matters]
        arrays = relaxation.arrays(term, known)
        root = try_relaxation(arrays, self.session)
        if root is None:
            return None
        goal = self.held.get(term, np.inf)
        return BoundTarget(relaxation, arrays, root, goal, term, tuple(known.items()))

    @property
    def _data(self) -> list[str]:
        """The data terms of the round, in its order."""
        return [name for name in self.terms if name in DATA]

    @property
    def _trivial_data_bound(self) -> int:
        """The trivial bound of the sum of both data terms."""
        return sum(self._proven[name] for name in self._data)

    def _earlier_values(self, term: str) -> dict[str, int]:
        """Return the plan's values of the terms before one."""
        before = self.terms[: self.terms.index(term)]
        return {name: self.held[name] for name in before if name in self.held}

    def _restricting_terms(self, term: str) -> tuple[str, ...]:
        """Return the terms before one whose values restrict the aggregate problem."""
        return tuple(
            name for name in ("overload", "remote_reads") if name in self._earlier_values(term)
        )

    def _restricted(self, term: str) -> AggregateProblem:
        return restrict_to_values(
            self.aggregate, {name: self.held[name] for name in self._restricting_terms(term)}
        )

    def _reached(self, term: str) -> bool:
        return near(self._proven[term], self.held.get(term, np.inf), SHARPNESS)


def _improve_targets(
    targets: Sequence[BoundTarget], session: Session, spare: float
) -> Iterator[Bound]:
    """Yield ever better bounds, target by target, until a number of seconds is left."""
    least: dict[str, int] = {}
    for left, target in zip(range(len(targets), 0, -1), targets, strict=True):
        if session.proven:
            return
        share = max(1 / left, parameters.PARAMETERS.data_sum_time_share if target.less else 0.0)
        until = spare + max(0.0, session.remaining() - spare) * (1 - share)
        for step in target.improve(
            session,
            (1 - parameters.PARAMETERS.last_terms_time_share) * share,
            least.get(target.term, 0),
        ):
            yield target.bound(step)
            if target.less:
                least[target.term] = step.bound - sum(value for _, value in target.less)
            late = session.expired(until)
            if late or session.proven or near(step.bound, target.goal, session.gap):
                break


def _trivial_bounds(aggregate: AggregateProblem) -> dict[str, int]:
    """Return the overload of jobs that cannot have a home, and the least remote reads."""
    return {
        "overload": HOMELESS * int(aggregate.demand[aggregate.homeless].sum()),
        "remote_reads": least_remote_reads(aggregate),
    }
