"""A round of regions while a rule decides it: who runs where, and what is left for others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

import numpy as np

from benchmarks.region_hosts import Hosts, Need, Placed
from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import Wan
from placewright.instances.documents.job import Job

__all__ = ["Deciding", "Holding", "Site", "prepared"]

Site: TypeAlias = tuple[int, int]
"""Region and GPU model."""


@dataclass(slots=True)
class Holding:
    """What a job holds."""

    option: int
    region: int
    placed: Placed
    value: int


@dataclass(slots=True)
class Deciding:
    """A round while a rule decides it.

    Attributes
    ----------
    holds : Bools
        (datasets, regions): where data can be read now.
    may : Bools
        (jobs, regions): where a job may run with its data as it is now.
    remote : Ints
        (jobs, regions): GiB that it would read from elsewhere.
    price : Ints
        (regions, models): micro-dollars per GPU-hour.
    movable
        Running jobs that may be preempted, by site: (value per milli-GPU, priority, job), sorted.
    lowest
        The lowest priority of a running job.
    """

    wan: Wan
    hosts: Hosts
    holds: Bools
    may: Bools
    remote: Ints
    price: Ints
    running: dict[int, Holding]
    movable: Mapping[Site, Sequence[tuple[float, int, int]]]
    lowest: float
    started: dict[int, Holding] = field(default_factory=dict)
    preempted: dict[int, int] = field(default_factory=dict)

    @property
    def jobs(self) -> Sequence[Job]:
        """Those of the round."""
        return self.wan.round.jobs

    def sites(self, job: int, option: int, regions: Iterable[int]) -> list[Site]:
        """Return the regions, in this order, with each model that the option may have."""
        allowed = [group.gpu_models for group in self.jobs[job].options[option].groups]
        models = [
            m
            for m, name in enumerate(self.wan.models)
            if all(names is None or name in names for names in allowed)
        ]
        return [(r, m) for r in regions for m in models if self.wan.supply[r, m]]

    def start(self, job: int, option: int, site: Site, need: Need) -> bool:
        """Start a job at a site if it fits there, within quotas."""
        document = self.jobs[job]
        asked = document.options[option].milli_gpu
        if not self.hosts.quotas.admits(document.tenant, site[0], asked):
            return False
        placed = self.hosts.take(need, *site, document.priority)
        if placed is None:
            return False
        self.hosts.quotas.add(document.tenant, site[0], asked)
        self.started[job] = Holding(option, site[0], placed, document.value_of(option))
        return True

    def stop(self, job: int) -> None:
        """Take back what a job that runs or has started holds."""
        holding = self.running.pop(job, None) or self.started.pop(job)
        self.hosts.give(holding.placed)
        asked = self.jobs[job].options[holding.option].milli_gpu
        self.hosts.quotas.add(self.jobs[job].tenant, holding.region, -asked)

    def region_before(self, job: int) -> int:
        """Return the region in which a job ran before the round."""
        running = self.jobs[job].running
        if running is None:
            raise ValueError(f"job {self.jobs[job].name!r} is pending; expected a running one")
        return int(self.hosts.region[self.hosts.cluster.host_index[running.tasks[0].host]])


def prepared(wan: Wan) -> Deciding:
    """Return the round before anybody starts."""
    round_, hosts = wan.round, Hosts(wan)
    holds = wan.holds | (wan.arriving & (wan.ready <= round_.now))
    linked = np.array(
        [(holds[d][:, None] & wan.links_of(d)).any(axis=0) for d in range(len(holds))]
    )
    local = holds[wan.read_dataset]
    reach = local | (wan.read_remote[:, None] & linked.reshape(holds.shape)[wan.read_dataset])
    may = wan.may_run.copy()
    remote = np.zeros(may.shape, dtype=np.int64)
    np.logical_and.at(may, wan.read_job, reach)
    np.add.at(remote, wan.read_job, np.where(local, 0, wan.read_gib[:, None]))
    price = np.zeros((len(wan.regions), len(wan.models)), dtype=np.int64)
    index = {name: r for r, name in enumerate(wan.regions)}
    for region in round_.geo.regions:
        for m, model in enumerate(wan.models):
            price[index[region.name], m] = region.prices.get(model, 0)
    running = {}
    for j, job in enumerate(round_.jobs):
        if job.running is None:
            continue
        placed = [(t.group, hosts.cluster.host_index[t.host], t.gpus) for t in job.running.tasks]
        region = hosts.region[placed[0][1]]
        running[j] = Holding(job.running.option, region, placed, job.value_of(job.running.option))
        hosts.quotas.add(job.tenant, region, job.options[job.running.option].milli_gpu)
    movable = _movable(round_.jobs, hosts, running)
    lowest = min((round_.jobs[j].priority for j in running), default=inf)
    return Deciding(wan, hosts, holds, may, remote, price, running, movable, lowest)


def _movable(
    jobs: Sequence[Job], hosts: Hosts, running: Mapping[int, Holding]
) -> dict[Site, list[tuple[float, int, int]]]:
    """Return the running jobs that may stop, by the region and model that they are on."""
    found: dict[Site, list[tuple[float, int, int]]] = {}
    for j, holding in running.items():
        models = {hosts.model[host] for _, host, _ in holding.placed}
        document = jobs[j].running
        if document is None or document.pinned or len(models) > 1:
            continue
        worth = holding.value / jobs[j].options[holding.option].milli_gpu
        entry = worth, jobs[j].priority, j
        found.setdefault((holding.region, models.pop()), []).append(entry)
    return {site: sorted(entries) for site, entries in found.items()}
