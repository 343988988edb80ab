"""Bounds of the policy `replicas` against brute force: none is better than the best plan."""

from __future__ import annotations

import os
import time
from types import ModuleType

import numpy as np

from placewright.formulations.replicas.bounds import bounds, together
from placewright.formulations.replicas.compile import compile_replicas
from placewright.formulations.session import Session
from placewright.solver import InProcess

TERMS = ("overload", "remote_reads", "copies", "imbalance", "hottest")
ROUNDS = int(os.environ.get("PLACEWRIGHT_BOUNDED_ROUNDS", "40"))


def fresh() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0)


def test_no_bound_is_better_than_the_best_plan(
    replicas_oracle: ModuleType, geo_tiny: ModuleType
) -> None:
    reached = 0
    for seed in range(ROUNDS):
        round_ = geo_tiny.replicas(seed)
        problem = compile_replicas(round_)
        vectors = sorted(replicas_oracle.vectors(round_))
        some = int(np.random.default_rng(seed).integers(len(vectors)))
        for plan in (vectors[0], vectors[some]):
            held = dict(zip(TERMS, plan, strict=True))
            for bound in bounds(problem, fresh(), held):
                at_least = [
                    v for v in vectors if all(v[TERMS.index(t)] <= x for t, x in bound.holds)
                ]
                least = min(v[TERMS.index(bound.term)] for v in at_least)
                assert bound.value <= least + 1e-6, (seed, bound, least)
            least = min(v[1] + v[2] for v in vectors if v[0] <= plan[0])
            proven = [step.bound for step in together(problem, fresh(), plan[0], least)]
            assert proven == sorted(proven)
            assert proven[-1] <= least, (seed, proven, least)
            reached += proven[-1] == least
    # Jobs may be split, and links are added up: few bounds are off for that.
    assert reached >= 2 * ROUNDS * 0.9
