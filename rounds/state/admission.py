"""Online admission: which promise one arriving job can get, without deciding a round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from placewright.formulations.deadline.heuristics.list_scheduling import list_schedule
from placewright.formulations.deadline.problem.compile import (
    Admission,
    compile_admission,
    without_deadlines,
)
from placewright.formulations.deadline.problem.problem import NONE, Schedule, intervals
from placewright.formulations.deadline.run import Arrival, admit_arrival, admit_earliest
from placewright.instances.documents.deadline import Due
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan_leases import promises_in
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError

KIND = "leases"


def jobs_with_promises(round_: Round, sections: Iterable[Mapping[str, Any]]) -> tuple[Job, ...]:
    """Return the jobs of a round with the promises that they have after a valid plan."""
    if "leases" not in round_.policy.spec.sections:
        return round_.jobs
    given = promises_in(sections)
    return tuple(job.with_promise(given.get(job.name)) for job in round_.jobs)


MOST_NAMED = 5
"""Most jobs named as the reason of a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The answer to a job that asks for a promise.

    Attributes
    ----------
    job : str
        Its name.
    promise : Due or None
        The time that it is promised, and what that is worth; None if it is refused.
    option : int or None
        The option of the promise, or of the earliest completion that could be promised.
    finish : int or None
        Planned completion; of a refused job the earliest completion found, None if there is none
        within the horizon. Seconds on the round's clock.
    runs : tuple of (int, int)
        When it is planned to run: half-open intervals of whole leases, in seconds on the clock.
    in_the_way : tuple of str
        Of a refused job: the promised jobs of most GPU time before its last deadline.
    """

    job: str
    promise: Due | None = None
    option: int | None = None
    finish: int | None = None
    runs: tuple[tuple[int, int], ...] = ()
    in_the_way: tuple[str, ...] = ()


@dataclass(slots=True)
class Ledger:
    """The schedule that keeps all promises; its lease 0 is the one after the plan's current one."""

    leases: dict[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """Option and leases of each job."""

    @classmethod
    def of(cls, sections: Iterable[Mapping[str, Any]]) -> Ledger:
        """Read the section of a valid plan."""
        ledger = cls()
        for entry in (e for s in sections if s["kind"] == KIND for e in s["jobs"]):
            leases = [lease - 1 for first, end in entry["leases"] for lease in range(first, end)]
            ledger.leases[entry["job"]] = entry["option"], tuple(t for t in leases if t >= 0)
        return ledger

    def schedule(self, admission: Admission) -> Schedule:
        """Return the schedule of the promises in a round that begins with the next lease.

        If the ledger's is not feasible there, list scheduling makes one.
        """
        problem = admission.problem
        alternative = np.full(problem.jobs, NONE, dtype=np.int64)
        runs = np.zeros((problem.jobs, problem.horizon), dtype=np.bool_)
        for w in range(problem.alternatives):
            number = int(problem.job[w])
            job = admission.round.jobs[admission.jobs[number]]
            if job.deadline is None or admission.due[w] != job.deadline.promise:
                continue
            option, leases = self.leases.get(job.name, (int(admission.option[w]), ()))
            if option == admission.option[w]:
                alternative[number] = w
                runs[number, list(leases[: problem.need[w]])] = True
        known = Schedule(alternative, runs)
        return known if known.fits(problem) else list_schedule(problem, alternative)

    def learn(self, admission: Admission, schedule: Schedule) -> None:
        """Record a schedule."""
        for number in np.flatnonzero(schedule.alternative != NONE):
            leases = tuple(np.flatnonzero(schedule.runs[number]).tolist())
            name = admission.round.jobs[admission.jobs[number]].name
            self.leases[name] = int(admission.option[schedule.alternative[number]]), leases


def check_asks_for_promise(round_: Round, job: Job) -> None:
    """Refuse a job that asks for no promise, or a policy that gives none.

    Raises InvalidInputError with the path of the fault in the round, or in the job.
    """
    if "leases" not in round_.policy.spec.sections:
        raise InvalidInputError(
            "gives no promises; expected the policy deadline",
            path=("policy", "formulation"),
            value=round_.policy.formulation,
        )
    if job.running is not None:
        raise InvalidInputError(
            "given; expected a pending job", path=("running",), show_value=False
        )
    if job.deadline is None or not job.deadline.due or job.deadline.promise is not None:
        raise InvalidInputError(
            f"job {job.name!r} asks for no promise; expected due times, and no promise yet",
            path=("deadline",),
            show_value=False,
        )


def answer_admission(round_: Round, ledger: Ledger) -> Admitted:
    """Answer the last job of a round, and record its promise in the ledger.

    `round_`: it begins with the first lease in which the job may run. `ledger`: the schedule of the
    promises of the other jobs.
    """
    admission = compile_admission(round_).steady_only()
    schedule = ledger.schedule(admission)
    promised = [
        number
        for number, j in enumerate(admission.jobs)
        if (deadline := round_.jobs[j].deadline) is not None and deadline.promise is not None
    ]
    if (schedule.alternative[promised] == NONE).any():  # they are not all kept as it is
        return Admitted(job=round_.jobs[-1].name)
    found = admit_arrival(admission.problem, schedule, len(admission.jobs) - 1)
    if found is None:
        return _refused(admission, schedule)
    ledger.learn(admission, found.schedule)
    return _answer(admission, found, admission.due[found.alternative])


def _refused(admission: Admission, schedule: Schedule) -> Admitted:
    """Refuse a job that cannot be in time, with the earliest completion that could be promised."""
    round_ = admission.round
    # Only the alternatives of the last job differ, and they come last: the schedule fits both.
    anytime = compile_admission(without_deadlines(round_, [len(round_.jobs) - 1])).steady_only()
    found = admit_earliest(anytime.problem, schedule, len(anytime.jobs) - 1)
    answer = Admitted(job=round_.jobs[-1].name)
    if found is not None:
        answer = _answer(anytime, found, None)
    return replace(answer, in_the_way=_largest_promises_before_due(admission, schedule))


def _largest_promises_before_due(admission: Admission, schedule: Schedule) -> tuple[str, ...]:
    """Return the jobs of most GPU time before the last due time of the last job, in that order."""
    round_, problem = admission.round, admission.problem
    deadline = round_.jobs[-1].deadline
    if deadline is None or not deadline.due:
        return ()
    end = max(0, (deadline.due[-1].at - round_.now) // round_.leases.length_s)
    kept = np.flatnonzero(schedule.alternative != NONE)
    asked = problem.demand[schedule.alternative[kept]].max(axis=1, initial=0)
    held = asked * schedule.runs[kept, :end].sum(axis=1)
    order = np.argsort(-held, kind="stable")[:MOST_NAMED]
    return tuple(
        round_.jobs[admission.jobs[number]].name for number in kept[order[held[order] > 0]]
    )


def _answer(admission: Admission, found: Arrival, promise: Due | None) -> Admitted:
    round_, number = admission.round, len(admission.jobs) - 1
    leases = np.flatnonzero(found.schedule.runs[number])
    start, length = round_.now, round_.leases.length_s
    return Admitted(
        job=round_.jobs[-1].name,
        promise=promise,
        option=int(admission.option[found.alternative]),
        finish=admission.finish(found.alternative, leases, None),
        runs=tuple((start + a * length, start + b * length) for a, b in intervals(leases)),
    )
