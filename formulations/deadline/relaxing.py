"""The demand-bound program: which ways to choose, as far as rows of demand say.

    max  sum_w worth[w] S[w]
    s.t. sum of the ways of a job            <= 1, = 1 where it must have a promise
         sum_w f[w] forced(w, A) S[w]        <= room_f(A)     rows of `demand`, as they are needed
         sum_w kept[w] S[w]                  >= held          promises kept, where that is given
         0 <= S <= 1

Any of the rows bound what can be promised, so they are added only where a choice breaks them. Few
do not fit at an optimum, hence few ways are chosen in part: at most one more than there are rows
that bind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import floor

import numpy as np

from placewright.formulations.deadline.demand import Demands, Floats, Row, distinct
from placewright.formulations.deadline.problem import Bools, Ints
from placewright.formulations.session import Session
from placewright.solver import Arrays, Model, Outcome, certified_bound, multipliers

FIRST_ROWS = 20
"""Prefixes of each load whose rows a program begins with."""

MOST_PASSES = 30
"""How often rows are added; those that are missing then only weaken the bound."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """An optimum of the relaxation, over the rows that it needed.

    Attributes
    ----------
    chosen
        (ways,): how much of each way.
    bound
        The most that any choice is worth, certified; None if it could not be.
    outcome
        The solver's word, with prices.
    arrays
        The program, with whole numbers.
    """

    chosen: Floats
    bound: int | None
    outcome: Outcome
    arrays: Arrays


@dataclass(frozen=True, slots=True, eq=False)
class Aim:
    """What a choice is worth, and what it must keep: `kept` (ways,) of at least `held`."""

    worth: Ints
    kept: Ints
    held: int


class Program:
    """The program of a problem, whose rows grow.

    Parameters
    ----------
    allowed
        (ways,): which ways may be chosen.
    must
        (jobs,): which jobs must have one of them.
    """

    def __init__(self, demands: Demands, allowed: Bools, must: Bools) -> None:
        self.demands = demands
        self.allowed = allowed
        self.must = must
        self._known: set[tuple[int, bytes]] = set()
        self._coefficients: list[Ints] = []
        self._room: list[int] = []
        self.require(demands.evenly(FIRST_ROWS))

    def require(self, rows: Iterable[Row]) -> bool:
        """Add rows; return whether one of them is new."""
        new = distinct(rows, self._known)
        for row in new:
            self._coefficients.append(self.demands.coefficients(row))
            self._room.append(self.demands.room(row))
        return bool(new)

    def arrays(self, aim: Aim) -> Arrays:
        """Return the program with whole numbers."""
        problem = self.demands.problem
        model = Model()
        chosen = model.variables("way", problem.ways, upper=self.allowed.astype(np.float64))
        job = model.rows("job", problem.jobs, lower=np.where(self.must, 1.0, -np.inf), upper=1.0)
        model.add(job[problem.job], chosen, 1.0)
        demand = model.rows("demand", len(self._room), upper=np.array(self._room, dtype=float))
        coefficients = np.array(self._coefficients).reshape(len(self._room), problem.ways)
        row, way = np.nonzero(coefficients * self.allowed)
        model.add(demand[row], chosen[way], coefficients[row, way])
        if aim.held > 0:
            used = np.flatnonzero(aim.kept)
            model.add(model.rows("kept", 1, lower=aim.held), chosen[used], aim.kept[used])
        model.term("worth", chosen, aim.worth, sense="max")
        return model.arrays("worth")

    def relax(self, aim: Aim, session: Session) -> Relaxed | None:
        """Solve the relaxation with all rows that it needs; None if no time or solver is left."""
        found: tuple[Outcome, Floats, Floats, Arrays] | None = None
        for _ in range(MOST_PASSES):
            arrays = self.arrays(aim)
            outcome = session.optimise(relaxed(arrays))
            if outcome is None or outcome.values is None or outcome.row_duals is None:
                break
            found = outcome, outcome.values, outcome.row_duals, arrays
            if not self.require(self.demands.broken(outcome.values)):
                break
        if found is None:
            return None
        outcome, chosen, duals, arrays = found
        continuous = relaxed(arrays)
        bound = certified_bound(continuous, multipliers(continuous, duals))
        return Relaxed(chosen, None if bound is None else floor(bound), outcome, arrays)


def relaxed(arrays: Arrays) -> Arrays:
    """Return a program without whole numbers."""
    return replace(arrays, integer=np.zeros(arrays.columns, dtype=np.bool_))
