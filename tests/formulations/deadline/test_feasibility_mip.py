"""Leases of chosen alternatives, and the best of few, are those that enumeration finds."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from examples import examples
from placewright.array_types import Ints
from placewright.formulations.deadline.heuristics.list_scheduling import list_schedule
from placewright.formulations.deadline.heuristics.master_subproblem import (
    choose_alternatives,
    find_leases,
)
from placewright.formulations.deadline.models.demand_bound import feasible_alone
from placewright.formulations.deadline.problem.problem import NONE, Problem
from placewright.formulations.session import Session
from placewright.solver import InProcess
from tests.formulations.deadline import oracle, tiny

KINDS = ({}, {"releases": True}, {"gangs": False}, {"rows": 2})


def session() -> Session:
    solver = InProcess()
    return Session(
        lambda backend, arrays, limits, start: solver.solve(backend, arrays, limits, start),
        deadline=time.monotonic() + 60,
    )


def only(problem: Problem, alternatives: Ints) -> Problem:
    return replace(
        problem,
        **{
            name: getattr(problem, name)[alternatives]
            for name in ("job", "need", "first", "end", "value", "demand")
        },
    )


def test_all_chosen_alternatives_are_arranged_where_that_can_be() -> None:
    outcomes = []
    for seed in range(examples(day=30, nightly=120)):
        for kind in KINDS:
            problem = tiny.problem(seed, tiny.SHAPES[seed % 4], **kind)
            problem = only(problem, np.flatnonzero(feasible_alone(problem)))
            alternative = np.full(problem.jobs, NONE, dtype=np.int64)
            alternative[problem.job] = np.arange(problem.alternatives)
            arranged = find_leases(problem, alternative, session(), seconds=5)
            own = only(problem, alternative[alternative != NONE])
            counted = replace(own, value=np.ones_like(own.value))
            there = oracle.best(counted).admitted == own.alternatives
            assert arranged.infeasible == (not there), (seed, kind)
            outcomes.append(there)
            if there:
                assert arranged.schedule is not None
                assert arranged.schedule.fits(problem)
                assert np.array_equal(arranged.schedule.alternative, alternative)
    enough = examples(day=10, nightly=50)
    assert enough < sum(outcomes) < len(outcomes) - enough


def test_the_best_of_few_alternatives_breaks_no_more_and_admits_most() -> None:
    better = 0
    for seed in range(examples(day=15, nightly=60)):
        for kind in KINDS:
            problem = tiny.problem(seed, tiny.SHAPES[seed % 4], promises=True, **kind)
            alternatives = np.flatnonzero(feasible_alone(problem))
            first = np.full(problem.jobs, NONE, dtype=np.int64)
            first[problem.job[alternatives[::-1]]] = alternatives[::-1]
            known = list_schedule(problem, first)
            found = choose_alternatives(problem, alternatives, known, session(), seconds=5)
            assert found is not None
            assert found.fits(problem)
            assert found.broken(problem) <= known.broken(problem)
            assert found.admitted(problem) >= known.admitted(problem)
            best = oracle.best(problem)
            if known.broken(problem) == best.broken:
                assert found.admitted(problem) == best.admitted, (seed, kind)
                better += best.admitted > known.admitted(problem)
    assert better > examples(day=2, nightly=10)
