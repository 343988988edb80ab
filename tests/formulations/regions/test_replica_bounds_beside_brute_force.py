"""Bounds of the policy `replicas` beside brute force: none beats the best plan of all."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from formulation_parameters import set_parameters

from examples import examples
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.bounds.prove import prove_bounds, with_dataset_bounds
from placewright.formulations.replicas.models import relaxation
from placewright.formulations.replicas.models.relaxation import build_relaxation, solve_relaxation
from placewright.formulations.replicas.problem.compile import (
    aggregate_problem,
    compile_replicas,
    largest_datasets,
    restrict_to_datasets,
    restrict_to_values,
)
from placewright.formulations.replicas.problem.problem import DATA_SUM, HOMELESS, overload_of
from placewright.formulations.session import Session
from placewright.solver import InProcess
from tests.formulations.regions import geo_tiny, replicas_oracle

TERMS = ("overload", "remote_reads", "copies", "imbalance", "hottest")
ROUNDS = examples(day=12, nightly=40, long=1_000)


def fresh() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0)


def test_no_bound_is_better_than_the_best_plan() -> None:
    reached = 0
    for seed in range(ROUNDS):
        round_ = geo_tiny.replicas(seed)
        problem = compile_replicas(round_)
        vectors = sorted(replicas_oracle.vectors(round_))
        some = int(np.random.default_rng(seed).integers(len(vectors)))
        for plan in (vectors[0], vectors[some]):
            held = dict(zip(TERMS, plan, strict=True))
            found = list(prove_bounds(problem, fresh(), held))
            for bound in found:
                at_least = [
                    v for v in vectors if all(v[TERMS.index(t)] <= x for t, x in bound.holds)
                ]
                least = min(v[TERMS.index(bound.term)] for v in at_least)
                assert bound.value <= least + 1e-6, (seed, bound, least)
            least = min(v[2] for v in vectors if v[0] <= plan[0] and v[1] <= plan[1])
            proven = [bound.value for bound in found if bound.term == "copies"]
            assert proven == sorted(proven)
            reached += proven[-1] == least
    # Jobs may be split, and links are added up: few bounds are off for that.
    assert reached >= 2 * ROUNDS * 0.9


def test_no_dataset_costs_less_than_its_bound() -> None:
    total = 0
    for seed in range(1000, 1000 + ROUNDS):
        round_ = geo_tiny.replicas(seed)
        wan = compile_replicas(round_).wan
        every = replicas_oracle.Enumeration(round_)
        plans = every.layouts()
        held = {"overload": min(plans.all())[0]}
        aggregate = with_dataset_bounds(
            restrict_to_values(aggregate_problem(wan), held), held, fresh(), len(wan.datasets)
        )
        for layout, vectors in plans.vectors.items():
            made = Counter(dataset for dataset, _ in layout - every.held - every.arriving)
            copied = [made[name] for name in wan.datasets] * wan.size
            for overload, reads, copies, *_ in vectors:
                if overload <= held["overload"]:
                    assert aggregate.least.sum() <= reads + copies, (seed, layout, aggregate.least)
                    assert reads or (aggregate.least <= copied).all(), (
                        seed,
                        layout,
                        aggregate.least,
                    )
        total += int(aggregate.least.sum())
    assert total


def test_no_bound_of_few_datasets_is_better_than_the_best_plan() -> None:
    # An interior point ends with prices that prove nothing in the last of these.
    for seed in (*range(2000, 2000 + ROUNDS), 2041):
        round_ = geo_tiny.replicas(seed)
        vectors = sorted(replicas_oracle.vectors(round_))
        held = {"overload": vectors[0][0]}
        aggregate = restrict_to_values(aggregate_problem(compile_replicas(round_).wan), held)
        least = min(v[1] + v[2] for v in vectors if v[0] <= held["overload"])
        found = []
        for number in range(len(aggregate.has_replica) + 1):
            part = build_relaxation(
                restrict_to_datasets(aggregate, largest_datasets(aggregate, number))
            )
            root = solve_relaxation(part.arrays(DATA_SUM, held), fresh())
            assert root is not None
            assert root.bound <= least, (seed, number, root.bound, least)
            found.append(root.bound)
        # More datasets make it tighter, up to rounding; all of them are the full relaxation.
        assert all(more >= less - 1 for less, more in pairwise(found)), (seed, found)
        full = solve_relaxation(build_relaxation(aggregate).arrays(DATA_SUM, held), fresh())
        assert full is not None
        assert found[-1] == pytest.approx(full.bound, abs=1)


def test_without_the_rows_of_some_unions_bounds_are_weaker_not_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(10):
        round_ = geo_tiny.replicas(seed)
        problem = compile_replicas(round_)
        least = min(replicas_oracle.vectors(round_))[0]
        found = []
        for most in (0, 64):
            set_parameters(monkeypatch, parameters, max_unions=most)
            root = solve_relaxation(
                build_relaxation(aggregate_problem(problem.wan)).arrays("overload", {}), fresh()
            )
            assert root is not None
            found.append(root.bound)
        assert found[0] <= found[1] <= least


def test_no_demand_exceeds_its_bound_where_overload_is_held() -> None:
    """Whatever jobs ask of all models, overload is at least what the most of one part says."""
    random = np.random.default_rng(0)
    reached = 0
    for seed in range(ROUNDS):
        wan = compile_replicas(geo_tiny.replicas(seed)).wan
        aggregate = aggregate_problem(wan)
        for _ in range(20):
            asked = random.multinomial(wan.demand.sum(), random.dirichlet(np.ones(wan.supply.size)))
            asked = asked.reshape(wan.supply.shape) * (wan.supply > 0)
            homeless = HOMELESS * int(wan.demand.sum() - asked.sum())
            part = random.random(wan.supply.shape) < 0.5
            held = replace(aggregate, overload=overload_of(asked, wan.supply) + homeless)
            (most,) = relaxation.most_demand(held, wan.supply[part].sum(keepdims=True))
            assert asked[part].sum() <= most
            reached += asked[part].sum() == most < wan.demand.sum()
    assert reached
