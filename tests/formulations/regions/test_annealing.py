"""Homes by annealing: what compiled moves cost beside sums over everything, and where it ends."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from formulation_parameters import set_parameters

from examples import by_day, examples
from placewright.array_types import Ints
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics import annealing_kernel
from placewright.formulations.replicas.heuristics.annealing import Annealing, initial_state
from placewright.formulations.replicas.heuristics.annealing_kernel import (
    EXCESS,
    NOWHERE,
    AnnealingState,
)
from placewright.formulations.replicas.heuristics.greedy import greedy_solution
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.formulations.replicas.problem.problem import Problem, Solution, overload_of
from placewright.formulations.session import Session
from placewright.instances.generators.geo import generate
from placewright.solver import InProcess


def problem_of(seed: int) -> Problem:
    return compile_replicas(
        generate(
            regions=4, datasets=20, jobs=120, gpus=600, mix="spare", seed=seed, policy="replicas"
        )
    )


def scarce(problem: Problem) -> Problem:
    """Return a problem whose links and storage take little."""
    budget = problem.wan.budget // 8
    return replace(
        problem,
        wan=replace(problem.wan, budget=budget),
        incoming=budget.sum(axis=0),
        outgoing=budget.sum(axis=1),
        storage=problem.storage * 9 // 10,
    )


def fresh() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0)


def cost_of_all(problem: Problem, state: AnnealingState) -> tuple[float, float]:
    """Return what all units cost where they are, in GiB, and their overload in milli-GPU.

    From the cells alone.
    """
    regions, models = problem.supply.shape
    there = state.cell != NOWHERE
    region = state.cell // models
    read = np.zeros(problem.current.shape, dtype=np.bool_)
    remote = 0.0
    load = np.zeros(problem.supply.size, dtype=np.int64)
    for unit in np.flatnonzero(there):
        w = state.job_class[unit]
        load[state.cell[unit]] += int(state.jobs[unit] * problem.demand[w])
        for k in np.flatnonzero(problem.read_class == w):
            read[problem.read_dataset_class[k], region[unit]] = True
            if not problem.may_hold[problem.read_dataset_class[k], region[unit]]:
                remote += float(state.jobs[unit] * problem.read_gib[k])
    copies = read & problem.may_hold & ~problem.current
    size, origin = problem.size[:, None] * copies, problem.origin
    wants = np.zeros((regions + 1, regions))
    np.add.at(wants, origin, size)
    wants = wants[:regions]
    out = np.zeros(regions + 1)
    np.add.at(out, origin, problem.size * copies.any(axis=1))
    unread = np.ones(problem.dataset_classes, dtype=np.bool_)
    unread[problem.read_dataset_class] = False
    held = (read & problem.may_hold) | (problem.current & unread[:, None])
    budget = problem.wan.budget
    hops = size.sum() + np.maximum(0, wants - budget).sum()
    beyond = (
        np.maximum(
            0, size.sum(axis=0) - parameters.PARAMETERS.link_use_share * problem.incoming
        ).sum()
        + np.maximum(
            0, out[:regions] - parameters.PARAMETERS.link_use_share * problem.outgoing
        ).sum()
        + max(0.0, hops - parameters.PARAMETERS.link_use_share * budget.sum())
        + np.maximum(0, problem.size @ held - problem.storage).sum()
    )
    cost = size.sum() + EXCESS * beyond + parameters.PARAMETERS.remote_read_weight * remote
    return float(cost), overload_of(load.reshape(regions, models), problem.supply)


@pytest.mark.parametrize("seed", by_day(range(4)))
def test_a_unit_costs_what_the_whole_grows_by(seed: int) -> None:
    problem = scarce(problem_of(seed))
    state, random = (
        initial_state(problem, greedy_solution(problem), problem.may_hold),
        np.random.default_rng(seed),
    )
    units, models = state.cell.size, problem.supply.shape[1]
    reads = (state.first_read[1:] - state.first_read[:-1])[state.job_class]
    dear = 0
    for unit in random.integers(units, size=examples(day=60, nightly=150)).tolist():
        annealing_kernel.remove_unit(state, unit)
        before, overload = cost_of_all(problem, state)
        cells = np.flatnonzero(state.allowed_homes[state.job_class[unit]].ravel())
        cell = int(random.choice(cells))
        region = cell // models
        annealing_kernel.price_data(state, unit, region, region + 1)
        price, over = state.data_cost[region], annealing_kernel.added_overload(state, unit, cell)
        annealing_kernel.insert_unit(state, unit, cell)
        after, overloaded = cost_of_all(problem, state)
        assert over == pytest.approx(overloaded - overload, abs=1.0)
        # Copies that come together may share what a link has left, which is counted for each.
        if reads[unit] == 1:
            assert price == pytest.approx(after - before)
            dear += price > problem.size.max()
    assert dear > 3


@pytest.mark.parametrize("seed", by_day(range(3)))
def test_sweeps_keep_their_sums(seed: int) -> None:
    problem = scarce(problem_of(seed))
    state, random = (
        initial_state(problem, greedy_solution(problem), problem.may_hold),
        np.random.default_rng(seed),
    )
    where = state.cell.copy()
    for noise in (10.0**4, 100.0, 1.0):
        annealing_kernel.sweep(state, random.permutation(state.cell.size), 200, noise, 0.1, random)
    assert (state.cell != where).any()
    jobs = Annealing(problem, greedy_solution(problem), problem.may_hold, seed).solution().jobs
    assert jobs.sum() == greedy_solution(problem).jobs.sum()
    nobody = Solution(np.zeros_like(jobs), problem.current)
    again = initial_state(problem, nobody, problem.may_hold)
    order = {}
    for unit, workload in enumerate(again.job_class.tolist()):
        order.setdefault(workload, []).append(unit)
    for unit, cell in enumerate(state.cell.tolist()):
        annealing_kernel.insert_unit(again, order[int(state.job_class[unit])].pop(), cell)
    for name in (
        "reader_count",
        "copy_count",
        "storage_left",
        "ingress_left",
        "egress_left",
        "total_left",
        "link_left",
    ):
        assert getattr(again, name) == pytest.approx(getattr(state, name)), name


def test_copies_that_come_together_share_what_links_into_a_region_take() -> None:
    problem = problem_of(0)
    # Nothing but the sum into each region is scarce: it takes the first copy, not the second.
    plenty = np.full_like(problem.wan.budget, 10**9)
    pairs = [np.flatnonzero(problem.read_class == w) for w in range(problem.job_classes)]
    w, reads = next(
        (w, k)
        for w, k in enumerate(pairs)
        if len(k) == 2
        and not problem.current[problem.read_dataset_class[k]].all(axis=0).all()
        and (
            ~problem.current[problem.read_dataset_class[k]]
            & problem.may_hold[problem.read_dataset_class[k]]
        )
        .all(axis=0)
        .any()
    )
    groups = problem.read_dataset_class[reads]
    both = (~problem.current[groups] & problem.may_hold[groups]).all(axis=0)
    region, sizes = int(np.flatnonzero(both)[0]), problem.size[groups]
    into = np.full_like(problem.incoming, 10**9)
    into[region] = int(sizes.max() / parameters.PARAMETERS.link_use_share) + 1
    problem = replace(
        problem,
        wan=replace(problem.wan, budget=plenty),
        incoming=into,
        outgoing=np.full_like(into, 10**9),
        storage=np.full_like(into, 10**9),
    )
    nobody = Solution(np.zeros(problem.allowed_homes.shape, dtype=np.int64), problem.current)
    state = initial_state(problem, nobody, problem.may_hold)
    unit = int(np.flatnonzero(state.job_class == w)[0])
    annealing_kernel.price_data(state, unit, region, region + 1)
    beyond = sizes.sum() - parameters.PARAMETERS.link_use_share * int(into[region])
    assert state.data_cost[region] == pytest.approx(sizes.sum() + EXCESS * beyond)


@pytest.mark.nightly
def test_annealing_finds_homes_for_who_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, parameters, max_sweeps=50)
    problem, session = problem_of(0), replace(fresh(), deterministic=True)
    nobody = Solution(np.zeros_like(greedy_solution(problem).jobs), problem.current)
    annealed = Annealing(problem, nobody, problem.may_hold, 0).run(session, 60.0)
    assert annealed.jobs.sum() > 0.9 * problem.count.sum()


def leaving(problem: Problem) -> Ints:
    """Return GiB (regions,) of groups that annealing copies from the one region that has them."""
    session = replace(fresh(), deterministic=True)
    annealed = Annealing(problem, greedy_solution(problem), problem.may_hold, 0).run(session, 60.0)
    copied = (annealed.replicas & ~problem.current).any(axis=1) & (problem.origin >= 0)
    gone = np.zeros(problem.regions, dtype=np.int64)
    np.add.at(gone, problem.origin[copied], problem.size[copied])
    return gone


@pytest.mark.parametrize(("seed", "region"), [(1, 2), (2, 2), (4, 2)])
def test_less_leaves_a_region_whose_links_take_less(
    seed: int, region: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_parameters(monkeypatch, parameters, max_sweeps=200)
    problem = problem_of(seed)
    outgoing = np.full_like(problem.outgoing, problem.size.sum())
    free = leaving(replace(problem, outgoing=outgoing))
    outgoing[region] = free[region] // 2
    assert leaving(replace(problem, outgoing=outgoing))[region] < free[region]


def test_nothing_is_compiled_before_something_is_annealed() -> None:
    code = "import sys, placewright.rounds.deciders.replicas; print('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
