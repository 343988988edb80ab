"""The fuzz of explanations: it goes on where it was, and finds planted faults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fuzz.__main__ import main
from fuzz.explanations.run import run
from placewright.explain import explain_job as module
from placewright.explain.facts.fact import Fact


def nothing(*_: object) -> None:
    """Nothing is told."""


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = run("geo", 4, 0, None, nothing)
    file = tmp_path / "state.json"
    run("geo", 2, 0, file, nothing)
    parts = run("geo", 4, 0, file, nothing)
    whole.seconds = parts.seconds = 0.0
    assert parts == whole
    assert (whole.wrong, whole.undecided) == (0, 0)
    assert whole.corrections > 3


def test_a_conflict_with_more_facts_than_needed_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def every(facts: Sequence[Fact], _: object) -> list[Fact]:
        return [*facts]

    monkeypatch.setattr(module, "preferred_conflict", every)
    assert main(["explain", "--policy", "interleaving", "--jobs", "3"]) == 1
    assert "wrong: " in capsys.readouterr().out


def test_a_verdict_that_is_too_lasting_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "last_stratum", lambda _: module.Stratum.ASKS)
    told: list[str] = []
    state = run("geo", 8, 0, None, lambda _seed, _job, text: told.append(text))
    assert state.wrong > 0
    assert any("the verdict is never" in text for text in told)
