"""A phase that serves the first term alone is left out once that is proven within the gap."""

from __future__ import annotations

import time

import pytest

from placewright.formulations.gang.heuristics.migration import MIGRATION
from placewright.formulations.gang.heuristics.search import Search
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.run import PHASES
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.solver import InProcess

ONE_TERM = ["value"]
TWO_TERMS = ["value", "disruption"]


def search_of(terms: list[str], bound: float) -> Search:
    """A search with a plan of value 0, which is proven if the bound is 0."""
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h", "gpus": 1, "gpu_model": "A"}]},
            "jobs": [{"name": "j", "options": [{"groups": [{"gpu": 1000}]}]}],
            "policy": {"terms": terms},
        }
    )
    problem = compile_round(round_)
    session = Session(InProcess().solve, time.monotonic() + 60.0)
    session.best_known.values = dict.fromkeys(terms, 0)
    session.best_known.first_bound = bound
    search = Search(session, problem)
    search.incumbent = Placement(problem)
    search.reported_value = 0.0
    return search


@pytest.mark.parametrize("name", ["displacement by model", "repacking", "gang insertion"])
@pytest.mark.parametrize("terms", [ONE_TERM, TWO_TERMS])
@pytest.mark.parametrize("bound", [0.0, 1000.0])
def test_no_value_is_searched_for_once_it_is_proven(
    name: str, terms: list[str], bound: float
) -> None:
    (phase,) = (phase for phase in MIGRATION if phase.name == name)
    assert phase.applies(search_of(terms, bound)) == (bound > 0)


@pytest.mark.parametrize("name", ["repacking", "gang insertion"])
@pytest.mark.parametrize("terms", [ONE_TERM, TWO_TERMS])
def test_an_incumbent_behind_a_proven_plan_may_have_better_later_terms(
    name: str, terms: list[str]
) -> None:
    (phase,) = (phase for phase in MIGRATION if phase.name == name)
    search = search_of(terms, bound=0.0)
    search.reported_value = 1.0
    assert phase.applies(search) == (len(terms) > 1)


@pytest.mark.parametrize("terms", [ONE_TERM, TWO_TERMS])
@pytest.mark.parametrize("bound", [0.0, 1000.0])
def test_counts_are_searched_for_later_terms_or_a_gap(terms: list[str], bound: float) -> None:
    (phase,) = (phase for phase in PHASES if phase.name == "counts")
    search = search_of(terms, bound)
    search.incumbent = None
    search.tightest = object()  # type: ignore[assignment]
    assert phase.applies(search) == (bound > 0 or len(terms) > 1)


@pytest.mark.parametrize("terms", [ONE_TERM, TWO_TERMS])
@pytest.mark.parametrize("bound", [0.0, 1000.0])
def test_displacement_at_least_cost_follows_a_proven_value(terms: list[str], bound: float) -> None:
    (phase,) = (phase for phase in MIGRATION if phase.name == "displacement at least cost")
    assert phase.applies(search_of(terms, bound)) == (bound == 0.0 and len(terms) > 1)
