"""Facts about regions and data: those of a round, and the plan sections about them.

A set of regions is a whole number of which bit r stands for region r.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.geo import Dataset, Read, Region, WanLink
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan_data import FlowSection, ReadsSection, ReplicaSection
from placewright.instances.documents.round import Round
from placewright.instances.verify.cluster_facts import ClusterFacts, HostFacts
from placewright.topology.units import WHOLE_GPU


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """A dataset: where it may be, where a replica is complete now, and what is on its way.

    `arriving` has, by region, when a copy under way is complete, which may be now.
    """

    document: Dataset
    within: int
    now: int
    arriving: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class GeoFacts:
    """Regions by number, what each has, and the links between them that carry something.

    `supply` is in milli-GPU by region and GPU model, of healthy hosts, without reserved GPUs;
    `having` are the regions with some, by model. `reached` are the regions to which a link leads
    from each, and `entries` those that the section describes.
    """

    round: Round
    regions: tuple[str, ...]
    number: Mapping[str, int]
    position: int
    models: tuple[str, ...]
    supply: Mapping[tuple[int, str], int]
    having: Mapping[str, int]
    links: Mapping[tuple[int, int], WanLink]
    reached: tuple[int, ...]
    entries: Mapping[int, Region]
    datasets: Mapping[str, DatasetFacts]

    def region_of(self, host: HostFacts) -> int:
        """Return the region of a host."""
        return self.number[host.domains[self.position]]

    def served(self, dataset: str, holders: int) -> int:
        """Return the regions that read a dataset over a link, with replicas in these regions."""
        within = self.datasets[dataset].within
        return reduce(or_, (self.reached[r] for r in bits(holders & within)), 0) & within

    def allowed(self, job: Job) -> int:
        """Return the regions in which a job and all its data may be."""
        allowed = named(self.number, job.regions)
        for read in job.reads:
            allowed &= self.datasets[read.dataset].within
        return allowed

    def has_gpus(self, job: Job, region: int) -> bool:
        """Whether a region has as many GPUs as some option of a job asks, group by group."""
        return any(
            all(self._holds(group, region) for group in option.groups) for option in job.options
        )

    def _holds(self, group: TaskGroup, region: int) -> bool:
        models = self.models if group.gpu_models is None else group.gpu_models
        return sum(self.supply[region, model] for model in models) >= group.milli_gpu


@dataclass(frozen=True, slots=True)
class Data:
    """The sections about data of a plan, empty where the plan has none that can be read.

    `paths` says where each stands. `complete` and `gone` have, by dataset and region, when a new
    replica is complete and when one is deleted; what names nothing is left out. `final` are the
    regions that hold a dataset once all of that is done, and all copies under way; `readable` are
    these, and those that read it from them over a link.

    `runs` has the region of each job that runs after the round, by its first task, and `missing`
    the reads of these jobs of which no replica is there now.
    """

    facts: GeoFacts
    paths: Mapping[str, tuple[str | int, ...]]
    reads: ReadsSection
    replicas: ReplicaSection
    flows: FlowSection
    complete: Mapping[tuple[str, int], int]
    gone: Mapping[tuple[str, int], int]
    final: Mapping[str, int]
    readable: Mapping[str, int]
    runs: Mapping[str, int]
    missing: tuple[tuple[str, Read], ...]

    def since(self, dataset: str, region: int) -> int | None:
        """Return from when on a region holds a dataset, None if it never does."""
        facts = self.facts.datasets[dataset]
        if facts.now >> region & 1:
            return self.facts.round.now
        if region in facts.arriving:
            return facts.arriving[region]
        return self.complete.get((dataset, region))


def bits(regions: int) -> Iterator[int]:
    """Yield the regions of a set, in order."""
    while regions:
        lowest = regions & -regions
        yield lowest.bit_length() - 1
        regions ^= lowest


def read_geo(round_: Round, cluster: ClusterFacts) -> GeoFacts:
    """Read the section `geo` of a round that `check_round` accepts."""
    geo = round_.geo
    names = tuple(d.name for d in round_.cluster.domains if d.level == geo.level)
    number = {name: r for r, name in enumerate(names)}
    position = cluster.levels[geo.level]
    supply: defaultdict[tuple[int, str], int] = defaultdict(int)
    reserved = _reserved(round_, cluster)
    for name, host in cluster.hosts.items():
        model, gpus = host.hardware.gpu_model, host.hardware.gpus
        if model is not None and host.healthy:
            free = gpus - len(reserved.get(name, ()))
            supply[number[host.domains[position]], model] += free * WHOLE_GPU
    having: defaultdict[str, int] = defaultdict(int)
    for (region, model), amount in supply.items():
        having[model] |= (amount > 0) << region
    links = {
        (number[link.source], number[link.target]): link for link in geo.links if link.bandwidth
    }
    reached = [0] * len(names)
    for source, target in links:
        reached[source] |= 1 << target
    models = {host.hardware.gpu_model for host in cluster.hosts.values()} - {None}
    return GeoFacts(
        round=round_,
        regions=names,
        number=number,
        position=position,
        models=tuple(sorted(model for model in models if model is not None)),
        supply=supply,
        having=having,
        links=links,
        reached=tuple(reached),
        entries={number[entry.name]: entry for entry in geo.regions},
        datasets=_datasets(round_, number),
    )


def _datasets(round_: Round, number: Mapping[str, int]) -> dict[str, DatasetFacts]:
    arriving: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for copy in round_.geo.copying:
        arriving[copy.dataset][number[copy.region]] = copy.ready
    datasets = {}
    for dataset in round_.geo.datasets:
        coming = arriving.get(dataset.name, {})
        now = named(number, dataset.replicas)
        for region, ready in coming.items():
            now |= (ready <= round_.now) << region
        within = named(number, dataset.regions)
        datasets[dataset.name] = DatasetFacts(dataset, within, now, coming)
    return datasets


def named(number: Mapping[str, int], names: Iterable[str] | None) -> int:
    """Return the set of the regions with these names, by their numbers; None stands for all."""
    if names is None:
        return (1 << len(number)) - 1
    return reduce(or_, (1 << number[name] for name in names), 0)


def _reserved(round_: Round, cluster: ClusterFacts) -> Mapping[str, set[int]]:
    """Return the reserved GPUs of each host that has some."""
    reserved: defaultdict[str, set[int]] = defaultdict(set)
    for entry in round_.reservations:
        for name in expand(entry.host):
            gpus = range(cluster.hosts[name].hardware.gpus) if entry.gpus is None else entry.gpus
            reserved[name].update(gpus)
    return reserved
