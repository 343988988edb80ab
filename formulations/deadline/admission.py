"""Admission: which promises to give, best first, with bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from placewright.formulations.deadline.filling import complete, fill
from placewright.formulations.deadline.problem import NONE, Problem, Schedule
from placewright.formulations.session import Session


@dataclass(frozen=True, slots=True)
class AdmissionBound:
    """A bound of `broken` or `admitted`; the latter for plans that break no more than `broken`."""

    term: str
    value: int
    broken: int | None
    certified: bool


def admit(problem: Problem, session: Session) -> Iterator[Schedule | AdmissionBound]:
    """Yield better and better schedules, and bounds."""
    best = np.zeros(problem.jobs, dtype=np.int64)
    np.maximum.at(best, problem.job, problem.value)
    yield complete(problem, fill(problem, np.full(problem.jobs, NONE, dtype=np.int64)))
    if not session.expired():
        yield AdmissionBound("broken", 0, None, certified=True)
        yield AdmissionBound("admitted", int(best.sum()), None, certified=True)
