"""Regions, links, datasets and reads of a round as arrays, and which copies are possible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

NONE = -1
UNLIMITED = 2**50
"""Storage of a region without a limit, in GiB."""


@dataclass(frozen=True, slots=True, eq=False)
class Wan:
    """Arrays of the regions and the data of a round.

    Regions are numbered in the order of the cluster's domains of their level, GPU models in that of
    the cluster, datasets and jobs in that of the round.
    """

    round: Round
    cluster: Cluster  # The cluster of all regions
    # regions, models, datasets: Names.
    regions: tuple[str, ...]
    models: tuple[str, ...]
    datasets: tuple[str, ...]
    host_region: Ints  # (hosts,): the region of each host
    supply: Ints  # (regions, models): milli-GPU of healthy hosts that are not reserved
    storage: Ints  # (regions,): capacity in GiB, `UNLIMITED` without a limit
    # bandwidth, budget, egress: (regions, regions), from the first to the second: Mbit/s, GiB of
    # copies in the window, and micro-dollars per GiB; 0 without a link.
    bandwidth: Ints
    budget: Ints
    egress: Ints
    size: Ints  # (datasets,): GiB
    # holds, arriving: (datasets, regions): where a replica is, and where a copy in progress will
    # create one.
    holds: Bools
    arriving: Bools
    ready: Ints  # (datasets, regions): when a copy in progress is complete, NONE elsewhere
    may_hold: Bools  # (datasets, regions): where residency allows a replica
    demand: Ints  # (jobs,): milli-GPU of the first option
    may_use: Bools  # (jobs, models): the models that all tasks of the first option may use
    # (jobs, regions): where the regions of the job and the residency of its data allow it.
    may_run: Bools
    # read_job, read_dataset, read_gib: (reads,): job, dataset and GiB of each read, sorted by job.
    read_job: Ints
    read_dataset: Ints
    read_gib: Ints
    read_remote: Bools  # (reads,): whether the read may be over a link

    def links_of(self, dataset: int) -> Bools:
        """Return the links that may carry a dataset, for reads and copies (regions, regions)."""
        may: Bools = self.may_hold[dataset]
        return (self.bandwidth > 0) & may[:, None] & may[None, :]

    def complete(self) -> Bools:
        """Return where a replica is complete now (datasets, regions)."""
        return self.holds | (self.arriving & (self.ready <= self.round.now))


def compile_wan(round_: Round) -> Wan:
    """Return the arrays of a round of policy `geo` or `replicas`."""
    cluster, geo = build_cluster(round_.cluster), round_.geo
    level = cluster.levels.index(geo.level)
    regions, host_region = cluster.names[level], cluster.domain[level].astype(np.int64)
    index = {name: r for r, name in enumerate(regions)}
    data = {dataset.name: d for d, dataset in enumerate(geo.datasets)}
    count, links = len(regions), np.zeros((3, len(regions), len(regions)), dtype=np.int64)
    for link in geo.links:
        links[:, index[link.source], index[link.target]] = (
            link.bandwidth,
            geo.budget(link),
            link.egress,
        )
    storage = np.full(count, UNLIMITED, dtype=np.int64)
    for region in geo.regions:
        if region.storage is not None:
            storage[index[region.name]] = region.storage
    ready = np.full((len(data), count), NONE, dtype=np.int64)
    for copy in geo.copying:
        ready[data[copy.dataset], index[copy.region]] = copy.ready
    may_hold = _named_regions((dataset.regions for dataset in geo.datasets), index)
    may_run = _named_regions((job.regions for job in round_.jobs), index)
    reads = [(j, read) for j, job in enumerate(round_.jobs) for read in job.reads]
    read_job = np.array([j for j, _ in reads], dtype=np.int64)
    read_dataset = np.array([data[read.dataset] for _, read in reads], dtype=np.int64)
    readers, first = np.unique(read_job, return_index=True)
    may_run[readers] &= np.logical_and.reduceat(may_hold[read_dataset], first)
    # Jobs share options, so few are looked at.
    options = {id(job.options[0]): job.options[0] for job in round_.jobs}
    number = {option: n for n, option in enumerate(options)}
    option_of_job = np.array([number[id(job.options[0])] for job in round_.jobs], dtype=np.int64)
    demand = np.array([option.milli_gpu for option in options.values()], dtype=np.int64)
    return Wan(
        round=round_,
        cluster=cluster,
        regions=regions,
        models=cluster.gpu_models,
        datasets=tuple(data),
        host_region=host_region,
        supply=_supply(round_, cluster, host_region, count),
        storage=storage,
        bandwidth=links[0],
        budget=links[1],
        egress=links[2],
        size=np.array([dataset.size for dataset in geo.datasets], dtype=np.int64),
        holds=_named_regions((dataset.replicas for dataset in geo.datasets), index),
        arriving=ready != NONE,
        ready=ready,
        may_hold=may_hold,
        demand=demand[option_of_job],
        may_use=_allowed_models(options.values(), cluster.gpu_models)[option_of_job],
        may_run=may_run,
        read_job=read_job,
        read_dataset=read_dataset,
        read_gib=np.array([read.gib for _, read in reads], dtype=np.int64),
        read_remote=np.array([read.remote for _, read in reads], dtype=np.bool_),
    )


def _named_regions(lists: Iterable[tuple[str, ...] | None], index: Mapping[str, int]) -> Bools:
    """Return the regions that each list names (lists, regions); None names all."""
    number: dict[tuple[str, ...] | None, int] = {}
    row = np.array([number.setdefault(names, len(number)) for names in lists], dtype=np.int64)
    named = [[names is None or name in names for name in index] for names in number]
    return np.array(named, dtype=np.bool_).reshape(len(named), len(index))[row]


def _allowed_models(options: Iterable[Option], models: tuple[str, ...]) -> Bools:
    """Return the models that all groups of each option may use (options, models)."""
    named = [[group.gpu_models for group in option.groups] for option in options]
    may = [[all(n is None or m in n for n in names) for m in models] for names in named]
    return np.array(may, dtype=np.bool_).reshape(len(may), len(models))


def _supply(round_: Round, cluster: Cluster, host_region: Ints, regions: int) -> Ints:
    """Return the milli-GPU of healthy, unreserved GPUs (regions, models)."""
    gpus = np.where(_healthy_hosts(round_), cluster.gpu_count, 0).astype(np.int64)
    reserved: defaultdict[int, set[int]] = defaultdict(set)  # reservations may overlap
    for reservation in round_.reservations:
        for name in expand(reservation.host):
            host = cluster.host_index[name]
            every = range(int(cluster.gpu_count[host]))
            reserved[host].update(every if reservation.gpus is None else reservation.gpus)
    for host, kept in reserved.items():
        gpus[host] = max(0, gpus[host] - len(kept))
    supply = np.zeros((regions, len(cluster.gpu_models)), dtype=np.int64)
    usable = np.flatnonzero(gpus)
    where = host_region[usable], cluster.gpu_model[usable]
    np.add.at(supply, where, gpus[usable] * WHOLE_GPU)
    return supply


def _healthy_hosts(round_: Round) -> Bools:
    """Return which hosts are healthy (hosts,)."""
    entries = round_.cluster.hosts
    counts = [len(expand(entry.name)) for entry in entries]
    return np.repeat(np.array([entry.healthy for entry in entries], dtype=np.bool_), counts)


def reachable(wan: Wan, dataset: int) -> Bools:
    """Return the regions that a copy of a dataset could reach within the window (regions,).

    Regions with a replica or a copy in progress are included. Budgets count only where they are 0.
    """
    end = wan.round.now + wan.round.geo.window_s
    soon = wan.arriving[dataset] & (wan.ready[dataset] < end)
    links = wan.links_of(dataset) & (wan.budget > 0)
    found: Bools = _closure(links, wan.holds[dataset] | soon) | wan.arriving[dataset]
    return found


def feasible_replicas(wan: Wan) -> Bools:
    """Return where replicas could be after some plan (datasets, regions).

    A replica is there already, or could be created by a single copy within storage and budgets.
    """
    there = wan.holds | wan.arriving
    storage = np.maximum(wan.storage, wan.size @ there)
    found = there.copy()
    for p, size in enumerate(wan.size.tolist()):
        budget = wan.budget * wan.links_of(p)
        # The first copy to be made comes from regions that hold the dataset now.
        if budget[there[p]][:, ~there[p]].sum() < size:
            continue
        # A region that cannot hold a replica may still be on the path of one.
        links = budget > 0
        come = links[_closure(links, there[p])].any(axis=0)
        found[p] |= come & (budget.sum(axis=0) >= size) & (storage >= size)
    return found


def _closure(links: Bools, start: Bools) -> Bools:
    """Return the regions that can be reached from start regions over links (regions,)."""
    found = start.copy()
    while (more := links[found].any(axis=0) & ~found).any():
        found |= more
    return found
