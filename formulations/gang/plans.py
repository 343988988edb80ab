"""Plans from the count models, for jobs that start around what runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from placewright.formulations.gang.expand import expand
from placewright.formulations.gang.growing import grow
from placewright.formulations.gang.hostpatterns import HostPatterns
from placewright.formulations.gang.models import CountModel, search
from placewright.formulations.gang.naming import candidate
from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.problem import Problem
from placewright.formulations.gang.repair import repair
from placewright.formulations.session import Bound, Candidate, Session


def plans(
    session: Session,
    problem: Problem,
    greedy: Placement,
    tightest: CountModel,
    models: Iterator[CountModel],
) -> Iterator[Candidate | Bound]:
    """Try the models in turn until a plan is close enough to the tightest bound; then repair."""
    first, best = problem.terms[0], greedy
    for model in chain([tightest], models):
        values = yield from search(session, *model)
        if values is not None:
            placement = expand(*model, values, session)
            grow(placement)
            yield candidate(placement, "counts")
            best = max(best, placement, key=lambda p: p.value)
            if isinstance(tightest.patterns, HostPatterns):
                tightest.patterns.learn(placement)
        best_values = session.best or {}
        if first in best_values and session.close_enough(best_values[first]):
            break
    else:
        yield from repair(problem, session, best)
