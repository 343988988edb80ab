"""The fast path: small rounds as one round of gangs, others region by region."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.geo.heuristics.assign import bound_value
from placewright.formulations.geo.heuristics.data_orders import with_data
from placewright.formulations.geo.heuristics.decomposition import (
    WELL,
    Decide,
    apart,
    cost_bound,
    costs_of,
    whole_bound,
)
from placewright.formulations.geo.heuristics.exchange import nearer
from placewright.formulations.geo.models.monolithic import United, united, united_in_time
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.geo.problem.job_classes import kinds_of
from placewright.formulations.geo.problem.running_jobs import Lying
from placewright.formulations.session import SHARPNESS, Bound, Candidate, Session, near
from placewright.instances.documents.round import Round

Within: TypeAlias = Callable[[Round, Session], Iterator[Candidate | Bound]]
"""A round of gangs inside this one: its plans, verified, and its bounds."""

SMALL = 4_000
"""Jobs times hosts of a round that is decided as a whole."""

MEDIUM = 3_000_000
"""The same of one that is decided region by region first, and then as a whole."""

FAR = 2**62
"""GiB that no job reads."""

SHARES = (0.1, 0.25, 0.5)
"""Of the ways in which jobs read more than they must: so many are tried once value is proven."""


def run(
    problem: Problem, gangs: Callable[[], Gangs], session: Session, within: Within, decide: Decide
) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds of a round of policy `geo`.

    Parameters
    ----------
    gangs
        Returns all jobs as one round of gangs, wherever they may run.
    within, decide
        How a round of gangs is decided here, and how those of regions are, side by side.
    """
    for term in problem.round.policy.terms[1:]:
        yield Bound(term, 0, certified=True)
    size = len(problem.round.jobs) * problem.cluster.num_hosts
    if size <= SMALL:
        yield from _together(problem, united(problem), session, within)
        return
    began, end = time.monotonic(), session.deadline
    whole = gangs()
    lying = Lying(problem, whole)
    kinds = kinds_of(lying)
    # To check a plan takes about as long, and comes after the search, but before later bounds.
    session.deadline -= time.monotonic() - began
    most = bound_value(kinds, session)
    yield Bound("value", most, certified=True)
    if size <= MEDIUM and not session.deterministic:
        # The rest of the time is for the round as a whole; the better plan is kept.
        session.deadline -= max(0.0, session.remaining()) / 4
    yield from apart(lying, kinds, most, session, decide, last=size > MEDIUM)
    yield from whole_bound(kinds, session)
    session.deadline += max(0.0, end - session.deadline)
    if size <= MEDIUM:
        yield from _sparing(problem, session, within, 0.0)
        if not _proven(session, WELL):
            yield from _as_a_whole(problem, whole, session, within)
        for share in SHARES:
            known = session.best or {}
            if not _proven(session) or not known.get("remote_reads"):
                break
            yield from _sparing(problem, session, within, share)
            if session.best != known:
                break
    yield from cost_bound(kinds, session)


def _proven(session: Session, gap: float = SHARPNESS) -> bool:
    """Whether the value of the best plan is proven within a gap."""
    value = (session.best or {}).get("value", 0)
    return session.first_bound is not None and near(session.first_bound, value, gap)


def _as_a_whole(
    problem: Problem, whole: Gangs, session: Session, within: Within
) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds of a round that is decided as one of gangs, if time does for it."""
    gangs = united_in_time(problem, session)
    if gangs is None:
        return
    for step in _together(problem, gangs, session, within):
        yield step
        if isinstance(step, Candidate) and len(gangs.scale.terms) == 1:
            yield with_data(problem, nearer(problem, whole, step, costs_of(problem)))


def _sparing(
    problem: Problem, session: Session, within: Within, share: float
) -> Iterator[Candidate]:
    """Yield plans in which no job that starts reads much more over links than it would elsewhere.

    `share` is that of all ways to read more than the least that are open to jobs, the smallest
    first; 0: where least is enough for the best value, nothing else reads less. It takes no longer
    than it may still be so, and half of the time.
    """
    remote = np.where(problem.can, problem.remote, FAR)
    more = remote - remote.min(axis=1)[:, None]
    beyond = more[problem.can & (more > 0)]
    most = np.quantile(beyond, share) if share and len(beyond) else 0
    gangs = united_in_time(replace(problem, can=problem.can & (more <= most)), session)
    if gangs is None:
        return
    inner = replace(session, gap=0.0)
    if not session.deterministic:
        inner.deadline -= max(0.0, session.remaining()) / 2
    for step in within(gangs.round, inner):
        session.wall_stopped |= inner.wall_stopped and session.deterministic
        if isinstance(step, Candidate):
            yield with_data(problem, gangs.told(step))
            continue
        for bound in gangs.bounds(step, session.best):
            if bound.term == "value" and bound.value < (session.best or {}).get("value", 0):
                return


def _together(
    problem: Problem, gangs: United, session: Session, within: Within
) -> Iterator[Candidate | Bound]:
    """Yield what a round of gangs says of the whole round."""
    known: list[Bound] = []
    # What costs count for is less than any gap of worth that one would ask for.
    inner = replace(session, gap=0.0)
    for step in within(gangs.round, inner):
        if isinstance(step, Bound):
            known.append(step)
            yield from gangs.bounds(step, session.best)
        else:
            yield with_data(problem, gangs.told(step))
            for bound in known:
                if bound.term == "value":
                    yield from gangs.bounds(bound, session.best)
        session.wall_stopped |= inner.wall_stopped
        inner.deadline = session.deadline
