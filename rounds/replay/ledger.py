"""Free GPUs by host: first fit and best fit by bit sets, one per number of free GPUs.

A place is a tuple of (host, GPUs on it). Which GPUs of a host a job holds makes no difference to a
replay, so they are counted; the ledger refuses to give out more than a host has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from placewright.rounds.errors import InternalError

Place: TypeAlias = tuple[tuple[int, int], ...]
Placer: TypeAlias = Literal["first-fit", "best-fit", "counting"]
Places: TypeAlias = Literal["free", "kept"]
"""Whether running jobs may be placed anew at every decision, or stay where they are."""


class HostLedger:
    """What is free on hosts.

    Parameters
    ----------
    sizes
        GPUs of each host, 1 or more.
    placer
        `first-fit`: the first host with room. `best-fit`: the host with the fewest free GPUs that
        has room, the first of these. `counting`: all GPUs are on one host.

    Notes
    -----
    A job that is larger than the largest host takes as many wholly free hosts of that size as it
    fills, and the rest on one other host.
    """

    def __init__(self, sizes: Sequence[int], placer: Placer = "first-fit") -> None:
        self.placer = placer
        self.sizes = [sum(sizes)] if placer == "counting" else list(sizes)
        self.total = sum(sizes)
        self.closed: set[int] = set()
        self.largest = max(self.sizes)
        self.clear()

    def clear(self) -> None:
        """Release everything on hosts that are open."""
        self.free = [0 if h in self.closed else size for h, size in enumerate(self.sizes)]
        self.free_total = sum(self.free)
        self._by_free = [0] * (self.largest + 1)
        if self.placer != "counting":
            for host, free in enumerate(self.free):
                if host not in self.closed:
                    self._by_free[free] |= 1 << host

    @property
    def open_total(self) -> int:
        """GPUs of all hosts in use."""
        return self.total - sum(self.sizes[host] for host in self.closed)

    def find(self, gpus: int) -> Place | None:
        """Return where a job of so many GPUs fits, None if it does not."""
        if gpus > self.free_total:
            return None
        if self.placer == "counting":
            return ((0, gpus),)
        if gpus <= self.largest:
            host = self._host(gpus, 0)
            return None if host is None else ((host, gpus),)
        whole, rest = divmod(gpus, self.largest)
        idle, taken, place = self._by_free[self.largest], 0, []
        for _ in range(whole):
            if not idle:
                return None
            bit = idle & -idle
            idle ^= bit
            taken |= bit
            place.append((bit.bit_length() - 1, self.largest))
        if rest:
            host = self._host(rest, taken)
            if host is None:
                return None
            place.append((host, rest))
        return tuple(place)

    def take(self, place: Place) -> None:
        """Take the GPUs of a place."""
        for host, gpus in place:
            self._set(host, self.free[host] - gpus)

    def release(self, place: Place) -> None:
        """Release the GPUs of a place; those of a closed host stay away."""
        for host, gpus in place:
            if host not in self.closed:
                self._set(host, self.free[host] + gpus)

    def close(self, host: int) -> None:
        """Take a host out of use; the jobs on it must have been stopped."""
        if host not in self.closed:
            free = self.free[host]
            if free != self.sizes[host]:
                raise InternalError(f"host {host} is closed while jobs run on it")
            self._set(host, 0)
            self._by_free[0] &= ~(1 << host)
            self.closed.add(host)

    def open(self, host: int) -> None:
        """Take a host into use again."""
        if host in self.closed:
            self.closed.remove(host)
            self._set(host, self.sizes[host])

    def _set(self, host: int, free: int) -> None:
        if not 0 <= free <= self.sizes[host]:
            raise InternalError(f"host {host} has {self.sizes[host]} GPUs; {free} would be free")
        self.free_total += free - self.free[host]
        if self.placer != "counting":
            bit = 1 << host
            self._by_free[self.free[host]] &= ~bit
            self._by_free[free] |= bit
        self.free[host] = free

    def _host(self, gpus: int, without: int) -> int | None:
        if self.placer == "best-fit":
            for hosts in self._by_free[gpus:]:
                if able := hosts & ~without:
                    return (able & -able).bit_length() - 1
            return None
        able = 0
        for hosts in self._by_free[gpus:]:
            able |= hosts
        able &= ~without
        return (able & -able).bit_length() - 1 if able else None
