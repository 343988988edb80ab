"""Some rounds of each policy, and faults that the fuzz must find."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from examples import examples
from placewright.formulations.gang import parameters
from placewright.instances.verify import verify

ROOT = Path(__file__).parents[2]
ROUNDS = examples(day=2, nightly=10)
POLICIES = (
    "gang",
    "priorities",
    "crowds",
    "pools",
    "links",
    "sizes",
    "queue",
    "cells",
    "interleaving",
    "deadline",
    "geo",
    "replicas",
    "stages",
)


@pytest.fixture(scope="module")
def fuzz() -> Iterator[SimpleNamespace]:
    """The modules of the fuzz, which are importable from the repository's root only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        names = ("play", "policies", "run", "watching")
        modules = {name: importlib.import_module(f"fuzz.{name}") for name in names}
        yield SimpleNamespace(**modules, main=importlib.import_module("fuzz.__main__").main)


def test_each_policy_is_played_here(fuzz):
    assert set(fuzz.policies.POLICIES) == set(POLICIES)


@pytest.mark.parametrize("name", POLICIES)
def test_nothing_fails_in_some_rounds_of(fuzz, name):
    state = fuzz.run.run(fuzz.policies.POLICIES[name], ROUNDS, 0, None, lambda *_: None)
    assert state.rounds == ROUNDS
    assert not state.failures


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("name", ["gang", "queue", "cells", "interleaving", "deadline", "geo"])
def test_the_path_of_large_rounds_can_be_the_only_one(fuzz, name, monkeypatch, capsys):
    limits: list[int] = []
    solve = fuzz.play.watched

    def watched(*given: Any, **more: Any) -> Any:
        limits.append(parameters.PARAMETERS.run.max_exact_variables)
        return solve(*given, **more)

    monkeypatch.setattr(fuzz.play, "watched", watched)
    assert fuzz.main([name, "--rounds", "3", "--setting", "counting"]) == 0
    assert limits
    assert set(limits) == {0}
    assert "3 rounds" in capsys.readouterr().out


def test_a_setting_that_a_policy_does_not_have_is_refused(fuzz, capsys):
    with pytest.raises(SystemExit):
        fuzz.main(["gang", "--setting", "hurried"])
    expected = "--setting 'hurried': gang has no such setting; expected 'exact', 'counting'"
    assert expected in capsys.readouterr().err


def test_a_schedule_that_is_not_sought_is_checked_by_itself(fuzz):
    # One copy goes on while another is made and passed on; the generator makes one after another.
    link = {"bandwidth": 8590}
    round_ = {
        "cluster": {
            "levels": ["region"],
            "domains": [{"name": name, "level": "region"} for name in ("r0", "r1", "r2")],
            "hosts": [{"name": "h0", "parent": "r0", "gpus": 1, "gpu_model": "A"}],
        },
        "geo": {
            "level": "region",
            "window_s": 10,
            "links": [
                {"source": "r1", "target": "r0", "bandwidth": 2578},
                {"source": "r1", "target": "r2", **link},
                {"source": "r2", "target": "r0", **link},
            ],
            "datasets": [
                {"name": "d0", "size": 3, "replicas": ["r1"]},
                {"name": "d1", "size": 4, "replicas": ["r1"]},
            ],
        },
        "policy": {"formulation": "replicas"},
        "jobs": [{"name": "j0", "options": [{"groups": [{"gpu": 1000}]}], "reads": []}],
    }
    flows = [
        {"dataset": "d0", "path": ["r1", "r0"], "gib": 3, "start": 0, "end": 10},
        {"dataset": "d1", "path": ["r1", "r2"], "gib": 4, "start": 0, "end": 5},
        {"dataset": "d1", "path": ["r2", "r0"], "gib": 4, "start": 5, "end": 10},
    ]
    creates = [
        {"dataset": "d0", "region": "r0", "ready": 10},
        {"dataset": "d1", "region": "r2", "ready": 5},
        {"dataset": "d1", "region": "r0", "ready": 10},
    ]
    homes = [{"job": "j0", "region": "r0", "gpu_model": "A"}]
    data = {"kind": "replicas", "creates": creates, "drops": [], "homes": homes}
    plan = {"sections": [data, {"kind": "flows", "flows": flows}]}
    judge = fuzz.policies.POLICIES["replicas"].judge
    judged = judge(round_, plan)
    assert not judged.broken
    assert judged.terms["copies"] == 11
    flows[2]["start"] = 4
    assert judge(round_, plan).broken == "flow_source"


def test_an_engine_is_watched_round_after_round(fuzz):
    raw = {
        "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 2, "gpu_model": "A"}]},
        "jobs": [
            {"name": f"j{i}", "options": [{"groups": [{"gpu": 1000 + 1000 * (i % 2)}]}]}
            for i in range(4)
        ],
    }
    round_, rng = fuzz.play.read(raw), Random(0)
    watched = list(fuzz.watching.following(round_, rng, time_limit=5.0, isolation="none"))
    assert len(watched) >= 3
    for solve, plan in watched:
        verification = verify(solve.round, plan)
        assert verification.ok
        assert {bound.term for bound in solve.told} >= {"value"}
    names = [{job.name for job in solve.round.jobs} for solve, _ in watched]
    assert all(len(before - after) == 1 for before, after in pairwise(names))
    assert all(len(after - before) == 1 for before, after in pairwise(names))


def test_all_bounds_are_recorded_that_are_proven_of_a_plan(fuzz):
    raw = {
        "cluster": {"hosts": [{"name": "h0", "gpus": 1, "gpu_model": "A"}]},
        "jobs": [{"name": "j0", "options": [{"groups": [{"gpu": 1000}]}]}],
    }
    round_ = fuzz.play.read(raw)
    waits = {"decisions": [{"job": "j0", "decision": "wait"}]}
    results, recorded = fuzz.watching.proven(
        round_, fuzz.play.read_plan(waits), time_limit=5.0, isolation="none"
    )
    assert results[0].bound == 1000
    assert ("value", 1000) in [(bound.term, bound.value) for bound in recorded]
