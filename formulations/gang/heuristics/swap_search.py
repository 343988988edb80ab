"""Local search by exchanges: bundles are assigned by GPUs, then excess demand is reduced.

No host holds more bundles than it has GPUs, but for a while more than it has CPUs or memory: a
heavy bundle there changes hosts with a light one. The excess of a host is its demand beyond its
capacity, each resource relative to the mean capacity of hosts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.session import Session

NOWHERE = -1
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False, slots=True)
class Units:
    """What is to be placed.

    Attributes
    ----------
    gpus : int64 (units,)
    demand : int64 (units, resources)
    home : int64 (units,)
        The host where a unit is before the round, NOWHERE if it is new.
    move_cost : int64 (units,)
        What it costs that the unit is not at home.
    value : int64 (units,)
        What is lost if those in it that wait are given up.
    running_demand : int64 (units, resources)
        The demand of those in it that run.
    has_running : bool (units,)
        Whether some in it run, so that it needs a host.
    allowed : bool (host sets, hosts)
        Where units may be.
    host_set : int64 (units,)
        The row of `allowed` that holds.
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
    """Which unit is on which host.

    Attributes
    ----------
    host : int64 (units,)
        NOWHERE where no host has the GPUs, or all in the unit are given up.
    dropped : bool (units,)
        Units of which those that wait are given up.

    Parameters
    ----------
    capacity : int64 (hosts, resources)
        What units may take of each host besides GPUs.
    gpus : int64 (hosts,)
        Whole GPUs that units may take.
    closed : bool (hosts,)
        Hosts to be left empty.
    """

    def __init__(self, units: Units, capacity: Ints, gpus: Ints, closed: NDArray[np.bool_]) -> None:
        self.units = units
        self._capacity = capacity
        self._scale = np.maximum(capacity.mean(axis=0), 1.0)
        self._closed = closed.copy()
        self._gpus = gpus.copy()
        self._used = np.zeros_like(capacity)
        self._demand = units.demand.copy()
        self.host = np.full(len(units.gpus), NOWHERE, dtype=np.int64)
        self.dropped = np.zeros(len(units.gpus), dtype=np.bool_)
        at_home = np.flatnonzero(units.home != NOWHERE)
        for unit in at_home[~closed[units.home[at_home]]].tolist():
            home = int(units.home[unit])
            if self._gpus[home] >= units.gpus[unit]:  # a gang may have come there since
                self._assign(unit, home)
        self._assign_remaining()

    def reopen(self, hosts: Ints) -> None:
        """Let the units come back that were on these closed hosts, and others."""
        self._closed[hosts] = False
        for unit in np.flatnonzero(np.isin(self.units.home, hosts)).tolist():
            self._unassign(unit)
            self._assign(unit, int(self.units.home[unit]))
        self._assign_remaining()

    def reduce_excess(self, session: Session) -> bool:
        """Swap until no host lacks anything; return whether that was reached in time."""
        stuck = np.zeros(len(self._gpus), dtype=np.bool_)
        while not session.expired():
            excess = np.where(stuck, 0.0, self._excess())
            worst = int(excess.argmax())
            if excess[worst] <= TOLERANCE:
                return not stuck.any() and not self._unassigned().any()
            if self._best_exchange(worst):
                stuck[:] = False
            else:
                stuck[worst] = True
        return False

    def drop_waiting(self) -> bool:
        """Give up the waiting jobs that are worth least for what that helps; False if none does."""
        unassigned = np.flatnonzero(self._unassigned())
        if len(unassigned):
            return self._free_host_for(int(unassigned[0]))
        excess = self._excess()
        return any(
            self._drop_to_relieve(host)
            for host in np.argsort(-excess, kind="stable").tolist()
            if excess[host] > TOLERANCE
        )

    def drop_excess(self) -> None:
        """Take off units, without a swap, until no host lacks anything.

        Of a host that does, those that wait are given up first, the least worth for what it helps;
        then units leave that are not at home, and last any.
        """
        for host in np.flatnonzero(self._excess() > TOLERANCE).tolist():
            here = np.flatnonzero(self.host == host)
            while (
                len(here) and self._excess_with(host, np.zeros_like(self._capacity[0])) > TOLERANCE
            ):
                self._drop_from(host, here)
                here = here[self.host[here] == host]

    def _drop_from(self, host: int, here: Ints) -> None:
        """Give up the jobs of a unit that wait, if that helps the host; else lift a unit."""
        units = self.units
        waits = (units.value[here] > 0) & ~self.dropped[here]
        less = np.where(waits[:, None], self._demand[here] - units.running_demand[here], 0)
        before = self._excess_with(host, np.zeros_like(less))
        helps = before - self._excess_with(host, -less)
        if (helps > TOLERANCE).any():
            self._drop_waiting_of(int(here[(helps / np.maximum(units.value[here], 1)).argmax()]))
        else:
            helps = before - self._excess_with(host, -self._demand[here])
            self._unassign(int(here[np.lexsort((-helps, units.home[here] == host))[0]]))

    def _unassigned(self) -> NDArray[np.bool_]:
        """Return which units have no host that need one."""
        unseated: NDArray[np.bool_] = (self.host == NOWHERE) & self.units.has_running
        return unseated

    def _free_host_for(self, unit: int) -> bool:
        """Seat a unit where one is that waits."""
        units = self.units
        others = np.flatnonzero(
            (self.host != NOWHERE) & ~units.has_running & (units.gpus == units.gpus[unit])
        )
        others = others[self._eligible_hosts(unit)[self.host[others]]]
        if not len(others):
            return False
        other = int(others[units.value[others].argmin()])
        host = int(self.host[other])
        self._drop_waiting_of(other)
        self._assign(unit, host)
        return True

    def _drop_to_relieve(self, host: int) -> bool:
        """Give up a unit here, or one elsewhere whose GPUs another from here then takes."""
        units = self.units
        unit, other, to = self._neighbourhood(host)
        elsewhere = (other != NOWHERE) & ~units.has_running[other]
        unit, other, to = unit[elsewhere], other[elsewhere], to[elsewhere]
        here = np.flatnonzero((self.host == host) & (units.value > 0) & ~self.dropped)
        demand = self._demand
        excess = self._excess()
        less = demand[here] - units.running_demand[here]
        change = np.concatenate(
            [
                self._excess_with(host, -less) - excess[host],
                self._excess_with(host, -demand[unit])
                + self._excess_with(to, demand[unit] - demand[other])
                - excess[host]
                - excess[to],
            ]
        )
        given = np.concatenate([here, other])
        ratio = change / np.maximum(units.value[given], 1)
        if not len(ratio) or ratio.min() >= -TOLERANCE / max(int(units.value.max()), 1):
            return False
        best = int(ratio.argmin())
        self._drop_waiting_of(int(given[best]))
        if best >= len(here):
            leaving, target = int(unit[best - len(here)]), int(to[best - len(here)])
            self._unassign(leaving)
            self._assign(leaving, target)
        return True

    def _drop_waiting_of(self, unit: int) -> None:
        """Give up those of a unit that wait."""
        host = int(self.host[unit])
        self._unassign(unit)
        self.dropped[unit] = True
        self._demand[unit] = self.units.running_demand[unit]
        if self.units.has_running[unit]:
            self._assign(unit, host)

    def _assign_remaining(self) -> None:
        """Give units without a host one with enough GPUs: who runs, is large, is choosy first."""
        units = self.units
        weight = (self._demand / self._scale).max(axis=1)
        choice = units.allowed.sum(axis=1)[units.host_set]
        waiting = np.flatnonzero((self.host == NOWHERE) & (units.has_running | ~self.dropped))
        keys = (-weight, choice, -units.gpus, ~units.has_running)
        order = np.lexsort([key[waiting] for key in keys])
        for unit in waiting[order].tolist():
            host = self._worst_fit(unit)
            if host == NOWHERE:
                host = self._eject(unit)
            if host != NOWHERE:
                self._assign(unit, host)

    def _worst_fit(self, unit: int) -> int:
        """Return the host with enough GPUs that has most besides for each of them, or NOWHERE."""
        units = self.units
        fits = np.flatnonzero(self._eligible_hosts(unit) & (self._gpus >= units.gpus[unit]))
        if not len(fits):
            return NOWHERE
        left = (self._capacity[fits] - self._used[fits] - self._demand[unit]) / self._scale
        return int(fits[(left.min(axis=1) / np.maximum(self._gpus[fits], 1)).argmax()])

    def _eject(self, unit: int) -> int:
        """Move the cheapest unit that has room elsewhere out of the way; return where it was."""
        units = self.units
        roomy = self._gpus >= units.gpus[unit]
        elsewhere = (units.allowed & roomy & ~self._closed).any(axis=1)
        others = (
            (self.host != NOWHERE) & (units.gpus == units.gpus[unit]) & elsewhere[units.host_set]
        )
        other = np.flatnonzero(others)
        other = other[self._eligible_hosts(unit)[self.host[other]]]
        if not len(other):
            return NOWHERE
        leaving = int(other[self._move_cost(other, NOWHERE).argmin()])
        host = int(self.host[leaving])
        to = self._worst_fit(leaving)
        self._unassign(leaving)
        self._assign(leaving, to)
        return host

    def _eligible_hosts(self, unit: int) -> NDArray[np.bool_]:
        """Return which hosts a unit may be on."""
        may: NDArray[np.bool_] = self.units.allowed[self.units.host_set[unit]] & ~self._closed
        return may

    def _best_exchange(self, host: int) -> bool:
        """Lower the excess in all by one unit that leaves this host, for another or for none."""
        unit, other, to = self._neighbourhood(host)
        demand = np.vstack([self._demand, np.zeros_like(self._capacity[:1])])
        moved = demand[unit] - demand[other]
        excess = self._excess()
        change = (
            self._excess_with(host, -moved)
            + self._excess_with(to, moved)
            - excess[host]
            - excess[to]
        )
        best = float(change.min(initial=0.0))
        if best >= -TOLERANCE:
            return False
        good = np.flatnonzero(change <= parameters.PARAMETERS.packing.near_best_rel * best)
        cost = self._move_cost(unit[good], to[good]) - self._move_cost(unit[good], host)
        swap = other[good] != NOWHERE
        cost[swap] += self._move_cost(other[good][swap], host)
        cost[swap] -= self._move_cost(other[good][swap], to[good][swap])
        at = good[cost.argmin()]
        leaving, coming, target = int(unit[at]), int(other[at]), int(to[at])
        self._unassign(leaving)
        if coming != NOWHERE:
            self._unassign(coming)
            self._assign(coming, host)
        self._assign(leaving, target)
        return True

    def _neighbourhood(self, host: int) -> tuple[Ints, Ints, Ints]:
        """Return who might leave a host, for whom (NOWHERE: for nobody), and to which host."""
        units, parts = self.units, []
        assigned = np.flatnonzero((self.host != host) & (self.host != NOWHERE))
        for unit in np.flatnonzero(self.host == host).tolist():
            gpus, may = units.gpus[unit], self._eligible_hosts(unit)
            to = np.flatnonzero(may & (self._gpus >= gpus))
            to = to[to != host]
            others = assigned[(units.gpus[assigned] == gpus) & may[self.host[assigned]]]
            others = others[units.allowed[units.host_set[others], host]]
            other = np.concatenate([others, np.full(len(to), NOWHERE, dtype=np.int64)])
            to = np.concatenate([self.host[others], to])
            parts.append(np.stack([np.full(len(to), unit, dtype=np.int64), other, to]))
        unit, other, to = np.concatenate(parts, axis=1)
        return unit, other, to

    def _move_cost(self, units: Ints, hosts: Ints | int) -> Ints:
        """Return what it costs that units are on these hosts."""
        cost: Ints = self.units.move_cost[units] * (self.units.home[units] != hosts)
        return cost

    def _excess(self) -> Floats:
        return self._excess_with(slice(None), np.zeros_like(self._capacity[0]))

    def _excess_with(self, hosts: Ints | int | slice, more: Ints) -> Floats:
        """Return the excess of hosts if they held `more` besides."""
        over = self._used[hosts] + more - self._capacity[hosts]
        lacks: Floats = (over.clip(min=0) / self._scale).sum(axis=-1)
        return lacks

    def _assign(self, unit: int, host: int) -> None:
        self.host[unit] = host
        self._used[host] += self._demand[unit]
        self._gpus[host] -= self.units.gpus[unit]

    def _unassign(self, unit: int) -> None:
        host = int(self.host[unit])
        if host != NOWHERE:
            self.host[unit] = NOWHERE
            self._used[host] -= self._demand[unit]
            self._gpus[host] += self.units.gpus[unit]
