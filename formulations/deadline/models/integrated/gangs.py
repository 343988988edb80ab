"""The current lease as gangs of which a model may choose who has a promise.

Each job that may run now is a gang without a promise and, if it could have one that it runs for
now, a second gang with it, whose arrivals precede all others. A running job is where it is in both.
At most one of the two runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from placewright.formulations.deadline.problem.compile import Admission
from placewright.formulations.deadline.problem.current_lease import (
    FIRST_PRIORITY,
    MAX_OTHER_PRIORITY,
    gang_round,
    jobs_on_away_hosts,
)
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.quotas import remaining_quotas
from placewright.instances.documents.job import Job


@dataclass(frozen=True, slots=True)
class Gang:
    """A job of the whole round by its index, its options there, and whether it has a promise."""

    job: int
    options: tuple[int, ...]
    promised: bool


@dataclass(frozen=True, slots=True, eq=False)
class Gangs:
    """The gangs of a round, compiled.

    Attributes
    ----------
    each : tuple of Gang
        In the order of the jobs of the problem's round. All are of a class of their own.
    evicted : frozenset of int
        Jobs of the whole round that run where they cannot stay: here they wait.
    """

    problem: Problem
    each: tuple[Gang, ...]
    evicted: frozenset[int]


def compile_gangs(admission: Admission, terms: tuple[str, ...]) -> Gangs:
    """Return the gangs of the current lease, compiled for these terms."""
    round_ = admission.round
    builder = _GangBuilder(admission)
    for j, job in enumerate(round_.jobs):
        builder.add(j, job)
    inner = gang_round(round_, tuple(builder.jobs), terms)
    problem = compile_round(inner)
    # There are two of some running jobs, but they hold only once what they hold, and stop once.
    quota = remaining_quotas(round_, problem.cluster)
    problem = replace(problem, quota=quota, budget=None)
    return Gangs(problem, tuple(builder.gangs), builder.evicted)


class _GangBuilder:
    def __init__(self, admission: Admission) -> None:
        self._round = admission.round
        self.evicted = jobs_on_away_hosts(self._round)
        now = np.flatnonzero(admission.problem.first == 0)
        self._current = {
            (admission.jobs[number], option)
            for number, option in zip(
                admission.problem.job[now].tolist(), admission.option[now].tolist(), strict=True
            )
        }
        self.jobs: list[Job] = []
        self.gangs: list[Gang] = []

    def add(self, j: int, job: Job) -> None:
        """Add the gangs of a job, if it may run now."""
        deadline, running = job.deadline, job.running
        if running is not None and running.pinned:
            self._add(j, job, tuple(range(len(job.options))), promised=False)
            return
        ready = None if deadline is None else deadline.ready
        if self._round.leases.first_usable(ready, self._round.now):
            return
        options = tuple(range(len(job.options))) if running is None else (running.option,)
        self._add(j, job, options, promised=False)
        able = tuple(o for o in options if (j, o) in self._current)
        if able:
            self._add(j, job, able, promised=True)

    def _add(self, j: int, job: Job, options: tuple[int, ...], *, promised: bool) -> None:
        running = None if j in self.evicted else job.running
        if running is not None and not running.pinned:
            running = running.model_copy(update={"option": 0})
        # A value of its own keeps each gang in a class of its own.
        own = {"value": len(self.jobs) + 1, "progress": 0}
        update: dict[str, Any] = {
            "options": tuple(job.options[o].model_copy(update=own) for o in options),
            "running": running,
            "priority": FIRST_PRIORITY if promised else min(job.priority, MAX_OTHER_PRIORITY),
            "opportunistic": job.opportunistic and not promised,
            "deadline": None,
        }
        self.jobs.append(job.model_copy(update=update))
        self.gangs.append(Gang(j, options, promised))
