"""A disruption budget holds in every plan: of the greedy, of every backend, of large rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from examples import examples
from placewright import Engine, load_round, solve_round, verify
from placewright.instances import verify as verification
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import DecisionKind, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError

Raw = dict[str, Any]
LIBRARY = Path(verification.__file__).parents[1] / "library"
BACKENDS = ("highs", "cp-sat", "cbc", "scip")


def job(name: str, gpu: int, host: str = "", gpus: tuple[int, ...] = (), **more: Any) -> Raw:
    """A job of one task; it runs if it has a host."""
    running = {key: more.pop(key) for key in ("checkpoint", "started", "restart_s") if key in more}
    raw: Raw = {"name": name, "options": [{"groups": [{"gpu": gpu}]}], **more}
    if host:
        raw["running"] = {"tasks": [{"host": host, "gpus": gpus}], **running}
    return raw


def hosts(number: int, gpus: int = 8) -> list[Raw]:
    return [{"name": f"h{i}", "gpus": gpus, "gpu_model": "A"} for i in range(number)]


def read(jobs: list[Raw], limits: Raw, cluster: list[Raw], **more: Any) -> Round:
    policy = {"terms": ["value", "disruption"], "limits": {"disruption": limits}}
    policy |= more.pop("policy", {})
    raw = {"now": 1000, "cluster": {"hosts": cluster}, "jobs": jobs, "policy": policy, **more}
    round_ = Round.model_validate(raw)
    check_round(round_)
    return round_


def crowd(number: int = 4, **limits: Any) -> Round:
    """Full hosts of two jobs each, and as many pending jobs that would preempt them all."""
    running = [
        job(f"r{i}{k}", 4, f"h{i}", tuple(range(4 * k, 4 * k + 4)), checkpoint=900, started=950)
        for i in range(number)
        for k in range(2)
    ]
    pending = [job(f"p{i}", 4, priority=1, weight=10) for i in range(2 * number)]
    return read([*running, *pending], limits, hosts(number))


def decided(plan: Plan, kind: DecisionKind) -> list[str]:
    return [decision.job for decision in plan.decisions if decision.decision is kind]


def violations(round_: Round, plan: Plan) -> set[str]:
    return {violation.rule for violation in verify(round_, plan).violations}


LIMITS = [
    ({"preempted_jobs": 0}, 0),
    ({"preempted_jobs": 3}, 3),
    ({"preempted_gpus": 11}, 2),
    ({"lost_gpu_s": 1600}, 4),
    ({"lost_gpu_s": 1599}, 3),
    ({"min_run_s": 51}, 0),
    ({"min_run_s": 50}, 8),
    ({"migrated_jobs": 0}, 8),
    ({}, 8),
]


@pytest.mark.nightly(after=14)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("limits", "most"), LIMITS)
def test_as_many_jobs_are_preempted_as_the_budget_allows(backend, limits, most):
    round_ = crowd(**limits)
    plan = solve_round(round_, time_limit=20, backend=backend, isolation="none")
    assert len(decided(plan, DecisionKind.PREEMPT)) == most
    assert plan.certificate is not None
    assert plan.certificate.status in ("optimal", "within_gap")
    assert plan.certificate.terms[0].status == "optimal"
    assert not plan.certificate.degraded


@pytest.mark.parametrize(("limits", "most"), LIMITS)
def test_the_greedy_plan_obeys(limits, most):
    round_ = crowd(40, **limits)
    plan = solve_round(round_, time_limit=0)
    assert verify(round_, plan).ok
    assert len(decided(plan, DecisionKind.PREEMPT)) <= max(most, 80 if most == 8 else 0)


@pytest.mark.parametrize("seed", range(3))
def test_no_seed_preempts_anybody_without_a_budget_to_do_so(seed):
    round_ = crowd(60, preempted_jobs=0, migrated_jobs=0)
    plan = solve_round(round_, time_limit=2, seed=seed)
    assert not decided(plan, DecisionKind.PREEMPT)
    assert not decided(plan, DecisionKind.MIGRATE)


def test_a_large_round_uses_its_budget():
    round_ = crowd(examples(day=200, nightly=600), preempted_jobs=7)
    plan = solve_round(round_, time_limit=5, isolation="none")
    assert len(decided(plan, DecisionKind.PREEMPT)) == 7
    assert plan.certificate is not None
    assert not plan.certificate.degraded


@pytest.mark.parametrize(("limits", "most"), LIMITS)
def test_a_plan_beyond_the_budget_breaks_the_rule(limits, most):
    round_ = crowd()
    plan = solve_round(round_, time_limit=20, isolation="none")
    assert len(decided(plan, DecisionKind.PREEMPT)) == 8
    tighter = crowd(**limits)
    plan = plan.model_copy(update={"round": None, "certificate": None})
    assert violations(tighter, plan) == (set() if most == 8 else {"disruption_budget"})


def test_a_migration_beyond_the_budget_breaks_the_rule():
    # `wide` needs one host: one of the jobs moves to the other.
    jobs = [
        job("r0", 2, "h0", (0, 1), checkpoint=0),
        job("r1", 4, "h1", (0, 1, 2, 3), checkpoint=0),
        job("wide", 8),
    ]
    free = read(jobs, {}, hosts(2))
    plan = solve_round(free, time_limit=20, isolation="none")
    assert decided(plan, DecisionKind.MIGRATE) == ["r0"]
    plan = plan.model_copy(update={"round": None, "certificate": None})
    for limits in ({"migrated_jobs": 0}, {"lost_gpu_s": 1999}):
        limited = read(jobs, limits, hosts(2))
        assert violations(limited, plan) == {"disruption_budget"}
        kept = solve_round(limited, time_limit=20, isolation="none")
        assert not decided(kept, DecisionKind.MIGRATE)
    assert not violations(read(jobs, {"lost_gpu_s": 2000}, hosts(2)), plan)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("backend", BACKENDS)
def test_without_checkpoints_those_who_started_last_are_stopped(backend: str) -> None:
    began = {"r0": 0, "r1": 900, "r2": 990, "r3": 500}
    running = [
        job(name, 8, f"h{i}", tuple(range(8)), started=at)
        for i, (name, at) in enumerate(began.items())
    ]
    pending = [job(f"p{i}", 8, priority=1) for i in range(4)]
    plan = solve_round(read([*running, *pending[:2]], {}, hosts(4)), backend=backend)
    assert decided(plan, DecisionKind.PREEMPT) == ["r1", "r2"]
    limited = read([*running, *pending], {"lost_gpu_s": 8 * (10 + 100)}, hosts(4))
    assert decided(solve_round(limited, backend=backend), DecisionKind.PREEMPT) == ["r1", "r2"]
    plan = plan.model_copy(update={"round": None, "certificate": None})
    for seconds, rules in ((10 + 100, set()), (10 + 99, {"disruption_budget"})):
        two = read([*running, *pending[:2]], {"lost_gpu_s": 8 * seconds}, hosts(4))
        assert violations(two, plan) == rules


LIMITS_OF_NOTHING = {"preempted_jobs": 0, "migrated_jobs": 0, "lost_gpu_s": 0, "min_run_s": 100}


def test_a_job_on_a_host_to_vacate_does_not_count():
    jobs = [job("r0", 8, "h0", tuple(range(8)), checkpoint=0, started=999)]
    policy = {"terms": ["remaining", "value", "disruption"], "vacate": ["h0"]}
    for seconds in (0, 10):
        round_ = read(jobs, LIMITS_OF_NOTHING, hosts(2), policy=policy)
        plan = solve_round(round_, time_limit=seconds, isolation="none")
        assert decided(plan, DecisionKind.MIGRATE) == ["r0"]


def test_a_job_on_a_failed_host_does_not_count():
    jobs = [
        job("r0", 8, "h0", tuple(range(8)), checkpoint=0, started=999, tenant="t"),
        job("p0", 8, tenant="t", priority=1, weight=5),
    ]
    cluster = hosts(2)
    tenants = [{"name": "t", "quota": {"gpu": 8}}]
    policy = {"terms": ["disruption"]}
    round_ = read(jobs, LIMITS_OF_NOTHING, cluster, tenants=tenants, policy=policy)
    cluster[0]["healthy"] = False
    failed = read(jobs, LIMITS_OF_NOTHING, cluster, tenants=tenants, policy=policy)
    kept = solve_round(round_, time_limit=0)
    moved = [decision.model_dump(mode="json") for decision in kept.decisions]
    moved[0] |= {"decision": "migrate"}
    moved[0]["tasks"][0]["host"] = "h1"
    plan = Plan.model_validate({"decisions": moved})
    assert "disruption_budget" in violations(round_, plan)
    assert "disruption_budget" not in violations(failed, plan)


def cells(**limits: Any) -> Round:
    """Two hosts of a tenant's cells, on which others run, and a guaranteed job for each."""
    return read(
        [
            job("guest0", 8, "h0", tuple(range(8)), checkpoint=900),
            job("guest1", 8, "h1", tuple(range(8)), checkpoint=900),
            job("mine0", 8, tenant="owner", priority=1),
            job("mine1", 8, tenant="owner"),
        ],
        limits,
        hosts(2),
        tenants=[{"name": "owner", "cells": [{"level": "host", "count": 2}]}],
    )


@pytest.mark.parametrize(
    ("limits", "start"),
    [
        ({}, 2),
        ({"preempted_jobs": 1}, 1),
        ({"preempted_gpus": 8}, 1),
        ({"lost_gpu_s": 799}, 0),
        ({"preempted_jobs": 0}, 0),
    ],
)
def test_guaranteed_jobs_beyond_the_budget_wait(limits, start):
    round_ = cells(**limits)
    plan = solve_round(round_, time_limit=10, isolation="none")
    assert verify(round_, plan).ok
    assert decided(plan, DecisionKind.START) == ["mine0", "mine1"][:start]
    waiting = [d.reason for d in plan.decisions if d.decision is DecisionKind.WAIT]
    assert waiting == [Reason.DISRUPTION_LIMIT] * (2 - start)


def test_the_reason_is_refused_without_a_budget():
    plan = solve_round(cells(preempted_jobs=0), time_limit=10, isolation="none")
    plan = plan.model_copy(update={"round": None, "certificate": None})
    free = cells().model_copy(update={"policy": cells().policy.model_copy(update={"limits": None})})
    assert "disruption_limit" in violations(free, plan)


def test_an_engine_keeps_the_budget_in_every_round():
    with Engine(
        crowd(200, preempted_jobs=5, migrated_jobs=2), time_limit=2, isolation="none"
    ) as engine:
        for _ in range(3):
            plan = engine.round()
            assert verify(engine.round_solved, plan).ok
            assert len(decided(plan, DecisionKind.PREEMPT)) <= 5
            assert len(decided(plan, DecisionKind.MIGRATE)) <= 2


def test_a_policy_that_moves_no_job_refuses_the_field():
    policy = {"formulation": "replicas", "terms": ["overload"]}
    with pytest.raises(InvalidInputError, match="limits: not used by policy 'replicas'"):
        read([], {}, hosts(1), policy=policy)


def test_a_job_starts_no_later_than_now():
    with pytest.raises(InvalidInputError, match="started"):
        read([job("r", 8, "h0", tuple(range(8)), started=1001)], {}, hosts(1))


def test_the_bundled_round_is_decided_alike_by_every_backend():
    name = "disruption-budget"
    round_ = load_round(LIBRARY / f"{name}.yaml")
    for backend in BACKENDS:
        plan = solve_round(round_, time_limit=20, backend=backend, isolation="none")
        assert decided(plan, DecisionKind.PREEMPT) == ["b1", "b2"]
