"""Each kind of neighbourhood of the search for where data lives, alone."""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

import pytest
from formulation_parameters import set_parameters
from replica_terms import term_values

from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.annealing import Annealing
from placewright.formulations.replicas.heuristics.greedy import greedy_solution
from placewright.formulations.replicas.heuristics.incumbent import (
    LargeNeighbourhoodSearch,
    NeighbourhoodSampler,
)
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.formulations.replicas.problem.problem import Problem, Solution
from placewright.formulations.session import Session
from placewright.instances.generators.geo import generate
from placewright.solver import InProcess
from tests.formulations.regions import geo_tiny

SIZES = parameters.PARAMETERS.neighbourhood_sizes


@pytest.fixture(scope="module")
def problem() -> Problem:
    return compile_replicas(generate(regions=4, datasets=16, jobs=80, gpus=640, seed=3))


@pytest.fixture(scope="module")
def best(problem: Problem) -> Solution:
    """What a search with all kinds that need no relaxation comes to."""
    return searched(problem, greedy_solution(problem), 8)


def searched(
    problem: Problem, solution: Solution, neighbourhoods: int, relaxed: Solution | None = None
) -> Solution:
    """Solve a number of neighbourhoods; no solution gets worse, and all are lawful."""
    session = Session(solve=InProcess().solve, deadline=time.monotonic() + 600, deterministic=True)
    hint = None if relaxed is None else relaxed.replicas.astype(float)
    search = LargeNeighbourhoodSearch(problem, session, solution, hint)
    for better in islice(search.iterations(0.0), neighbourhoods):
        assert better == (search.solution.objective(problem) < solution.objective(problem))
        assert better or search.solution is solution
        solution = search.solution
        assert (solution.replicas <= (problem.may_hold | problem.current)).all()
        assert (solution.jobs.sum(axis=(1, 2)) <= problem.count).all()
        exact = term_values(problem.wan, solution.layout(problem))
        assert solution.objective(problem) == tuple(
            exact[t] for t in ("overload", "remote_reads", "copies")
        )
    return solution


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("kind", [kind for kind in SIZES if kind != "relaxed"])
def test_each_kind_of_neighbourhood_improves_the_greedy_solution(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    set_parameters(monkeypatch, parameters, neighbourhood_sizes={kind: SIZES[kind]})
    solution = greedy_solution(problem)
    assert searched(problem, solution, 4).objective(problem) < solution.objective(problem)


def test_a_neighbourhood_with_all_homes_free_changes_no_other_dataset_classes(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_parameters(
        monkeypatch,
        parameters,
        neighbourhood_sizes={"sizes": 3},
        min_neighbourhood_size=3,
        max_neighbourhood_size=3,
    )
    solution = greedy_solution(problem)
    after = searched(problem, solution, 1)
    # What nobody reads any more may go besides, where there is no room for it.
    changed = (after.replicas & ~solution.replicas & ~problem.current).any(axis=1)
    assert changed.sum() <= 3


def test_a_relaxation_equal_to_the_best_solution_leads_there_in_one_neighbourhood(
    problem: Problem, best: Solution, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_parameters(
        monkeypatch, parameters, neighbourhood_sizes={"relaxed": problem.dataset_classes}
    )
    start = greedy_solution(problem, copying=False)
    found = searched(problem, start, 1, relaxed=best)
    assert found.objective(problem)[:2] == best.objective(problem)[:2]
    assert found.objective(problem)[2] <= best.objective(problem)[2] * 1.01
    # No replica is elsewhere than in one of the two.
    allowed = best.replicas | start.replicas | problem.current
    assert (found.replicas <= allowed).all()


def test_without_a_relaxation_its_kind_is_never_drawn(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    part = NeighbourhoodSampler.draw

    def noted(self: NeighbourhoodSampler, kind: str, *around: Any) -> object:
        drawn.append(kind)
        return part(self, "connected", *around)

    monkeypatch.setattr(NeighbourhoodSampler, "draw", noted)
    searched(problem, greedy_solution(problem), 8)
    assert "relaxed" not in drawn
    assert set(drawn) <= set(SIZES)


def test_a_recombination_is_better_than_both_parents_and_has_no_other_replicas(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_parameters(monkeypatch, parameters, max_sweeps=3)
    session = Session(solve=InProcess().solve, deadline=time.monotonic() + 600, deterministic=True)
    found = [
        Annealing(problem, greedy_solution(problem), problem.may_hold, seed).run(session, 600.0)
        for seed in range(2)
    ]
    better, worse = sorted(found, key=lambda solution: solution.objective(problem))
    search = LargeNeighbourhoodSearch(problem, session, better, None)
    assert search.recombine(worse.replicas, 60.0)
    assert search.solution.objective(problem) < better.objective(problem)
    allowed = better.replicas | worse.replicas | problem.current
    assert (search.solution.replicas <= allowed).all()


def test_a_restricted_mip_may_overload_and_is_repaired_from_there() -> None:
    job = {"reads": [{"dataset": "d", "gib": 10, "remote": False}]}
    problem = compile_replicas(geo_tiny.pair([job] * 4, "east"))
    solution = greedy_solution(problem)
    assert solution.objective(problem) == (0, 0, 10)
    session = Session(solve=InProcess().solve, deadline=time.monotonic() + 600, deterministic=True)
    search = LargeNeighbourhoodSearch(problem, session, solution, None)
    chosen = search.solve_restricted(problem.current, 60.0)
    assert chosen is not None
    assert search.solution is solution
    assert chosen.objective(problem) == (3600, 0, 0)
    assert searched(problem, chosen, 4).objective(problem) == (0, 0, 10)
