"""Datasets rounded one after the other, where branch and bound finds no point in time."""

from __future__ import annotations

import time

import numpy as np
import pytest

from placewright.formulations.replicas import guides
from placewright.formulations.replicas.branching import Relaxed, relaxed
from placewright.formulations.replicas.compile import compile_replicas
from placewright.formulations.replicas.diving import SLIGHT, dive, with_copies
from placewright.formulations.replicas.fewer import largest
from placewright.formulations.replicas.neighbours import Neighbours
from placewright.formulations.replicas.partly import copies_of
from placewright.formulations.replicas.placing import greedy
from placewright.formulations.replicas.pool import pool_of
from placewright.formulations.replicas.problem import Problem
from placewright.formulations.replicas.program import Program, program_of
from placewright.formulations.session import Session
from placewright.instances.geo_generator import generate
from placewright.solver import Arrays, InProcess


def problem_of(seed: int) -> Problem:
    return compile_replicas(
        generate(
            regions=4, datasets=20, jobs=120, gpus=600, mix="spare", seed=seed, policy="replicas"
        )
    )


def fresh() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0)


def rooted(seed: int) -> tuple[Program, Arrays, Relaxed]:
    problem = problem_of(seed)
    overload, remote_reads, _ = greedy(problem).rank(problem)
    program = program_of(pool_of(problem.wan))
    arrays = program.arrays("copies", {"overload": overload, "remote_reads": remote_reads})
    root = relaxed(arrays, fresh())
    assert root is not None
    return program, arrays, root


@pytest.mark.parametrize("seed", range(3))
def test_datasets_become_whole_and_nothing_is_cheaper_for_it(seed: int) -> None:
    session, (program, arrays, root) = fresh(), rooted(seed)
    datasets = largest(program.pool, 8)
    found = dive(program, arrays, root, datasets, session, 0.0)
    assert found is not None
    copies = copies_of(program, found)
    parts = np.minimum(copies, 1 - copies).clip(0.0)[datasets]
    assert parts.sum(axis=1).max() < SLIGHT
    assert found.bound >= root.bound
    again = relaxed(with_copies(arrays, program, copies > 0.5, datasets), session)
    assert again is not None
    assert again.bound == pytest.approx(found.bound, rel=0.01)


def test_a_dive_ends_in_time_and_without_anything_to_round_at_once() -> None:
    session, (program, arrays, root) = fresh(), rooted(1)
    everything = np.ones(len(program.pool.kept), dtype=np.bool_)
    assert dive(program, arrays, root, everything, session, np.inf) is None
    assert dive(program, arrays, root, ~everything, session, np.inf) is root


def test_a_program_without_a_first_point_is_dived_into(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, decide = problem_of(1), guides._Fixing.decide

    def none_at_first(
        fixing: guides._Fixing, large: int, beyond: float, most: float, kept: int = 0
    ) -> float | None:
        return decide(fixing, large, beyond, most, kept) if kept else None

    draft = greedy(problem)
    monkeypatch.setattr(guides._Fixing, "decide", none_at_first)
    found = guides.guide(problem, fresh(), draft, np.zeros_like(problem.now), 30.0)
    assert found is not None
    chosen = Neighbours(problem, fresh(), draft, None).choose(found, 20.0)
    assert chosen is not None
    assert chosen.rank(problem) < draft.rank(problem)
