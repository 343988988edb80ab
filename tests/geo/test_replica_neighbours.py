"""Each kind of neighbourhood of the search for where data lives, alone."""

from __future__ import annotations

import time
from itertools import islice
from types import ModuleType

import pytest

from placewright.formulations.replicas.heuristics import annealing, lns
from placewright.formulations.replicas.heuristics.annealing import Annealing
from placewright.formulations.replicas.heuristics.greedy import greedy
from placewright.formulations.replicas.heuristics.lns import FIRST, Neighbours
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.formulations.replicas.problem.objective import values
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Draft
from placewright.formulations.session import Session
from placewright.instances.generators.geo import generate
from placewright.solver import InProcess


@pytest.fixture(scope="module")
def problem() -> Problem:
    return compile_replicas(generate(regions=4, datasets=16, jobs=80, gpus=640, seed=3))


@pytest.fixture(scope="module")
def best(problem: Problem) -> Draft:
    """What a search with all kinds that need no relaxation comes to."""
    return searched(problem, greedy(problem), 8)


def searched(problem: Problem, draft: Draft, parts: int, relaxed: Draft | None = None) -> Draft:
    """Decide so many parts anew; no draft is worse than the one before, and all are lawful."""
    session = Session(solve=InProcess().solve, deadline=time.monotonic() + 600, deterministic=True)
    hint = None if relaxed is None else relaxed.replicas.astype(float)
    search = Neighbours(problem, session, draft, hint)
    for better in islice(search.steps(0.0), parts):
        assert better == (search.draft.rank(problem) < draft.rank(problem))
        assert better or search.draft is draft
        draft = search.draft
        assert (draft.replicas <= (problem.may_hold | problem.now)).all()
        assert (draft.jobs.sum(axis=(1, 2)) <= problem.count).all()
        exact = values(problem.wan, draft.layout(problem))
        assert draft.rank(problem) == tuple(
            exact[t] for t in ("overload", "remote_reads", "copies")
        )
    return draft


@pytest.mark.parametrize("kind", [kind for kind in FIRST if kind != "relaxed"])
def test_each_kind_of_part_betters_the_greedy_draft(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(lns, "FIRST", {kind: FIRST[kind]})
    draft = greedy(problem)
    assert searched(problem, draft, 4).rank(problem) < draft.rank(problem)


def test_a_part_with_all_homes_free_touches_no_other_groups(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lns, "FIRST", {"sizes": 3})
    monkeypatch.setattr(lns, "LEAST", 3)
    monkeypatch.setattr(lns, "MOST", 3)
    draft = greedy(problem)
    after = searched(problem, draft, 1)
    # What nobody reads any more may go besides, where there is no room for it.
    changed = (after.replicas & ~draft.replicas & ~problem.now).any(axis=1)
    assert changed.sum() <= 3


def test_a_relaxation_that_knows_the_best_draft_leads_there_in_one_part(
    problem: Problem, best: Draft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lns, "FIRST", {"relaxed": problem.groups})
    start = greedy(problem, copying=False)
    found = searched(problem, start, 1, relaxed=best)
    assert found.rank(problem)[:2] == best.rank(problem)[:2]
    assert found.rank(problem)[2] <= best.rank(problem)[2] * 1.01
    # No replica is elsewhere than in one of the two.
    allowed = best.replicas | start.replicas | problem.now
    assert (found.replicas <= allowed).all()


def test_without_a_relaxation_its_kind_is_never_drawn(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    part = Neighbours._part

    def noted(self: Neighbours, kind: str) -> object:
        drawn.append(kind)
        return part(self, "groups")

    monkeypatch.setattr(Neighbours, "_part", noted)
    searched(problem, greedy(problem), 8)
    assert "relaxed" not in drawn
    assert set(drawn) <= set(FIRST)


def test_a_cross_of_two_drafts_is_better_than_both_and_has_no_replica_that_none_has(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(annealing, "SWEEPS", 3)
    session = Session(solve=InProcess().solve, deadline=time.monotonic() + 600, deterministic=True)
    found = [
        Annealing(problem, greedy(problem), problem.may_hold, seed).run(session, 600.0)
        for seed in range(2)
    ]
    better, worse = sorted(found, key=lambda draft: draft.rank(problem))
    search = Neighbours(problem, session, better, None)
    assert search.cross(worse.replicas, 60.0)
    assert search.draft.rank(problem) < better.rank(problem)
    allowed = better.replicas | worse.replicas | problem.now
    assert (search.draft.replicas <= allowed).all()


def test_where_nothing_is_overloaded_what_is_chosen_may_be_and_is_mended_from_there(
    geo_tiny: ModuleType,
) -> None:
    job = {"reads": [{"dataset": "d", "gib": 10, "remote": False}]}
    problem = compile_replicas(geo_tiny.pair([job] * 4, "east"))
    draft = greedy(problem)
    assert draft.rank(problem) == (0, 0, 10)
    session = Session(solve=InProcess().solve, deadline=time.monotonic() + 600, deterministic=True)
    search = Neighbours(problem, session, draft, None)
    chosen = search.choose(problem.now, 60.0)
    assert chosen is not None
    assert search.draft is draft
    assert chosen.rank(problem) == (3600, 0, 0)
    assert searched(problem, chosen, 4).rank(problem) == (0, 0, 10)
