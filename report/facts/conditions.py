"""Conditions of hosts and GPUs: where nothing may arrive, and why."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from placewright.array_types import Ints
from placewright.instances.derived.ranges import expand

if TYPE_CHECKING:
    from placewright.instances.documents.round import Round
    from placewright.topology import Cluster


class Condition(IntEnum):
    """Why nothing may arrive; of several conditions the last one is shown."""

    AVAILABLE = 0
    RESERVED = 1
    TO_VACATE = 2
    AWAY = 3
    UNHEALTHY = 4

    @property
    def word(self) -> str:
        """The condition in a text: `to vacate`."""
        return self.name.lower().replace("_", " ")


def conditions_of(round_: Round, cluster: Cluster) -> tuple[Ints, Ints]:
    """Return the condition of each host (hosts,) and of each GPU (gpus,).

    A host is reserved if all of it is; else its reserved GPUs are.
    """
    host = np.full(cluster.num_hosts, Condition.AVAILABLE, dtype=np.int64)
    gpu = np.full(cluster.num_gpus, Condition.AVAILABLE, dtype=np.int64)

    def mark(condition: Condition, hosts: list[str]) -> None:
        host[[cluster.host_index[name] for name in hosts]] = condition

    for reservation in round_.reservations:
        if reservation.gpus is None:
            mark(Condition.RESERVED, expand(reservation.host))
            continue
        for name in expand(reservation.host):
            start = cluster.gpu_start[cluster.host_index[name]]
            gpu[start + np.array(reservation.gpus)] = Condition.RESERVED
    for vacated in round_.policy.vacate:
        mark(Condition.TO_VACATE, expand(vacated))
    for outage in round_.maintenance:
        if (outage.start or 0) <= round_.now and (outage.end is None or round_.now < outage.end):
            mark(Condition.AWAY, expand(outage.host))
    for outage in round_.leases.outages:
        first, end = round_.leases.overlapped(outage, round_.now)
        if first == 0 < end:
            mark(Condition.AWAY, expand(outage.host))
    for entry in round_.cluster.hosts:
        if not entry.healthy:
            mark(Condition.UNHEALTHY, expand(entry.name))
    return host, np.maximum(gpu, np.repeat(host, cluster.gpu_count))
