"""How fast jobs are that take turns at the resources of one place, as in Muri's simulator.

Its period of up to four jobs with three stages is the least over the orders of the jobs of a
recurrence over four slots, in which the first stage may take two slots:

    f[s + 1] = max(f[s] + third[s + 1], f[s] + second[s + 2], f[s - 1] + first[s + 3])

with jobs counted in a circle of four, from f = 0, and T = f[s + 1] - f[s - 3] as soon as two
successive values agree to a thousandth, else after eight slots. Two jobs may lie opposite each
other. This is not the period of `formulations.interleaving`: a slot without a job is not waited
for, and of four jobs the recurrence often stops before it is steady, up to 29 % too early.

References
----------
Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM 2022, its published
artifact.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import TypeAlias

import numpy as np

from placewright.instances.traces.papers import STRETCH
from placewright.instances.traces.trace import FULL_SPEED, Trace
from placewright.rounds.policies.muri import STAGES

Stages: TypeAlias = tuple[int, int, int]
Kinds: TypeAlias = tuple[int, ...]

MOST = 4
"""Jobs that may share a place."""

MOST_KNOWN = 1_000_000

CONTENTION = {2: 1330, 3: 1500, 4: 1370}
"""Thousandths by which a period of so many jobs is longer, over `STRETCH`."""

_SLOTS = 4
_TURNS = 2


def muri_period(jobs: Sequence[Stages]) -> int:
    """Return the period of two to four jobs without contention, in microseconds."""
    period = min(_in_turn(order) for order in permutations(jobs))
    if len(jobs) == 2:
        (first, *others), (second, *rest) = jobs
        period = min(period, max(first, sum(rest)) + max(second, sum(others)))
    return period


def _in_turn(order: Sequence[Stages]) -> int:
    slots = [*order, *[None] * (_SLOTS - len(order))]
    f = [0] * (_TURNS * _SLOTS + 1)
    for s in range(_TURNS * _SLOTS):
        ends = [0]
        if (job := slots[(s + 1) % _SLOTS]) is not None:
            ends.append(f[s] + job[2])
        if (job := slots[(s + 2) % _SLOTS]) is not None:
            ends.append(f[s] + job[1])
        if s and (job := slots[(s + 3) % _SLOTS]) is not None:
            ends.append(f[s - 1] + job[0])
        f[s + 1] = max(ends)
        if s >= _SLOTS:
            period, before = f[s + 1] - f[s - 3], f[s] - f[s - 4]
            if period > 0 and 1000 * abs(period - before) <= max(period, before):
                return period
    return f[-1] - f[-1 - _SLOTS]


class GroupSpeeds:
    """Speeds and worth of groups of jobs of a trace; each combination of kinds of jobs once.

    Attributes
    ----------
    kind : list of int
        Per job; jobs of one kind have the same stages.
    exchanges : dict
        Of two groups by the kinds of their jobs, which two to exchange; None: none.
    """

    def __init__(self, trace: Trace) -> None:
        columns = np.stack([trace.extra[name] for name in STAGES], axis=1).astype(np.int64)
        kinds, kind = np.unique(columns, axis=0, return_inverse=True)
        self.kind: list[int] = kind.reshape(-1).tolist()
        self._iterations: list[int] = kinds[:, 0].tolist()
        self._stages: list[Stages] = [tuple(row) for row in kinds[:, 1:].tolist()]
        self._periods: dict[Kinds, int] = {}
        self._throughputs: dict[Kinds, int] = {}
        self.exchanges: dict[tuple[Kinds, Kinds], tuple[int, int] | None] = {}

    def forget(self) -> None:
        """Forget what is known of combinations once it takes much memory."""
        for known in (self._periods, self._throughputs, self.exchanges):
            if len(known) > MOST_KNOWN:
                known.clear()

    def kinds(self, jobs: Sequence[int]) -> Kinds:
        """Return the kinds of the jobs of a group."""
        return tuple([self.kind[job] for job in jobs])

    def speeds(self, jobs: Sequence[int]) -> tuple[int, ...]:
        """Return the speed of each job of a group, in millionths."""
        return self._speeds(self.kinds(jobs))

    def throughput(self, jobs: Sequence[int]) -> int:
        """Return the sum of the speeds."""
        key = self._key(jobs)
        if key not in self._throughputs:
            self._throughputs[key] = sum(self._speeds(key))
        return self._throughputs[key]

    def use(self, jobs: Sequence[int]) -> int:
        """Return how much of four resources a group uses, in millionths of a place."""
        key = self._key(jobs)
        busy = sum(sum(self._stages[kind]) for kind in key)
        return 1000 * FULL_SPEED * busy // (_SLOTS * self._period(key))

    def _key(self, jobs: Sequence[int]) -> Kinds:
        return tuple(sorted(self.kinds(jobs)))

    def _speeds(self, kinds: Sequence[int]) -> tuple[int, ...]:
        if len(kinds) == 1:
            return (FULL_SPEED,)
        period = self._period(tuple(sorted(kinds)))
        return tuple(
            max(1, FULL_SPEED * self._iterations[kind] * STRETCH // period) for kind in kinds
        )

    def _period(self, key: Kinds) -> int:
        """Return the period with contention, in nanoseconds."""
        if key not in self._periods:
            period = muri_period([self._stages[kind] for kind in key])
            factor = 1000 * CONTENTION[len(key)]
            self._periods[key] = max(1, -(-period * factor // STRETCH))
        return self._periods[key]
