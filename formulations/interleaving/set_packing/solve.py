"""Set packing: job groups of most value, by the method that suits the number of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    Grouping,
    GroupingBound,
    PackingProblem,
)
from placewright.formulations.interleaving.set_packing.column_generation.solve import (
    solve_by_column_generation,
)
from placewright.formulations.interleaving.set_packing.columns import (
    count_columns,
    enumerate_columns,
)
from placewright.formulations.interleaving.set_packing.integer_program import solve_program
from placewright.formulations.interleaving.set_packing.job_classes import merge_classes
from placewright.formulations.interleaving.set_packing.template_columns import solve_by_templates
from placewright.formulations.interleaving.set_packing.templates import Profiles
from placewright.formulations.session import Session


def solve_set_packing(
    packing: PackingProblem, session: Session
) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings, each of more value, and bounds, each tighter.

    A packing problem may have one class per job: classes that are alike are merged first.
    """
    best: int | None = None
    best_bound: int | None = None
    for found in _solve(packing, session):
        if isinstance(found, Grouping):
            if best is None or found.value > best:
                best = found.value
                yield found
        elif best_bound is None or found.value < best_bound:
            best_bound = found.value
            yield found


def _solve(packing: PackingProblem, session: Session) -> Iterator[Grouping | GroupingBound]:
    aggregated = merge_classes(packing)
    if (
        packing.peak.any()
        and count_columns(aggregated.packing) > parameters.PARAMETERS.min_template_columns
    ):
        # Prices leave peaks out, and without them more classes are alike.
        aggregated = merge_classes(replace(packing, peak=np.zeros_like(packing.peak)))
    profiles = Profiles.of_problem(aggregated.packing)
    number = count_columns(aggregated.packing)
    few_templates = profiles.templates <= min(
        parameters.PARAMETERS.max_templates,
        number // parameters.PARAMETERS.min_columns_per_template,
    )
    if few_templates and number > parameters.PARAMETERS.min_template_columns:
        yield from solve_by_templates(aggregated, profiles, session)
        return
    if number <= parameters.PARAMETERS.max_enumerated_columns:
        search = solve_program(aggregated.packing, enumerate_columns(aggregated.packing), session)
    else:
        search = solve_by_column_generation(aggregated.packing, session)
    for found in search:
        yield aggregated.disaggregate(found) if isinstance(found, Grouping) else found
