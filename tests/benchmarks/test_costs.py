"""The benchmark `costs`: stages of a solve in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cost_clock import STAGES
from benchmarks.costs import OURS, Case, _solved


@pytest.mark.nightly
def test_stages_add_up_to_the_whole(tmp_path: Path) -> None:
    file = tmp_path / "round.json"
    Case(64, 30, "tight").write(file)
    made = _solved(OURS / "src", file, 2.0)
    assert made["stages"].keys() == {"import", "load", "search", "solver", *STAGES}
    assert made["all"] == pytest.approx(sum(made["stages"].values()))
    assert made["stages"]["verify"] > 0
