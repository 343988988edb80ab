"""Restricted MIPs over the replicas that relax and fix finds, recombined with the incumbent."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from placewright.array_types import Floats
from placewright.formulations.plan_messages import Candidate
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.incumbent import Incumbent
from placewright.formulations.replicas.heuristics.relax_and_fix import relax_and_fix


def search_restricted(
    incumbent: Incumbent, reserve: float
) -> Generator[Candidate, None, Floats | None]:
    """Choose among replicas that relax and fix finds; return these, None without any.

    Only among these if its point is better than the incumbent; then among those of both, and what
    the relaxation has. What links refuse beside copies of the incumbent may do beside what the
    point does. `reserve` seconds are left over.
    """
    problem, session, before = incumbent.problem, incumbent.session, incumbent.solution
    values = parameters.PARAMETERS
    incumbent.retry_refused_copies()
    seconds = values.relax_and_fix_time_share * (session.remaining() - reserve)
    restricted = (
        relax_and_fix(problem, session, before, incumbent.refused, seconds) if seconds > 0 else None
    )
    if restricted is None:
        return None

    def left(share: float) -> float:
        return share * max(0.0, session.remaining() - reserve)

    search = incumbent.search_from(before)
    if restricted.objective < before.objective(problem):
        chosen = search.solve_restricted(restricted.chosen, left(values.restricted_mip_time_share))
        if chosen is not None:
            search.set_incumbent(chosen, incumbent.refused)
            search.reoptimise_homes(left(values.restricted_mip_time_share))
            found = incumbent.recombine(search.solution, left(values.restricted_mip_time_share))
            if found.objective(problem) < before.objective(problem):
                yield incumbent.accept(found, "relax and fix")
        search.set_incumbent(incumbent.solution, incumbent.refused)
    if search.recombine(
        restricted.chosen | restricted.relaxed, left(values.widened_mip_time_share)
    ):
        yield incumbent.accept(search.solution, "relax and fix")
    return restricted.chosen.astype(np.float64)
