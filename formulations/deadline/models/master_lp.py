"""The demand-bound program: which ways to choose, as far as rows of demand say.

    max  sum_w worth[w] S[w]
    s.t. sum of the ways of a job            <= 1, = 1 where it must have a promise
         sum_w f[w] forced(w, A) S[w]        <= room_f(A)     rows of `demand`, as they are needed
         sum_w kept[w] S[w]                  >= held          promises kept, where that is given
         0 <= S <= 1

Any of the rows bound what can be promised, so they are added only where a choice breaks them. Few
bind at an optimum, hence few ways are chosen in part: at most one more than there are rows that
bind. And few rows have few prices: at prices y >= 0 of the rows each job takes its best way, or
none, on its own,

    sum_w worth[w] S[w]  <=  y room + sum_j max(0, max over ways w of j of worth[w] - y A[w])

which is a bound whatever the prices are, in whole numbers once they are rounded, and says what any
other choice of a job loses. So only ways that lose little are asked about again when rows come in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from placewright.formulations.deadline.models.benders_cuts import fluid_cut
from placewright.formulations.deadline.models.demand_bound import Demands, Floats, Row, distinct
from placewright.formulations.deadline.problem.problem import MOST_CELLS, NONE, Bools, Ints
from placewright.formulations.session import Session, near
from placewright.solver import Arrays, Model

FIRST_ROWS = 20
"""Prefixes whose rows a program begins with."""

FIRST_CELLS = 4_000_000
"""Ways times first rows, unless those are a single prefix of each capacity row."""

MOST_PASSES = 30
"""How often rows are added; those that are missing then only weaken the bound."""

ASKED_AGAIN = 1_500
"""Ways that a pass after the first asks about at least, if there are as many."""

PRICE_DIGITS, SUM_DIGITS = 40, 61
"""Binary digits behind the point of a price, and of the largest number that is reckoned with."""

ROUNDING = 1e-6
"""Relative difference of numbers that only rounding tells apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Aim:
    """What a choice is worth, and what it must keep: `kept` (ways,) of at least `held`."""

    worth: Ints
    kept: Ints
    held: int


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """What prices of the rows say.

    Attributes
    ----------
    most
        No choice is worth more.
    bound
        That in whole numbers, certified.
    best
        (jobs,): the way that each job takes on its own, or `NONE`.
    other
        (jobs,): what a choice loses of `most` at least if the job does anything else.
    """

    most: float
    bound: int
    best: Ints
    other: Floats

    def in_doubt(self, jobs: int, also: Bools) -> tuple[Bools, float]:
        """Return so many jobs that lose least by doing something else (jobs,), and `also` others.

        And what the rest lose at least.
        """
        if jobs >= len(self.other):
            return np.ones_like(also), np.inf
        doubt: Bools = (self.other <= np.partition(self.other, jobs)[jobs]) | also
        return doubt, float(self.other[~doubt].min(initial=np.inf))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The program of some ways, where others are chosen already; in whole numbers."""

    ways: Ints
    chosen: Ints
    arrays: Arrays

    def whole(self, values: Floats, number: int) -> Floats:
        """Return values of the ways in question as a choice of all (number,)."""
        choice = np.zeros(number)
        choice[self.chosen] = 1.0
        choice[self.ways] = values
        return choice


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """An optimum of the relaxation, over the rows that it needed: (ways,), and its prices."""

    chosen: Floats
    priced: Priced


class Program:
    """The program of a problem, whose rows grow.

    Parameters
    ----------
    allowed
        (ways,): which ways may be chosen.
    must
        (jobs,): which jobs must have one of them.
    """

    def __init__(self, demands: Demands, allowed: Bools, must: Bools, aim: Aim) -> None:
        self.demands, self.allowed, self.must, self.aim = demands, allowed, must, aim
        self.problem = demands.problem
        self._known: set[tuple[int, bytes]] = set()
        self._coefficients = np.zeros((0, self.problem.ways), dtype=np.int64)
        self._room = np.zeros(0, dtype=np.int64)
        cells = self.problem.ways * max(1, len(self.problem.capacity))
        self.require(demands.evenly(max(1, min(FIRST_ROWS, FIRST_CELLS // max(1, cells)))))

    def require(self, rows: Iterable[Row]) -> bool:
        """Add rows; return whether one of them is new."""
        # Too many rows would take too much memory, and a bound holds without any of them.
        most = MOST_CELLS // max(1, self.problem.ways) - len(self._room)
        new = distinct(islice(rows, max(0, most)), self._known)
        if new:
            more = [self.demands.coefficients(row) * self.allowed for row in new]
            self._coefficients = np.vstack([self._coefficients, *more])
            room = [self.demands.room(row) for row in new]
            self._room = np.append(self._room, np.array(room, dtype=np.int64))
        return bool(new)

    def sharpen(self, chosen: Floats, session: Session) -> bool:
        """Add a row that no window gives and that a choice breaks; return whether one was found."""
        cut = fluid_cut(self.demands, chosen, session)
        if cut is not None:
            self._coefficients = np.vstack([self._coefficients, cut.weight * self.allowed])
            self._room = np.append(self._room, cut.limit)
        return cut is not None

    def everybody(self) -> Part:
        """Return the whole program."""
        none = np.full(self.problem.jobs, NONE, dtype=np.int64)
        return self.part(none, np.ones(self.problem.jobs, dtype=np.bool_))

    def part(self, best: Ints, doubt: Bools) -> Part:
        """Return the program of the jobs in doubt (jobs,); the others take their best way."""
        problem, aim = self.problem, self.aim
        ways = np.flatnonzero(self.allowed & doubt[problem.job])
        chosen = best[~doubt & (best != NONE)]
        model = Model()
        columns = model.variables("way", len(ways), upper=1.0)
        room = self._room - self._coefficients[:, chosen].sum(axis=1)
        demand = model.rows("demand", len(room), upper=room)
        coefficients = self._coefficients[:, ways]
        row, way = np.nonzero(coefficients)
        model.add(demand[row], columns[way], coefficients[row, way])
        if aim.held:
            kept = model.rows("kept", 1, lower=aim.held - aim.kept[chosen].sum())
            model.add(kept, columns, aim.kept[ways])
        jobs, at = np.unique(problem.job[ways], return_inverse=True)
        least = np.where(self.must[jobs], 1.0, -np.inf)
        model.add(model.rows("job", len(jobs), lower=least, upper=1.0)[at], columns, 1.0)
        worth = float(aim.worth[chosen].sum())
        model.term("worth", columns, aim.worth[ways], sense="max", constant=worth)
        return Part(ways, chosen, model.arrays("worth"))

    def relax(self, session: Session) -> Relaxed | None:
        """Solve the relaxation with all rows that it needs; None if no time or solver is left."""
        if not self.allowed.any():
            return Relaxed(np.zeros(self.problem.ways), self.price(np.zeros(len(self._room) + 1)))
        found: Relaxed | None = None
        part, whole = self.everybody(), True
        for _ in range(MOST_PASSES):
            continuous = replace(part.arrays, integer=np.zeros(len(part.ways), dtype=np.bool_))
            outcome = session.optimise(continuous)
            sharp = False
            if outcome is not None and outcome.values is not None:
                if outcome.row_duals is None:
                    break
                chosen = part.whole(outcome.values, self.problem.ways)
                priced = self.price(outcome.row_duals)
                sharp = near(priced.most, float(self.aim.worth @ chosen), ROUNDING)
                found = Relaxed(chosen, priced)
            elif whole:
                break
            if sharp and found is not None:
                rows = self.demands.broken(found.chosen)
                if not self.require(rows) and not self.sharpen(found.chosen, session):
                    break
                nobody = np.zeros(self.problem.jobs, dtype=np.bool_)
                part = self.part(found.priced.best, found.priced.in_doubt(ASKED_AGAIN, nobody)[0])
                whole = False
            elif whole:
                break
            else:
                # Those who were not asked would do something else by now.
                part, whole = self.everybody(), True
        return found

    def price(self, duals: Floats) -> Priced:
        """Return what the prices of rows say that a solver calls duals (rows,)."""
        problem, aim, rows = self.problem, self.aim, len(self._room)
        prices = np.maximum(0.0, duals[:rows])
        keeping = max(0.0, -float(duals[rows])) if aim.held else 0.0
        largest = aim.worth + keeping * aim.kept + prices @ self._coefficients
        sums = prices @ self._room + keeping * aim.held + largest.sum() + 1.0
        scale = 1 << max(0, min(PRICE_DIGITS, SUM_DIGITS - int(np.ceil(np.log2(sums)))))
        whole = np.rint(prices * scale).astype(np.int64)
        kept = round(keeping * scale)
        worth = aim.worth * scale + kept * aim.kept - whole @ self._coefficients
        best, most = self._best(worth)
        total = int(whole @ self._room) - kept * aim.held + int(most.sum())
        lost = np.where(self.allowed, most[problem.job] - worth, np.inf)
        lost[best[best != NONE]] = np.inf
        other = np.where(self.must | (best == NONE), np.inf, most)
        np.minimum.at(other, problem.job, lost)
        return Priced(total / scale, total // scale, best, other / scale)

    def _best(self, worth: Ints) -> tuple[Ints, Ints]:
        """Return the way that is worth most to each job, or none, and how much that is (jobs,)."""
        problem = self.problem
        ways = np.flatnonzero(self.allowed)
        ways = ways[np.lexsort((worth[ways], problem.job[ways]))]
        best = np.full(problem.jobs, NONE, dtype=np.int64)
        # The last of each job is left.
        best[problem.job[ways]] = ways
        most = np.where(best == NONE, 0, np.append(worth, 0)[best])
        refused = (most <= 0) & ~self.must
        best[refused] = NONE
        most[refused] = 0
        return best, most
