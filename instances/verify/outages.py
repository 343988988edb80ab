"""Outages, as the rules about places and promises read them."""

from __future__ import annotations

from placewright.instances.derived.ranges import expand
from placewright.instances.verify.reading import Reading


def unavailable_hosts(reading: Reading) -> frozenset[str]:
    """Return the hosts with an outage that overlaps the current lease."""
    leases, now = reading.round.leases, reading.round.now
    return frozenset(
        host
        for outage in leases.outages
        if (outage.start is None or outage.start < now + leases.length_s)
        and (outage.end is None or outage.end > now)
        for host in expand(outage.host)
    )
