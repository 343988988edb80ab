"""Rounds of regions with the largest numbers that documents may have: no bound is beaten."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from replica_terms import term_values

from placewright.array_types import Ints
from placewright.formulations.geo.bounds import lagrangian_value_bound, price_classes
from placewright.formulations.geo.models.assignment_lp import LexicographicWeights, MonolithicRound
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.geo.problem.job_classes import JobClasses
from placewright.formulations.plan_messages import Bound, outward, proven_whole
from placewright.formulations.replicas.heuristics.greedy import greedy_solution
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

NONE = -1
REGIONS = 2


def anywhere(class_of_job: Ints, value: Ints, entry_usage: Ints, capacity: Ints) -> JobClasses:
    """Return kinds of jobs that may all run in each region, with a row of what there is in it.

    `of_job` are (jobs,), `value` and `asks` (kinds,), `room` is (regions,).
    """
    eligible = np.ones((len(class_of_job), REGIONS), dtype=np.bool_)
    nowhere = np.full(len(value), NONE)
    assignment_class = np.repeat(np.arange(len(value)), REGIONS)
    assignment_region = np.tile(np.arange(REGIONS), len(value))
    return JobClasses(
        problem=cast(
            Problem,
            SimpleNamespace(
                eligible=eligible,
                current_region=np.full(len(class_of_job), NONE),
                remote_gib=np.zeros(eligible.shape, dtype=np.int64),
                wan=SimpleNamespace(regions=("east", "west")),
            ),
        ),
        class_of_job=class_of_job,
        current_region=nowhere,
        preemptible=np.zeros(len(value), dtype=np.bool_),
        assignment_class=assignment_class,
        assignment_region=assignment_region,
        assignment_model=np.full_like(assignment_class, NONE),
        value=value[assignment_class],
        priority_class=np.zeros_like(assignment_class),
        own_value=value[assignment_class],
        entry_assignment=np.arange(len(assignment_class)),
        entry_row=assignment_region,
        entry_usage=entry_usage[assignment_class],
        capacity=capacity,
    )


def build_job_classes(rng: np.random.Generator) -> tuple[JobClasses, Any]:
    """Draw jobs that may each run in two regions, with a row of what there is in each.

    Also the choices of each job: (value, asks, region), the first is to wait or to stop.
    """
    count = int(rng.integers(1, 5))
    most = 10 ** int(rng.integers(0, 16))
    value, entry_usage = rng.integers(0, most, count, endpoint=True), rng.integers(0, most, count)
    classes = anywhere(np.arange(count), value, entry_usage, rng.integers(0, 2 * most, REGIONS))
    choices = [
        [(0, 0, None), *((int(v), int(a), r) for r in range(REGIONS))]
        for v, a in zip(value, entry_usage, strict=True)
    ]
    return classes, choices


def plans(classes: JobClasses, choices: Any) -> list[tuple[Any, ...]]:
    """Return every choice of all jobs that there is room for."""
    capacity = classes.capacity.tolist()
    return [
        plan
        for plan in itertools.product(*choices)
        if all(sum(a for _, a, there in plan if there == r) <= capacity[r] for r in range(REGIONS))
    ]


def prices_of(rng: np.random.Generator) -> Any:
    kind = rng.integers(4)
    if kind == 0:
        return rng.choice([0.0, 0.49, 0.5, 0.51, 1.5], REGIONS)
    if kind == 1:
        return rng.random(REGIONS) * 10.0 ** rng.integers(-18, 19)
    if kind == 2:
        return rng.choice([0.0, 1.0, 1e300, np.inf, np.nan], REGIONS)
    return rng.random(REGIONS)


def test_prices_prove_no_less_than_the_best_plan_is_worth() -> None:
    rng, exact = np.random.default_rng(0), 0
    for _ in range(400):
        classes, choices = build_job_classes(rng)
        prices = prices_of(rng)
        best = max(sum(v for v, _, _ in plan) for plan in plans(classes, choices))
        bound = lagrangian_value_bound(classes, prices)
        assert bound == int(bound)
        assert int(bound) >= best, (classes, prices)
        exact += int(bound) == best
    assert exact


def test_prices_prove_no_more_than_the_cheapest_plan_costs() -> None:
    rng = np.random.default_rng(1)
    for _ in range(400):
        classes, choices = build_job_classes(rng)
        prices = prices_of(rng)
        value_price = float(rng.random() * 10.0 ** rng.integers(-18, 19))
        costs = rng.integers(0, 10 ** int(rng.integers(0, 16)), classes.problem.eligible.shape)
        every = [
            (
                sum(v for v, _, _ in plan),
                sum(int(costs[j, r]) for j, (_, _, r) in enumerate(plan) if r is not None),
            )
            for plan in plans(classes, choices)
        ]
        value = every[int(rng.integers(len(every)))][0]
        least = min(cost for found, cost in every if found >= value)
        priced = price_classes(classes, prices, value_price, float(costs.max(axis=1).sum()))
        assert int(priced.cost_bound(costs, value)) <= least, (classes, prices, value_price)


def test_sums_that_64_bits_cannot_hold_are_exact() -> None:
    large = 10**15
    one = np.array([large])
    many = anywhere(np.zeros(5000, dtype=np.int64), one, one, np.full(REGIONS, large))
    assert lagrangian_value_bound(many, np.zeros(2)) == 5000 * large
    assert lagrangian_value_bound(many, np.ones(2)) == 2 * large
    # Rounded to 1, as a price of a whole milli-GPU has no digits left behind its point.
    assert lagrangian_value_bound(many, np.full(2, 0.6)) >= 2 * large
    assert lagrangian_value_bound(many, np.full(2, 1e18)) >= 2 * large


@pytest.mark.parametrize("sense", ["max", "min"])
def test_bounds_beyond_floats_are_rounded_outward(sense: str) -> None:
    for number in (2**53 + 1, 2**53 + 3, 10**18 + 1, -(2**53) - 1, 7):
        rounded = int(outward(number, sense))
        assert rounded >= number if sense == "max" else rounded <= number
        assert abs(rounded - number) <= 256


def test_a_claimed_bound_is_rounded_within_the_solvers_tolerance() -> None:
    assert [proven_whole(b, "max") for b in (6.9999999, 7.0000001, 6.99)] == [7, 7, 6]
    assert [proven_whole(b) for b in (6.9999999, 7.0000001, 7.01)] == [7, 7, 8]
    scale = LexicographicWeights(("value",), (1,), (), 1, (), 1)
    monolithic = MonolithicRound(cast(Round, None), scale, (), jobs=())
    for certified, proven in ((False, 7), (True, 6)):
        (lifted,) = monolithic.lift_bound(Bound("value", 6.9999999, certified=certified), None)
        assert (lifted.value, lifted.certified) == (proven, certified)


def round_of(hosts: dict[str, int], jobs: list[dict[str, Any]], **fields: Any) -> Round:
    """Regions of so many hosts of eight GPUs each."""
    cluster = {
        "levels": ["region"],
        "domains": [{"name": r, "level": "region"} for r in hosts],
        "hosts": [
            {"name": f"{r}[0-{count - 1}]", "parent": r, "gpus": 8, "gpu_model": "A"}
            for r, count in hosts.items()
        ],
    }
    return Round.model_validate({"cluster": cluster, "jobs": jobs, **fields})


@pytest.mark.parametrize("jobs", [7, 900])
def test_a_round_of_the_largest_values_is_solved_within_its_bounds(jobs: int) -> None:
    """Seven jobs are decided at once, 900 region by region."""
    regions = ("a", "b", "c")
    round_ = round_of(
        dict.fromkeys(regions, 4),
        [
            {
                "name": f"j{j}",
                "options": [{"groups": [{"gpu": 1 + j % 3}], "value": 10**12 - j}],
                "reads": [{"dataset": f"d{j % 5}", "gib": 10**9 // 9 - j}],
            }
            for j in range(jobs)
        ],
        geo={
            "links": [
                {"source": s, "target": t, "bandwidth": 10**6, "egress": 1000}
                for s in regions
                for t in regions
                if s != t
            ],
            "datasets": [
                {"name": f"d{d}", "size": 10**9 - d, "replicas": [regions[d % 3]]} for d in range(5)
            ],
        },
        policy={"formulation": "geo", "terms": ["value", "remote_reads", "egress_cost"]},
    )
    plan = solve_round(round_, time_limit=5, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    for term in plan.certificate.terms:
        for bound in (term.certified, term.claimed):
            if bound is not None:
                beaten = term.value > int(bound) if term.sense == "max" else term.value < int(bound)
                assert not beaten, term


def test_homes_that_ask_most_are_counted_exactly() -> None:
    """A thousand times what they ask is beyond 64 bits, and three times it beyond what is told."""
    jobs = [
        {
            "name": f"j{j}",
            "options": [{"groups": [{"gpu": f"{10**9}m", "count": 10**5 - j}]}],
            "reads": [{"dataset": "d", "gib": 10**9}],
        }
        for j in range(300)
    ]
    round_ = round_of(
        {"a": 1, "b": 1},
        jobs,
        geo={"datasets": [{"name": "d", "size": 10**9, "replicas": ["a"]}]},
        policy={"formulation": "replicas"},
    )
    problem = compile_replicas(round_)
    plan = solve_round(round_, time_limit=2, isolation="none")
    verification = verify(round_, plan)
    assert verification.ok
    assert plan.certificate is not None
    for term in plan.certificate.terms:
        assert term.bound is None or int(term.bound) <= term.value, term
    for solution in (greedy_solution(problem), greedy_solution(problem, copying=False)):
        values = term_values(problem.wan, solution.layout(problem))
        assert values["hottest"] == -(-1000 * sum(problem.wan.demand.tolist()) // 8000)
