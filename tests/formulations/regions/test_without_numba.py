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

BLOCKED = """
import json, sys
sys.modules["numba"] = None  # Imports of it fail.
"""
SOLVED = """
from placewright.instances.generators.geo import generate
from placewright.rounds import prove_bounds, solve_round

drawn = generate(regions=4, datasets=48, jobs=240, gpus=1600, seed=3)
greedy = solve_round(drawn, time_limit=0)
plan = solve_round(drawn, time_limit=3, deterministic=True)
bounds = prove_bounds(drawn, plan, time_limit=2)

print(json.dumps({
    "greedy": greedy.model_dump(mode="json"),
    "plan": plan.model_dump(mode="json"),
    "bounds": {term.name: term.bound for term in bounds},
    "loaded": [name for name in sys.modules if name.startswith("numba.")],
}))
"""
DECIDED = """
import time
from placewright.formulations.replicas.machine_code import ANNEALING
from placewright.formulations.session import Session
from placewright.solver import machine_code

waits = []
machine_code.time.sleep = waits.append
session = Session(None, time.monotonic() + 600, deterministic=True)
print(json.dumps({
    "available": ANNEALING.available(session),
    "missing": ANNEALING.missing,
    "waited": bool(waits),
    "started": ANNEALING._maker is not None,
}))
"""

MISSING = "numba is not installed (pip install 'placewright[replicas]')"


def child(code: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def solved() -> dict[str, Any]:
    return child(SOLVED)


def test_the_plan_is_valid_and_no_worse_than_the_greedy_one(solved: dict[str, Any]) -> None:
    drawn = generate(regions=4, datasets=48, jobs=240, gpus=1600, seed=3)
    plan = parse_plan(solved["plan"])
    found = verify(drawn, plan)
    assert found.ok
    greedy = parse_plan(solved["greedy"])
    mine = [found.terms[term] for term in drawn.policy.terms]
    assert mine <= [verify(drawn, greedy).terms[term] for term in drawn.policy.terms]


def test_it_says_once_how_to_install_what_is_missing(solved: dict[str, Any]) -> None:
    # A solver that the clock has ended is told there, too.
    told = [one for one in solved["plan"]["certificate"]["degraded"] if MISSING in one]
    assert told == [f"nothing was annealed: {MISSING}"]
    assert solved["loaded"] == []


def test_no_bound_beats_the_plan(solved: dict[str, Any]) -> None:
    plan = parse_plan(solved["plan"])
    assert plan.certificate is not None
    for term in plan.certificate.terms:
        # On a busy machine the time may be over before a bound is proven.
        for bound in (term.bound, solved["bounds"][term.name]):
            assert bound is None or bound <= term.value


def test_a_deterministic_round_knows_beforehand_that_it_goes_without() -> None:
    found = child(DECIDED)
    assert found == {"available": False, "missing": MISSING, "waited": False, "started": False}
