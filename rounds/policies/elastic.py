"""Policies that choose the sizes of jobs: which option each runs with, by how fast it is with it.

All of them leave out options with which a job is no faster than with fewer GPUs of the same model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.instances.traces.trace import FULL_SPEED, SECOND, SPEED_BY_OPTION
from placewright.rounds.policies.base import Chooser, Columns, ElasticPolicy, Offer

MAX_STATES = 100_000
"""Of the knapsack: numbers of free GPUs of each model."""

LEAST_GAIN = 1e-4
"""What a job that runs is worth at least: any is better than none."""

Rule: TypeAlias = Callable[[Columns, Offer], Ints]


class Memoryless(Chooser):
    """Chooses by a function of what it sees now."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def choose(self, jobs: Columns, offer: Offer) -> Ints:
        """Return an option for each job."""
        return self._rule(jobs, offer)


def useful_speeds(jobs: Columns, offer: Offer) -> Floats:
    """Return speeds by option (jobs, options); 0 where fewer GPUs of the model are no slower."""
    speeds: Ints = getattr(jobs, SPEED_BY_OPTION)
    found: Floats = speeds / FULL_SPEED
    order = np.lexsort((offer.gpus, offer.model))
    best, model = np.zeros(len(speeds)), -1
    for option in order.tolist():
        if offer.model[option] != model:
            best, model = np.zeros(len(speeds)), int(offer.model[option])
        column = found[:, option]
        column[column <= best] = 0
        best = np.maximum(best, column)
    return found


def knapsack(values: Floats, offer: Offer) -> Ints:
    """Return the options of greatest total value that fit: multiple-choice knapsack, exactly.

    By dynamic programming over the GPUs of all models, in O(jobs x options x states), the states
    being the product of their numbers. With more than `MAX_STATES`, one model after the other, each
    with the jobs that the models before it did not take: no optimum then.

    `values` (jobs, options): of each option, -inf where there is none; a job that waits has 0.
    Returns int64 (jobs,), -1 for a job that waits.
    """
    values = np.where(offer.gpus <= offer.open_gpus[offer.model], values, -np.inf)
    sizes = offer.open_gpus + 1
    if np.prod(sizes.astype(np.float64)) <= MAX_STATES:
        return _knapsack(values, offer)
    found = np.full(len(values), -1, dtype=np.int64)
    for model in range(len(sizes)):
        rows, options = (found < 0).nonzero()[0], (offer.model == model).nonzero()[0]
        only = replace(
            offer,
            gpus=offer.gpus[options],
            model=np.zeros(len(options), dtype=np.int64),
            open_gpus=offer.open_gpus[[model]],
        )
        chosen = _knapsack(values[np.ix_(rows, options)], only)
        found[rows[chosen >= 0]] = options[chosen[chosen >= 0]]
    return found


def _knapsack(values: Floats, offer: Offer) -> Ints:
    count, sizes, gpus = len(values), offer.open_gpus + 1, offer.gpus
    every = np.concatenate([np.zeros((count, 1)), values], axis=1)
    first: Ints = every.argmax(axis=1) - 1
    taken = first[first >= 0]
    held = np.bincount(offer.model[taken], weights=gpus[taken], minlength=len(sizes))
    if (held <= offer.open_gpus).all():
        return first
    # State `n` has, by its digits, so many GPUs of each model; the one behind the last is no state.
    states = int(np.prod(sizes))
    digit = np.append(1, np.cumprod(sizes)[:-1])
    number = np.arange(states)
    before = np.empty((1 + len(gpus), states), dtype=np.int64)
    before[0] = number
    for option, model in enumerate(offer.model.tolist()):
        has = number // digit[model] % sizes[model]
        shifted = number - gpus[option] * digit[model]
        before[1 + option] = np.where(has >= gpus[option], shifted, states)
    best = np.append(np.zeros(states), -np.inf)
    choice = np.empty((count, states), dtype=np.int16)
    for job in range(count):
        options = best[before] + every[job][:, None]
        choice[job] = options.argmax(axis=0)
        best[:states] = options.max(axis=0)
    found, state = np.empty(count, dtype=np.int64), states - 1
    for job in range(count - 1, -1, -1):
        found[job] = choice[job, state] - 1
        state = int(before[choice[job, state], state])
    return found


def changed(jobs: Columns, options: int) -> Bools:
    """Return which options are another one than that with which the job runs, (jobs, options)."""
    running = jobs.option[:, None]
    other: Bools = (running >= 0) & (running != np.arange(options))
    return other


# Goodput to a power: Sia, and Pollux before it.
#
# A job is worth its speed relative to its least one, to a negative power: the smaller the power,
# the more of a second GPU goes to those that have one. Speeds with another option than that with
# which it runs count less, the more so the shorter a job has run and the more often it was
# restarted: (age - restarts S) / (age + S) with S seconds of a restart. How much work is left is
# not known.
# Source: Jayaram Subramanya et al., "Sia: heterogeneity-aware, goodput-optimized ML-cluster
# scheduling", SOSP 2023, section 3.4 (p = -0.5, and 1.1 for each job that waits). Qiao et al.,
# "Pollux: co-adaptive cluster scheduling for goodput-optimized deep learning", OSDI 2021, section
# 4.2 (p = -1; the fitness is the power mean of speed-ups).
SIA_WAITS, POLLUX_WAITS = 1.1, 100.0
"""What a job that waits counts, where one that runs at its least speed counts 1: under Sia hardly
more, under Pollux, whose mean it takes to 0, so much that as few wait as can be."""

LEAST_RELATIVE = 1e-3


def by_goodput(power: float, waits: float, jobs: Columns, offer: Offer) -> Ints:
    """Choose the options for which the sum of the powers of relative goodputs is least."""
    speeds = useful_speeds(jobs, offer)
    least = np.where(speeds > 0, speeds, np.inf).min(axis=1)
    age = np.maximum(jobs.now_us - jobs.submit_us, SECOND)[:, None]
    factor = (age - jobs.restarts[:, None] * offer.start_us) / (age + offer.start_us)
    relative = speeds / least[:, None] * np.where(changed(jobs, len(offer.gpus)), factor, 1.0)
    gain = np.maximum(waits - np.maximum(relative, LEAST_RELATIVE) ** power, LEAST_GAIN)
    return knapsack(np.where(speeds > 0, gain, -np.inf), offer)


_AGE = frozenset({"now_us", "restarts"})


def _elastic(name: str, rule: Rule, *needs: str) -> ElasticPolicy:
    return ElasticPolicy(name, partial(Memoryless, rule), frozenset(needs))


ELASTIC = (
    _elastic("sia", partial(by_goodput, -0.5, SIA_WAITS), *_AGE),
    _elastic("pollux", partial(by_goodput, -1.0, POLLUX_WAITS), *_AGE),
)
