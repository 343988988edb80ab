"""From a round of policy `geo` to arrays: who may run where now, and what that reads over links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.formulations.common.wan.arrays import NONE, Bools, Ints, Wan, compile_wan
from placewright.formulations.session import Candidate
from placewright.instances.documents.round import Round
from placewright.topology import Cluster


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What the choice of regions sees of a round.

    Attributes
    ----------
    wan : Wan
        Regions, links, data and jobs.
    has : Bools
        (datasets, regions): where a replica can be read now.
    source : Ints
        (datasets, regions): the region from which a job there reads the data over a direct link,
        the cheapest and of these the one of the most bandwidth; NONE without one.
    can : Bools
        (jobs, regions): where a job may start now as far as data goes; of one that runs its region.
    remote, egress : Ints
        (jobs, regions): GiB that a job reads from other regions there, and what that costs in
        micro-dollars.
    at : Ints
        (jobs,): the region where a job runs, NONE of a pending one.
    price : Ints
        (regions, models): micro-dollars per GPU-hour.
    quota : dict of (region, tenant) to int
        Milli-GPU that a tenant's jobs may hold in a region.
    """

    wan: Wan
    available: Bools
    source: Ints
    eligible: Bools
    remote_gib: Ints
    egress: Ints
    current_region: Ints
    gpu_price: Ints
    quota: dict[tuple[int, str], int]

    @property
    def round(self) -> Round:
        """The round."""
        return self.wan.round

    @property
    def cluster(self) -> Cluster:
        """The hosts."""
        return self.wan.cluster

    def remote_reads_in(self, region: Ints) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return the datasets that jobs in these regions (jobs,) read over links, with the sources.

        Data that can be read nowhere is left out: a job that runs already goes on without it.
        """
        wan = self.wan
        where, data = region[wan.read_job], wan.read_dataset
        source = self.source[data, where]
        remote = (where != NONE) & ~self.available[data, where] & wan.read_remote & (source != NONE)
        found: dict[int, tuple[tuple[int, int], ...]] = {}
        every = (wan.read_job[remote].tolist(), data[remote].tolist(), source[remote].tolist())
        for job, dataset, origin in zip(*every, strict=True):
            found[job] = (*found.get(job, ()), (dataset, origin))
        return found

    def regions_with_supply(self, job: int, amounts: Ints) -> Bools:
        """Return the regions that have GPUs for a job, if these are what they have (regions,).

        For all of an option, group by group; `amounts` (regions, models) is in milli-GPU.
        """
        found = np.zeros(len(self.wan.regions), dtype=np.bool_)
        for option in self.round.jobs[job].options:
            enough = np.ones_like(found)
            for group in option.groups:
                allowed = [
                    group.gpu_models is None or model in group.gpu_models
                    for model in self.wan.models
                ]
                enough &= amounts[:, allowed].sum(axis=1) >= group.milli_gpu
            found |= enough
        return found

    def residual_supply(self, candidate: Candidate) -> Ints:
        """Return the milli-GPU that a plan leaves free (regions, models)."""
        residual = self.wan.supply.copy()
        index, model = self.cluster.host_index, self.cluster.gpu_model
        for j, job in enumerate(self.round.jobs):
            started = candidate.starts.get(j)
            if started is not None:
                groups = job.options[started[0]].groups
                held = [(groups[g].gpu, host) for g, _, host, _ in started[1]]
            elif job.running is not None and j not in candidate.preempted:
                groups = job.options[job.running.option].groups
                held = [(groups[t.group].gpu, index[t.host]) for t in job.running.tasks]
            else:
                continue
            for gpu, host in held:
                residual[self.wan.host_region[host], model[host]] -= gpu
        return residual


def compile_geo(round_: Round) -> Problem:
    """Return the arrays of a checked round of policy `geo`."""
    wan = compile_wan(round_)
    regions = {name: r for r, name in enumerate(wan.regions)}
    models = {name: m for m, name in enumerate(wan.models)}
    gpu_price = np.zeros((len(regions), len(models)), dtype=np.int64)
    quota: dict[tuple[int, str], int] = {}
    for region in round_.geo.regions:
        for model, amount in region.prices.items():
            if model in models:
                gpu_price[regions[region.name], models[model]] = amount
        quota |= {(regions[region.name], t): amount for t, amount in region.quotas.items()}
    available = wan.holds | (wan.arriving & (wan.ready <= round_.now))
    source = _read_sources(wan, available)
    eligible, remote_gib, egress = _read_costs(wan, available, source)
    current_region = _current_regions(wan)
    running = np.flatnonzero(current_region != NONE)
    eligible[running] = current_region[running, None] == np.arange(len(regions))
    return Problem(
        wan, available, source, eligible, remote_gib, egress, current_region, gpu_price, quota
    )


def _read_sources(wan: Wan, available: Bools) -> Ints:
    """Return from where each region reads each dataset over a link (datasets, regions)."""
    source = np.full(available.shape, NONE, dtype=np.int64)
    known: dict[bytes, Ints] = {}
    most = int(wan.bandwidth.max(initial=0)) + 1
    for d in range(len(available)):
        key = available[d].tobytes() + wan.may_hold[d].tobytes()
        if key not in known:
            links = wan.links_of(d) & available[d][:, None]
            np.fill_diagonal(links, val=False)
            worth = np.where(links, wan.egress * most - wan.bandwidth, np.iinfo(np.int64).max)
            known[key] = np.where(links.any(axis=0), worth.argmin(axis=0), NONE)
        source[d] = known[key]
    return source


def _read_costs(wan: Wan, available: Bools, source: Ints) -> tuple[Bools, Ints, Ints]:
    """Return where jobs can read all their data, the GiB over links, and their cost."""
    data, remote = wan.read_dataset, ~available[wan.read_dataset]
    source_of_read = source[data]
    unreadable = remote & ((source_of_read == NONE) | ~wan.read_remote[:, None])
    # Reads are sorted by job: those of one lie side by side.
    readers, first = np.unique(wan.read_job, return_index=True)
    eligible = wan.may_run.copy()
    eligible[readers] &= ~np.logical_or.reduceat(unreadable, first)
    gib = remote * wan.read_gib[:, None]
    here = np.arange(len(wan.regions))
    served = (source_of_read != NONE) & wan.read_remote[:, None]
    cost = np.where(served, wan.egress[source_of_read, here], 0) * gib
    remote_gib, egress = np.zeros((2, *eligible.shape), dtype=np.int64)
    remote_gib[readers] = np.add.reduceat(gib, first)
    egress[readers] = np.add.reduceat(cost, first)
    return eligible, remote_gib, egress


def _current_regions(wan: Wan) -> Ints:
    """Return the region where each job runs, NONE of pending ones (jobs,)."""
    index = wan.cluster.host_index
    hosts = [None if j.running is None else j.running.tasks[0].host for j in wan.round.jobs]
    return np.array(
        [NONE if host is None else wan.host_region[index[host]] for host in hosts], dtype=np.int64
    )
