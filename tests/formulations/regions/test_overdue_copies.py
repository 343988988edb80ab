"""Large rounds at short limits: once it is late no more copies are routed, and plans are valid."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import pytest
from formulation_parameters import set_parameters

from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.bounds import prove
from placewright.formulations.session import Session
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.solver import InProcess


@pytest.fixture(scope="module")
def drawn() -> Round:
    return generate(regions=4, datasets=48, jobs=240, gpus=1600, seed=3)


def copies(plan: Plan) -> list[Any]:
    return [create for s in plan.sections if s["kind"] == "replicas" for create in s["creates"]]


def overdue_after(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """Let it be late after so many looks at the clock."""
    looked = count()
    monkeypatch.setattr(Session, "overdue", lambda *_: next(looked) >= looks)


def test_what_was_routed_before_it_is_late_is_copied(
    drawn: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for looks in (0, 8, 10**6):
        overdue_after(monkeypatch, looks)
        plan = solve_round(drawn, time_limit=0, isolation="none")
        assert verify(drawn, plan).ok
        made.append(len(copies(plan)))
    assert made[0] == 0 < made[1] < made[2]


def test_it_is_overdue_some_seconds_after_the_deadline_if_any_time_was_given() -> None:
    past = time.monotonic() - 10.0
    late = Session(InProcess().solve, past, budget=1.0)
    assert late.overdue(1.0)
    assert late.wall_stopped
    assert not late.overdue(10**6)
    greedily = Session(InProcess().solve, past, budget=0.0)
    assert not greedily.overdue(1.0)
    assert not greedily.wall_stopped


def test_nothing_is_relaxed_that_takes_too_much_memory(
    drawn: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> None:
        raise MemoryError

    set_parameters(monkeypatch, parameters, relaxation_max_source_pairs=0)
    for module in (prove, prove):
        monkeypatch.setattr(module, "aggregate_problem", refused)
    plan = solve_round(drawn, time_limit=0, isolation="none")
    assert verify(drawn, plan).ok
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    assert {term.certified for term in plan.certificate.terms} == {0}
