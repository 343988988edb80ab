"""Vector bin packing: best fit decreasing, and swaps between hosts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.problem.jobs import NOWHERE
from placewright.formulations.session import Session
from placewright.topology.units import UNLIMITED


def best_fit_decreasing(sizes: Ints, free: Ints) -> Ints:
    """Place items (items, resources) on hosts with `free` (hosts, resources); GPUs come first.

    Largest first, each to the host whose other resources then still serve its other GPUs best.
    Returns the host of each item, `NOWHERE` for items that fit none.
    """
    free = free.copy()
    chosen = np.full(len(sizes), NOWHERE, dtype=np.int64)
    scale = np.maximum(free.max(axis=0, initial=1), 1)
    left = sizes.sum(axis=0).astype(np.float64)
    heaviest = (sizes[:, 1:] / scale[1:]).max(axis=1, initial=0.0)
    for i in np.lexsort((-heaviest, -sizes[:, 0])):
        left -= sizes[i]
        hosts = np.flatnonzero((free >= sizes[i]).all(axis=1))
        if not len(hosts):
            continue
        after = free[hosts] - sizes[i]
        needed = after[:, :1] * (left[1:] / max(left[0], 1.0))
        short = ((needed - after[:, 1:]).clip(min=0) / scale[1:]).sum(axis=1)
        chosen[i] = hosts[np.lexsort((after[:, 0], np.round(short, 3)))[0]]
        free[chosen[i]] -= sizes[i]
    return chosen


# Assignment of units to hosts by GPUs (worst fit); other resources may be overcommitted.
#
# The excess of a host is its demand beyond its capacity, each resource relative to the mean
# capacity of hosts that have a limit.


@dataclass(frozen=True, eq=False, slots=True)
class Units:
    """The units to be placed: bundles of jobs (`repacking.py`).

    Attributes
    ----------
    gpus : int64 (units,)
    demand : int64 (units, resources)
    home : int64 (units,)
        The host where a unit is before the round, NOWHERE if it is new.
    move_cost : int64 (units,)
        Cost of a unit that is not at home.
    value : int64 (units,)
        Loss if the pending jobs of a unit are dropped.
    running_demand : int64 (units, resources)
        Demand of the running jobs of a unit.
    has_running : bool (units,)
        Whether a unit has running jobs, so that it needs a host.
    allowed : bool (host sets, hosts)
        Allowed hosts, by set.
    host_set : int64 (units,)
        Row of `allowed` of each unit.
    """

    gpus: Ints
    demand: Ints
    home: Ints
    move_cost: Ints
    value: Ints
    running_demand: Ints
    has_running: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    host_set: Ints


class HostAssignment:
    """The host of each unit.

    Attributes
    ----------
    host : int64 (units,)
        NOWHERE for units without a host, and those whose jobs are all dropped.
    dropped : bool (units,)
        Units whose pending jobs are dropped.

    Parameters
    ----------
    capacity : int64 (hosts, resources)
        Resources besides GPUs that units may take.
    gpus : int64 (hosts,)
        Whole GPUs that units may take.
    closed : bool (hosts,)
        Hosts to be left empty.
    """

    def __init__(self, units: Units, capacity: Ints, gpus: Ints, closed: NDArray[np.bool_]) -> None:
        self.units = units
        self.capacity = capacity
        limited = capacity < UNLIMITED // 2  # some of what has no limit may be taken
        number = np.maximum(limited.sum(axis=0), 1)
        self._scale = np.maximum(np.where(limited, capacity, 0).sum(axis=0) / number, 1.0)
        self._closed = closed.copy()
        self.free_gpus = gpus.copy()
        self._used = np.zeros_like(capacity)
        self.demand = units.demand.copy()
        self.host = np.full(len(units.gpus), NOWHERE, dtype=np.int64)
        self.dropped = np.zeros(len(units.gpus), dtype=np.bool_)
        at_home = np.flatnonzero(units.home != NOWHERE)
        for unit in at_home[~closed[units.home[at_home]]].tolist():
            home = int(units.home[unit])
            if self.free_gpus[home] >= units.gpus[unit]:  # a gang may have come there since
                self.assign(unit, home)
        self._assign_remaining()

    def reopen(self, hosts: Ints) -> None:
        """Open closed hosts again: their units return, others may follow."""
        self._closed[hosts] = False
        for unit in np.flatnonzero(np.isin(self.units.home, hosts)).tolist():
            self.unassign(unit)
            self.assign(unit, int(self.units.home[unit]))
        self._assign_remaining()

    def unassigned(self) -> NDArray[np.bool_]:
        """Return which units need a host and have none, bool (units,)."""
        homeless: NDArray[np.bool_] = (self.host == NOWHERE) & self.units.has_running
        return homeless

    def excess(self) -> Floats:
        """Return the excess of all hosts (hosts,)."""
        return self.excess_with(slice(None), np.zeros_like(self.capacity[0]))

    def excess_with(self, hosts: Ints | int | slice, more: Ints) -> Floats:
        """Return the excess of hosts with a further demand `more`."""
        over = self._used[hosts] + more - self.capacity[hosts]
        excess: Floats = (over.clip(min=0) / self._scale).sum(axis=-1)
        return excess

    def eligible_hosts(self, unit: int) -> NDArray[np.bool_]:
        """Return the hosts (hosts,) that a unit may be on."""
        may: NDArray[np.bool_] = self.units.allowed[self.units.host_set[unit]] & ~self._closed
        return may

    def move_cost(self, units: Ints, hosts: Ints | int) -> Ints:
        """Return the cost (units,) of units on these hosts: 0 at home."""
        cost: Ints = self.units.move_cost[units] * (self.units.home[units] != hosts)
        return cost

    def drop_waiting_of(self, unit: int) -> None:
        """Drop the pending jobs of a unit; it keeps its host if some of its jobs run."""
        host = int(self.host[unit])
        self.unassign(unit)
        self.dropped[unit] = True
        self.demand[unit] = self.units.running_demand[unit]
        if self.units.has_running[unit]:
            self.assign(unit, host)

    def assign(self, unit: int, host: int) -> None:
        """Assign a unit to a host with enough free GPUs."""
        self.host[unit] = host
        self._used[host] += self.demand[unit]
        self.free_gpus[host] -= self.units.gpus[unit]

    def unassign(self, unit: int) -> None:
        """Take a unit off its host, if it has one."""
        host = int(self.host[unit])
        if host != NOWHERE:
            self.host[unit] = NOWHERE
            self._used[host] -= self.demand[unit]
            self.free_gpus[host] += self.units.gpus[unit]

    def _assign_remaining(self) -> None:
        """Assign the other units: running first, then large, then those of few allowed hosts."""
        units = self.units
        weight = (self.demand / self._scale).max(axis=1)
        choice = units.allowed.sum(axis=1)[units.host_set]
        waiting = np.flatnonzero((self.host == NOWHERE) & (units.has_running | ~self.dropped))
        keys = (-weight, choice, -units.gpus, ~units.has_running)
        order = np.lexsort([key[waiting] for key in keys])
        for unit in waiting[order].tolist():
            host = self._worst_fit(unit)
            if host == NOWHERE:
                host = self._eject(unit)
            if host != NOWHERE:
                self.assign(unit, host)

    def _worst_fit(self, unit: int) -> int:
        """Return the host with enough GPUs and most left of the scarcest resource, or NOWHERE."""
        units = self.units
        fits = np.flatnonzero(self.eligible_hosts(unit) & (self.free_gpus >= units.gpus[unit]))
        if not len(fits):
            return NOWHERE
        left = (self.capacity[fits] - self._used[fits] - self.demand[unit]) / self._scale
        return int(fits[(left.min(axis=1) / np.maximum(self.free_gpus[fits], 1)).argmax()])

    def _eject(self, unit: int) -> int:
        """One-step ejection: move the cheapest unit that fits elsewhere; return its former host."""
        units = self.units
        enough = self.free_gpus >= units.gpus[unit]
        elsewhere = (units.allowed & enough & ~self._closed).any(axis=1)
        others = (
            (self.host != NOWHERE) & (units.gpus == units.gpus[unit]) & elsewhere[units.host_set]
        )
        other = np.flatnonzero(others)
        other = other[self.eligible_hosts(unit)[self.host[other]]]
        if not len(other):
            return NOWHERE
        leaving = int(other[self.move_cost(other, NOWHERE).argmin()])
        host = int(self.host[leaving])
        to = self._worst_fit(leaving)
        self.unassign(leaving)
        self.assign(leaving, to)
        return host


# Swap neighbourhood: local search that reduces the excess of an assignment of units to hosts.
#
# A unit on an overcommitted host is swapped with a lighter one of as many GPUs on another host,
# or is shifted to free GPUs. Where neither helps, pending jobs are dropped. Excess: see
# `HostAssignment`.


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
