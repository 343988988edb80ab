"""From a round to the arrays of `problem.py`: alternatives and capacity rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.deadline.problem.alternatives import AlternativeGenerator, dues_of
from placewright.formulations.deadline.problem.capacity_rows import CapacityRows
from placewright.formulations.deadline.problem.priorities import (
    ADMITTED,
    number_of,
    priority_classes,
    units_of,
    weights_of,
)
from placewright.formulations.deadline.problem.problem import AdmittedClasses, Problem, Schedule
from placewright.instances.derived.lease_arithmetic import completion_time, work_per_lease
from placewright.instances.documents.deadline import Deadline, Due, Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """The admission problem of a round, and what its jobs and alternatives stand for.

    Attributes
    ----------
    jobs : tuple of int
        Index in the round of each job of `problem`.
    option : Ints
        (alternatives,): the option of each alternative.
    due : tuple of Due
        What each alternative promises.
    gains : Ints
        (alternatives,): work per lease, thousandths of a work-second, at the option's least hosts.
    hosts : Ints
        (alternatives,): the least hosts of the alternative's option.
    fast : Bools
        (alternatives,): whether the alternative counts on more hosts in the current lease, where it
        is faster.
    steady : Bools
        (alternatives,): whether counted leases keep the promise while the job runs on as it does.
    known : Schedule or None
        The promises that the last round has left, by the steady alternatives.
    """

    round: Round
    problem: Problem
    jobs: tuple[int, ...]
    option: Ints
    due: tuple[Due, ...]
    gains: Ints
    hosts: Ints
    fast: Bools
    steady: Bools
    known: Schedule | None = None

    def steady_only(self) -> Admission:
        """Return the admission with its steady alternatives only."""
        if self.steady.all():
            return self
        alternatives = np.flatnonzero(self.steady)
        return replace(
            self,
            problem=self.problem.restrict(alternatives),
            option=self.option[alternatives],
            due=tuple(self.due[alternative] for alternative in alternatives.tolist()),
            gains=self.gains[alternatives],
            hosts=self.hosts[alternatives],
            fast=self.fast[alternatives],
            steady=self.steady[alternatives],
        )

    def after_current_lease(self, alternative: int, hosts: int) -> tuple[int, int, int, bool]:
        """Return what an alternative needs after the current lease on some hosts.

        Leases that are still needed, the first of them that can be used, the one after the last,
        and whether that is in time.
        """
        leases, now, at = self.round.leases, self.round.now, self.due[alternative].at
        deadline, pace = self._of(alternative)
        left = deadline.work - work_per_lease(pace, leases.length_s, hosts)
        if left <= 0:
            return 0, 1, 1, completion_time(now, deadline.work, pace, hosts) <= at
        each = int(self.gains[alternative])
        if not each:
            return leases.horizon, 1, 1, False
        count = -(-left // each)
        last = completion_time(now, left - (count - 1) * each, pace, int(self.hosts[alternative]))
        return count, 1, min((at - last) // leases.length_s + 1, leases.horizon), True

    def finish(self, alternative: int, leases: Sequence[int] | Ints, hosts: int | None) -> int:
        """Return when a job is done that runs in these leases, in the current one on `hosts`."""
        section, now = self.round.leases, self.round.now
        deadline, pace = self._of(alternative)
        least, last = int(self.hosts[alternative]), int(leases[-1])
        here = least if hosts is None else hosts
        left = deadline.work - (len(leases) - 1) * work_per_lease(pace, section.length_s, least)
        if last and leases[0] == 0:
            left += work_per_lease(pace, section.length_s, least) - work_per_lease(
                pace, section.length_s, here
            )
        return completion_time(section.start(now, last), left, pace, least if last else here)

    def _of(self, alternative: int) -> tuple[Deadline, Pace]:
        deadline = self.round.jobs[self.jobs[self.problem.job[alternative]]].deadline
        if deadline is None:
            raise AssertionError("an alternative is of a job with a deadline")
        return deadline, deadline.pace(int(self.option[alternative]))


def compile_admission(round_: Round) -> Admission:
    """Return the admission problem of a round."""
    jobs = tuple(j for j, job in enumerate(round_.jobs) if dues_of(job))
    rows = CapacityRows(round_, (round_.jobs[j] for j in jobs))
    alternatives = list(AlternativeGenerator(round_).of(jobs))
    # The alternatives of a job with one option ask the same.
    asked = {
        (number, option): rows.demand(round_.jobs[jobs[number]], option)
        for number, option in {
            (alternative.job, alternative.option) for alternative in alternatives
        }
    }
    columns = np.array([alternative[:8] for alternative in alternatives], dtype=np.int64).reshape(
        -1, 8
    )
    problem = Problem(
        capacity=rows.capacity(),
        loss=np.array([_promised_value(round_.jobs[j]) for j in jobs], dtype=np.int64),
        job=columns[:, 0],
        need=columns[:, 1],
        first=columns[:, 2],
        end=columns[:, 3],
        value=columns[:, 4],
        demand=np.array(
            [asked[alternative.job, alternative.option] for alternative in alternatives],
            dtype=np.int64,
        ).reshape(len(alternatives), rows.count),
        classes=_classes_of_admitted(round_, jobs),
    )
    return Admission(
        round=round_,
        problem=problem,
        jobs=jobs,
        option=columns[:, 5],
        due=tuple(alternative.due for alternative in alternatives),
        gains=columns[:, 6],
        hosts=columns[:, 7],
        fast=np.array([alternative.fast for alternative in alternatives], dtype=np.bool_),
        steady=np.array([alternative.steady for alternative in alternatives], dtype=np.bool_),
    )


def _classes_of_admitted(round_: Round, jobs: Sequence[int]) -> AdmittedClasses | None:
    classes = priority_classes(round_, ADMITTED)
    if not classes:
        return None
    units = units_of(round_, classes)
    return AdmittedClasses(
        number=np.array([number_of(classes, round_.jobs[j]) for j in jobs], dtype=np.int64),
        weights=weights_of(classes, units),
        units=units,
        asked=tuple(one.asked for one in classes),
    )


def without_deadlines(round_: Round, jobs: Collection[int]) -> Round:
    """Return the round with these jobs due at the end of the horizon only."""
    end = round_.leases.start(round_.now, round_.leases.horizon + 1)
    changed = list(round_.jobs)
    for j in jobs:
        deadline = changed[j].deadline
        if deadline is not None:
            update = {"due": (Due(at=end, value=1),), "promise": None}
            changed[j] = changed[j].model_copy(
                update={"deadline": deadline.model_copy(update=update)}
            )
    return round_.model_copy(update={"jobs": tuple(changed)})


def _promised_value(job: Job) -> int:
    return job.deadline.promise.value if job.deadline and job.deadline.promise else 0
