"""The end of a round does no work whose outcome is known."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.plan import DecisionKind, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.verify import Verification, verify
from placewright.rounds import solve, solve_round
from placewright.rounds.deciders import gang
from placewright.rounds.decisions import Why
from placewright.rounds.sections import reasons


def round_of(jobs: int) -> Round:
    job: dict[str, Any] = {"options": [{"groups": [{"gpu": 1}]}]}
    hosts = [{"name": "h", "gpus": 4, "gpu_model": "A"}]
    return Round.model_validate(
        {"cluster": {"hosts": hosts}, "jobs": [{"name": f"j{i}", **job} for i in range(jobs)]}
    )


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans that a solve verifies, in turn."""
    plans: list[Plan] = []

    def look(round_: Round, plan: Plan) -> Verification:
        plans.append(plan)
        return verify(round_, plan)

    monkeypatch.setattr(solve, "verify", look)
    return plans


@pytest.mark.parametrize("jobs", [3, 6])
def test_the_one_plan_of_a_limit_of_0_is_verified_once(checked: list[Plan], jobs: int) -> None:
    round_ = round_of(jobs)
    plan = solve_round(round_, time_limit=0, isolation="none")
    assert len(checked) == 1
    assert verify(round_, plan).ok
    waits = [d for d in plan.decisions if d.decision is DecisionKind.WAIT]
    assert len(waits) == max(0, jobs - 4)


def test_reasons_are_given_and_verified_at_the_end(checked: list[Plan]) -> None:
    round_ = round_of(2)
    big = round_of(1).jobs[0].model_copy(update={"name": "big"})
    group = big.options[0].groups[0].model_copy(update={"gpu": 5000})
    option = big.options[0].model_copy(update={"groups": (group,)})
    big = big.model_copy(update={"options": (option,)})
    round_ = round_.model_copy(update={"jobs": (*round_.jobs, big)})
    plan = solve_round(round_, time_limit=20, isolation="none")
    assert plan.decisions[2].reason is Reason.NEVER_FITS
    assert checked[-1].decisions == plan.decisions


def test_where_nobody_waits_no_place_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_states(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(reasons, "FixedStates", no_states)
    plan = solve_round(round_of(3), time_limit=20, isolation="none")
    assert {d.decision for d in plan.decisions} == {DecisionKind.START}


@pytest.mark.parametrize("time_limit", [0.0, 20.0])
def test_a_reason_that_is_refuted_costs_the_reasons_and_not_the_plan(
    monkeypatch: pytest.MonkeyPatch, time_limit: float
) -> None:
    def never(_problem: object, candidate: Candidate, **_: object) -> dict[int, Why]:
        return {j: Why(Reason.NEVER_FITS) for j in range(6) if j not in candidate.starts}

    monkeypatch.setattr(gang, "reasons_of", never)
    round_ = round_of(6)
    plan = solve_round(round_, time_limit=time_limit, isolation="none")
    waits = [d for d in plan.decisions if d.decision is DecisionKind.WAIT]
    assert [d.reason for d in waits] == [None, None]
    assert plan.certificate is not None
    assert any(fault.startswith("reasons: ") for fault in plan.certificate.degraded)
    assert verify(round_, plan).ok
