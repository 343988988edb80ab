"""The restricted master: its LP, the columns that it begins with, and those that enter and stay.

A class that must be covered pays a premium instead of a row that could not be kept at first; the
premium is taken off its dual afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    PackingProblem,
    pad_members,
)
from placewright.formulations.interleaving.set_packing.column_generation.duals import (
    Prices,
)
from placewright.formulations.interleaving.set_packing.column_value import (
    column_values,
)
from placewright.formulations.interleaving.set_packing.columns import (
    NOT_ALLOWED,
    Columns,
    concatenate,
    single_values,
    with_values,
)
from placewright.formulations.interleaving.set_packing.integer_program import SetPackingProgram
from placewright.formulations.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class MasterSolution:
    """An LP solution of the restricted master, with its duals.

    Attributes
    ----------
    values : float64 (columns,)
        How often each column is used.
    job : float64 (classes,)
        The price of a job of each class.
    row : float64 (rows,)
        The price of a unit of each row.
    """

    columns: Columns
    values: Floats
    job: Floats
    row: Floats

    @property
    def value(self) -> float:
        """Value of the LP solution."""
        return float(self.values @ self.columns.value)


def initial_columns(packing: PackingProblem, seed: int) -> Columns:
    """Return single jobs, groups that run, and random groups."""
    rng = np.random.default_rng(seed)
    classes = np.flatnonzero(packing.count > 0)
    parts = [
        Columns(pad_members(classes[:, None]), single_values(packing)[classes]),
        with_values(packing, packing.frozen_groups),
    ]
    for bucket in range(packing.buckets):
        jobs = classes[packing.bucket[classes] == bucket]
        for size in range(2, packing.max_members + 1):
            for _ in range(parameters.PARAMETERS.num_start_groups_per_job):
                drawn = rng.permutation(jobs)[: len(jobs) // size * size].reshape(-1, size)
                groups = pad_members(np.sort(drawn, axis=1))
                some = Columns(groups, column_values(packing, groups))
                parts.append(some.take(some.value != NOT_ALLOWED))
    return concatenate(*parts)


def solve_master(
    packing: PackingProblem, columns: Columns, session: Session
) -> MasterSolution | None:
    """Solve the restricted master, with a premium for classes that must be covered."""
    premium = parameters.PARAMETERS.cover_premium * int(columns.value.max(initial=0))
    covers = (packing.must_cover[columns.members] & (columns.members != ALONE)).sum(axis=1)
    easier = replace(packing, must_cover=np.zeros_like(packing.must_cover))
    program = SetPackingProgram.of(
        easier, Columns(columns.members, columns.value + premium * covers)
    )
    outcome = session.optimise(program.relaxation())
    if outcome is None or outcome.values is None or outcome.row_duals is None:
        return None
    job, row = np.split(outcome.row_duals * program.unit, [packing.classes])
    return MasterSolution(columns, outcome.values, job - premium * packing.must_cover, row)


def retained_columns(packing: PackingProblem, solution: MasterSolution, prices: Prices) -> Columns:
    """Return columns in use, single jobs, and those of best reduced cost."""
    columns = solution.columns
    loss = -prices.reduced_cost(packing, columns.members, columns.value)
    loss[(solution.values > 0) | (columns.members[:, 1] == ALONE)] = -1
    most = max(
        parameters.PARAMETERS.max_retained_per_class * packing.classes,
        parameters.PARAMETERS.min_retained_columns,
    )
    return columns.take(np.sort(np.argsort(loss, kind="stable")[:most]))


def select_entering(columns: Columns, gain: Ints, classes: int) -> Ints:
    """Return the entering columns: those of largest gain, a few per class."""
    taken = np.zeros(classes, dtype=np.int64)
    chosen, seen = [], set()
    for index in np.argsort(-gain, kind="stable").tolist():
        members = columns.members[index]
        present = members[members != ALONE]
        if (
            taken[present].min() < parameters.PARAMETERS.max_entering_per_class
            and members.tobytes() not in seen
        ):
            seen.add(members.tobytes())
            taken[present] += 1
            chosen.append(index)
    return np.array(chosen, dtype=np.int64)
