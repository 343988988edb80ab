"""`prove_bounds` on rounds of regions: no plan of brute force beats what it proves of a plan."""

from __future__ import annotations

import pytest
from formulation_parameters import set_parameters

from examples import examples
from placewright.formulations.geo import parameters
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import prove_bounds, solve_round
from tests.formulations.regions import geo_oracle, geo_tiny, replicas_oracle

REPLICAS = ("overload", "remote_reads", "copies", "imbalance", "hottest")
GEO = ("value", "remote_reads", "egress_cost", "gpu_cost")


def proven(round_: Round) -> list[TermResult]:
    """Return what is proven of a plan that was made without any search."""
    plan = solve_round(round_, time_limit=0, isolation="none")
    return list(prove_bounds(round_, plan.model_copy(update={"certificate": None})))


def bound_of(result: TermResult) -> float:
    assert result.bound is not None
    return result.bound


def test_of_where_data_lives() -> None:
    reached = 0
    for seed in range(examples(day=4, nightly=12)):
        round_ = geo_tiny.replicas(seed)
        results = proven(round_)
        assert [result.name for result in results] == list(REPLICAS)
        as_good = replicas_oracle.vectors(round_)
        for number, result in enumerate(results):
            least = min(v[number] for v in as_good)
            assert bound_of(result) <= least, (seed, result)
            reached += result.name == "copies" and result.bound == least
            as_good = [v for v in as_good if v[number] <= result.value]
    assert reached >= examples(day=3, nightly=10)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("decomposed", [False, True])
def test_of_where_jobs_run(monkeypatch: pytest.MonkeyPatch, *, decomposed: bool) -> None:
    if decomposed:
        set_parameters(monkeypatch, parameters, max_monolithic_size=0, max_refined_size=0)
    reached = 0
    for seed in range(examples(day=4, nightly=12)):
        round_ = geo_tiny.geo(seed, terms=GEO)
        value, *costs = proven(round_)
        every = geo_oracle.vectors(round_)
        most = max(v[0] for v in every)
        assert bound_of(value) >= most, seed
        reached += value.bound == most
        as_good = [v for v in every if v[0] >= value.value]
        for number, result in enumerate(costs, 1):
            assert bound_of(result) <= min(v[number] for v in as_good), (seed, result)
            as_good = [v for v in as_good if v[number] <= result.value]
    assert reached >= examples(day=3, nightly=10)


def test_what_is_read_from_afar_counts_for_no_imbalance():
    # r1 drops a replica that it reads remotely then: it is accessible, but r1 does not hold it.
    hosts = [
        {"name": "h0", "parent": "r0", "gpus": 1, "gpu_model": "A"},
        {"name": "h1", "parent": "r1", "gpus": 1, "gpu_model": "A"},
    ]
    reads = {
        "j0": [{"dataset": "d1", "gib": 28}, {"dataset": "d2", "gib": 7}],
        "j1": [{"dataset": "d0", "gib": 7}, {"dataset": "d2", "gib": 14}],
        "j2": [{"dataset": "d1", "gib": 7, "remote": False}],
    }
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": name, "level": "region"} for name in ("r0", "r1")],
                "hosts": hosts,
            },
            "geo": {
                "level": "region",
                "window_s": 10,
                "regions": [{"name": "r0", "storage": 42}, {"name": "r1", "storage": 35}],
                "links": [
                    {"source": "r0", "target": "r1", "bandwidth": 60_137},
                    {"source": "r1", "target": "r0", "bandwidth": 66_150, "budget": 0},
                ],
                "datasets": [
                    {"name": "d0", "size": 7, "regions": ["r0"], "replicas": ["r0"]},
                    {"name": "d1", "size": 28, "replicas": ["r1"]},
                    {"name": "d2", "size": 7, "regions": ["r0", "r1"], "replicas": ["r0", "r1"]},
                ],
            },
            "policy": {
                "formulation": "replicas",
                "terms": ["overload", "imbalance", "remote_reads", "hottest", "copies"],
            },
            "jobs": [
                {"name": name, "options": [{"groups": [{"gpu": 1}]}], "reads": mine}
                for name, mine in reads.items()
            ],
        }
    )
    check_round(round_)
    homes = [("j0", "r1"), ("j1", "r0"), ("j2", "r1")]
    plan = Plan.model_validate(
        {
            "decisions": [
                {"job": name, "decision": "wait", "reason": "not_asked"} for name in reads
            ],
            "sections": [
                {
                    "kind": "replicas",
                    "creates": [],
                    "drops": [{"dataset": "d2", "region": "r1", "at": 0}],
                    "homes": [
                        {"job": name, "region": region, "gpu_model": "A"} for name, region in homes
                    ],
                }
            ],
        }
    )
    values = verify(round_, plan).terms
    for result in prove_bounds(round_, plan, isolation="none", time_limit=20):
        if result.bound is not None and "+" not in result.name:
            assert result.bound <= values[result.name]
