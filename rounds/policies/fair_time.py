"""Fair shares over time: fractions of time become priorities, round after round, as in Gavel.

A job's priority on a GPU model is the fraction of its time that it should have there, over the time
that it has had there since the fractions were decided. They are decided anew when jobs have come or
gone, but not more often than every `SOLVE_US`. In each round, model by model, jobs are walked in
order of priority; who fits and has no GPUs yet gets the GPUs that it asks. Of equal priorities
those come first that lack most of what earlier fractions gave them.

Where models are not told apart, they are walked in random order, as in Gavel's artifact.

Source: Narayanan et al., "Heterogeneity-aware cluster scheduling policies for deep learning
workloads" (Gavel), OSDI 2020, section 5; its artifact has the numbers below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.traces.trace import FULL_SPEED, NEVER, SECOND, SPEED_BY_OPTION
from placewright.rounds.policies.base import Chooser, Columns, ElasticPolicy, Offer
from placewright.rounds.policies.time_fractions import (
    WINDOW_S,
    Demand,
    Solver,
    Standing,
    finish_time_fair,
    max_min,
    max_min_agnostic,
    shortest_makespan,
    window,
)
from placewright.solver import Worker

ROUND_US = 360 * SECOND
"""A round, where the replay has none of its own."""

SOLVE_US = 1920 * SECOND
"""Fractions are not decided anew before so much time has passed."""

FIRST_S = 180.0
"""Time on each model with which every job begins, so that priorities are finite."""


Rule: TypeAlias = Callable[[Demand, Standing, Solver], Floats]
"""Returns fractions, float64 (jobs, models)."""


@dataclass(slots=True)
class _Memory:
    """What was when the fractions were decided, per job of `jobs`; (jobs, models) or (jobs,)."""

    at_us: int = -NEVER
    jobs: list[int] = field(default_factory=list)
    fractions: Any = ()
    received: Any = ()
    lacks: Any = ()
    left: Any = ()
    alone: Any = ()
    rate_alone: Any = ()


class FairTime(Chooser):
    """Chooses by fractions of time over what jobs have had.

    `rule`: decides fractions. `pooled`: whether GPU models are not told apart: rates are those of a
    job's fastest model. `seed`: of the order of models then. `solve_us`: how long fractions last
    whoever comes or goes. `expire_us`: when they are decided anew whatever happens.
    """

    def __init__(
        self,
        rule: Rule,
        *,
        pooled: bool = False,
        seed: int = 0,
        solve_us: int = SOLVE_US,
        expire_us: int = NEVER,
    ) -> None:
        self._rule, self._pooled, self._seed = rule, pooled, seed
        self._solve_us, self._expire_us = solve_us, expire_us
        self._memory = _Memory()
        self._decisions = 0
        self._solver: Worker | None = None

    def choose(self, jobs: Columns, offer: Offer) -> Ints:
        """Return the option of each job that runs in this round."""
        demand, option = demand_of(jobs, offer)
        received = jobs.received_us / SECOND
        row = {job: number for number, job in enumerate(self._memory.jobs)}
        of = np.array([row.get(job, -1) for job in jobs.numbers.tolist()])
        now = int(jobs.now_us[0])
        changed = (of < 0).any() or len(of) != len(row)
        age = now - self._memory.at_us
        if age >= self._expire_us or (
            changed and (age >= self._solve_us or self._memory.at_us == 0)
        ):
            self._decide(demand, jobs, received, of)
            of = np.arange(len(of))
        memory = self._memory
        fractions = _rows(memory.fractions, of, received)
        had = received - _rows(memory.received, of, received)
        keys = np.stack([-fractions / (FIRST_S + had), -_rows(memory.lacks, of, received)])
        order = np.random.default_rng((self._seed, self._decisions)).permutation(received.shape[1])
        self._decisions += 1
        chosen = np.full(len(of), -1)
        for model in order if self._pooled else range(received.shape[1]):
            free = int(offer.open_gpus[model])
            for job in np.lexsort((keys[1, :, model], keys[0, :, model])).tolist():
                if not free:
                    break
                if chosen[job] < 0 and option[job, model] >= 0 and demand.gpus[job] <= free:
                    chosen[job] = option[job, model]
                    free -= int(demand.gpus[job])
        return chosen

    def _decide(self, demand: Demand, jobs: Columns, received: Floats, of: Ints) -> None:
        """Decide fractions anew, and note what is now."""
        before, now = self._memory, int(jobs.now_us[0])
        left = jobs.remaining_us / SECOND
        elapsed = (jobs.now_us - jobs.submit_us) / SECOND
        lacks, alone = np.zeros_like(received), np.zeros(len(of))
        old = of >= 0
        if old.any():
            was = of[old]
            due = before.fractions[was] * ((now - before.at_us) / SECOND)
            lacks[old] = before.lacks[was] + due - (received[old] - before.received[was])
            alone[old] = before.alone[was] + (before.left[was] - left[old]) / before.rate_alone[was]
        able = np.flatnonzero(demand.rates.max(axis=1))
        some = Demand(demand.rates[able], demand.gpus[able], demand.capacity)
        if self._pooled:
            some = some.pooled(some.rates.max(axis=1))
        fractions, rate_alone = np.zeros_like(received), np.ones(len(of))
        if len(able):
            rate_alone[able] = some.isolated()
            done = jobs.work_us / SECOND - left
            isolated = alone + left / rate_alone
            standing = Standing(done[able], left[able], elapsed[able], isolated[able])
            if self._solver is None:
                self._solver = Worker()
            found = self._rule(some, standing, self._solver)
            if self._pooled:
                found = found * (demand.capacity / demand.capacity.sum())
            fractions[able] = found
        self._memory = _Memory(
            now, jobs.numbers.tolist(), fractions, received, lacks, left, alone, rate_alone
        )

    def wakes_us(self, jobs: Columns) -> int:
        """Return the next round, where the replay has none of its own."""
        return (int(jobs.now_us[0]) // ROUND_US + 1) * ROUND_US if len(jobs) else NEVER

    def close(self) -> None:
        """End the solver process."""
        if self._solver is not None:
            self._solver.close()
            self._solver = None

    def state(self) -> Any:
        """Return the fractions, and what jobs had when they were decided."""
        memory = self._memory
        columns = memory.fractions, memory.received, memory.lacks, memory.left
        more = memory.alone, memory.rate_alone
        lists = [np.asarray(column).tolist() for column in (*columns, *more)]
        return [self._decisions, memory.at_us, memory.jobs, *lists]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        self._decisions, at_us, jobs, *lists = state
        self._memory = _Memory(at_us, jobs, *(np.array(column) for column in lists))


def _rows(known: Any, of: Ints, like: Floats) -> Floats:
    """Return rows (jobs, models) of what is known, 0 for jobs that are not."""
    rows = np.zeros_like(like)
    old = of >= 0
    if old.any():
        rows[old] = known[of[old]]
    return rows


def demand_of(jobs: Columns, offer: Offer) -> tuple[Demand, Ints]:
    """Return the demand of jobs, and the option with which each runs on each model.

    Options are int64 (jobs, models); -1 where a job does not run, or the model has too few GPUs.
    """
    speeds: Ints = getattr(jobs, SPEED_BY_OPTION)
    models = len(offer.open_gpus)
    rates = np.zeros((len(jobs), models))
    option = np.full((len(jobs), models), -1, dtype=np.int64)
    for model in range(models):
        numbers = ((offer.model == model) & (offer.gpus <= offer.open_gpus[model])).nonzero()[0]
        if len(numbers):
            best = speeds[:, numbers].argmax(axis=1)
            rates[:, model] = speeds[np.arange(len(jobs)), numbers[best]] / FULL_SPEED
            option[:, model] = np.where(rates[:, model] > 0, numbers[best], -1)
    return Demand(rates, jobs.gpus, offer.open_gpus), option


def _max_min(demand: Demand, standing: Standing, solver: Solver) -> Floats:  # noqa: ARG001
    return max_min(demand, solver)


def _water_filling(demand: Demand, standing: Standing, solver: Solver) -> Floats:  # noqa: ARG001
    return max_min_agnostic(demand)


def _makespan(demand: Demand, standing: Standing, solver: Solver) -> Floats:
    return shortest_makespan(demand, standing.left, solver)


def _finish_time(demand: Demand, standing: Standing, solver: Solver) -> Floats:
    return finish_time_fair(demand, standing, solver)[1]


_COLUMNS = frozenset({"now_us", "received_us", "remaining_us", "work_us"})


def _policy(name: str, rule: Rule, **how: Any) -> ElasticPolicy:
    return ElasticPolicy(name, partial(FairTime, rule, **how), _COLUMNS, sizes=False)


FAIR_TIME = (
    _policy("gavel-max-min", _max_min),
    _policy("gavel-finish-time", _finish_time),
    _policy("gavel-makespan", _makespan),
    _policy("max-min-time", _water_filling, pooled=True),
    _policy("themis", _finish_time, pooled=True),
    _policy("open-shop", _makespan, pooled=True),
    _policy("shockwave", window, solve_us=0, expire_us=round(WINDOW_S) * SECOND),
)
"""The first three tell GPU models apart; the next three are their agnostic rows, of which the
second is Themis', and the third an open-shop schedule with preemption."""
