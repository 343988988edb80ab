"""One term to bound, with earlier terms held.

The LP relaxation gives a bound at once. How integer replicas improve it depends on the number of
possible copies: by certified branch and bound (`branch_and_bound.py`), a MIP with an objective
cutoff (`models/integer_program.py`), or a tree over the placement of the largest datasets whose
node LPs are solved by a first-order method (`replica_tree.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.bound_arithmetic import proven_whole
from placewright.formulations.plan_messages import Bound
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.bounds.branch_and_bound import ProvenBound, branch_and_bound
from placewright.formulations.replicas.machine_code import DESCENTS
from placewright.formulations.replicas.models.integer_program import IntegerProgram
from placewright.formulations.replicas.models.relaxation import Relaxation
from placewright.formulations.replicas.models.solve_relaxation import RelaxationResult
from placewright.formulations.replicas.problem.job_classes import AggregateProblem
from placewright.formulations.replicas.problem.problem import DATA_SUM
from placewright.formulations.session import Session
from placewright.solver import Arrays, SolveOptions

if TYPE_CHECKING:
    from placewright.formulations.replicas.bounds.replica_tree import ReplicaTree


@dataclass(frozen=True, slots=True, eq=False)
class BoundTarget:
    """A term to bound: its relaxation, and the value of the best plan.

    Attributes
    ----------
    goal
        The plan's value of what the relaxation minimises.
    holds
        Upper bounds on earlier terms in the relaxation.
    less
        Other terms in the objective, with the plan's values: a bound of the sum less these is one
        of the term, among plans that are no worse in them.
    """

    relaxation: Relaxation
    arrays: Arrays
    root: RelaxationResult
    goal: float
    term: str
    holds: tuple[tuple[str, int], ...]
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

        Parameters
        ----------
        least
            A bound that is known already.
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
