"""Datasets rounded one after the other, where branch and bound finds no point in time."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from placewright.formulations.replicas import annealing, guides
from placewright.formulations.replicas.annealing import Annealing
from placewright.formulations.replicas.branching import Relaxed, relaxed
from placewright.formulations.replicas.compile import compile_replicas
from placewright.formulations.replicas.diving import SLIGHT, dive, doubts, with_copies
from placewright.formulations.replicas.draft import Draft
from placewright.formulations.replicas.fewer import largest
from placewright.formulations.replicas.following import follow
from placewright.formulations.replicas.partly import copies_of
from placewright.formulations.replicas.placing import greedy
from placewright.formulations.replicas.pool import pool_of
from placewright.formulations.replicas.problem import Problem
from placewright.formulations.replicas.program import Program, program_of
from placewright.formulations.session import Session
from placewright.formulations.wan.compile import Ints
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
    found = dive(program, [arrays], root, datasets, session, 0.0)
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
    assert dive(program, [arrays], root, everything, session, np.inf) is root
    assert dive(program, [arrays], root, ~everything, session, np.inf) is root
    assert not doubts(program, root, ~everything).any()


def test_where_few_copies_have_no_point_all_are_tried() -> None:
    session, (program, arrays, root) = fresh(), rooted(2)
    datasets = largest(program.pool, 8)
    none = np.zeros(arrays.columns, dtype=np.bool_)
    none[program.replica[program.pool.fresh]] = True
    found = dive(program, [arrays.without_columns(none), arrays], root, datasets, session, 0.0)
    assert not doubts(program, found, datasets).any()
    assert found.bound == dive(program, [arrays], root, datasets, session, 0.0).bound


def test_plans_follow_what_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, draft = problem_of(1), greedy(problem_of(1))
    refused = np.zeros_like(problem.now)
    monkeypatch.setattr(guides._Fixing, "decide", lambda *_: None)
    found = guides.guide(problem, fresh(), draft, refused, 30.0)
    assert found is not None
    assert found.rounded.any()
    assert (found.replicas >= problem.now).all()
    plan = follow(problem, fresh(), found, draft, refused, 2.0)
    assert (plan.replicas & ~problem.now).any()
    assert (plan.jobs.sum(axis=(1, 2)) <= problem.count).all()
    refused = problem.may_hold & ~problem.now
    plan = follow(problem, fresh(), found, draft, refused, 0.5)
    assert not (plan.replicas & refused).any()


def test_annealing_finds_homes_for_who_has_none() -> None:
    problem = problem_of(0)
    nobody = Draft(np.zeros_like(greedy(problem).jobs), problem.now)
    annealed = Annealing(problem, nobody, problem.may_hold, 0).run(fresh(), 1.0)
    assert annealed.jobs.sum() > 0.9 * problem.count.sum()


def leaving(problem: Problem) -> Ints:
    """Return GiB (regions,) of groups that annealing copies from the one region that has them."""
    session = replace(fresh(), deterministic=True)
    annealed = Annealing(problem, greedy(problem), problem.may_hold, 0).run(session, 60.0)
    copied = (annealed.replicas & ~problem.now).any(axis=1) & (problem.origin >= 0)
    gone = np.zeros(problem.regions, dtype=np.int64)
    np.add.at(gone, problem.origin[copied], problem.size[copied])
    return gone


@pytest.mark.parametrize(("seed", "region"), [(1, 2), (2, 2), (3, 3)])
def test_less_leaves_a_region_whose_links_take_less(
    seed: int, region: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(annealing, "SWEEPS", 200)
    problem = problem_of(seed)
    outgoing = np.full_like(problem.outgoing, problem.size.sum())
    free = leaving(replace(problem, outgoing=outgoing))
    outgoing[region] = free[region] // 2
    assert leaving(replace(problem, outgoing=outgoing))[region] < free[region]
