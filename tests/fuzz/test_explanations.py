"""The fuzz of explanations: it goes on where it was, and finds planted faults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from examples import examples
from fuzz.__main__ import main
from fuzz.explanations.questions import gang_starts
from fuzz.explanations.run import run
from fuzz.play import read
from fuzz.policy import Raw
from placewright.explain import explain_job as module
from placewright.explain.facts.fact import Fact, World


def nothing(*_: object) -> None:
    """Nothing is told."""


def cells_of_one_host() -> Raw:
    """Two hosts, of which a tenant owns one of model B, and a job of it that either could hold."""
    hosts = [{"name": f"h{m}", "gpus": 2, "cpu": 8, "memory": 8, "gpu_model": m} for m in "AB"]
    return {
        "cluster": {"levels": [], "domains": [], "hosts": hosts},
        "tenants": [{"name": "t", "cells": [{"level": "host", "gpu_model": "B"}]}],
        "jobs": [{"name": "j", "tenant": "t", "options": [{"groups": [{"gpu": 1000}]}]}],
        "policy": {"terms": ["value"]},
    }


def running_on(host: str, job: Raw) -> Raw:
    """Return a job that runs on the first GPU of a host."""
    running = {"option": 0, "tasks": [{"group": 0, "index": 0, "host": host, "gpus": [0]}]}
    return {**job, "options": [{"groups": [{"gpu": 1000}]}], "running": running}


def test_a_guaranteed_job_starts_only_in_a_cell_that_may_be_bound() -> None:
    round_ = cells_of_one_host()
    assert gang_starts(World(read(round_), "j"))
    round_["reservations"] = [{"host": "hB"}]
    assert not gang_starts(World(read(round_), "j"))
    round_["jobs"][0]["opportunistic"] = True
    assert gang_starts(World(read(round_), "j"))


def test_a_guaranteed_job_starts_in_a_cell_beside_a_job_that_could_be_evicted() -> None:
    round_ = cells_of_one_host()
    round_["jobs"].append(running_on("hB", {"name": "r"}))
    assert gang_starts(World(read(round_), "j"))
    round_["jobs"][1]["running"]["pinned"] = True
    assert not gang_starts(World(read(round_), "j"))


@pytest.mark.nightly
def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    jobs = examples(day=2, nightly=4)
    whole = run("geo", jobs, 0, None, nothing)
    file = tmp_path / "state.json"
    run("geo", jobs // 2, 0, file, nothing)
    parts = run("geo", jobs, 0, file, nothing)
    whole.seconds = parts.seconds = 0.0
    assert parts == whole
    assert (whole.wrong, whole.undecided) == (0, 0)
    assert whole.corrections > examples(day=0, nightly=3)


@pytest.mark.nightly
def test_a_conflict_with_more_facts_than_needed_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def every(facts: Sequence[Fact], _: object) -> list[Fact]:
        return [*facts]

    monkeypatch.setattr(module, "preferred_conflict", every)
    assert main(["explain", "--policy", "interleaving", "--jobs", "3"]) == 1
    assert "wrong: " in capsys.readouterr().out


@pytest.mark.nightly
def test_a_verdict_that_is_too_lasting_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "last_stratum", lambda _: module.Stratum.ASKS)
    told: list[str] = []
    state = run("geo", 8, 0, None, lambda _seed, _job, text: told.append(text))
    assert state.wrong > 0
    assert any("the verdict is never" in text for text in told)
