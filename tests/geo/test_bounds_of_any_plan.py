"""`prove_bounds` on rounds of regions: no plan of brute force beats what it proves of a plan."""

from __future__ import annotations

from types import ModuleType

import pytest

from placewright.instances.plan import TermResult
from placewright.instances.round import Round
from placewright.rounds import prove_bounds, solve_round

REPLICAS = ("overload", "remote_reads", "copies", "imbalance", "hottest")
GEO = ("value", "remote_reads", "egress_cost", "gpu_cost")


def proven(round_: Round) -> list[TermResult]:
    """Return what is proven of a plan that was made without any search."""
    plan = solve_round(round_, time_limit=0, isolation="none")
    return list(prove_bounds(round_, plan.model_copy(update={"certificate": None})))


def bound_of(result: TermResult) -> float:
    assert result.bound is not None
    return result.bound


def test_of_where_data_lives(replicas_oracle: ModuleType, geo_tiny: ModuleType) -> None:
    reached = 0
    for seed in range(12):
        round_ = geo_tiny.replicas(seed)
        *single, total = proven(round_)
        assert [result.name for result in single] == list(REPLICAS)
        as_good = replicas_oracle.vectors(round_)
        for number, result in enumerate(single):
            assert bound_of(result) <= min(v[number] for v in as_good), (seed, result)
            if number == 1:
                least = min(v[1] + v[2] for v in as_good)
                assert bound_of(total) <= least, (seed, total)
                reached += total.bound == least
            as_good = [v for v in as_good if v[number] <= result.value]
    assert total.name == "remote_reads+copies"
    assert reached >= 10


@pytest.mark.parametrize("apart", [False, True])
def test_of_where_jobs_run(
    geo_oracle: ModuleType, geo_tiny: ModuleType, monkeypatch: pytest.MonkeyPatch, *, apart: bool
) -> None:
    if apart:
        monkeypatch.setattr("placewright.formulations.geo.run.SMALL", 0)
        monkeypatch.setattr("placewright.formulations.geo.run.MEDIUM", 0)
    reached = 0
    for seed in range(12):
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
    assert reached >= 10
