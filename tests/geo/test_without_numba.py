"""Policy `replicas` without its extra: LNS alone, and a line that says how to install numba."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from placewright.instances import parse_plan
from placewright.instances.generators.geo import generate
from placewright.instances.verify import verify

WITHOUT = """
import json, sys
sys.modules["numba"] = None  # Imports of it fail.
from placewright.instances.generators.geo import generate
from placewright.rounds import prove_bounds, solve_round

drawn = generate(regions=4, datasets=48, jobs=240, gpus=1600, seed=3)
plan = solve_round(drawn, time_limit=float(sys.argv[1]), deterministic=sys.argv[2] == "True")
bounds = prove_bounds(drawn, plan, time_limit=10)
terms = bounds[0] if isinstance(bounds[0], tuple) else bounds
print(json.dumps({
    "plan": plan.model_dump(mode="json"),
    "bounds": {term.name: term.bound for term in terms},
    "machine code": [name for name in sys.modules if name.startswith("numba.")],
}))
"""
MISSING = "nothing was annealed: numba is not installed (pip install 'placewright[replicas]')"


def solved(seconds: float, *, deterministic: bool) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(seconds), str(deterministic)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def fixed() -> dict[str, Any]:
    return solved(15, deterministic=True)


def test_the_plan_is_valid_and_better_than_the_greedy_one(fixed: dict[str, Any]) -> None:
    drawn = generate(regions=4, datasets=48, jobs=240, gpus=1600, seed=3)
    plan = parse_plan(fixed["plan"])
    found = verify(drawn, plan)
    assert found.ok
    greedy = parse_plan(solved(0, deterministic=False)["plan"])
    mine = [found.terms[term] for term in drawn.policy.terms]
    assert mine < [verify(drawn, greedy).terms[term] for term in drawn.policy.terms]


def test_it_says_once_how_to_install_what_is_missing(fixed: dict[str, Any]) -> None:
    assert fixed["plan"]["certificate"]["degraded"] == [MISSING]
    assert fixed["machine code"] == []


def test_no_bound_beats_the_plan(fixed: dict[str, Any]) -> None:
    plan = parse_plan(fixed["plan"])
    assert plan.certificate is not None
    for term in plan.certificate.terms:
        assert term.bound is not None
        assert term.bound <= term.value
        assert fixed["bounds"][term.name] <= term.value


def test_a_deterministic_round_knows_beforehand_that_it_goes_without(fixed: dict[str, Any]) -> None:
    again = solved(15, deterministic=True)
    for one in (fixed, again):
        one["plan"]["certificate"].pop("run")
    assert fixed["plan"] == again["plan"]
