"""Fair shares of time: the fraction of its time that each job has on each GPU model.

Fractions x, float64 (jobs, models), lie in one region: x >= 0, sum_m x[j, m] <= 1, sum_j gpus[j]
x[j, m] <= capacity[m], and x[j, m] = 0 where job j does not run on model m. Each policy asks that
sum_m rate[j, m] x[j, m] >= z need[j] for the largest z; they differ in the needs. Where models are
not told apart, the largest z has a closed form; else it is an LP, of which an optimal vertex is
taken: often there are others.

Source: Narayanan et al., "Heterogeneity-aware cluster scheduling policies for deep learning
workloads" (Gavel), OSDI 2020, sections 4 and 5. Mahajan et al., "Themis: fair and efficient GPU
cluster scheduling", NSDI 2020, section 3 (finish-time fairness).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.rounds.settings import InternalError
from placewright.solver import InProcess, Limits, Model, Worker

Solver: TypeAlias = Worker | InProcess

BACKEND = "highs"

SECONDS = 60.0
"""Wall clock of one LP: a backstop."""

CLOSE = 1e-6
"""Relative distance of the ends of a bisection at which it stops."""


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """Jobs, and the GPU models on which they run.

    `rates`: work per second of job j on model m, float64 (jobs, models); 0 where it does not run,
    and each job runs on some model that has its GPUs. `gpus`: of each job, int64 (jobs,).
    `capacity`: GPUs of each model, int64 (models,), 1 or more.
    """

    rates: Floats
    gpus: Ints
    capacity: Ints

    def pooled(self, rates: Floats) -> Demand:
        """Return the same jobs at one rate each, float64 (jobs,), on a model that has all GPUs."""
        return Demand(rates[:, None], self.gpus, self.capacity.sum(keepdims=True))

    def spread(self, fractions: Floats) -> Floats:
        """Return fractions of a pooled demand, (jobs, 1), spread over the models by their GPUs."""
        parts: Floats = fractions * (self.capacity / self.capacity.sum())
        return parts

    def proportional(self) -> Floats:
        """Return the rate of each job that runs all the time, on each model by its GPUs."""
        mean: Floats = self.rates @ (self.capacity / self.capacity.sum())
        return mean

    def isolated(self) -> Floats:
        """Return the rate of each job alone on its part of the cluster, one of as many as jobs.

        The part has capacity / jobs GPUs of each model. The job is on them as large a fraction of
        its time as they are of the GPUs that it asks for, and all of its time at most.
        """
        fractions = self.capacity / (len(self.gpus) * self.gpus[:, None])
        fractions /= np.maximum(fractions.sum(axis=1, keepdims=True), 1)
        rates: Floats = (self.rates * fractions).sum(axis=1)
        return rates


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """How far jobs have come.

    Per job, float64 (jobs,): `done`, `left`: work, `left` above 0; `elapsed`: seconds since
    submission; `isolated`: seconds that it takes from submission to its end on its own part of the
    cluster, one of as many as there are jobs, at each time.
    """

    done: Floats
    left: Floats
    elapsed: Floats
    isolated: Floats


def largest_multiple(demand: Demand, need: Floats, solver: Solver) -> tuple[float, Floats]:
    """Return the largest z at which every job does z times its need per second, and fractions.

    `need`: work per second, float64 (jobs,), above 0. One LP, or arithmetic if there is one model.
    """
    if demand.rates.shape[1] == 1:
        return _of_one_model(demand, need)
    jobs, models = demand.rates.shape
    job, model = demand.rates.nonzero()
    # A job's work is divided by its largest rate, and z by the largest need of time that follows,
    # so that tolerances mean the same for all.
    fastest = demand.rates.max(axis=1)
    time = need / fastest
    lp = Model()
    x = lp.variables("x", len(job), upper=1.0, integer=False)
    z = lp.variables("z", 1, integer=False)
    lp.add(lp.rows("time", jobs, upper=1.0)[job], x, 1.0)
    lp.add(lp.rows("capacity", models, upper=demand.capacity)[model], x, demand.gpus[job])
    work = lp.rows("work", jobs, lower=0.0)
    lp.add(work[job], x, demand.rates[job, model] / fastest[job])
    lp.add(work, z, -time / time.max())
    lp.term("z", z, 1.0, sense="max")
    outcome = solver.solve(BACKEND, lp.arrays("z"), Limits(SECONDS))
    if outcome.values is None:
        raise InternalError(f"an LP of fractions has no answer: {outcome.message}")
    fractions = np.zeros((jobs, models))
    fractions[job, model] = np.clip(outcome.values[x], 0, 1)
    return float(outcome.values[z[0]] / time.max()), fractions


def _of_one_model(demand: Demand, need: Floats) -> tuple[float, Floats]:
    """Return what `largest_multiple` returns where there is one model: nobody has more than z."""
    time = need / demand.rates[:, 0]
    z = min(1 / time.max(), demand.capacity[0] / (demand.gpus @ time))
    return float(z), (z * time)[:, None]


def max_min(demand: Demand, solver: Solver) -> Floats:
    """Return Gavel's heterogeneity-aware max-min fairness (LAS): the smallest share is largest.

    A job's share is its rate, times its GPUs, over its proportional rate.
    """
    return largest_multiple(demand, demand.proportional() / demand.gpus, solver)[1]


def max_min_agnostic(demand: Demand) -> Floats:
    """Return max-min fairness of GPU time, models not told apart: water filling.

    Nobody has more GPU time than another that does not run all the time.
    """
    # With the level t, a job runs min(1, t / gpus): those of at most t GPUs all the time.
    order = np.argsort(demand.gpus, kind="stable")
    sizes = demand.gpus[order]
    full = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    level = (demand.capacity.sum() - full) / np.arange(len(sizes), 0, -1)
    first = np.flatnonzero(level <= sizes)
    share = level[first[0]] if len(first) else sizes[-1]
    return demand.spread(np.minimum(1, share / demand.gpus)[:, None])


def shortest_makespan(demand: Demand, left: Floats, solver: Solver) -> Floats:
    """Return Gavel's makespan policy: all work that is left, (jobs,), is done the soonest."""
    return largest_multiple(demand, left, solver)[1]


def finish_time_fair(demand: Demand, standing: Standing, solver: Solver) -> tuple[float, Floats]:
    """Return the smallest possible rho of all jobs, and fractions with it: by bisection.

    A job's rho is its time from submission to its end, at these fractions, over its isolated time.
    """
    left, elapsed, isolated = standing.left, standing.elapsed, standing.isolated

    def multiple(rho: float) -> tuple[float, Floats]:
        return largest_multiple(demand, left / (rho * isolated - elapsed), solver)

    soonest = elapsed + left / demand.rates.max(axis=1)
    low = high = float((soonest / isolated).max())
    z, fractions = multiple(high)
    while z < 1 - CLOSE:
        low, high = high, 2 * high
        z, fractions = multiple(high)
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        z, found = multiple(middle)
        if z >= 1:
            high, fractions = middle, found
        else:
            low = middle
    return high, fractions


# ROBUS: a lottery over plans that is proportionally fair to tenants.
# Source: Kunjir et al., "ROBUS: fair cache allocation for data-parallel workloads", SIGMOD 2017.
# Cover, "An algorithm for maximizing expected log investment return", IEEE Transactions on
# Information Theory 1984 (the iteration, and its stopping rule).
ITERATIONS = 100_000


def proportionally_fair_lottery(value: Floats, weight: Floats) -> Floats:
    """Return the chance of each plan: the largest sum of weight[i] * log(expected value of i).

    `value`: what plan s is worth to tenant i, float64 (tenants, plans), 0 or more, to each tenant
    something in one plan. `weight`: float64 (tenants,), above 0. The objective is within `CLOSE`
    times the sum of weights of the largest.
    """
    weight = weight / weight.sum()
    chance = np.full(value.shape[1], 1 / value.shape[1])
    for _ in range(ITERATIONS):
        gain = (weight / (value @ chance)) @ value
        if np.log(gain.max()) <= CLOSE:
            break
        chance = chance * gain
    return chance


# Shockwave: the welfare of a window of rounds, and what is left behind it.
# Source: Zheng et al., "Shockwave: fair and efficient cluster scheduling for dynamic adaptation in
# machine learning", NSDI 2023, sections 4 and 5; its artifact has these numbers, but for `LATENESS`
# in place of which it has constraints, and other weights where they cannot be met.
WINDOW_S, WINDOW_ROUNDS = 2400.0, 20

BASES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Parts of a job's work between which the logarithm of its progress is interpolated."""

LOG_OF_NONE = 1e-6
"""In place of the logarithm of 0, that of this."""

REMAINING = 1e-3
"""What a second less of the longest remaining time is worth."""

LATENESS = 1.0
"""What it is worth that a job ends earlier by its isolated time, where it would end after that."""


def window(demand: Demand, standing: Standing, solver: Solver) -> Floats:
    """Return which part of the time that it can use in the next rounds each job has on each model.

    At the end of the window the mean logarithm of the jobs' progress is largest, less the longest
    remaining time, and less lateness: by how much jobs end after their isolated time if they go on
    then on their own part of the cluster. A job cannot use more time than it has work.

    An LP, where Shockwave's program decides each round of the window. Where it ends jobs the
    order of rounds within the window is open: by parts of the time that can be used, they come
    first. Returns float64 (jobs, models).
    """
    jobs, models = demand.rates.shape
    job, model = demand.rates.nonzero()
    done, left, isolated = standing.done, standing.left, standing.isolated
    total, fastest, alone = done + left, demand.rates.max(axis=1), demand.isolated()
    lp = Model()
    x = lp.variables("x", len(job), upper=1.0, integer=False)
    log = lp.variables("log", jobs, lower=-np.inf, upper=0.0, integer=False)
    longest = lp.variables("longest", 1, integer=False)
    late = lp.variables("late", jobs, integer=False)
    lp.add(lp.rows("time", jobs, upper=1.0)[job], x, 1.0)
    lp.add(lp.rows("capacity", models, upper=demand.capacity)[model], x, demand.gpus[job])
    work = WINDOW_S * demand.rates[job, model]
    lp.add(lp.rows("left", jobs, upper=1.0)[job], x, work / left[job])
    behind = lp.rows("behind", jobs, lower=left / fastest / WINDOW_S)
    lp.add(behind[job], x, demand.rates[job, model] / fastest[job])
    lp.add(behind, longest, 1.0)
    on_time = 1 - (standing.elapsed + WINDOW_S + left / alone) / isolated
    ends = lp.rows("lateness", jobs, upper=on_time)
    lp.add(ends[job], x, -work / (alone * isolated)[job])
    lp.add(ends, late, -1.0)
    points = np.log(np.maximum(BASES, LOG_OF_NONE))
    for base, slope, value in zip(BASES, np.diff(points) / np.diff(BASES), points, strict=False):
        chord = lp.rows("chord", jobs, upper=value + slope * (done / total - base))
        lp.add(chord, log, 1.0)
        lp.add(chord[job], x, -slope * work / total[job])
    lp.term("welfare", log, 1 / (jobs * WINDOW_ROUNDS), sense="max")
    lp.term("welfare", longest, -REMAINING * WINDOW_S, sense="max")
    lp.term("welfare", late, -LATENESS, sense="max")
    outcome = solver.solve(BACKEND, lp.arrays("welfare"), Limits(SECONDS))
    if outcome.values is None:
        raise InternalError(f"an LP of a window has no answer: {outcome.message}")
    parts = np.zeros((jobs, models))
    parts[job, model] = np.clip(outcome.values[x], 0, 1)
    usable: Floats = np.minimum(1, left / fastest / WINDOW_S)
    return parts / usable[:, None]
