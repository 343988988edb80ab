"""Which region runs which job: the most value, and with it the least cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.formulations.geo.kinds import Kinds
from placewright.formulations.geo.pricing import most_value, price
from placewright.formulations.geo.program import Program, clusters_of, program_of
from placewright.formulations.geo.sharing import whole_jobs
from placewright.formulations.session import HOLD_SLACK, Session
from placewright.formulations.wan.compile import Ints

TOLERANCE = 1e-6
"""Relative slack of value while cost is made least: solvers work within tolerances."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Regions of the pending jobs (jobs,), NONE of those that none has room for.

    `most` is the most value of any plan, proven by prices of the rows.
    """

    region: Ints
    most: float
    program: Program

    def least(self, costs: Ints, value: int, session: Session) -> float | None:
        """Return what plans of at least this value cost at least, if time and a solver are left."""
        kinds, model = self.program.kinds, self.program.model
        model.hold("value", value, slack=HOLD_SLACK)
        outcome = session.optimise(model.arrays("cost", relax=True))
        if outcome is None or outcome.row_duals is None:
            return None
        duals = np.abs(outcome.row_duals)
        largest = float(costs.max(axis=1, initial=0).sum())
        priced = price(kinds, duals[self.program.rows], float(duals[-1]), largest)
        return priced.least(costs, value)


def choose(kinds: Kinds, costs: Ints, session: Session) -> Chosen | None:
    """Choose regions: the most value, and with it the least cost; None without time or solver."""
    program = program_of(kinds, clusters_of(kinds, costs))
    first = session.optimise(program.model.arrays("value"), share=0.3)
    if first is None or first.values is None or first.row_duals is None:
        return None
    most = most_value(kinds, np.abs(first.row_duals)[program.rows])
    value = program.model.value_of("value", first.values)
    program.model.hold("value", value, slack=max(1.0, TOLERANCE * abs(value)))
    second = session.optimise(program.model.arrays("cost"), share=0.3)
    best = first if second is None or second.values is None else second
    return Chosen(whole_jobs(program, best.values, costs), most, program)
