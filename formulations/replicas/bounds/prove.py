"""Lower bounds of the terms of policy `replicas`, proven one by one with earlier terms held."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from placewright.array_types import Bools, Floats
from placewright.formulations.plan_messages import SHARPNESS, Bound, near, proven_whole
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.machine_code import DESCENTS
from placewright.formulations.replicas.models.mip import IntegerProgram
from placewright.formulations.replicas.models.relaxation import (
    ProvenBound,
    Relaxation,
    RelaxationResult,
    build_relaxation,
    solve_relaxation,
    try_relaxation,
)
from placewright.formulations.replicas.problem.compile import (
    AggregateProblem,
    aggregate_problem,
    datasets_by_size,
    largest_datasets,
    least_remote_reads,
    restrict_to_datasets,
    restrict_to_values,
)
from placewright.formulations.replicas.problem.problem import DATA, DATA_SUM, HOMELESS, Problem
from placewright.formulations.session import Session
from placewright.solver import Arrays, SolveOptions, certified_bound, multipliers
from placewright.solver.arrays import csr

if TYPE_CHECKING:
    from placewright.formulations.replicas.bounds.replica_tree import ReplicaTree


# Branch and bound over replicas with a certified bound for each node.
#
# The LP relaxation copies large datasets in fractions. Nodes bound the number of copies of a
# dataset, or fix whether it has a replica in a region; the least bound of all open nodes holds for
# every plan. Best-first search: the node of the least bound is branched on next, at the number of
# copies or the copy with the most GiB of fractionality, a number first in a tie, since that leaves
# no way out by another region.


@dataclass(frozen=True, slots=True)
class Branching:
    """Bounds on a row or a column of the relaxation."""

    row: bool
    index: int
    least: float
    most: float


@dataclass(order=True, slots=True)
class _Node:
    bound: int
    number: int
    branchings: tuple[Branching, ...] = field(compare=False)
    point: Floats | None = field(compare=False)


def is_proven_infeasible(arrays: Arrays, session: Session) -> bool:
    """Whether multipliers prove a relaxation infeasible (Farkas).

    An elastic LP penalises violation of rows; its duals are then checked on the original rows.
    """
    rows, columns = arrays.rows, arrays.columns
    more = np.arange(rows, dtype=np.int64)
    row = np.concatenate([arrays.entry_rows(), more, more])
    column = np.concatenate([arrays.indices, columns + more, columns + rows + more])
    data = np.concatenate([arrays.data, np.ones(rows), -np.ones(rows)])
    indptr, indices, data = csr(row, column, data, (rows, columns + 2 * rows))
    nothing = replace(arrays, cost=np.zeros(columns), constant=0.0)
    missing = replace(
        nothing,
        cost=np.concatenate([nothing.cost, np.ones(2 * rows)]),
        lower=np.concatenate([arrays.lower, np.zeros(2 * rows)]),
        upper=np.concatenate([arrays.upper, np.full(2 * rows, np.inf)]),
        integer=np.zeros(columns + 2 * rows, dtype=np.bool_),
        indptr=indptr,
        indices=indices,
        data=data,
    )
    outcome = session.optimise(missing, options=SolveOptions(interior=True))
    if outcome is None or outcome.row_duals is None:
        return False
    least = certified_bound(nothing, multipliers(nothing, outcome.row_duals))
    return least is not None and least > 0


def branch_and_bound(
    relaxation: Relaxation, arrays: Arrays, root: RelaxationResult, session: Session, goal: float
) -> Iterator[ProvenBound]:
    """Yield ever better bounds of a relaxation with integer replicas, from its root on.

    It ends at the goal, the value of a plan, when no node can be branched on, or without time.
    """
    certified, number = True, count()
    best = root.bound
    nodes = [_Node(root.bound, next(number), (), root.point)]
    splits = (
        range(parameters.PARAMETERS.deterministic_max_branchings)
        if session.deterministic
        else count()
    )
    for _ in splits:
        if not nodes or nodes[0].bound >= goal:
            return
        node = nodes[0]
        split = None if node.point is None else _choose_branching(relaxation, node.point)
        if split is None:
            return
        children = []
        for branching in split:
            branchings = (*node.branchings, branching)
            child_arrays = _apply_branchings(arrays, branchings)
            try:
                child = solve_relaxation(child_arrays, session)
            except ArithmeticError:
                certified = certified and is_proven_infeasible(child_arrays, session)
                continue
            if child is None:
                return
            bound = max(node.bound, child.bound)
            children.append(_Node(bound, next(number), branchings, child.point))
        heapq.heappop(nodes)
        for child_leaf in children:
            heapq.heappush(nodes, child_leaf)
        if nodes and nodes[0].bound > best:
            best = nodes[0].bound
            yield ProvenBound(best, certified)


def _choose_branching(relaxation: Relaxation, point: Floats) -> tuple[Branching, Branching] | None:
    """Return two branchings of which every plan satisfies one, and the point neither."""
    copies = relaxation.copy_fractions(point)
    numbers = copies.sum(axis=1)
    size = relaxation.aggregate.wan.size
    by_number = size * np.abs(numbers - np.rint(numbers))
    by_copy = size[:, None] * np.abs(copies - np.rint(copies))
    if (
        max(by_number.max(initial=0.0), by_copy.max(initial=0.0))
        <= parameters.PARAMETERS.integrality_tolerance
    ):
        return None
    if by_number.max() >= by_copy.max():
        p = int(by_number.argmax())
        row, below = int(relaxation.copy_rows[p]), float(np.floor(numbers[p]))
        return Branching(True, row, -np.inf, below), Branching(True, row, below + 1.0, np.inf)
    column = int(relaxation.replica.ravel()[by_copy.argmax()])
    return Branching(False, column, 0.0, 0.0), Branching(False, column, 1.0, 1.0)


def _apply_branchings(arrays: Arrays, branchings: tuple[Branching, ...]) -> Arrays:
    """Return the arrays with the bounds of all branchings."""
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    row_lower, row_upper = arrays.row_lower.copy(), arrays.row_upper.copy()
    for branching in branchings:
        low, high = (row_lower, row_upper) if branching.row else (lower, upper)
        low[branching.index] = max(low[branching.index], branching.least)
        high[branching.index] = min(high[branching.index], branching.most)
    return replace(arrays, lower=lower, upper=upper, row_lower=row_lower, row_upper=row_upper)


# Lower bounds of the terms of policy `replicas`, proven one by one with earlier terms held.


# Lower bounds on the cost of single datasets, as valid inequalities of the relaxation of all.
#
# Where the jobs that must run beside a dataset exceed the capacity of every region, the
# relaxation makes 1.07 copies of it, while a plan makes two, or one and reads the rest remotely.
# The relaxation restricted to this dataset (`problem/compile.py`), of some thousand columns,
# shows it. Jobs and replicas are integer, so the cost is a multiple of the greatest common
# divisor of the size and the GiB that each job reads; the bound is rounded up to one.


def with_dataset_bounds(
    aggregate: AggregateProblem, holds: Mapping[str, int], session: Session, number: int
) -> AggregateProblem:
    """Return an aggregate problem with `least` of a number of datasets, largest first.

    Fewer if the time share ends.
    `aggregate`: one without bounds of single datasets. `holds`: upper bounds on terms.
    """
    least, wan = aggregate.least.copy(), aggregate.wan
    unit = wan.size.copy()
    np.gcd.at(unit, wan.read_dataset, wan.read_gib)
    until = (1 - parameters.PARAMETERS.dataset_bounds_time_share) * session.remaining()
    for p in datasets_by_size(aggregate)[:number].tolist():
        if session.expired(until) or not aggregate.copyable[p].any():
            break
        alone = build_relaxation(restrict_to_datasets(aggregate, np.arange(len(least)) == p))
        found = try_relaxation(
            alone.arrays(DATA_SUM, holds), session, parameters.PARAMETERS.dataset_bound_time_share
        )
        if found is not None:
            least[p] = max(least[p], -(-found.bound // unit[p]) * unit[p])
    return replace(aggregate, least=least)


# One term to bound, with earlier terms held.
#
# The LP relaxation gives a bound at once. How integer replicas improve it depends on the number of
# possible copies: by certified branch and bound (`replica_tree.py`), a MIP with an objective
# cutoff (`models/mip.py`), or a tree over the placement of the largest datasets whose
# node LPs are solved by a first-order method (`replica_tree.py`).


@dataclass(frozen=True, slots=True, eq=False)
class BoundTarget:
    """A term to bound: its relaxation, and the value of the best plan."""

    relaxation: Relaxation
    arrays: Arrays
    root: RelaxationResult
    goal: float  # The plan's value of what the relaxation minimises
    term: str
    holds: tuple[tuple[str, int], ...]  # Upper bounds on earlier terms in the relaxation
    # Other terms in the objective, with the plan's values: a bound of the sum less these is one of
    # the term, among plans that are no worse in them.
    less: tuple[tuple[str, int], ...] = ()
    tree: ReplicaTree | None = None

    @property
    def relaxation_bound(self) -> Bound:
        """The certified bound of the LP relaxation."""
        return self.bound(ProvenBound(self.root.bound, certified=True))

    def bound(self, proven: ProvenBound) -> Bound:
        """Return a bound of the objective as a `Bound` of the term."""
        value = proven.bound - sum(value for _, value in self.less)
        return Bound(self.term, value, (*self.holds, *self.less), proven.certified)

    def improve(self, session: Session, share: float, least: int = 0) -> Iterator[ProvenBound]:
        """Yield ever better claimed bounds in a share of the time left, then certified ones.

        The latter may be weaker than the claims before them.
        `least`: a bound that is known already.
        """
        best = max(self.root.bound, least)
        if (
            parameters.PARAMETERS.branch_and_bound_max_copies
            < int(self.relaxation.aggregate.copyable.sum())
            <= parameters.PARAMETERS.mip_max_copies
        ):
            yield from self._cut_off(session, share, best)
            return
        if self.uses_tree:
            until = (1 - share) * session.remaining()
            tree = self.tree
            if tree is None:
                tree = probed_tree(self.relaxation, self.arrays, self.root, self.holds, session)
            if tree is not None:
                yield from tree.improve_bound(self.goal, until)
            return
        for step in branch_and_bound(self.relaxation, self.arrays, self.root, session, self.goal):
            if step.bound > best or step.certified:
                best = max(best, step.bound)
                yield step

    @property
    def uses_tree(self) -> bool:
        """Whether the replica tree proves it."""
        return needs_tree(self.relaxation.aggregate)

    @property
    def _tight(self) -> Bools:
        """Regions whose storage the relaxation fills or nearly fills (regions,)."""
        if self.root.point is None:
            return np.ones(len(self.relaxation.aggregate.storage), dtype=np.bool_)
        return self.relaxation.filled_regions(
            self.root.point, parameters.PARAMETERS.mip_tight_storage_share
        )

    def _cut_off(self, session: Session, share: float, best: int) -> Iterator[ProvenBound]:
        """Yield claims of a MIP with objective cutoffs ever nearer to the goal.

        Each claims that no plan is better than the goal by more than a relative gap.
        """
        aggregate = self.relaxation.aggregate
        # Without rows that hardly matter SCIP is up to three times as fast.
        integer_program = IntegerProgram.of(aggregate.with_limits_in(self._tight))
        numbers = self.relaxation.copy_fractions(self.root.point).sum(axis=1)
        term = DATA_SUM if self.less else self.term
        arrays = integer_program.arrays(term, dict(self.holds), numbers=numbers)
        for near_by in parameters.PARAMETERS.cutoff_gaps_rel:
            cutoff = self.goal * (1 - near_by) if self.goal < np.inf else None
            if session.expired() or (cutoff is not None and cutoff <= best):
                continue
            outcome = session.optimise(
                arrays,
                share=share,
                gap=parameters.PARAMETERS.cutoff_gaps_rel[-1],
                options=SolveOptions(cutoff=cutoff, proving=True),
            )
            if outcome is None or outcome.bound is None:
                return
            claim = proven_whole(outcome.bound)
            if claim > best:
                best = claim
                yield ProvenBound(best, certified=False)
            if cutoff is None or outcome.values is not None or outcome.bound < cutoff - 1:
                return


def probed_tree(
    relaxation: Relaxation,
    arrays: Arrays,
    root: RelaxationResult,
    holds: tuple[tuple[str, int], ...],
    session: Session,
) -> ReplicaTree | None:
    """Return the probed replica tree of a relaxation, None without compiled code."""
    if not DESCENTS.available(session):
        if DESCENTS.missing is not None:
            session.degraded.append(f"no tree of bounds was grown: {DESCENTS.missing}")
        return None
    # Only here, as it needs a compiler.
    from placewright.formulations.replicas.bounds.replica_tree import ReplicaTree

    tree = ReplicaTree(relaxation, arrays, root, holds, session)
    tree.probe()
    return tree


def has_few_copies(aggregate: AggregateProblem) -> bool:
    """Whether the MIP of all replicas can be solved."""
    return int(aggregate.copyable.sum()) <= parameters.PARAMETERS.mip_max_copies


def needs_tree(aggregate: AggregateProblem) -> bool:
    """Whether there are too many possible copies for the MIP, but not for the tree."""
    return not (has_few_copies(aggregate) or is_large(aggregate))


def is_large(aggregate: AggregateProblem) -> bool:
    """Whether the relaxation may take longer than there is time."""
    return int(aggregate.copyable.sum()) > parameters.PARAMETERS.relaxation_max_copies


# Relaxations of the data terms that guide the search, and that bounds begin with.
#
# The replica tree of the sum of both terms sends annealing to regions, and fractional replicas of
# `copies` say which dataset classes LNS decides anew.


def is_beyond(problem: Problem) -> bool:
    """Whether the relaxation takes too much memory; then the only bound of a term is 0."""
    return (
        len(problem.read_gib) * problem.regions**2
        > parameters.PARAMETERS.relaxation_max_source_pairs
    )


def replica_tree_of(
    problem: Problem, session: Session, held: Mapping[str, int], share: float = 1.0
) -> ReplicaTree | None:
    """Return the replica tree of both data terms in one sum, after strong branching.

    None without a solver or time, where the relaxation takes too much memory, or where there are
    too few or too many possible copies.
    `held`: values of the terms before. `share`: largest share of the time left for the relaxation.
    """
    if is_beyond(problem):
        return None
    aggregate = restrict_to_values(aggregate_problem(problem.wan), held)
    found = data_relaxation(aggregate, session, held, share) if needs_tree(aggregate) else None
    if found is None or session.expired():
        return None
    return probed_tree(*found, tuple(held.items()), session)


def data_relaxation(
    aggregate: AggregateProblem, session: Session, held: Mapping[str, int], share: float = 1.0
) -> tuple[Relaxation, Arrays, RelaxationResult] | None:
    """Return the relaxation of the sum of both data terms: the model, its arrays, the result.

    Very large rounds are restricted to the largest datasets. None without a solver or time, of
    which it may take a share of what is left.
    """
    tuning = parameters.PARAMETERS
    if is_large(aggregate):
        aggregate = restrict_to_datasets(
            aggregate, largest_datasets(aggregate, tuning.restricted_datasets)
        )
        share = tuning.restricted_time_share * share
    else:
        aggregate = with_dataset_bounds(aggregate, held, session, tuning.bounded_datasets)
    relaxation = build_relaxation(aggregate)
    arrays = relaxation.arrays(DATA_SUM, held)
    root = try_relaxation(arrays, session, share)
    return None if root is None else (relaxation, arrays, root)


def relaxation_replicas(
    problem: Problem, session: Session, held: Mapping[str, int], share: float
) -> Floats | None:
    """Return the fractional replicas (datasets, regions) of the relaxation of `copies`.

    At the values held. None without a solver or time, or where it takes too much memory. Very large
    rounds are restricted to the largest datasets.
    """
    if is_beyond(problem):
        return None
    aggregate = restrict_to_values(aggregate_problem(problem.wan), held)
    relaxation = build_relaxation(
        restrict_to_datasets(
            aggregate, largest_datasets(aggregate, parameters.PARAMETERS.restricted_datasets)
        )
        if is_large(aggregate)
        else aggregate
    )
    found = try_relaxation(relaxation.arrays("copies", held), session, share)
    if found is None or found.point is None:
        return None
    return relaxation.replicas(found.point)


# Any multipliers of the LP relaxation (`models/relaxation.py`) prove a certified bound in whole
# numbers by weak duality, and so do those of the nodes of a branch and bound
# (`replica_tree.py`). `docs/formulations/replicas.md` says what the relaxations leave out.


def prove_bounds(
    problem: Problem, session: Session, held: Mapping[str, int], tree: ReplicaTree | None = None
) -> Iterator[Bound]:
    """Yield bounds of every term, the quick ones first, then better ones until the time is over.

    It ends early if all terms of the round's best plan are proven.
    `held`: values of a plan by term. Each term is bounded among plans that are no worse in those
    before it. `tree`: a replica tree that was grown before, at the values that it holds.
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
        tuning = parameters.PARAMETERS
        for term in self._data if is_large(self.aggregate) else ():
            if self._reached(term):
                continue
            few, known = self._restricted(term), self._earlier_values(term)
            few = restrict_to_datasets(few, largest_datasets(few, tuning.restricted_datasets))
            found = try_relaxation(
                build_relaxation(few).arrays(term, known),
                self.session,
                tuning.restricted_time_share,
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
        trivial = sum(self._proven[name] for name in self._data)
        if near(trivial, goal, SHARPNESS) or has_few_copies(self.aggregate):
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
