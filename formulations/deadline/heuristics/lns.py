"""Large neighbourhood search: remove some jobs, insert others greedily, keep what is no worse.

A step destroys in one of two ways. Either an improving alternative is drawn
and inserted, and the jobs in its place are removed, those first that lose least per lease freed; or
some jobs without an existing promise are removed from a window of leases. Repair is greedy by value
density. Ranks are randomised. Promises that jobs have count before all value.

References
----------
Shaw, "Using constraint programming and local search methods to solve vehicle routing problems",
CP'98.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.heuristics.ejection_chains import EjectionChains
from placewright.formulations.deadline.heuristics.list_scheduling import objective
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule
from placewright.formulations.deadline.problem.schedule import ScheduleState
from placewright.formulations.deadline.problem.slack import Slack, forced_leases


def improve(
    problem: Problem,
    schedule: Schedule,
    expired: Callable[[], bool],
    *,
    steps: int | None = None,
    seed: int = 0,
) -> Iterator[Schedule]:
    """Yield ever better schedules by LNS.

    Parameters
    ----------
    schedule
        Fits.
    expired
        Whether time is up; asked before each step.
    steps
        Steps at most; None: as the parameters say.
    """
    if steps is None:
        steps = min(
            parameters.PARAMETERS.max_lns_steps,
            parameters.PARAMETERS.max_lns_cells // max(1, problem.alternatives * problem.horizon),
        )
    if not steps:
        return
    search = _Neighbourhoods(problem, schedule, np.random.default_rng(seed))
    best = objective(problem, schedule)
    for _ in range(steps):
        if expired():
            return
        if search.step() > best:
            best = search.objective
            yield search.state.schedule()


class _Neighbourhoods:
    """A schedule state, changed by destroy-and-repair steps that never make it worse."""

    def __init__(self, problem: Problem, schedule: Schedule, random: np.random.Generator) -> None:
        self.problem, self._random = problem, random
        self.state = ScheduleState.of(problem, schedule)
        self.objective = objective(problem, schedule)
        self._saved = problem.loss[problem.job] - problem.lost
        # The last entry stands for NONE. The value kept of promises outweighs all else.
        every = float(problem.counted.sum() + 1)
        self._value = np.append(problem.counted + every * self._saved, 0.0)
        self._area = np.maximum(1, problem.need) * problem.demand.max(axis=1, initial=1)
        self._leases = np.arange(problem.horizon)

    def step(self) -> tuple[int, int]:
        """Destroy and repair once; return the objective afterwards."""
        state = self.state
        before = state.copy()
        chains = EjectionChains(state, parameters.PARAMETERS.max_lns_chain_cells)
        target = self._draw_alternative()
        if target is None or self._random.random() < parameters.PARAMETERS.lns_window_share:
            self._destroy_window()
        elif not self._destroy_for(target, chains):
            state.restore(before)
            return self.objective
        chains.forget_rejected()
        self._repair(chains)
        found = objective(self.problem, state.schedule())
        if found < self.objective:
            state.restore(before)
        else:
            self.objective = found
        return self.objective

    def _noise(self, number: int) -> Floats:
        factors: Floats = np.exp(
            self._random.normal(0.0, parameters.PARAMETERS.lns_noise_sigma, number)
        )
        return factors

    def _improving(self) -> Ints:
        """Return the alternatives of more value than what their jobs have."""
        more = self._value[:-1] > self._value[self.state.alternative[self.problem.job]]
        improving: Ints = np.flatnonzero(more)
        return improving

    def _draw_alternative(self) -> int | None:
        """Draw an improving alternative, with probability proportional to its gain density."""
        improving = self._improving()
        if not len(improving):
            return None
        more = (
            self._value[improving]
            - self._value[self.state.alternative[self.problem.job[improving]]]
        )
        chance = more / self._area[improving]
        return int(self._random.choice(improving, p=chance / chance.sum()))

    def _destroy_window(self) -> None:
        """Remove a few random jobs without an existing promise that run in a random window."""
        state, problem = self.state, self.problem
        begin = int(self._random.integers(problem.horizon))
        end = begin + 1 + int(self._random.integers(max(1, problem.horizon // 4)))
        jobs = np.flatnonzero(state.runs[:, begin:end].any(axis=1))
        jobs = jobs[self._saved[state.alternative[jobs]] == 0]
        number = min(len(jobs), int(self._random.integers(2, 12)))
        for job in self._random.choice(jobs, number, replace=False).tolist():
            state.remove(job)

    def _destroy_for(self, alternative: int, chains: EjectionChains) -> bool:
        """Insert an alternative and remove others until it fits; return whether it is in."""
        state, problem, job = self.state, self.problem, int(self.problem.job[alternative])
        if state.alternative[job] != NONE:
            state.remove(job)
        slack = Slack(problem, state.alternative)
        shortage = np.maximum(0, self._forced_demand(alternative) - slack.residual)
        while shortage.any():
            victim = self._cheapest_victim(alternative, shortage)
            if victim is None:
                return False
            state.remove(int(problem.job[victim]))
            shortage = np.maximum(0, shortage - self._forced_demand(victim))
        return chains.insert(alternative)

    def _forced_demand(self, alternative: int) -> Ints:
        """Return the demand that an alternative forces before each lease ends (rows, horizon)."""
        needed = forced_leases(self.problem, np.array([alternative]), self._leases)
        asked: Ints = self.problem.demand[alternative][:, None] * needed
        return asked

    def _cheapest_victim(self, alternative: int, shortage: Ints) -> int | None:
        """Return the alternative that loses least value per forced demand it gives back."""
        state, problem = self.state, self.problem
        alternatives = state.alternative[state.alternative != NONE]
        alternatives = alternatives[self._value[alternatives] < self._value[alternative]]
        given = np.zeros(len(alternatives))
        for row in np.flatnonzero(shortage.any(axis=1)):
            at = np.flatnonzero(shortage[row])
            back = problem.demand[alternatives, row, None] * forced_leases(
                problem, alternatives, at
            )
            given += (np.minimum(back, shortage[row, at]) / shortage[row, at]).sum(axis=1)
        useful = np.flatnonzero(given > 0)
        if not len(useful):
            return None
        price = self._value[alternatives[useful]] / given[useful] * self._noise(len(useful))
        return int(alternatives[useful[price.argmin()]])

    def _repair(self, chains: EjectionChains) -> None:
        """Insert improving alternatives that fit, by randomised value density."""
        state, problem = self.state, self.problem
        slack = Slack(problem, state.alternative)
        improving = self._improving()
        improving = improving[
            slack.admits_each(improving) | (state.alternative[problem.job[improving]] != NONE)
        ]
        rank = self._value[improving] / self._area[improving] * self._noise(len(improving))
        for alternative in improving[np.argsort(-rank, kind="stable")].tolist():
            job = int(problem.job[alternative])
            old = int(state.alternative[job])
            if self._value[alternative] <= self._value[old]:
                continue
            if old == NONE:
                if slack.admits(alternative) and chains.insert(alternative):
                    slack.add(alternative)
                continue
            slack.drop(old)
            if slack.admits(alternative):
                leases = state.remove(job)
                if chains.insert(alternative):
                    chains.forget_rejected()
                    old = alternative
                else:
                    state.add(old, leases)
            slack.add(old)
