"""Tables of a plan ask what an option takes once, however many jobs share it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from placewright.cli.views.tables import print_plan
from placewright.instances.documents.option import Option
from placewright.instances.io.files import parse_round
from placewright.rounds import solve_round


def test_options_are_summed_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    job = {"options": [{"groups": [{"gpu": 2}]}]}
    cluster = {"hosts": [{"name": "h", "gpus": 8, "gpu_model": "A"}]}
    jobs = [{"name": f"j{i}", **job} for i in range(100)]
    round_ = parse_round({"cluster": cluster, "jobs": jobs})
    plan = solve_round(round_, time_limit=0, isolation="none")
    asked = []
    true = Option.milli_gpu.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Option, "milli_gpu", property(lambda o: asked.append(o) or true(o)))
    out = io.StringIO()
    print_plan(Console(file=out, width=100), round_, plan)
    assert len(asked) == 1
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert ["started", "4", "8"] in lines
    assert ["waiting", "96", "192"] in lines
