"""Core MIP: branch and bound over the jobs whose best alternative the duals leave in doubt.

An LP solution chooses all but a few alternatives integrally, and the duals bound what any other
choice of a job loses (its regret). So a MIP over the jobs of least regret, the core, comes close to
the bound; all other jobs keep the alternative of best reduced cost.

References
----------
Balas and Zemel, "An algorithm for large zero-one knapsack problems", Operations Research 28, 1980
(the core of a program).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.models.master_lp import LagrangianBound, MasterLp
from placewright.formulations.deadline.problem.problem import NONE, Problem
from placewright.formulations.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """An alternative for each job, or `NONE`, without leases; and a claimed bound, if any."""

    alternative: Ints
    bound: int | None = None

    def value(self, problem: Problem) -> int:
        """Value of all promises of the selection, as if all of them had leases."""
        return int(problem.counted[self.alternative[self.alternative != NONE]].sum())


def round_down(master: MasterLp, chosen: Floats) -> Selection:
    """Return the alternatives at 1 in an LP solution; jobs that must have one, their largest."""
    problem = master.problem
    order = np.argsort(chosen, kind="stable")
    order = order[(chosen[order] > 0) & master.must[problem.job[order]]]
    selection = _selection(problem, chosen >= 1 - parameters.PARAMETERS.integrality_tolerance)
    selection.alternative[problem.job[order]] = order
    return selection


def core_search(
    master: MasterLp, dual: LagrangianBound, known: Ints, session: Session
) -> Iterator[Selection]:
    """Yield ever better selections from MIPs over growing cores, with claimed bounds.

    They violate no demand-bound row, if time has allowed. The choice that is `known`
    (jobs,) keeps what must be kept.
    """
    keeps_promises = master.objective.min_kept > 0 or bool(master.must.any())
    attempts = [(number, False) for number in parameters.PARAMETERS.core_sizes_jobs]
    # With all others at their best maybe nothing keeps what must be kept; then from `known`.
    attempts += [
        (number, True) for number in parameters.PARAMETERS.core_sizes_jobs if keeps_promises
    ]
    best: Ints | None = None
    for number, from_incumbent in attempts:
        if from_incumbent and best is None:
            best = known
        elif from_incumbent and best is not known:
            return
        include = np.zeros(len(known), dtype=np.bool_) if best is None else best != dual.best
        core, lost = dual.core(number, include)
        selection = _solve_core(master, dual, core, best, session)
        if selection is None:
            continue
        value = int(
            master.objective.value[selection.alternative[selection.alternative != NONE]].sum()
        )
        rest = value if np.isinf(lost) else _integer_bound(dual.value - lost)
        if selection.bound is not None:
            selection = Selection(selection.alternative, max(selection.bound, rest))
        yield selection
        if core.all() or value == selection.bound:
            return
        best = selection.alternative


def _integer_bound(bound: float) -> int:
    """Return the largest integer that a solver's bound allows."""
    return floor(
        bound * (1 + parameters.PARAMETERS.integrality_tolerance)
        + parameters.PARAMETERS.integrality_tolerance
    )


def _solve_core(
    master: MasterLp, dual: LagrangianBound, core: Bools, known: Ints | None, session: Session
) -> Selection | None:
    """Return the best selection in which all jobs outside the core keep their best alternative."""
    problem = master.problem
    start = None
    if known is not None:
        start = np.zeros(problem.alternatives)
        start[known[known != NONE]] = 1.0
    best: Selection | None = None
    for search in range(parameters.PARAMETERS.max_core_mips):
        part = master.restrict(dual.best, core)
        if not len(part.alternatives):
            values = part.extend(np.zeros(0), problem.alternatives)
            bound: int | None = dual.bound
        else:
            seconds = parameters.PARAMETERS.core_mip_seconds / 2**search
            begin = None if start is None else start[part.alternatives]
            outcome = session.optimise(part.arrays, most=seconds, gap=0.0, start=begin)
            if outcome is None or outcome.values is None:
                break
            bound = None if outcome.bound is None else _integer_bound(outcome.bound)
            values = part.extend(outcome.values, problem.alternatives)
        best = _selection(problem, values > 0.5, bound)
        rows = master.demands.violated(values)
        if not master.add_rows(rows):
            break
    return best


def _selection(problem: Problem, chosen: Bools, bound: int | None = None) -> Selection:
    alternatives = np.flatnonzero(chosen)
    alternative = np.full(problem.jobs, NONE, dtype=np.int64)
    alternative[problem.job[alternatives]] = alternatives
    return Selection(alternative, bound)
