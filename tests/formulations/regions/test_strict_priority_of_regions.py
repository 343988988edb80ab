"""Strict priority with regions: on tiny rounds plans are the best of all, class by class.

No plan beats a bound, neither of the monolithic model nor of regions decided one by one.
"""

from __future__ import annotations

import pytest
from formulation_parameters import set_parameters

from placewright.formulations.geo import parameters
from placewright.instances.documents.plan import Certificate
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from tests.formulations.regions import geo_oracle, geo_tiny

TERMS = ("value", "remote_reads", "egress_cost", "gpu_cost")
COSTS = 3


def solved(round_: Round) -> Certificate:
    plan = solve_round(round_, time_limit=10, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    return plan.certificate


def best_of(plans: set[tuple[int, ...]]) -> tuple[int, ...]:
    """The best plan: most value of the highest class, of the next, then least cost."""
    return max(plans, key=lambda plan: (*plan[:-COSTS], *(-cost for cost in plan[-COSTS:])))


def assert_no_plan_beats(certificate: Certificate, plans: set[tuple[int, ...]]) -> None:
    """Each bound holds for plans no worse in the terms before it."""
    left = plans
    for k, term in enumerate(certificate.terms):
        sign = 1 if term.sense == "max" else -1
        if term.bound is not None:
            assert all(sign * plan[k] <= sign * term.bound for plan in left), term
        left = {plan for plan in left if sign * plan[k] >= sign * term.value}


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_the_highest_class_comes_first_then_the_next_then_costs(first: int) -> None:
    classes = 0
    for seed in range(first, first + 20):
        round_ = geo_tiny.geo(seed, terms=TERMS, priority="strict")
        plans = geo_oracle.vectors(round_)
        best, terms = best_of(plans), solved(round_).terms
        classes += len(terms) > len(TERMS)
        # Costs of GPUs come last: jobs that run are not moved to cheaper ones.
        assert tuple(term.value for term in terms[:-1]) == best[:-1], seed
        assert all(term.gap == 0 for term in terms[:-1]), seed
        assert_no_plan_beats(solved(round_), plans)
    assert classes > 5


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_no_plan_beats_the_bounds_of_rounds_decided_region_by_region(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    set_parameters(monkeypatch, parameters, max_monolithic_size=0, max_refined_size=0)
    best = 0
    for seed in range(first, first + 20):
        round_ = geo_tiny.geo(seed, terms=TERMS, priority="strict")
        plans, certificate = geo_oracle.vectors(round_), solved(round_)
        assert tuple(term.value for term in certificate.terms) in plans
        assert_no_plan_beats(certificate, plans)
        classes = len(certificate.terms) - COSTS
        found = tuple(term.value for term in certificate.terms[:classes])
        best += found == best_of(plans)[:classes]
        assert all(term.bound is not None for term in certificate.terms[:classes])
    assert best >= 18


def test_one_precedence_is_decided_as_without_classes() -> None:
    for seed in range(20):
        rounds = [geo_tiny.geo(seed, priority=each) for each in ("strict", "preemption")]
        if len({job.priority for job in rounds[0].jobs if job.running is None}) > 1:
            continue
        one, other = (solve_round(each, isolation="none") for each in rounds)
        assert one.decisions == other.decisions
