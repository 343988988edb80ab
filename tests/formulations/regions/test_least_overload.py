"""The least overload: against all distributions of demand, and in plans."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from placewright.array_types import Ints
from placewright.formulations.replicas.heuristics.greedy import greedy_solution
from placewright.formulations.replicas.heuristics.incumbent import LargeNeighbourhoodSearch
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.formulations.replicas.problem.problem import (
    least_overload,
    overload_of,
    overload_pieces,
)
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round
from placewright.solver import InProcess
from tests.formulations.regions import geo_tiny

SUPPLY = st.lists(st.integers(0, 3500), min_size=1, max_size=3).filter(any)


def spreads(supply: Ints, units: int) -> Iterator[Ints]:
    """Yield all distributions of a number of units over cells with supply."""
    for asked in product(*(range(units + 1 if free else 1) for free in supply)):
        if sum(asked) == units:
            yield np.array(asked)


@given(SUPPLY, st.integers(1, 1500), st.integers(0, 7))
def test_it_is_that_of_all_spreads_within_the_limits_and_of_no_others(
    capacity: list[int], unit: int, units: int
) -> None:
    supply = np.array(capacity)
    least = least_overload(supply, unit, units)
    reached = []
    for asked in spreads(supply, units):
        overload = overload_of(asked * unit, supply)
        within = bool(((least.lower <= asked) & (asked <= least.upper)).all())
        assert within == (overload == least.overload)
        assert overload >= least.overload
        reached.append(within)
    assert any(reached)


@given(SUPPLY, st.integers(1, 1500), st.integers(0, 20))
def test_pieces_add_up_to_overload_and_grow_dearer(
    capacity: list[int], unit: int, units: int
) -> None:
    supply = np.array(capacity)
    length, cost = overload_pieces(supply, unit, units)
    for kind in np.flatnonzero(supply):
        each = np.repeat(cost[:, kind], length[:, kind])[:units]
        asked = np.where(np.arange(supply.size) == kind, units * unit, 0)
        assert each.sum() == overload_of(asked, supply)
        assert (np.diff(each) >= 0).all()


def test_jobs_are_fitted_where_that_overloads_least_or_where_their_data_lets_them() -> None:
    job = {"reads": [{"dataset": "d", "gib": 10}]}
    stays = {**job, "regions": ["east"]}
    for pinned, overload in [(0, 2 * 1600), (4, 2000 + 1600)]:
        jobs = [stays] * pinned + [job] * (6 - pinned)
        problem = compile_replicas(geo_tiny.pair(jobs, "east", "west"))
        session = Session(
            solve=InProcess().solve, deadline=time.monotonic() + 600, deterministic=True
        )
        solution = greedy_solution(problem)
        solution.jobs[...] = 0
        solution.jobs[:, 0] = problem.count[:, None]
        search = LargeNeighbourhoodSearch(problem, session, solution, None)
        assert search.reoptimise_homes(60.0)
        assert search.solution.objective(problem)[0] == overload


def test_without_any_gpu_nothing_is_asked_and_all_is_proven() -> None:
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": "east", "level": "region"}],
                "hosts": [{"name": "e", "parent": "east", "gpus": 0}],
            },
            "jobs": [{"name": "j", "options": [{"groups": [{"gpu": 1}]}]}],
            "policy": {"formulation": "replicas"},
        }
    )
    certificate = solve_round(round_, isolation="none").certificate
    assert certificate is not None
    assert (certificate.status, certificate.degraded) == ("optimal", ())
