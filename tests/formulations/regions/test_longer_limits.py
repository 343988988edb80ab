"""A long limit begins as a short one does, and the incumbent never becomes worse."""

from __future__ import annotations

import time

import numpy as np
import pytest
from formulation_parameters import set_parameters

from placewright.formulations.plan_messages import Candidate
from placewright.formulations.replicas import parameters, run
from placewright.formulations.replicas.heuristics import relax_and_fix
from placewright.formulations.replicas.heuristics.incumbent import Incumbent
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.formulations.replicas.problem.problem import Problem, Solution
from placewright.formulations.replicas.run import ReplicaSearch
from placewright.formulations.session import Session
from placewright.instances.generators.geo import generate
from placewright.rounds import solve_round
from placewright.solver import InProcess


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Links refuse most of what annealing would copy."""
    return compile_replicas(
        generate(
            regions=10, datasets=100, jobs=150, gpus=512, mix="spare", seed=3, policy="replicas"
        )
    )


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch, machine_code: None) -> None:
    """Search little, and prove nothing."""
    set_parameters(monkeypatch, parameters, max_sweeps=12, max_neighbourhoods=1, max_starts=3)
    monkeypatch.setattr(relax_and_fix, "relax_and_fix", lambda *_: None)
    monkeypatch.setattr(run, "prove_bounds", lambda *_: iter(()))


def session(seconds: float) -> Session:
    """A session in which work decides; it takes as long as it takes."""
    return Session(InProcess().solve, time.monotonic() + 600, deterministic=True, budget=seconds)


def test_the_first_solutions_have_the_least_overload_without_any_time(problem: Problem) -> None:
    plan = solve_round(problem.wan.round, time_limit=0, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.terms[0].value == 0


def test_the_first_candidates_are_those_of_any_limit(problem: Problem, brief: None) -> None:
    first = []
    for seconds in (0.5, 5.0):
        steps = ReplicaSearch(problem, session(seconds)).steps()
        found = [next(steps) for _ in range(2)]
        first.append([step.data for step in found if isinstance(step, Candidate)])
    assert len(first[0]) == 2
    assert first[0] == first[1]


@pytest.mark.nightly
def test_a_poor_result_of_annealing_does_not_replace_the_incumbent(
    problem: Problem, brief: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poor(_: Incumbent, solution: Solution, *__: object) -> Solution:
        region = int(problem.allowed_homes.any(axis=2).sum(axis=0).argmax())
        jobs = np.where(
            problem.allowed_homes[:, region].any(axis=1)[:, None, None], 0, solution.jobs
        )
        lowest = problem.allowed_homes[:, region].argmax(axis=1)
        some = problem.allowed_homes[:, region].any(axis=1)
        jobs[some, region, lowest[some]] = problem.count[some]
        return Solution(jobs, problem.current.copy())

    monkeypatch.setattr(run, "anneal", poor)
    search = ReplicaSearch(problem, session(1.0))
    ranks = [search._incumbent.objective for _ in search.steps()]
    assert len(ranks) > 2
    assert ranks == sorted(ranks, reverse=True)
