"""From a schedule to better ones: jobs that are not promised enough change places with others.

In each step a way that would be worth more than what its job has comes in, and whoever is in its
way leaves: those that lose least for the time they give back (`spare`), with some noise. Or a few
jobs that run in some window leave. Then everybody comes back who fits, best value per GPU and lease
first, with some noise, too. What is worse than before is taken back. Promises that jobs have
already count before all value.

References
----------
Shaw, "Using constraint programming and local search methods to solve vehicle routing problems",
CP'98 (large neighbourhoods).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from placewright.formulations.deadline.heuristics.ejection_chains import Chains
from placewright.formulations.deadline.heuristics.list_scheduling import worth
from placewright.formulations.deadline.problem.problem import NONE, Ints, Problem, Schedule
from placewright.formulations.deadline.problem.schedule import Chart
from placewright.formulations.deadline.problem.slack import Spare, forced

Floats = npt.NDArray[np.float64]

WORK = 4_000_000
"""Ways times leases that all steps together may go through: about a quarter of a CPU second."""

STEPS = 300

NOISE = 0.3
"""How far the ranks of a step are from those of values: the sigma of a factor's logarithm."""

WINDOWS = 0.3
"""Share of the steps in which jobs of a window leave."""

EFFORT = 3_000_000
"""Of chains, in each step: about a hundredth of a CPU second."""


def improve(
    problem: Problem,
    schedule: Schedule,
    expired: Callable[[], bool],
    *,
    steps: int | None = None,
    seed: int = 0,
) -> Iterator[Schedule]:
    """Yield ever better schedules.

    Parameters
    ----------
    schedule
        Fits.
    expired
        Whether time is up; asked before each step.
    steps
        After so many it ends, too; None: as many as `WORK` allows, at most `STEPS`.
    """
    if steps is None:
        steps = min(STEPS, WORK // max(1, problem.ways * problem.horizon))
    if not steps:
        return
    walk = _Walk(problem, schedule, np.random.default_rng(seed))
    best = worth(problem, schedule)
    for _ in range(steps):
        if expired():
            return
        if walk.step() > best:
            best = walk.worth
            yield walk.chart.schedule()


class _Walk:
    """A chart that changes step by step, never to a worse one."""

    def __init__(self, problem: Problem, schedule: Schedule, random: np.random.Generator) -> None:
        self.problem, self._random = problem, random
        self.chart = Chart.of(problem, schedule)
        self.worth = worth(problem, schedule)
        self._saved = problem.loss[problem.job] - problem.lost
        # The last entry stands for NONE. What is kept of promises is worth more than all the rest.
        every = float(problem.value.sum() + 1)
        self._value = np.append(problem.value + every * self._saved, 0.0)
        self._area = np.maximum(1, problem.need) * problem.demand.max(axis=1, initial=1)
        self._leases = np.arange(problem.horizon)

    def step(self) -> tuple[int, int]:
        """Try one change, and return what the schedule is worth then."""
        chart = self.chart
        before = chart.copy()
        chains = Chains(chart, EFFORT)
        target = self._target()
        if target is None or self._random.random() < WINDOWS:
            self._clear()
        elif not self._force(target, chains):
            chart.restore(before)
            return self.worth
        chains.forget()
        self._refill(chains)
        found = worth(self.problem, chart.schedule())
        if found < self.worth:
            chart.restore(before)
        else:
            self.worth = found
        return self.worth

    def _noise(self, number: int) -> Floats:
        factors: Floats = np.exp(self._random.normal(0.0, NOISE, number))
        return factors

    def _wanted(self) -> Ints:
        """Return the ways that are worth more than what their jobs have."""
        more = self._value[:-1] > self._value[self.chart.way[self.problem.job]]
        wanted: Ints = np.flatnonzero(more)
        return wanted

    def _target(self) -> int | None:
        """Draw a way to come in, the likelier the more it adds per GPU and lease."""
        wanted = self._wanted()
        if not len(wanted):
            return None
        more = self._value[wanted] - self._value[self.chart.way[self.problem.job[wanted]]]
        chance = more / self._area[wanted]
        return int(self._random.choice(wanted, p=chance / chance.sum()))

    def _clear(self) -> None:
        """Take jobs without a promise out that run in some window, a few at random."""
        chart, problem = self.chart, self.problem
        begin = int(self._random.integers(problem.horizon))
        end = begin + 1 + int(self._random.integers(max(1, problem.horizon // 4)))
        jobs = np.flatnonzero(chart.runs[:, begin:end].any(axis=1))
        jobs = jobs[self._saved[chart.way[jobs]] == 0]
        number = min(len(jobs), int(self._random.integers(2, 12)))
        for job in self._random.choice(jobs, number, replace=False).tolist():
            chart.take(job)

    def _force(self, way: int, chains: Chains) -> bool:
        """Bring a way in, and take others out until it fits; return whether it is in."""
        chart, problem, job = self.chart, self.problem, int(self.problem.job[way])
        if chart.way[job] != NONE:
            chart.take(job)
        spare = Spare(problem, chart.way)
        short = np.maximum(0, self._asked(way) - spare.left)
        while short.any():
            rival = self._rival(way, short)
            if rival is None:
                return False
            chart.take(int(problem.job[rival]))
            short = np.maximum(0, short - self._asked(rival))
        return chains.insert(way)

    def _asked(self, way: int) -> Ints:
        """Return what a way forces before each lease is over (rows, horizon)."""
        needed = forced(self.problem, np.array([way]), self._leases)
        asked: Ints = self.problem.demand[way][:, None] * needed
        return asked

    def _rival(self, way: int, short: Ints) -> int | None:
        """Return who loses least for what it gives back of the time that is short."""
        chart, problem = self.chart, self.problem
        ways = chart.way[chart.way != NONE]
        ways = ways[self._value[ways] < self._value[way]]
        given = np.zeros(len(ways))
        for row in np.flatnonzero(short.any(axis=1)):
            at = np.flatnonzero(short[row])
            back = problem.demand[ways, row, None] * forced(problem, ways, at)
            given += (np.minimum(back, short[row, at]) / short[row, at]).sum(axis=1)
        useful = np.flatnonzero(given > 0)
        if not len(useful):
            return None
        price = self._value[ways[useful]] / given[useful] * self._noise(len(useful))
        return int(ways[useful[price.argmin()]])

    def _refill(self, chains: Chains) -> None:
        """Bring in what fits: jobs without a way, and jobs whose way could be worth more."""
        chart, problem = self.chart, self.problem
        spare = Spare(problem, chart.way)
        wanted = self._wanted()
        wanted = wanted[spare.have(wanted) | (chart.way[problem.job[wanted]] != NONE)]
        rank = self._value[wanted] / self._area[wanted] * self._noise(len(wanted))
        for way in wanted[np.argsort(-rank, kind="stable")].tolist():
            job = int(problem.job[way])
            old = int(chart.way[job])
            if self._value[way] <= self._value[old]:
                continue
            if old == NONE:
                if spare.has(way) and chains.insert(way):
                    spare.add(way)
                continue
            spare.drop(old)
            if spare.has(way):
                leases = chart.take(job)
                if chains.insert(way):
                    chains.forget()
                    old = way
                else:
                    chart.put(old, leases)
            spare.add(old)
