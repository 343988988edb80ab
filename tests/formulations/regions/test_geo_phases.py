"""Phases of a round of regions: each can be left out, and none changes the session's deadline."""

from __future__ import annotations

import time

import pytest
from formulation_parameters import set_parameters

from placewright.formulations.geo import parameters
from placewright.formulations.geo.problem.compile import compile_geo
from placewright.formulations.geo.run import PHASES, run
from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session
from placewright.instances.generators.geo import generate
from placewright.solver import InProcess

NAMES = {phase.name for phase in PHASES}


def session() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0)


def test_without_phases_only_zeros_bound_the_later_terms() -> None:
    problem = compile_geo(generate(regions=2, datasets=4, jobs=20, gpus=80, policy="geo"))
    assert list(run(problem, session(), without=NAMES)) == [
        Bound(term, 0, certified=True) for term in problem.round.policy.terms[1:]
    ]


def test_a_phase_alone_proves_its_bound_and_leaves_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_parameters(monkeypatch, parameters, max_monolithic_size=0)
    problem = compile_geo(generate(regions=2, datasets=4, jobs=20, gpus=80, policy="geo"))
    others = NAMES - {"Lagrangian bound of value"}
    mine = session()
    deadline = mine.deadline
    steps = [step for step in run(problem, mine, without=others) if isinstance(step, Bound)]
    most = sum(max(job.value_of(o) for o in range(len(job.options))) for job in problem.round.jobs)
    (bound,) = [step for step in steps if step.term == "value"]
    assert bound.certified
    assert 0 < bound.value <= most
    assert mine.deadline == deadline
