"""The MIP of all replicas: its bounds with cutoffs, and relax and fix."""

from __future__ import annotations

import time

import numpy as np
import pytest
from formulation_parameters import set_parameters

from examples import by_night, examples
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.bounds import prove as bounding
from placewright.formulations.replicas.heuristics.greedy import greedy_solution
from placewright.formulations.replicas.heuristics.incumbent import LargeNeighbourhoodSearch
from placewright.formulations.replicas.heuristics.relax_and_fix import relax_and_fix
from placewright.formulations.replicas.models.mip import IntegerProgram
from placewright.formulations.replicas.models.relaxation import RelaxationResult, build_relaxation
from placewright.formulations.replicas.problem.compile import (
    aggregate_problem,
    compile_replicas,
    count_for_share,
    largest_datasets,
    restrict_to_values,
)
from placewright.formulations.replicas.problem.problem import DATA_SUM, Solution
from placewright.formulations.session import Session
from placewright.instances.generators.geo import generate
from placewright.solver import Arrays, InProcess, Limits, Outcome, SolveOptions, Status
from tests.formulations.regions import geo_tiny, replicas_oracle

TERMS = ("overload", "remote_reads", "copies", "imbalance", "hottest")
ROUNDS = examples(day=4, nightly=24, long=1_000)


def fresh() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0)


def best(arrays: Arrays, cutoff: float | None = None) -> Outcome:
    return InProcess().solve(
        "scip", arrays, Limits(60.0, gap=0.0, options=SolveOptions(cutoff=cutoff))
    )


def test_no_bound_of_the_mip_is_better_than_the_best_plan() -> None:
    sharper = reached = questions = 0
    for seed in range(ROUNDS):
        round_ = geo_tiny.replicas(seed)
        wan = compile_replicas(round_).wan
        vectors = sorted(replicas_oracle.vectors(round_))
        some = vectors[int(np.random.default_rng(seed).integers(len(vectors)))]
        for plan in (vectors[0], some):
            aggregate = restrict_to_values(aggregate_problem(wan), {"overload": plan[0]})
            held = {"overload": plan[0], "remote_reads": plan[1]}
            tight_regions = np.random.default_rng(seed).random(aggregate.possible.shape[1]) < 0.5
            limited = aggregate.with_limits_in(tight_regions)
            targets = [(IntegerProgram.of(p), "copies", held) for p in (aggregate, limited)]
            targets += [
                (IntegerProgram.of(p), DATA_SUM, {"overload": plan[0]})
                for p in (aggregate, limited)
            ]
            good = [v for v in vectors if v[0] <= plan[0]]
            for mip, term, holds in targets:
                if term == DATA_SUM:
                    least = min(v[1] + v[2] for v in good)
                else:
                    least = min(v[2] for v in good if v[1] <= plan[1])
                outcome = best(mip.arrays(term, holds))
                assert outcome.status is Status.OPTIMAL
                assert outcome.bound <= least + 1e-4, (seed, term, outcome.bound, least)
                # A cut-off that plans meet is no bound.
                cut = best(mip.arrays(term, holds), least + 1.0)
                assert cut.bound <= least + 1e-4, (seed, term)
                relaxation = best(build_relaxation(aggregate).arrays(term, holds)).objective
                sharper += outcome.objective > relaxation + 0.5
                if term == "copies":
                    reached += outcome.objective > least - 0.5
                    questions += 1
    assert sharper > 0 or not by_night()
    assert reached >= 0.9 * questions


def test_no_bound_with_a_cutoff_is_better_than_the_best_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_parameters(monkeypatch, parameters, branch_and_bound_max_copies=0)
    reached = 0
    for seed in range(ROUNDS):
        round_ = geo_tiny.replicas(seed)
        problem = compile_replicas(round_)
        vectors = sorted(replicas_oracle.vectors(round_))
        held = dict(zip(TERMS, vectors[0], strict=True))
        found = [b for b in bounding.prove_bounds(problem, fresh(), held) if b.term == "copies"]
        proven = max(bound.value for bound in found)
        assert proven <= held["copies"] + 1e-6, seed
        reached += proven >= 0.98 * held["copies"] - 1
    assert reached >= 0.9 * ROUNDS


def test_fractional_numbers_of_copies_have_a_higher_branching_priority() -> None:
    aggregate = aggregate_problem(compile_replicas(geo_tiny.replicas(3)).wan)
    mip = IntegerProgram.of(aggregate)
    plain = mip.arrays("copies", {})
    some = np.flatnonzero(mip.copied >= 0)
    assert some.size >= 2
    numbers = np.ones(len(mip.copied))
    numbers[some[0]] = 0.5
    ordered = mip.arrays("copies", {}, numbers=numbers)
    expected = plain.priority.copy()
    expected[mip.copied[some[0]]] *= 10
    assert ordered.priority.tolist() == expected.tolist()


def test_the_largest_datasets_give_a_bound_where_the_full_relaxation_is_not_solved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_parameters(monkeypatch, parameters, relaxation_max_copies=-1, restricted_datasets=1)
    real = bounding.try_relaxation

    def in_part(arrays: Arrays, session: Session, share: float = 1.0) -> RelaxationResult | None:
        return real(arrays, session, share) if share < 1.0 else None

    monkeypatch.setattr(bounding, "try_relaxation", in_part)
    proven = 0.0
    for seed in range(ROUNDS):
        round_ = geo_tiny.replicas(seed)
        vectors = sorted(replicas_oracle.vectors(round_))
        held = dict(zip(TERMS, vectors[0], strict=True))
        for bound in bounding.prove_bounds(compile_replicas(round_), fresh(), held):
            assert bound.value <= held[bound.term], seed
            proven += bound.value if bound.term == "copies" else 0
    assert proven > 0 or not by_night()


def test_relax_and_fix_copies_less_and_nothing_that_is_refused() -> None:
    round_ = generate(
        regions=4, datasets=20, jobs=120, gpus=600, mix="spare", seed=1, policy="replicas"
    )
    problem = compile_replicas(round_)
    solution = greedy_solution(problem)
    refused = np.zeros_like(problem.current)
    found = relax_and_fix(problem, fresh(), solution, refused, 20.0)
    assert found is not None
    assert found.objective < solution.objective(problem)
    assert (found.chosen >= problem.current).all()
    assert (found.relaxed >= problem.current).all()
    chosen = LargeNeighbourhoodSearch(problem, fresh(), solution, None).solve_restricted(
        found.chosen, 20.0
    )
    assert chosen is not None
    assert chosen.objective(problem) < solution.objective(problem)
    assert (chosen.replicas <= found.chosen).all()
    refused = (found.chosen | found.relaxed) & ~problem.current
    other = relax_and_fix(problem, fresh(), solution, refused, 20.0)
    assert other is None or not ((other.chosen | other.relaxed) & refused).any()


def test_points_with_fewer_remote_reads_may_copy_more(monkeypatch: pytest.MonkeyPatch) -> None:
    round_ = generate(
        regions=4, datasets=20, jobs=120, gpus=600, mix="spare", seed=0, policy="replicas"
    )
    problem = compile_replicas(round_)
    solution = greedy_solution(problem)
    overload, remote_reads, copies = solution.objective(problem)
    # Such as links leave of one that copies enough.
    monkeypatch.setattr(
        Solution, "objective", lambda *_: (overload, remote_reads + 10**6, copies // 100)
    )
    found = relax_and_fix(problem, fresh(), solution, np.zeros_like(problem.current), 20.0)
    monkeypatch.undo()
    assert found is not None
    assert found.objective < (overload, remote_reads + 10**6, 0)
    chosen = LargeNeighbourhoodSearch(problem, fresh(), solution, None).solve_restricted(
        found.chosen, 20.0
    )
    assert chosen is not None
    assert chosen.objective(problem) < solution.objective(problem)


def test_the_largest_datasets_are_those_of_most_gib_that_can_move() -> None:
    round_ = generate(
        regions=4, datasets=20, jobs=120, gpus=600, mix="spare", seed=1, policy="replicas"
    )
    aggregate = aggregate_problem(compile_replicas(round_).wan)
    size = np.where(aggregate.copyable.any(axis=1), aggregate.wan.size, 0)
    assert count_for_share(aggregate, 0.0) == 0
    assert (largest_datasets(aggregate, count_for_share(aggregate, 1.0)) == (size > 0)).all()
    half = largest_datasets(aggregate, count_for_share(aggregate, 0.5))
    assert size[half].min() >= size[~half].max()
    assert size[half].sum() >= 0.5 * size.sum() > size[half].sum() - size[half].min()
