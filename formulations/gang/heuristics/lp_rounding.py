"""LP rounding: the relaxation's counts are rounded up and disaggregated, without a search.

For rounds with GPU memory and MIG, where GPUs differ so much that branch and bound takes long to
find any point. Jobs that do not fit are left to the greedy.
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.gang.heuristics.disaggregate import disaggregate
from placewright.formulations.gang.models.aggregate.column_generation import PricedModel
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.session import Session
from placewright.solver import Outcome

TOLERANCE = 1e-6


def round_relaxation(
    session: Session, model: PricedModel, relaxed: Outcome | None
) -> Placement | None:
    """Return a placement of about what the relaxation starts.

    None if there is no relaxation, and in rounds where tasks ask of GPUs for milli-GPU alone.
    """
    counts, patterns = model
    if counts.problem.part_demands is None or relaxed is None or relaxed.values is None:
        return None
    # Patterns found since the relaxation was solved are not in its point.
    values = np.zeros(counts.model.columns)
    values[: len(relaxed.values)] = relaxed.values
    up = np.ceil(values - TOLERANCE)
    up[counts.y] = np.rint(values[counts.y])
    return disaggregate(counts, patterns, up, session)
