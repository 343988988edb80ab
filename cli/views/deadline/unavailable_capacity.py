"""Unavailable capacity: GPUs on unhealthy hosts and in outages, by lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from placewright.array_types import Ints
from placewright.instances.derived.hardware import hardware
from placewright.instances.derived.ranges import expand
from placewright.topology.units import WHOLE_GPU

if TYPE_CHECKING:
    from placewright.instances.documents.round import Round


def unavailable_capacity(round_: Round) -> tuple[int, Ints]:
    """Return the milli-GPU of all hosts, and of the unavailable ones in each lease (horizon,)."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for outage in round_.leases.outages:
        for name in expand(outage.host):
            spans.setdefault(name, []).append(round_.leases.overlapped(outage, round_.now))
    total = 0
    change = np.zeros(round_.leases.horizon + 1, dtype=np.int64)
    for entry in round_.cluster.hosts:
        milli, names = WHOLE_GPU * hardware(entry).gpus, expand(entry.name)
        total += milli * len(names)
        if not entry.healthy:
            change[0] += milli * len(names)
            continue
        for name in names:
            done = 0
            for first, end in sorted(spans.get(name, ())):
                if end > done:
                    change[max(first, done)] += milli
                    change[end] -= milli
                    done = end
    return total, change[:-1].cumsum()
