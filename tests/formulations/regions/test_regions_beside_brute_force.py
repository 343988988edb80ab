"""Tiny rounds with regions: plans are plans, their values optimal, and no bound is beaten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pytest

from examples import examples
from placewright import Plan, solve_round
from placewright.formulations.gang.problem.limits import SENSE
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from tests.formulations.regions import geo_oracle, geo_tiny, replicas_oracle

GEO = ("value", "remote_reads", "egress_cost", "gpu_cost")
REPLICAS = ("overload", "remote_reads", "copies", "imbalance", "hottest")
ORDERS: tuple[tuple[str, ...], ...] = (
    ("value", "remote_reads", "disruption", "spread", "opened"),
    ("value", "remote_reads", "egress_cost"),
    ("value", "egress_cost", "remote_reads"),
)
SEEDS = examples(day=4, nightly=25)
"""Of each kind; more were tried by hand."""

Vector: TypeAlias = tuple[int, ...]


def solved(round_: Round) -> Plan:
    check_round(round_)
    plan = solve_round(round_, time_limit=20.0, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    assert verify(round_, plan).ok
    return plan


def compare(plan: Plan, names: Sequence[str], every: set[Vector]) -> bool:
    """Check values and bounds beside those of all plans; whether the values are the best."""
    assert plan.certificate is not None
    certificate_terms = {term.name: term for term in plan.certificate.terms}
    terms = [term for term in certificate_terms if term in names]
    signs = [-1 if SENSE[term] == "max" else 1 for term in terms]
    indices = [names.index(term) for term in terms]
    plans = {tuple(s * v[i] for s, i in zip(signs, indices, strict=True)) for v in every}
    mine = tuple(s * certificate_terms[term].value for s, term in zip(signs, terms, strict=True))
    assert mine in plans
    for k, (sign, term) in enumerate(zip(signs, terms, strict=True)):
        as_good = (v for v in plans if all(a <= b for a, b in zip(v[:k], mine[:k], strict=True)))
        least = min(v[k] for v in as_good)
        for bound in (certificate_terms[term].certified, certificate_terms[term].claimed):
            assert bound is None or sign * bound <= least + 1e-6, term
    return mine == min(plans)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("terms", ORDERS, ids="-".join)
def test_regions_for_jobs_are_the_best_and_bounds_hold(terms: tuple[str, ...]) -> None:
    for seed in range(SEEDS):
        round_ = geo_tiny.geo(seed, terms=terms)
        assert compare(solved(round_), GEO, geo_oracle.vectors(round_)), seed


@pytest.mark.parametrize("seed", [56, 197, 336, 397, 447, 482, 672])
@pytest.mark.parametrize(
    "terms", [("value", "gpu_cost", "remote_reads"), (*GEO,)], ids=["gpu_cost first", "last"]
)
def test_bounds_of_gpu_cost_hold_where_jobs_mix_models_or_may_move_to_cheaper_ones(
    seed: int, terms: tuple[str, ...]
) -> None:
    round_ = geo_tiny.geo(seed, terms=terms)
    compare(solved(round_), GEO, geo_oracle.vectors(round_))


def test_homes_of_data_are_the_best_and_bounds_hold() -> None:
    for seed in range(2 * SEEDS):
        round_ = geo_tiny.replicas(seed)
        assert compare(solved(round_), REPLICAS, replicas_oracle.vectors(round_)), seed
