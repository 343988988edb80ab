"""Outages: the hosts that cannot be used in the current lease."""

from __future__ import annotations

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.leases import Leases


def unavailable_hosts(leases: Leases, now: int) -> frozenset[str]:
    """Return the hosts with an outage in the current lease, which no task may use."""
    return frozenset(
        host
        for outage in leases.outages
        if leases.overlapped(outage, now)[0] == 0 < leases.overlapped(outage, now)[1]
        for host in expand(outage.host)
    )
