"""The replica tree: bounds of node relaxations by PDHG, branching, and what guides annealing."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from formulation_parameters import set_parameters

from examples import examples
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.bounds.prove import replica_tree_of
from placewright.formulations.replicas.bounds.replica_tree import ReplicaTree
from placewright.formulations.replicas.models.relaxation import (
    Relaxation,
    RelaxationResult,
    build_relaxation,
    solve_relaxation,
)
from placewright.formulations.replicas.problem.compile import (
    aggregate_problem,
    compile_replicas,
    restrict_to_values,
)
from placewright.formulations.replicas.problem.problem import DATA_SUM
from placewright.formulations.replicas.run import ReplicaSearch
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate
from placewright.solver import Arrays, InProcess
from placewright.solver.batched_pdhg import WIDTH, BatchedPdhg
from tests.formulations.regions import geo_tiny, replicas_oracle

TERMS = ("overload", "remote_reads", "copies", "imbalance", "hottest")
ROUNDS = examples(day=12, nightly=40, long=1_000)
CLOSE = 1e-3
"""What single precision may lose of a bound."""


def fresh() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0, deterministic=True)


def relaxation(
    round_: Round, term: str, held: dict[str, int]
) -> tuple[Relaxation, Arrays, RelaxationResult]:
    program = build_relaxation(
        restrict_to_values(aggregate_problem(compile_replicas(round_).wan), held)
    )
    arrays = program.arrays(term, held)
    root = solve_relaxation(arrays, fresh())
    assert root is not None
    return program, arrays, root


def test_bounds_by_pdhg_come_near_those_of_a_solver() -> None:
    round_ = generate(
        regions=5, datasets=30, jobs=150, gpus=600, mix="spare", seed=0, policy="replicas"
    )
    program, arrays, root = relaxation(round_, "copies", {"overload": 0, "remote_reads": 0})
    assert root.point is not None
    pdhg = BatchedPdhg(arrays)
    start = pdhg.scaled_iterate(root.point, root.prices)
    rng = np.random.default_rng(0)
    columns = rng.choice(
        program.replica[program.aggregate.copyable], WIDTH - 1, replace=False
    ).tolist()
    fixings = [{}, *({int(column): float(rng.integers(2))} for column in columns)]
    few = pdhg.run(fixings, [start] * WIDTH, 200, np.inf)
    many = pdhg.run(fixings, [start] * WIDTH, 6000, np.inf)
    close = 0
    for answer, (early, _), (late, _) in zip(fixings, few, many, strict=True):
        lower, upper = arrays.lower.copy(), arrays.upper.copy()
        for column, value in answer.items():
            lower[column] = upper[column] = value
        exact = solve_relaxation(replace(arrays, lower=lower, upper=upper), fresh())
        assert exact is not None
        assert early <= late + 1e-6
        assert late <= exact.bound + 1 + CLOSE * exact.bound
        close += late >= 0.99 * exact.bound
    assert close >= WIDTH - 1
    assert pdhg.run([{}], [start], 50, np.inf)[0][0] == pytest.approx(root.bound, rel=1e-3)


def test_no_claim_is_better_than_the_best_plan() -> None:
    sharper = 0
    for seed in range(1000, 1000 + ROUNDS):
        round_ = geo_tiny.replicas(seed)
        every = replicas_oracle.vectors(round_)
        best = min(every)
        both = min(v[1] + v[2] for v in every if v[0] <= best[0])
        for term, held, least in (("copies", 2, best[2]), (DATA_SUM, 1, both)):
            known = dict(zip(TERMS[:held], best, strict=False))
            program, arrays, root = relaxation(round_, term, known)
            for goal in (float(least), least + 5.0):
                tree = ReplicaTree(program, arrays, root, tuple(known.items()), fresh())
                tree.probe()
                claims = [step.bound for step in tree.improve_bound(goal, 0.0)]
                assert claims == sorted(claims)
                assert all(claim <= least for claim in claims), (
                    seed,
                    term,
                    claims,
                    least,
                )
                sharper += bool(claims) and claims[-1] > root.bound
    assert sharper


def test_a_tree_that_grew_in_the_background_claims_no_more_than_the_best_plan() -> None:
    sharper = 0
    for seed in range(1000, 1000 + ROUNDS):
        round_ = geo_tiny.replicas(seed)
        best = min(replicas_oracle.vectors(round_))
        known = dict(zip(TERMS[:2], best, strict=False))
        program, arrays, root = relaxation(round_, "copies", known)
        session = Session(InProcess().solve, deadline=time.monotonic() + 60.0)
        tree = ReplicaTree(program, arrays, root, tuple(known.items()), session)
        tree.probe()
        with tree.run_in_background(lambda: np.inf):
            time.sleep(0.01)
        claims = [step.bound for step in tree.improve_bound(float(best[2]), 0.0)]
        assert claims == sorted(claims)
        assert all(claim <= best[2] for claim in claims), (seed, best[2], claims)
        sharper += bool(claims)
    assert sharper


@pytest.mark.nightly
def test_each_run_of_annealing_may_copy_the_branching_dataset_to_one_region(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_parameters(monkeypatch, parameters, mip_max_copies=10)
    round_ = generate(
        regions=5, datasets=30, jobs=150, gpus=600, mix="spare", seed=1, policy="replicas"
    )
    problem = compile_replicas(round_)
    tree = replica_tree_of(problem, fresh(), {"overload": 0})
    assert tree is not None
    first = tree.branching_dataset()
    assert first is not None
    dataset, regions = first
    again = replica_tree_of(problem, fresh(), {"overload": 0})
    assert again is not None
    assert again.branching_dataset() == first
    assert tree.replicas.shape == (len(problem.wan.datasets), problem.regions)
    search = ReplicaSearch(problem, fresh())
    assert not search._forbidden_copies(1).any()
    search._replica_tree = tree
    group = problem.dataset_class[dataset]
    for run in range(1, 2 * parameters.PARAMETERS.guided_regions):
        barred = search._forbidden_copies(run)
        allowed = np.flatnonzero(~barred[group] & ~problem.current[group])
        assert allowed.tolist() == [regions[(run - 1) % parameters.PARAMETERS.guided_regions]]
        assert not np.delete(barred, group, axis=0).any()
