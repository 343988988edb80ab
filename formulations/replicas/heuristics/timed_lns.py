"""Large-neighbourhood search within the time, which reports an incumbent now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from placewright.array_types import Floats
from placewright.formulations.plan_messages import Candidate
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.incumbent import Incumbent


def search_neighbourhoods(
    incumbent: Incumbent,
    relaxed: Floats | None,
    reserve: float,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Candidate]:
    """Yield better plans than the incumbent, seldom, since scheduling their transfers takes time.

    Ends when `reserve` seconds are left, or after an iteration once `stop` is true.

    Parameters
    ----------
    relaxed
        (dataset classes, regions): fractional replicas of the LP relaxation; None if unknown.
    """
    session, values = incumbent.session, parameters.PARAMETERS
    search = incumbent.search_from(incumbent.solution, relaxed)
    cost, reported, better = 0.0, time.monotonic(), False
    for number, found in enumerate(search.iterations(reserve)):
        better |= found and search.solution.objective(incumbent.problem) < incumbent.objective
        late = session.expired(reserve + values.last_plan_reserve_factor * cost)
        over = late or number >= values.max_neighbourhoods or stop()
        due = (
            not session.deterministic
            and time.monotonic() - reported > values.report_interval_factor * cost
        )
        if better and (over or due):
            began = time.monotonic()
            yield incumbent.accept(search.solution, "search")
            search.set_incumbent(incumbent.solution, incumbent.refused)
            reported, better = time.monotonic(), False
            cost = reported - began
        if over:
            break
    if better:
        yield incumbent.accept(search.solution, "search")
