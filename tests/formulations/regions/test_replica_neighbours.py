"""Each kind of neighbourhood of the search for where data lives, alone."""

from __future__ import annotations

import time
from itertools import islice
from types import ModuleType
from typing import Any

import pytest
from formulation_parameters import set_parameters

from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.annealing import Annealing
from placewright.formulations.replicas.heuristics.greedy import greedy_solution
from placewright.formulations.replicas.heuristics.lns import LargeNeighbourhoodSearch
from placewright.formulations.replicas.heuristics.neighbourhoods import NeighbourhoodSampler
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.formulations.replicas.problem.objective import term_values
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Solution
from placewright.formulations.session import Session
from placewright.instances.generators.geo import generate
from placewright.solver import InProcess

SIZES = parameters.PARAMETERS.neighbourhood_sizes


@pytest.fixture(scope="module")
def problem() -> Problem:
    return compile_replicas(generate(regions=4, datasets=16, jobs=80, gpus=640, seed=3))


@pytest.fixture(scope="module")
def best(problem: Problem) -> Solution:
    """What a search with all kinds that need no relaxation comes to."""
    return searched(problem, greedy_solution(problem), 8)


def searched(
    problem: Problem, draft: Solution, parts: int, relaxed: Solution | None = None
) -> Solution:
    """Decide so many parts anew; no draft is worse than the one before, and all are lawful."""
    session = Session(solve=InProcess().solve, deadline=time.monotonic() + 600, deterministic=True)
    hint = None if relaxed is None else relaxed.replicas.astype(float)
    search = LargeNeighbourhoodSearch(problem, session, draft, hint)
    for better in islice(search.iterations(0.0), parts):
        assert better == (search.solution.objective(problem) < draft.objective(problem))
        assert better or search.solution is draft
        draft = search.solution
        assert (draft.replicas <= (problem.may_hold | problem.current)).all()
        assert (draft.jobs.sum(axis=(1, 2)) <= problem.count).all()
        exact = term_values(problem.wan, draft.layout(problem))
        assert draft.objective(problem) == tuple(
            exact[t] for t in ("overload", "remote_reads", "copies")
        )
    return draft


@pytest.mark.parametrize("kind", [kind for kind in SIZES if kind != "relaxed"])
def test_each_kind_of_part_betters_the_greedy_draft(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    set_parameters(monkeypatch, parameters, neighbourhood_sizes={kind: SIZES[kind]})
    draft = greedy_solution(problem)
    assert searched(problem, draft, 4).objective(problem) < draft.objective(problem)


def test_a_part_with_all_homes_free_touches_no_other_groups(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_parameters(
        monkeypatch,
        parameters,
        neighbourhood_sizes={"sizes": 3},
        min_neighbourhood_size=3,
        max_neighbourhood_size=3,
    )
    draft = greedy_solution(problem)
    after = searched(problem, draft, 1)
    # What nobody reads any more may go besides, where there is no room for it.
    changed = (after.replicas & ~draft.replicas & ~problem.current).any(axis=1)
    assert changed.sum() <= 3


def test_a_relaxation_that_knows_the_best_draft_leads_there_in_one_part(
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
        return part(self, "groups", *around)

    monkeypatch.setattr(NeighbourhoodSampler, "draw", noted)
    searched(problem, greedy_solution(problem), 8)
    assert "relaxed" not in drawn
    assert set(drawn) <= set(SIZES)


def test_a_cross_of_two_drafts_is_better_than_both_and_has_no_replica_that_none_has(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_parameters(monkeypatch, parameters, max_sweeps=3)
    session = Session(solve=InProcess().solve, deadline=time.monotonic() + 600, deterministic=True)
    found = [
        Annealing(problem, greedy_solution(problem), problem.may_hold, seed).run(session, 600.0)
        for seed in range(2)
    ]
    better, worse = sorted(found, key=lambda draft: draft.objective(problem))
    search = LargeNeighbourhoodSearch(problem, session, better, None)
    assert search.recombine(worse.replicas, 60.0)
    assert search.solution.objective(problem) < better.objective(problem)
    allowed = better.replicas | worse.replicas | problem.current
    assert (search.solution.replicas <= allowed).all()


def test_where_nothing_is_overloaded_what_is_chosen_may_be_and_is_repaired_from_there(
    geo_tiny: ModuleType,
) -> None:
    job = {"reads": [{"dataset": "d", "gib": 10, "remote": False}]}
    problem = compile_replicas(geo_tiny.pair([job] * 4, "east"))
    draft = greedy_solution(problem)
    assert draft.objective(problem) == (0, 0, 10)
    session = Session(solve=InProcess().solve, deadline=time.monotonic() + 600, deterministic=True)
    search = LargeNeighbourhoodSearch(problem, session, draft, None)
    chosen = search.solve_restricted(problem.current, 60.0)
    assert chosen is not None
    assert search.solution is draft
    assert chosen.objective(problem) == (3600, 0, 0)
    assert searched(problem, chosen, 4).objective(problem) == (0, 0, 10)
