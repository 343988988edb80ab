"""Assignment of units to hosts by GPUs (worst fit); other resources may be overcommitted.

The excess of a host is its demand beyond its capacity, each resource relative to the mean capacity
of hosts that have a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.topology.units import UNLIMITED

NOWHERE = -1


@dataclass(frozen=True, eq=False, slots=True)
class Units:
    """The units to be placed: bundles of jobs (`bundles.py`).

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
