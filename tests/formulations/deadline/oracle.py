"""The best promises of a tiny problem, by enumeration of all alternatives in all their leases.

Jobs are taken one after the other. A state is what is left of each row in each lease; of all
choices that lead to one state the best is kept, since what follows depends on the state alone.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

from placewright.formulations.deadline.problem.problem import Problem

MAX_STATES = 200_000


class TooManyStatesError(Exception):
    """The problem is not tiny."""


class Best(NamedTuple):
    """The least `broken`, and the most `admitted` at it."""

    broken: int
    admitted: int


State = tuple[int, ...]


def best(problem: Problem) -> Best:
    """The best choice of promises; TooManyStatesError where that takes too long."""
    horizon, rows = problem.horizon, len(problem.capacity)
    states: dict[State, tuple[int, int]] = {
        tuple(int(c) for row in problem.capacity for c in row): (0, 0)
    }
    for job in range(problem.jobs):
        loss = int(problem.loss[job])
        moves: list[tuple[State, int, int]] = [((0,) * (rows * horizon), loss, 0)]
        for alternative in range(problem.alternatives):
            if problem.job[alternative] != job:
                continue
            value = int(problem.value[alternative])
            window = range(
                int(problem.first[alternative]), min(int(problem.end[alternative]), horizon)
            )
            for leases in combinations(window, int(problem.need[alternative])):
                if problem.end[alternative] > horizon:
                    raise ValueError("an alternative ends beyond the horizon")
                taken = tuple(
                    int(problem.demand[alternative, r]) if t in leases else 0
                    for r in range(rows)
                    for t in range(horizon)
                )
                moves.append((taken, max(0, loss - value), value))
        after: dict[State, tuple[int, int]] = {}
        for state, (broken, admitted) in states.items():
            for taken, lost, value in moves:
                left = tuple(a - b for a, b in zip(state, taken, strict=True))
                if min(left, default=0) < 0:
                    continue
                score = (-broken - lost, admitted + value)
                known = after.get(left)
                if known is None or score > (-known[0], known[1]):
                    after[left] = (-score[0], score[1])
        states = after
        if len(states) > MAX_STATES:
            raise TooManyStatesError(len(states))
    return Best(*min(states.values(), key=lambda s: (s[0], -s[1])))
