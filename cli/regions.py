"""Facts about regions: what each offers, where jobs are counted, and which links there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from placewright.instances.arrays import build_cluster, build_state
from placewright.instances.documents import WHOLE_GPU
from placewright.instances.ranges import expand

if TYPE_CHECKING:
    from placewright.instances.geo import WanLink
    from placewright.instances.job import Job
    from placewright.instances.round import Round
    from placewright.topology import Cluster

Ints = NDArray[np.int64]

NOWHERE = -1
POLICIES = ("geo", "replicas")
"""Formulations of rounds with regions."""


@dataclass(frozen=True, eq=False, slots=True)
class Regions:
    """What a round says of its regions; they are counted in the order of the cluster.

    Parameters
    ----------
    round
        The round.
    names, index
        Of the regions.
    models
        GPU models of the cluster.
    region_of_host, model_of_host
        By the host's name; a host without GPUs has no model.
    supply
        (regions, models): milli-GPU of healthy hosts that are not reserved.
    storage
        GiB of each region, None without a limit.
    prices
        (regions, models): micro-dollars per GPU-hour.
    links
        By the indices of their two ends.
    size
        GiB of each dataset, by name.
    held
        GiB of the replicas in each region, copies under way included (regions,).
    """

    round: Round
    names: tuple[str, ...]
    index: Mapping[str, int]
    models: tuple[str, ...]
    region_of_host: Mapping[str, int]
    model_of_host: Mapping[str, int]
    supply: Ints
    storage: tuple[int | None, ...]
    prices: Ints
    links: Mapping[tuple[int, int], WanLink]
    size: Mapping[str, int]
    held: Ints

    @property
    def gpus(self) -> Ints:
        """Milli-GPU of each region, all models together (regions,)."""
        return np.asarray(self.supply.sum(axis=1))

    def budget(self, link: tuple[int, int]) -> int:
        """Return the GiB of copies that may take a link in the window; none where no link is."""
        found = self.links.get(link)
        return 0 if found is None else self.round.geo.budget(found)

    def carries(self, link: tuple[int, int]) -> int:
        """Return the GiB that a link carries in the window; none where no link is."""
        found = self.links.get(link)
        return 0 if found is None else self.round.geo.carries(found)

    def running_in(self, job: Job) -> int:
        """Return the region in which a job runs before the round, `NOWHERE` if it does not."""
        if job.running is None:
            return NOWHERE
        return self.region_of_host[job.running.tasks[0].host]


def regions_of(round_: Round) -> Regions | None:
    """Return the regions of a round of policy `geo` or `replicas`; None for any other."""
    if round_.policy.formulation not in POLICIES:
        return None
    cluster, geo = build_cluster(round_.cluster), round_.geo
    depth = cluster.levels.index(geo.level)
    names = cluster.names[depth]
    index = {name: region for region, name in enumerate(names)}
    domain = cluster.domain[depth].tolist()
    by_name = {region.name: region for region in geo.regions}
    size = {dataset.name: dataset.size for dataset in geo.datasets}
    held = np.zeros(len(names), dtype=np.int64)
    for dataset in geo.datasets:
        for region in dataset.replicas:
            held[index[region]] += dataset.size
    for copy in geo.copying:
        held[index[copy.region]] += size[copy.dataset]
    return Regions(
        round=round_,
        names=names,
        index=index,
        models=cluster.gpu_models,
        region_of_host=dict(zip(cluster.hosts, domain, strict=True)),
        model_of_host=dict(zip(cluster.hosts, cluster.gpu_model.tolist(), strict=True)),
        supply=_supply(round_, cluster, depth),
        storage=tuple(by_name[name].storage if name in by_name else None for name in names),
        prices=np.array(
            [
                [by_name[name].prices.get(model, 0) if name in by_name else 0 for model in models]
                for name in names
                for models in [cluster.gpu_models]
            ],
            dtype=np.int64,
        ).reshape(len(names), len(cluster.gpu_models)),
        links={(index[link.source], index[link.target]): link for link in geo.links},
        size=size,
        held=held,
    )


def counted_in(regions: Regions) -> list[int]:
    """Return the region that each job is counted in before the plan, `NOWHERE` if in none.

    A running job is counted where it runs, any other one where most GiB of what it reads are, in
    the first of several such regions.
    """
    where = {
        dataset.name: [regions.index[name] for name in dataset.replicas]
        for dataset in regions.round.geo.datasets
    }
    counted = []
    for job in regions.round.jobs:
        found = regions.running_in(job)
        if found == NOWHERE:
            near: dict[int, int] = {}
            for read in job.reads:
                for region in where[read.dataset]:
                    near[region] = near.get(region, 0) + read.gib
            found = min(near, key=lambda region: (-near[region], region), default=NOWHERE)
        counted.append(found)
    return counted


def _supply(round_: Round, cluster: Cluster, depth: int) -> Ints:
    """Return milli-GPU of healthy hosts, reserved GPUs left out (regions, models)."""
    healthy = build_state(round_, cluster).healthy
    gpus = np.where(healthy, cluster.gpu_count, 0).astype(np.int64)
    for reservation in round_.reservations:
        for name in expand(reservation.host):
            host = cluster.host_index[name]
            kept = cluster.gpu_count[host] if reservation.gpus is None else len(reservation.gpus)
            gpus[host] = max(0, gpus[host] - int(kept))
    supply = np.zeros((len(cluster.names[depth]), len(cluster.gpu_models)), dtype=np.int64)
    usable = np.flatnonzero(gpus)
    np.add.at(
        supply, (cluster.domain[depth][usable], cluster.gpu_model[usable]), gpus[usable] * WHOLE_GPU
    )
    return supply
