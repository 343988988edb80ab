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
    has: Bools
    source: Ints
    can: Bools
    remote: Ints
    egress: Ints
    at: Ints
    price: Ints
    quota: dict[tuple[int, str], int]

    @property
    def round(self) -> Round:
        """The round."""
        return self.wan.round

    @property
    def cluster(self) -> Cluster:
        """The hosts."""
        return self.wan.cluster

    def reads_in(self, region: Ints) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return the datasets that jobs in these regions (jobs,) read over links, with the sources.

        Data that can be read nowhere is left out: a job that runs already goes on without it.
        """
        wan = self.wan
        where, data = region[wan.read_job], wan.read_dataset
        source = self.source[data, where]
        far = (where != NONE) & ~self.has[data, where] & wan.read_remote & (source != NONE)
        found: dict[int, tuple[tuple[int, int], ...]] = {}
        every = (wan.read_job[far].tolist(), data[far].tolist(), source[far].tolist())
        for job, dataset, origin in zip(*every, strict=True):
            found[job] = (*found.get(job, ()), (dataset, origin))
        return found

    def roomy(self, job: int, amounts: Ints) -> Bools:
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

    def left_by(self, candidate: Candidate) -> Ints:
        """Return the milli-GPU that a plan leaves free (regions, models)."""
        left = self.wan.supply.copy()
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
                left[self.wan.host_region[host], model[host]] -= gpu
        return left


def compile_geo(round_: Round) -> Problem:
    """Return the arrays of a checked round of policy `geo`."""
    wan = compile_wan(round_)
    regions = {name: r for r, name in enumerate(wan.regions)}
    models = {name: m for m, name in enumerate(wan.models)}
    price = np.zeros((len(regions), len(models)), dtype=np.int64)
    quota: dict[tuple[int, str], int] = {}
    for region in round_.geo.regions:
        for model, amount in region.prices.items():
            if model in models:
                price[regions[region.name], models[model]] = amount
        quota |= {(regions[region.name], t): amount for t, amount in region.quotas.items()}
    has = wan.holds | (wan.arriving & (wan.ready <= round_.now))
    source = _sources(wan, has)
    can, remote, egress = _reading(wan, has, source)
    at = _running(wan)
    running = np.flatnonzero(at != NONE)
    can[running] = at[running, None] == np.arange(len(regions))
    return Problem(wan, has, source, can, remote, egress, at, price, quota)


def _sources(wan: Wan, has: Bools) -> Ints:
    """Return from where each region reads each dataset over a link (datasets, regions)."""
    source = np.full(has.shape, NONE, dtype=np.int64)
    known: dict[bytes, Ints] = {}
    most = int(wan.bandwidth.max(initial=0)) + 1
    for d in range(len(has)):
        key = has[d].tobytes() + wan.may_hold[d].tobytes()
        if key not in known:
            links = wan.within(d) & has[d][:, None]
            np.fill_diagonal(links, val=False)
            worth = np.where(links, wan.egress * most - wan.bandwidth, np.iinfo(np.int64).max)
            known[key] = np.where(links.any(axis=0), worth.argmin(axis=0), NONE)
        source[d] = known[key]
    return source


def _reading(wan: Wan, has: Bools, source: Ints) -> tuple[Bools, Ints, Ints]:
    """Return where jobs can read all their data, the GiB over links, and their cost."""
    data, far = wan.read_dataset, ~has[wan.read_dataset]
    from_there = source[data]
    stuck = far & ((from_there == NONE) | ~wan.read_remote[:, None])
    # Reads are sorted by job: those of one lie side by side.
    readers, first = np.unique(wan.read_job, return_index=True)
    can = wan.may_run.copy()
    can[readers] &= ~np.logical_or.reduceat(stuck, first)
    gib = far * wan.read_gib[:, None]
    here = np.arange(len(wan.regions))
    served = (from_there != NONE) & wan.read_remote[:, None]
    cost = np.where(served, wan.egress[from_there, here], 0) * gib
    remote, egress = np.zeros((2, *can.shape), dtype=np.int64)
    remote[readers] = np.add.reduceat(gib, first)
    egress[readers] = np.add.reduceat(cost, first)
    return can, remote, egress


def _running(wan: Wan) -> Ints:
    """Return the region where each job runs, NONE of pending ones (jobs,)."""
    index = wan.cluster.host_index
    hosts = [None if j.running is None else j.running.tasks[0].host for j in wan.round.jobs]
    return np.array(
        [NONE if host is None else wan.host_region[index[host]] for host in hosts], dtype=np.int64
    )
