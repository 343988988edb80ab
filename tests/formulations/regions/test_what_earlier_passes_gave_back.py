"""Later passes of the decomposition leave alone what jobs gave back in earlier ones."""

from __future__ import annotations

import numpy as np
import pytest
from formulation_parameters import set_parameters

from examples import by_day
from placewright.formulations.geo import parameters
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate
from placewright.instances.verify import verify
from placewright.rounds import solve, solve_round
from placewright.rounds.displacement.victims import lawful

Refused = list[Candidate]


def with_quotas(seed: int) -> Round:
    """Return a small round of three regions whose tenants may hold half of what they ask."""
    rng = np.random.default_rng(seed)
    round_ = generate(
        regions=3, datasets=6, jobs=60, gpus=128, mix="scarce", seed=seed, policy="geo"
    )
    jobs = [job.model_copy(update={"priority": int(rng.integers(0, 3))}) for job in round_.jobs]
    asked = dict.fromkeys((tenant.name for tenant in round_.tenants), 0)
    for job in jobs:
        asked[job.tenant or ""] += job.options[0].milli_gpu
    tenants = [
        tenant.model_copy(update={"quota": {"gpu": asked[tenant.name] // 2}})
        for tenant in round_.tenants
    ]
    return round_.model_copy(update={"jobs": tuple(jobs), "tenants": tuple(tenants)})


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Refused:
    """The candidates whose preemptions are unlawful, with regions decided in several passes."""
    found: Refused = []

    def noted(round_: Round, hosts: tuple[str, ...], candidate: Candidate) -> Candidate | None:
        kept = lawful(round_, hosts, candidate)
        if kept is None:
            found.append(candidate)
        return kept

    monkeypatch.setattr(solve, "lawful", noted)
    several = {"min_gain_rel": -1.0, "max_residual_passes": 5}
    set_parameters(monkeypatch, parameters, max_monolithic_size=0, max_refined_size=0, **several)
    return found


def preempting(round_: Round) -> int:
    """Decide a round and return how many jobs its plan preempts."""
    plan = solve_round(round_, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    return sum(decision.decision is DecisionKind.PREEMPT for decision in plan.decisions)


@pytest.mark.nightly
def test_places_of_jobs_that_would_move_back_stay_free(refused: Refused) -> None:
    """Some job moves to where a victim was, and the next pass knows nothing of that."""
    round_ = generate(
        regions=4, datasets=40, jobs=300, gpus=1200, mix="scarce", seed=29, policy="geo"
    )
    assert preempting(round_) > 0
    assert not refused


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("seed", by_day([0, 4, 5, 15], 2))
def test_quotas_of_preempted_jobs_are_not_handed_on(refused: Refused, seed: int) -> None:
    assert preempting(with_quotas(seed)) > 0
    assert not refused


def test_if_a_plan_is_refused_one_follows_that_still_preempts(refused: Refused) -> None:
    """A job has moved in one region, and a job of lower precedence stops in another."""
    assert preempting(with_quotas(43)) > 0
    assert len(refused) == 1


def test_if_all_plans_that_preempt_are_refused_one_follows_that_leaves_running_jobs_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_parameters(monkeypatch, parameters, max_monolithic_size=0, max_refined_size=0)
    monkeypatch.setattr(
        solve, "lawful", lambda _round, _hosts, plan: None if plan.preempted else plan
    )
    for seconds in (0, 10):
        plan = solve_round(with_quotas(0), time_limit=seconds, isolation="none")
        assert verify(with_quotas(0), plan).ok
        kinds = {decision.decision for decision in plan.decisions}
        assert kinds == {DecisionKind.START, DecisionKind.KEEP, DecisionKind.WAIT}
        assert all(decision.reason for decision in plan.decisions if decision.decision == "wait")
