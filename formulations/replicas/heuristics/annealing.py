"""Simulated annealing of homes: replicas follow the jobs; penalties stand for scarcity."""

from __future__ import annotations

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.annealing_kernel import (
    NOWHERE,
    AnnealingState,
    insert_unit,
    sweep,
)
from placewright.formulations.replicas.problem.problem import Problem, Solution
from placewright.formulations.session import Session

# Heat-bath moves (Geman and Geman 1984), drawn by the Gumbel-max trick: a unit, some jobs of one
# class that move together, is taken out and put where it costs least, with noise. Costs are the
# GiB of replicas of which it would be the only reader, overload at a price, and penalties on
# storage and links. Compound moves take many readers of a dataset class at once, since a replica
# is made for its first reader and saved only with its last. The noise falls, and the price of
# overload rises.


class Annealing:
    """One run of simulated annealing from a solution."""

    def __init__(self, problem: Problem, solution: Solution, may_hold: Bools, seed: int) -> None:
        self.problem, self._may_hold = problem, may_hold
        self._random = np.random.default_rng(seed)
        self._state = initial_state(problem, solution, may_hold)

    def run(self, session: Session, seconds: float) -> Solution:
        """Return the solution after a number of seconds or sweeps, whichever is sooner."""
        tuning = parameters.PARAMETERS
        size, asks = self.problem.size[self.problem.size > 0], self._state.demand
        usual = float(np.median(size)) if size.size else 1.0
        price = usual / max(1.0, float(np.median(asks))) if asks.size else 0.0
        until, number, done = session.remaining() - seconds, 0, 0.0
        while done < 1.0:
            sweep(
                self._state,
                self._random.permutation(asks.size),
                tuning.compound_moves_per_sweep * self.problem.dataset_classes,
                usual
                * tuning.initial_noise_sizes
                * (tuning.final_noise_sizes / tuning.initial_noise_sizes) ** done,
                price
                * tuning.initial_overload_price
                * (tuning.final_overload_price / tuning.initial_overload_price) ** done,
                self._random,
            )
            number += 1
            done = number / tuning.max_sweeps
            if not session.deterministic and seconds > 0:
                done = max(done, 1.0 - (session.remaining() - until) / seconds)
            elif session.expired(until):
                break
        return self.solution()

    def solution(self) -> Solution:
        """Return the solution of the present state."""
        problem, state = self.problem, self._state
        jobs = np.zeros(problem.allowed_homes.shape, dtype=np.int64)
        there = state.cell != NOWHERE
        cells = jobs.reshape(problem.job_classes, -1)
        np.add.at(cells, (state.job_class[there], state.cell[there]), state.jobs[there].astype(int))
        read = Solution(jobs, problem.current).local_reads(problem) & self._may_hold
        unread = np.logical_not(read.any(axis=1))
        replicas = read | problem.fixed | (problem.current & unread[:, None])
        return Solution(jobs, replicas).without_idle_copies(problem)


def initial_state(problem: Problem, solution: Solution, may_hold: Bools) -> AnnealingState:
    """Return the state with every unit where a solution has it, and data only where it may be."""
    tuning = parameters.PARAMETERS
    job_class, jobs, cells = _units(problem, solution)
    regions = problem.regions
    impossible = ~may_hold[problem.read_dataset_class]
    barred = np.zeros((problem.job_classes, regions), dtype=np.bool_)
    np.logical_or.at(barred, problem.read_class, impossible & ~problem.read_remote[:, None])
    remote_cost = np.zeros((problem.job_classes, regions))
    np.add.at(
        remote_cost,
        problem.read_class,
        impossible * problem.read_gib[:, None] * tuning.remote_read_weight,
    )
    first = np.searchsorted(problem.read_class, np.arange(problem.job_classes + 1))
    reads = (first[1:] - first[:-1])[job_class]
    reader = np.repeat(np.arange(job_class.size), reads)
    within = np.arange(reader.size) - np.repeat(np.cumsum(reads) - reads, reads)
    read = problem.read_dataset_class[first[job_class[reader]] + within]
    unread = np.ones(problem.dataset_classes, dtype=np.bool_)
    unread[problem.read_dataset_class] = False
    stays = (problem.current & unread[:, None]).T.astype(np.int64) @ problem.size
    size = problem.size[:, None].astype(np.float64)
    budget = problem.wan.budget.astype(np.float64)
    state = AnnealingState(
        job_class=job_class,
        jobs=jobs.astype(np.float64),
        demand=(jobs * problem.demand[job_class]).astype(np.float64),
        first_read=first,
        read_dataset_class=problem.read_dataset_class.copy(),
        allowed_homes=problem.allowed_homes & ~barred[:, :, None],
        remote_cost=remote_cost,
        first_reader=np.searchsorted(np.sort(read), np.arange(problem.dataset_classes + 1)),
        reader=reader[np.argsort(read, kind="stable")],
        supply=problem.supply.ravel().astype(np.float64),
        origin=np.where(problem.origin < 0, regions, problem.origin),
        stored_gib=np.where(may_hold, size, 0.0),
        copied_gib=np.where(may_hold & ~problem.current, size, 0.0),
        cell=np.full(job_class.size, NOWHERE),
        load=np.zeros(problem.supply.size),
        reader_count=np.zeros(problem.current.shape, dtype=np.int64),
        copy_count=np.zeros(problem.dataset_classes, dtype=np.int64),
        storage_left=(problem.storage - stays).astype(np.float64),
        ingress_left=tuning.link_use_share * problem.incoming.astype(np.float64),
        egress_left=np.append(tuning.link_use_share * problem.outgoing.astype(np.float64), np.inf),
        total_left=np.array([tuning.link_use_share * budget.sum()]),
        link_left=np.vstack([budget, np.full(regions, np.inf)]),
        data_cost=np.zeros(regions),
        moved_units=np.zeros_like(job_class),
        old_cells=np.zeros_like(job_class),
    )
    for unit, cell in enumerate(cells.tolist()):
        insert_unit(state, unit, cell)
    return state


def _units(problem: Problem, solution: Solution) -> tuple[Ints, Ints, Ints]:
    """Cut job classes into units; return the job class, jobs and cell of each (units,)."""
    supply = problem.supply[problem.supply > 0]
    usual = float(np.median(supply)) if supply.size else 0.0
    at_once = np.maximum(
        1,
        (
            parameters.PARAMETERS.unit_max_supply_share * usual // np.maximum(1, problem.demand)
        ).astype(np.int64),
    )
    cells = solution.jobs.reshape(problem.job_classes, -1)
    homeless = problem.count - cells.sum(axis=1)
    jobs = np.column_stack([homeless, cells])
    w, cell = np.nonzero(jobs)
    number = -(-jobs[w, cell] // at_once[w])
    job_class, cell = np.repeat(w, number), np.repeat(cell, number) - 1
    before = np.arange(job_class.size) - np.repeat(np.cumsum(number) - number, number)
    left = jobs[job_class, cell + 1] - before * at_once[job_class]
    return job_class, np.minimum(at_once[job_class], left), cell
