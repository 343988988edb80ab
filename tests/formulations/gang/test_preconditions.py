"""What certified bounds rest on is checked: where it does not hold there is an error, no bound."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placewright.formulations.gang import bounds
from placewright.formulations.gang.bounds import DualPrices, _knapsack
from placewright.formulations.gang.models.aggregate.gpu_columns import unbounded_knapsack
from placewright.formulations.gang.models.aggregate.host_classes import (
    ResourceGrid,
    coarser_units,
    host_classes,
)
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.model import build_aggregate_model
from placewright.formulations.gang.models.aggregate.solve import (
    PricedModel,
    aggregate_models,
    bound_by_relaxation,
    tasks_per_host,
)
from placewright.formulations.gang.models.host.model import build_host_model
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.solver import InProcess


def problem_of(group: dict[str, Any], *, runs: bool = False) -> Problem:
    """Four hosts of 4 GPUs and 16 cores, three jobs; one of them may run on the first host."""
    jobs: list[dict[str, Any]] = [
        {"name": f"job-{i}", "options": [{"groups": [group]}]} for i in range(3)
    ]
    if runs:
        jobs[0]["running"] = {"tasks": [{"host": "h0", "gpus": [0, 1, 2]}]}
    host = {"gpus": 4, "gpu_model": "A", "cpu": 0.016}
    cluster = {"hosts": [{"name": f"h{i}", **host} for i in range(4)]}
    terms = ["value", "disruption", "opened"]
    round_ = {"cluster": cluster, "jobs": jobs, "policy": {"terms": terms}}
    return compile_round(Round.model_validate(round_))


def session() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0)


def model_of(problem: Problem) -> PricedModel:
    return next(aggregate_models(problem, Placement(problem)))


def test_a_relaxation_leaves_out_last_rows_only() -> None:
    counts, patterns = model_of(problem_of({"gpu": 3, "cpu": 0.005}))
    counts.model.hold("value", 0, 0.5)
    holds = (("value", 0),)
    assert list(bound_by_relaxation(session(), counts, patterns, "opened", holds))
    assert list(bound_by_relaxation(session(), counts, patterns, "value", (), ("hold:value",)))
    counts.model.rows("more", 1, upper=1.0)
    assert list(bound_by_relaxation(session(), counts, patterns, "opened", holds))
    with pytest.raises(ValueError, match=r"rows 'more' come after rows that are left out"):
        list(bound_by_relaxation(session(), counts, patterns, "value", (), ("hold:value",)))


def test_a_relaxation_that_holds_a_term_says_so() -> None:
    counts, patterns = model_of(problem_of({"gpu": 3, "cpu": 0.005}))
    counts.model.hold("value", 0, 0.5)
    with pytest.raises(ValueError, match=r"'hold:value' are not among what a bound holds"):
        list(bound_by_relaxation(session(), counts, patterns, "opened"))


def test_a_bound_counts_all_that_running_jobs_hold_as_free() -> None:
    problem = problem_of({"gpu": 3, "cpu": 0.005}, runs=True)
    in_use, cleared = Placement(problem), Placement(problem, cleared=True)
    fitting = tasks_per_host(cleared)
    classes = host_classes(problem, fitting)
    assert build_aggregate_model(problem, classes, fitting, cleared.whole).y.size
    with pytest.raises(ValueError, match="not cleared"):
        build_aggregate_model(problem, classes, fitting, in_use.whole)
    price = np.ones(len(problem.shape_gpu))
    assert DualPrices.of(problem, ResourceGrid(problem, cleared), price).bound() >= 0
    with pytest.raises(ValueError, match="not one of cleared hosts"):
        DualPrices.of(problem, ResourceGrid(problem, in_use), price)


def test_patterns_of_hosts_have_tasks_of_whole_gpus() -> None:
    problem = problem_of({"gpu": 0.5, "cpu": 0.005})
    counts, _ = model_of(problem)
    with pytest.raises(ValueError, match="other tasks were given"):
        HostPatterns(counts, ResourceGrid(problem, Placement(problem, cleared=True)))
    with pytest.raises(ValueError, match="without a GPU"):
        coarser_units(np.array([[0, 3], [1, 2]]), np.array([[4, 9]]), 8)


@pytest.mark.parametrize("steps", [[2, 1], [0, 1]])
def test_parts_of_a_gpu_come_smallest_first(steps: list[int]) -> None:
    with pytest.raises(ValueError, match="ascending order from 1"):
        unbounded_knapsack(np.array(steps), 5, np.ones((1, 2)))


def test_the_exact_model_counts_no_running_job_twice() -> None:
    problem = problem_of({"gpu": 3}, runs=True)
    everywhere, pending = np.arange(4), problem.num_pending
    with pytest.raises(ValueError, match="was not stopped"):
        build_host_model(problem, Placement(problem), everywhere, pending, list(problem.running))
    cleared = Placement(problem, cleared=True)
    with pytest.raises(ValueError, match="a host that the model lacks"):
        build_host_model(problem, cleared, everywhere[1:], pending, list(problem.running))
    build_host_model(problem, cleared, everywhere, pending, list(problem.running))


def test_what_may_be_stranded_of_numbers_beyond_64_bits_is_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = problem_of({"gpu": 3, "cpu": 0.017})
    assert bounds.stranded_lower_bound(problem) > 0
    monkeypatch.setattr(bounds, "LARGEST", 1 << 9)
    assert bounds.stranded_lower_bound(problem) == 0


@given(
    st.lists(st.tuples(st.integers(-2, 10**14), st.integers(0, 10**14)), max_size=6),
    st.integers(-5, 10**15),
)
def test_parts_of_domains_gain_no_more_than_all_prices_say(
    domains: list[tuple[int, int]], capacity: int
) -> None:
    gain, worth = np.array(domains, dtype=np.int64).reshape(-1, 2).T
    useful = [(g, w) for g, w in domains if g > 0 and w > 0]
    prices = [Fraction(0), *(Fraction(g, w) for g, w in useful)]
    best = min(
        price * max(capacity, 0) + sum(max(g - price * w, Fraction(0)) for g, w in useful)
        for price in prices
    )
    assert best <= _knapsack(gain, worth, capacity) < best + 1


def test_a_certified_number_beyond_2_to_the_53_is_rounded_outward() -> None:
    problem = problem_of({"gpu": 1})
    for number in (2**53 + 1, 2**53 + 3, 2**60 + 1):
        step = number * 1000
        assert problem.round_certified("value", Fraction(step)) >= step
        assert problem.round_certified("disruption", Fraction(step)) <= step
