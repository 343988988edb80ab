"""Best-fit placement of running jobs on the hosts of their region."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from placewright.instances.documents.plan import Task
from placewright.instances.generators.geo.supply import HOST_GPUS, Rack


class Hosting:
    """Hosts by how many GPUs are free, per region and model; whole ones per datacenter.

    A job takes the fullest host that it fits, or whole hosts of one datacenter.
    """

    def __init__(self, layout: Sequence[Rack]) -> None:
        self._free: dict[tuple[int, int], list[list[str]]] = defaultdict(
            lambda: [[] for _ in range(HOST_GPUS)]
        )
        self._whole: dict[tuple[int, int], dict[int, list[str]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for rack in reversed(layout):
            whole = self._whole[rack.region, rack.model][rack.datacenter]
            whole.extend(f"{rack.name}-h{slot}" for slot in reversed(range(rack.hosts)))

    def place(self, region: int, model: int, gpus: int) -> tuple[Task, ...]:
        """Place a running job and return its tasks; none if it does not fit."""
        if gpus <= HOST_GPUS:
            return self._one(region, model, gpus)
        hosts = gpus // HOST_GPUS
        for whole in self._whole[region, model].values():
            if len(whole) >= hosts:
                taken = [whole.pop() for _ in range(hosts)]
                every = tuple(range(HOST_GPUS))
                return tuple(Task(index=i, host=host, gpus=every) for i, host in enumerate(taken))
        return ()

    def _one(self, region: int, model: int, gpus: int) -> tuple[Task, ...]:
        partly = self._free[region, model]
        for free in range(gpus, HOST_GPUS):
            if partly[free]:
                return (self._take(partly, partly[free].pop(), free, gpus),)
        for whole in self._whole[region, model].values():
            if whole:
                return (self._take(partly, whole.pop(), HOST_GPUS, gpus),)
        return ()

    @staticmethod
    def _take(partly: list[list[str]], host: str, free: int, gpus: int) -> Task:
        if free > gpus:
            partly[free - gpus].append(host)
        first = HOST_GPUS - free
        return Task(host=host, gpus=tuple(range(first, first + gpus)))
