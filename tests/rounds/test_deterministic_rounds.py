"""Deterministic rounds: work decides, and the clock only when the time is really over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from gang_parameters import set_parameters

from placewright.formulations import session as sessions
from placewright.formulations.session import Session
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.instances.generators.geo import generate
from placewright.rounds import solve_round
from placewright.solver import Arrays, InProcess, Limits, Model, Outcome

LIMIT, AMPLE = 5.0, 1000.0


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let formulations read a clock that stands still when a given number of seconds is left.

    Solvers have ample time, so that no test hangs on how fast this machine is.
    """
    honest = InProcess.solve

    def solve(self: InProcess, backend: str, arrays: Arrays, limits: Limits, *rest: Any) -> Outcome:
        return honest(self, backend, arrays, replace(limits, seconds=AMPLE), *rest)

    monkeypatch.setattr(InProcess, "solve", solve)

    def stop_clock(seconds: float) -> None:
        now = time.monotonic() + LIMIT - seconds
        monkeypatch.setattr(sessions, "time", SimpleNamespace(monotonic=lambda: now))

    return stop_clock


def planned(round_: Round) -> Plan:
    plan = solve_round(round_, time_limit=LIMIT, deterministic=True, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.repeatable, plan.certificate
    certificate = plan.certificate.model_copy(update={"run": None})
    return plan.model_copy(update={"certificate": certificate})


def stranding() -> Round:
    made = generate_round(32, 24, mix="easy", seed=1)
    policy = made.policy.model_copy(update={"terms": ("value", "stranded")})
    return made.model_copy(update={"policy": policy})


ROUNDS: dict[str, Callable[[], Round]] = {
    "exact": lambda: generate_round(32, 12, mix="tight", seed=1),
    "one repair": lambda: generate_round(32, 12, mix="tight", seed=0),
    "some repairs": lambda: generate_round(128, 60, mix="hard", seed=1),
    "stranded": stranding,
    "geo": lambda: generate(regions=3, datasets=12, jobs=60, gpus=480, policy="geo", seed=3),
    "replicas": lambda: generate(regions=3, datasets=5, jobs=30, gpus=48, seed=1),
}


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("name", ROUNDS)
def test_a_slow_machine_makes_the_same_plan(
    name: str, monkeypatch: pytest.MonkeyPatch, left: Callable[[float], None]
) -> None:
    """However little of the time is left, as long as it is not over."""
    if name != "exact":
        set_parameters(monkeypatch, "run", max_exact_variables=-1)
    round_ = ROUNDS[name]()
    left(LIMIT)
    first = planned(round_)
    left(2.0)
    assert planned(round_) == first


def test_time_that_ends_between_two_looks_at_the_clock_is_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look finds the clock a second further on."""
    model = Model()
    model.term("value", model.variables("x", 1, upper=3), 1, sense="max")
    ticks = count()
    monkeypatch.setattr(sessions, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    for deterministic in (False, True):
        session = Session(InProcess().solve, next(ticks) + 1.5, deterministic=deterministic)
        outcome = session.optimise(model.arrays("value"))
        assert outcome is not None
        assert outcome.objective == 3
        assert session.optimise(model.arrays("value")) is None
        assert session.wall_stopped
        assert session.degraded == []
