"""Swap neighbourhood: local search that reduces the excess of an assignment of units to hosts.

A unit on an overcommitted host is swapped with a lighter one of as many GPUs on another host, or is
shifted to free GPUs. Where neither helps, pending jobs are dropped. Excess: see
`host_assignment.py`.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.host_assignment import NOWHERE, HostAssignment
from placewright.formulations.session import Session

TOLERANCE = 1e-9
"""Excess that counts as none."""


def reduce_excess(assignment: HostAssignment, session: Session) -> bool:
    """Swap and shift, worst host first, until no host has an excess; return whether none has."""
    stuck = np.zeros(len(assignment.free_gpus), dtype=np.bool_)
    while not session.expired():
        excess = np.where(stuck, 0.0, assignment.excess())
        worst = int(excess.argmax())
        if excess[worst] <= TOLERANCE:
            return not stuck.any() and not assignment.unassigned().any()
        if _best_exchange(assignment, worst):
            stuck[:] = False
        else:
            stuck[worst] = True
    return False


def drop_waiting(assignment: HostAssignment) -> bool:
    """Drop the pending jobs of one unit, least value for the excess saved; return whether any."""
    unassigned = np.flatnonzero(assignment.unassigned())
    if len(unassigned):
        return _free_host_for(assignment, int(unassigned[0]))
    excess = assignment.excess()
    return any(
        _drop_to_relieve(assignment, host)
        for host in np.argsort(-excess, kind="stable").tolist()
        if excess[host] > TOLERANCE
    )


def drop_excess(assignment: HostAssignment) -> None:
    """Drop jobs, without swaps, until no host has an excess.

    On each such host pending jobs are dropped first, least value for the excess saved; then units
    that are not at home lose their host, then any.
    """
    for host in np.flatnonzero(assignment.excess() > TOLERANCE).tolist():
        here = np.flatnonzero(assignment.host == host)
        while (
            len(here)
            and assignment.excess_with(host, np.zeros_like(assignment.capacity[0])) > TOLERANCE
        ):
            _drop_from(assignment, host, here)
            here = here[assignment.host[here] == host]


def _best_exchange(assignment: HostAssignment, host: int) -> bool:
    """Swap or shift one unit of a host so that the total excess falls; return whether one did."""
    unit, other, to = _neighbourhood(assignment, host)
    demand = np.vstack([assignment.demand, np.zeros_like(assignment.capacity[:1])])
    moved = demand[unit] - demand[other]
    excess = assignment.excess()
    change = (
        assignment.excess_with(host, -moved)
        + assignment.excess_with(to, moved)
        - excess[host]
        - excess[to]
    )
    best = float(change.min(initial=0.0))
    if best >= -TOLERANCE:
        return False
    near = np.flatnonzero(change <= parameters.PARAMETERS.packing.near_best_rel * best)
    cost = assignment.move_cost(unit[near], to[near]) - assignment.move_cost(unit[near], host)
    swap = other[near] != NOWHERE
    cost[swap] += assignment.move_cost(other[near][swap], host)
    cost[swap] -= assignment.move_cost(other[near][swap], to[near][swap])
    at = near[cost.argmin()]
    leaving, coming, target = int(unit[at]), int(other[at]), int(to[at])
    assignment.unassign(leaving)
    if coming != NOWHERE:
        assignment.unassign(coming)
        assignment.assign(coming, host)
    assignment.assign(leaving, target)
    return True


def _neighbourhood(assignment: HostAssignment, host: int) -> tuple[Ints, Ints, Ints]:
    """Return swaps and shifts of a host: its unit, the other one or NOWHERE, and the new host."""
    units, parts = assignment.units, []
    assigned = np.flatnonzero((assignment.host != host) & (assignment.host != NOWHERE))
    for unit in np.flatnonzero(assignment.host == host).tolist():
        gpus, eligible = units.gpus[unit], assignment.eligible_hosts(unit)
        to = np.flatnonzero(eligible & (assignment.free_gpus >= gpus))
        to = to[to != host]
        others = assigned[(units.gpus[assigned] == gpus) & eligible[assignment.host[assigned]]]
        others = others[units.allowed[units.host_set[others], host]]
        other = np.concatenate([others, np.full(len(to), NOWHERE, dtype=np.int64)])
        to = np.concatenate([assignment.host[others], to])
        parts.append(np.stack([np.full(len(to), unit, dtype=np.int64), other, to]))
    unit, other, to = np.concatenate(parts, axis=1)
    return unit, other, to


def _drop_from(assignment: HostAssignment, host: int, here: Ints) -> None:
    """Drop the pending jobs of one unit if that helps the host; else take a unit off it."""
    units = assignment.units
    waits = (units.value[here] > 0) & ~assignment.dropped[here]
    less = np.where(waits[:, None], assignment.demand[here] - units.running_demand[here], 0)
    before = assignment.excess_with(host, np.zeros_like(less))
    helps = before - assignment.excess_with(host, -less)
    if (helps > TOLERANCE).any():
        assignment.drop_waiting_of(int(here[(helps / np.maximum(units.value[here], 1)).argmax()]))
    else:
        helps = before - assignment.excess_with(host, -assignment.demand[here])
        assignment.unassign(int(here[np.lexsort((-helps, units.home[here] == host))[0]]))


def _free_host_for(assignment: HostAssignment, unit: int) -> bool:
    """Assign a unit in place of a pending one of as many GPUs; return whether there is one."""
    units = assignment.units
    others = np.flatnonzero(
        (assignment.host != NOWHERE) & ~units.has_running & (units.gpus == units.gpus[unit])
    )
    others = others[assignment.eligible_hosts(unit)[assignment.host[others]]]
    if not len(others):
        return False
    other = int(others[units.value[others].argmin()])
    host = int(assignment.host[other])
    assignment.drop_waiting_of(other)
    assignment.assign(unit, host)
    return True


def _drop_to_relieve(assignment: HostAssignment, host: int) -> bool:
    """Drop a unit here, or one elsewhere whose GPUs a unit from here takes; return whether one."""
    units = assignment.units
    unit, other, to = _neighbourhood(assignment, host)
    elsewhere = (other != NOWHERE) & ~units.has_running[other]
    unit, other, to = unit[elsewhere], other[elsewhere], to[elsewhere]
    here = np.flatnonzero((assignment.host == host) & (units.value > 0) & ~assignment.dropped)
    demand = assignment.demand
    excess = assignment.excess()
    less = demand[here] - units.running_demand[here]
    change = np.concatenate(
        [
            assignment.excess_with(host, -less) - excess[host],
            assignment.excess_with(host, -demand[unit])
            + assignment.excess_with(to, demand[unit] - demand[other])
            - excess[host]
            - excess[to],
        ]
    )
    dropped = np.concatenate([here, other])
    ratio = change / np.maximum(units.value[dropped], 1)
    if not len(ratio) or ratio.min() >= -TOLERANCE / max(int(units.value.max()), 1):
        return False
    best = int(ratio.argmin())
    assignment.drop_waiting_of(int(dropped[best]))
    if best >= len(here):
        leaving, target = int(unit[best - len(here)]), int(to[best - len(here)])
        assignment.unassign(leaving)
        assignment.assign(leaving, target)
    return True
