"""Local search by exchanges: bundles are assigned by GPUs, then excess demand is reduced.

No host holds more bundles than it has GPUs, but for a while more than it has CPUs or memory: a
heavy bundle there changes hosts with a light one. The excess of a host is its demand beyond its
capacity, each resource relative to the mean capacity of hosts.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.host_assignment import NOWHERE, HostAssignment
from placewright.formulations.session import Session

TOLERANCE = 1e-9


def reduce_excess(assignment: HostAssignment, session: Session) -> bool:
    """Swap until no host lacks anything; return whether that was reached in time."""
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
    """Give up the waiting jobs that are worth least for what that helps; False if none does."""
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
    """Take off units, without a swap, until no host lacks anything.

    Of a host that does, those that wait are given up first, the least worth for what it helps;
    then units leave that are not at home, and last any.
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
    """Lower the excess in all by one unit that leaves this host, for another or for none."""
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
    good = np.flatnonzero(change <= parameters.PARAMETERS.packing.near_best_rel * best)
    cost = assignment.move_cost(unit[good], to[good]) - assignment.move_cost(unit[good], host)
    swap = other[good] != NOWHERE
    cost[swap] += assignment.move_cost(other[good][swap], host)
    cost[swap] -= assignment.move_cost(other[good][swap], to[good][swap])
    at = good[cost.argmin()]
    leaving, coming, target = int(unit[at]), int(other[at]), int(to[at])
    assignment.unassign(leaving)
    if coming != NOWHERE:
        assignment.unassign(coming)
        assignment.assign(coming, host)
    assignment.assign(leaving, target)
    return True


def _neighbourhood(assignment: HostAssignment, host: int) -> tuple[Ints, Ints, Ints]:
    """Return who might leave a host, for whom (NOWHERE: for nobody), and to which host."""
    units, parts = assignment.units, []
    assigned = np.flatnonzero((assignment.host != host) & (assignment.host != NOWHERE))
    for unit in np.flatnonzero(assignment.host == host).tolist():
        gpus, may = units.gpus[unit], assignment.eligible_hosts(unit)
        to = np.flatnonzero(may & (assignment.free_gpus >= gpus))
        to = to[to != host]
        others = assigned[(units.gpus[assigned] == gpus) & may[assignment.host[assigned]]]
        others = others[units.allowed[units.host_set[others], host]]
        other = np.concatenate([others, np.full(len(to), NOWHERE, dtype=np.int64)])
        to = np.concatenate([assignment.host[others], to])
        parts.append(np.stack([np.full(len(to), unit, dtype=np.int64), other, to]))
    unit, other, to = np.concatenate(parts, axis=1)
    return unit, other, to


def _drop_from(assignment: HostAssignment, host: int, here: Ints) -> None:
    """Give up the jobs of a unit that wait, if that helps the host; else lift a unit."""
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
    """Seat a unit where one is that waits."""
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
    """Give up a unit here, or one elsewhere whose GPUs another from here then takes."""
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
    given = np.concatenate([here, other])
    ratio = change / np.maximum(units.value[given], 1)
    if not len(ratio) or ratio.min() >= -TOLERANCE / max(int(units.value.max()), 1):
        return False
    best = int(ratio.argmin())
    assignment.drop_waiting_of(int(given[best]))
    if best >= len(here):
        leaving, target = int(unit[best - len(here)]), int(to[best - len(here)])
        assignment.unassign(leaving)
        assignment.assign(leaving, target)
    return True
