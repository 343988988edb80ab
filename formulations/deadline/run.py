"""The deadline formulation: promises by admission, leases by filling, the current one by gangs.

Exact for which promises fit the counted capacity of the leases, as far as `admission.py` says; the
current lease is then really placed, and whatever that costs shows in the gap.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from placewright.formulations.deadline.admission import AdmissionBound, admit
from placewright.formulations.deadline.compile import Admission
from placewright.formulations.deadline.placing import Search, placed
from placewright.formulations.deadline.problem import NONE, Schedule
from placewright.formulations.deadline.resting import resting_bounds
from placewright.formulations.session import Bound, Candidate, Session

PLACING = 0.3
"""Share of the time that is kept for placing the current lease."""

AT_ONCE = 1_000
"""Jobs up to which there is a first plan before admission has ended; more take seconds to place."""


def run(
    admission: Admission, session: Session, search: Search, known: Schedule | None = None
) -> Iterator[Candidate | Bound]:
    """Yield plans, each of better promises, and bounds.

    Parameters
    ----------
    admission
        What there is to promise.
    search
        Decides rounds of gangs.
    known
        A schedule of promises that the last round has left.
    """
    yield from resting_bounds(admission)
    left = max(0.0, session.before_deadline())
    choosing = replace(session, deadline=session.deadline - PLACING * left)
    problem = admission.problem
    if not problem.ways:
        nothing = Schedule(
            np.full(problem.jobs, NONE, dtype=np.int64),
            np.zeros((problem.jobs, problem.horizon), dtype=np.bool_),
        )
        yield Bound("broken", float(problem.loss.sum()), certified=True)
        yield Bound("admitted", 0.0, certified=True)
        yield from placed(admission, nothing, session, search)
        return
    best: Schedule | None = None
    for step in admit(problem, choosing, known):
        session.wall_stopped |= choosing.wall_stopped
        if isinstance(step, AdmissionBound):
            holds = () if step.broken is None else (("broken", step.broken),)
            yield Bound(step.term, float(step.value), holds, step.certified)
            continue
        if best is None and problem.jobs <= AT_ONCE:
            yield from islice(placed(admission, step, session, search), 1)
        best = step
    if best is not None:
        yield from placed(admission, best, session, search)
