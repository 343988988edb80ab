"""The status of a plan is told per term: in the certificate, and where a plan is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.mark.parametrize(("seconds", "gpus"), [(0, 128), (5, 64)])
def test_each_term_has_a_status_of_its_own(run, tmp_path: Path, seconds: int, gpus: int) -> None:
    file, made = tmp_path / "round.json", tmp_path / "plan.json"
    assert (
        run("generate", "round", "--gpus", f"{gpus}", "--jobs", f"{gpus // 3}", "-o", file).code
        == 0
    )
    shown = run("solve", file, "-o", made, "--time-limit", str(seconds))
    terms = json.loads(made.read_text())["certificate"]["terms"]
    printed = (shown.out + shown.err).partition("Objective")[2].splitlines()
    for term in terms:
        assert term["status"] in ("optimal", "within_gap", "feasible")
        row = next(line.split() for line in printed if line.split()[:1] == [term["name"]])
        assert row[-1] == term["status"].split("_")[-1]
    if not seconds:
        assert {"optimal", "feasible"} <= {term["status"] for term in terms}
