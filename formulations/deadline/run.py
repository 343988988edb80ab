"""The deadline formulation: promises by admission, leases by filling, the current one by gangs.

Exact for which promises fit the counted capacity of the leases, as far as `admission.py` says; the
current lease is then really placed, and whatever that costs shows in the gap.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

import numpy as np

from placewright.formulations.deadline.admission import AdmissionBound, admit
from placewright.formulations.deadline.compile import Admission
from placewright.formulations.deadline.now import current_lease
from placewright.formulations.deadline.offers import Offers
from placewright.formulations.deadline.problem import NONE, Ints, Schedule
from placewright.formulations.deadline.resting import resting_bounds
from placewright.formulations.deadline.settle import holding, promises, settled
from placewright.formulations.deadline.waiting import latest
from placewright.formulations.session import Bound, Candidate, Session
from placewright.instances.round import Round

Search: TypeAlias = Callable[[Round, Session], Iterator[Candidate]]
"""Yields verified plans of a round of gangs, each better than those before."""

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
    choosing = replace(session, deadline=session.deadline - PLACING * max(0.0, session.remaining()))
    problem = admission.problem
    if not problem.ways:
        nothing = Schedule(
            np.full(problem.jobs, NONE, dtype=np.int64),
            np.zeros((problem.jobs, problem.horizon), dtype=np.bool_),
        )
        yield Bound("broken", float(problem.loss.sum()), certified=True)
        yield Bound("admitted", 0.0, certified=True)
        yield from _placed(admission, nothing, session, search)
        return
    best: Schedule | None = None
    for step in admit(problem, choosing, known):
        session.wall_stopped |= choosing.wall_stopped
        if isinstance(step, AdmissionBound):
            holds = () if step.broken is None else (("broken", step.broken),)
            yield Bound(step.term, float(step.value), holds, step.certified)
            continue
        if best is None and problem.jobs <= AT_ONCE:
            yield from islice(_placed(admission, step, session, search), 1)
        best = step
    if best is not None:
        yield from _placed(admission, best, session, search)


def _placed(
    admission: Admission, schedule: Schedule, session: Session, search: Search
) -> Iterator[Candidate]:
    """Yield plans that keep a schedule's promises, as far as the current lease can be placed."""
    problem, offers = admission.problem, Offers(admission)
    must = schedule
    if problem.ways:
        must = latest(problem, schedule, _costs(admission), admission.round.leases.headroom)
    current = current_lease(admission, must, must.runs[:, 0])
    for found in search(current.round, session):
        told = current.told(found)
        now = holding(admission, told.starts, told.preempted)
        kept = settled(admission, must, now)
        yield replace(told, promises=promises(admission, kept, now), offers=offers.beside(kept))


def _costs(admission: Admission) -> Ints:
    """Return what it costs that each job must run now: more where it would have to start.

    Whoever runs already is not better off for that: its later leases are free for others only if it
    runs now as well, and whether it does is for the terms of the policy to say.
    """
    costs = []
    for j in admission.jobs:
        job = admission.round.jobs[j]
        running = job.running
        option = job.options[0 if running is None else running.option]
        costs.append(option.milli_gpu * (2 if running is None else 1))
    return np.array(costs, dtype=np.int64)
