"""Facts about regions: what each offers, where jobs are counted, and which links there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from placewright.array_types import Ints
from placewright.instances.verify import GeoFacts, read_cluster, read_geo

if TYPE_CHECKING:
    from placewright.instances.documents.geo import WanLink
    from placewright.instances.documents.job import Job
    from placewright.instances.documents.round import Round

NOWHERE = -1


@dataclass(frozen=True, eq=False, slots=True)
class Regions:
    """The regions of a round as arrays, in the order of the cluster.

    Parameters
    ----------
    round, facts
        The round, and what the verifier reads of its section `geo`.
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
        Those that carry something, by the indices of their two ends.
    size
        GiB of each dataset, by name.
    held
        GiB of the replicas in each region, copies under way included (regions,).
    """

    round: Round
    facts: GeoFacts
    names: tuple[str, ...]
    index: Mapping[str, int]
    models: tuple[str, ...]
    region_of_host: Mapping[str, int]
    model_of_host: Mapping[str, str | None]
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


def regions_of(round_: Round) -> Regions:
    """Return the regions of a round whose policy has some."""
    hosts = read_cluster(round_.cluster)
    facts = read_geo(round_, hosts)
    shape = len(facts.regions), len(facts.models)
    model = {name: m for m, name in enumerate(facts.models)}
    supply, prices = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for (region, name), milli in facts.supply.items():
        supply[region, model[name]] = milli
    for region, entry in facts.entries.items():
        for name, price in entry.prices.items():
            prices[region, model[name]] = price
    size = {dataset.name: dataset.size for dataset in round_.geo.datasets}
    held = np.zeros(len(facts.regions), dtype=np.int64)
    for dataset in round_.geo.datasets:
        for name in dataset.replicas:
            held[facts.number[name]] += dataset.size
    for copy in round_.geo.copying:
        held[facts.number[copy.region]] += size[copy.dataset]
    return Regions(
        round=round_,
        facts=facts,
        names=facts.regions,
        index=facts.number,
        models=facts.models,
        region_of_host={name: facts.region_of(host) for name, host in hosts.hosts.items()},
        model_of_host={name: host.hardware.gpu_model for name, host in hosts.hosts.items()},
        supply=supply,
        storage=tuple(
            facts.entries[region].storage if region in facts.entries else None
            for region in range(len(facts.regions))
        ),
        prices=prices,
        links=facts.links,
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
