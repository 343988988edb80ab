"""Tiny rounds of policy `geo`: plans are the best of all, and no bound is beaten by any plan."""

from __future__ import annotations

import pytest
from formulation_parameters import set_parameters

from examples import examples
from placewright.formulations.geo import parameters
from placewright.instances.documents.plan import Plan, Reason
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round
from tests.formulations.regions import geo_oracle, geo_tiny

TERMS = ("value", "remote_reads", "egress_cost", "gpu_cost")


def solved(round_: Round) -> Plan:
    return solve_round(round_, time_limit=10, isolation="none")


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_plans_are_the_best_of_all(first: int) -> None:
    for seed in range(first, first + 20):
        round_ = geo_tiny.geo(seed, terms=TERMS)
        value, *costs = max(
            (value, *(-cost for cost in costs)) for value, *costs in geo_oracle.vectors(round_)
        )
        best = (value, *(-cost for cost in costs))
        plan = solved(round_)
        assert plan.certificate is not None
        assert not plan.certificate.degraded
        results = plan.certificate.terms
        # Costs of GPUs come last: jobs that run are not moved to cheaper ones.
        assert tuple(result.value for result in results[:3]) == best[:3], seed
        assert all(result.gap == 0 for result in results[:3]), seed
        for result, reached in zip(results, best, strict=True):
            assert result.bound is not None
            worse = result.bound < reached if result.sense == "max" else result.bound > reached
            assert not worse, (seed, result)


@pytest.mark.parametrize("seed", [397, 447, 482, 1267, 1742, 2017, 2382])
def test_running_jobs_that_may_move_to_cheaper_gpus_are_no_bound_of_what_these_cost(
    seed: int,
) -> None:
    round_ = geo_tiny.geo(seed, terms=("value", "gpu_cost", "remote_reads"))
    plan = solved(round_)
    assert plan.certificate is not None
    value, cost, _ = plan.certificate.terms
    least = min(found[3] for found in geo_oracle.vectors(round_) if found[0] >= value.value)
    assert cost.bound is not None
    assert cost.bound <= least < cost.value


def test_a_job_without_its_data_waits_for_the_copy_that_is_ordered() -> None:
    ordered = 0
    for seed in range(examples(day=40, nightly=60)):
        plan = solved(geo_tiny.geo(seed))
        sections = {section["kind"]: section for section in plan.sections}
        waiting = {one["job"] for one in sections["reads"]["waiting"]}
        assert waiting == {d.job for d in plan.decisions if d.reason is Reason.DATA}
        ordered += len(sections.get("replicas", {}).get("creates", ()))
    assert ordered


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_no_plan_beats_the_bounds_of_rounds_decided_region_by_region(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    set_parameters(monkeypatch, parameters, max_monolithic_size=0, max_refined_size=0)
    best = 0
    for seed in range(first, first + 20):
        round_ = geo_tiny.geo(seed, terms=TERMS)
        every = geo_oracle.vectors(round_)
        plan = solved(round_)
        assert plan.certificate is not None
        assert not plan.certificate.degraded
        results = {result.name: result for result in plan.certificate.terms}
        assert tuple(results[term].value for term in TERMS) in every
        value, reads = results["value"], results["remote_reads"]
        most = max(vector[0] for vector in every)
        least = min(vector[1] for vector in every if vector[0] >= value.value)
        assert value.proof in {"certified", "claimed"}
        assert value.bound is not None
        assert value.bound >= most, seed
        assert reads.bound is not None
        assert reads.bound <= least, seed
        best += value.value == most
    assert best >= 19
