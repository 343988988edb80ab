"""Reservations: the first waiting jobs start now, or get the earliest time at which they fit.

Those behind them start in the order of the queue where they delay no reservation. With depth 1 this
is EASY backfilling (Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995), with all jobs
conservative backfilling (Mu'alem and Feitelson, IEEE TPDS 12, 2001).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate
from placewright.rounds.backfill.places import SOURCE, Places
from placewright.rounds.backfill.pools import PoolProfile
from placewright.rounds.backfill.profile import Profile, Reservation
from placewright.rounds.backfill.queue import Queue

NOTHING: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reserved:
    """The jobs of the queue that start in their turn, those with a reservation, and the pools."""

    starts: Candidate
    pools: PoolProfile
    reservations: list[Reservation] = field(default_factory=list)


def reserve(problem: Problem, last: Mapping[str, Mapping[str, Any]] = NOTHING) -> Reserved:
    """Return which jobs of the queue start in their turn, and the reservations of the first others.

    Parameters
    ----------
    problem
        A round whose policy has `backfill`, compiled.
    last
        The reservations of the last round, by the name of the job, as its plan has them. Where the
        order is another scheduler's (`listed`) they do not count: it has none, and whoever comes
        first in the queue would have to leave them to jobs behind.
    """
    policy = problem.round.policy
    backfill = policy.backfill
    if backfill is None:
        pools = PoolProfile(problem.round, problem.cluster)
        return Reserved(Candidate({}, SOURCE), pools)
    taken = Queue(problem, NOTHING if policy.as_listed else last)
    order = taken.order()
    depth = len(order) if backfill.depth == "all" else backfill.depth
    head = 0
    while head < len(order) and len(taken.profile.reservations) < depth:
        taken.add(order[head])
        head += 1
    for job in taken.backfill_order(order[head:]):
        if not taken.outranked(job):
            taken.backfill(job)
    taken.profile.kept = []
    return Reserved(taken.candidate(), taken.profile.pools, taken.profile.reservations)


def reserved_before(
    problem: Problem, entries: Mapping[str, Mapping[str, Any]], starts: Candidate
) -> Reserved:
    """Return starts and reservations as a plan has them; these are by the name of the job."""
    profile = Profile(problem)
    places = Places(problem, profile)
    number = {job.name: j for j, job in enumerate(problem.round.jobs)}
    reservations = [places.of_entry(number[name], entry) for name, entry in entries.items()]
    return Reserved(starts, profile.pools, reservations)
