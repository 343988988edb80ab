"""The relaxation with integer replicas, as a MIP with branching priorities and a cutoff.

    y[p] in {0, 1}     whether dataset p is copied at all:   x[p,r] <= y[p] <= sum_r x[p,r]

over copies. The LP copies most datasets in fractions to several regions; whether there is a copy at
all is a disjunction over many columns, and most of the bound depends on it for the largest
datasets. So y has branching priorities by size.

With an objective cutoff at the value of a plan less an acceptable gap, nodes beyond it are pruned,
so the tree is far smaller than one that proves the optimum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.models.relaxation import Relaxation, build_relaxation
from placewright.formulations.replicas.models.solve_relaxation import RelaxationResult
from placewright.formulations.replicas.problem.job_classes import AggregateProblem
from placewright.solver import Arrays


@dataclass(frozen=True, slots=True, eq=False)
class Restriction:
    """A restriction of the MIP.

    Attributes
    ----------
    free : Bools
        (datasets, regions): copies that may be made or not.
    copied : Bools
        (datasets, regions): copies that are fixed to be made; all others are not.
    integer : Bools
        (datasets,): whose replicas are integer.
    """

    free: Bools
    copied: Bools
    integer: Bools


@dataclass(frozen=True, slots=True, eq=False)
class IntegerProgram:
    """A relaxation with the columns y.

    Attributes
    ----------
    copied : Ints
        (datasets,): the columns y, -1 where a dataset cannot be copied.
    """

    relaxation: Relaxation
    copied: Ints

    @classmethod
    def of(cls, aggregate: AggregateProblem) -> Self:
        """Return the MIP of an aggregate problem."""
        relaxation = build_relaxation(aggregate)
        model = relaxation.model
        some = np.flatnonzero(aggregate.copyable.any(axis=1))
        copied = np.full(len(aggregate.has_replica), -1, dtype=np.int64)
        copied[some] = model.variables("copied", len(some), upper=1.0)
        p, r = np.nonzero(aggregate.copyable)
        rows = model.rows("copies", len(p), upper=0.0)
        model.add(rows, relaxation.replica[p, r], 1.0)
        model.add(rows, copied[p], -1.0)
        rows = np.full(len(copied), -1, dtype=np.int64)
        rows[some] = model.rows("uncopied", len(some), lower=0.0)
        model.add(rows[p], relaxation.replica[p, r], 1.0)
        model.add(rows[some], copied[some], -1.0)
        return cls(relaxation, copied)

    def arrays(
        self,
        term: str,
        holds: Mapping[str, int],
        choice: Restriction | None = None,
        numbers: Floats | None = None,
    ) -> Arrays:
        """Return the arrays; all copies are free and integer if no choice is given.

        Current replicas may be dropped in part.

        Parameters
        ----------
        numbers
            (datasets,): copies of each in the relaxation; fractional ones are branched on first.
        """
        relaxation, aggregate = self.relaxation, self.relaxation.aggregate
        arrays = relaxation.arrays(term, holds, relax=False)
        order = np.zeros(arrays.columns, dtype=np.int64)
        size = aggregate.wan.size
        p, r = np.nonzero(aggregate.copyable)
        order[relaxation.replica[p, r]] = size[p]
        some = np.flatnonzero(self.copied >= 0)
        order[self.copied[some]] = size[some]
        if numbers is not None:
            is_fractional = (
                np.abs(numbers - np.rint(numbers)) > parameters.PARAMETERS.number_fractionality
            )
            order[self.copied[is_fractional & (self.copied >= 0)]] *= (
                parameters.PARAMETERS.number_priority_factor
            )
        lower, upper, integer = arrays.lower.copy(), arrays.upper.copy(), arrays.integer.copy()
        integer[relaxation.replica[aggregate.present]] = False
        if choice is not None:
            settled = aggregate.copyable & ~choice.free
            columns = relaxation.replica[settled]
            lower[columns] = upper[columns] = choice.copied[settled]
            integer[relaxation.replica[aggregate.copyable & ~choice.integer[:, None]]] = False
            integer[self.copied[some[~choice.integer[some]]]] = False
        return replace(arrays, priority=order, lower=lower, upper=upper, integer=integer)


def promising_copies(
    relaxation: Relaxation, arrays: Arrays, found: RelaxationResult, share: float
) -> Bools:
    """Return the copies (datasets, regions) that a relaxation has in part, or almost.

    Almost: one more would cost less than this share of its size.
    """
    aggregate = relaxation.aggregate
    extra_cost = relaxation.replicas(arrays.reduced_costs(-found.prices))
    worth: Bools = aggregate.copyable & (extra_cost < share * aggregate.wan.size[:, None])
    if found.point is not None:
        worth |= aggregate.copyable & (
            relaxation.replicas(found.point) > parameters.PARAMETERS.fraction_tolerance
        )
    return worth
