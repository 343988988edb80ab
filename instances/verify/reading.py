"""A plan resolved against its round: decisions with their jobs, groups, hosts and regions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from placewright.array_types import Bools
from placewright.instances.derived.hardware import (
    Hardware,
    hardware,
    links_of_hosts,
    pooled_resources,
)
from placewright.instances.derived.ranges import expand, expand_all
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.geo import Dataset, Read, Region, WanLink
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.documents.plan_data import FlowSection, ReadsSection, ReplicaSection
from placewright.instances.documents.plan_leases import LeaseSection, Promised
from placewright.instances.documents.round import Round
from placewright.instances.verify.fabric import FabricFacts
from placewright.topology import CATALOGUE, GpuLinks, HostModel
from placewright.topology.units import HOST_LEVEL, WHOLE_GPU

# Facts about each host of a cluster, by its name.


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One host: what it has, its domains outermost first, itself last, and how it is wired.

    `wiring` is its model of the catalogue, None if it names none; `gpu_links` how its GPUs reach
    each other, None if nobody knows.
    """

    name: str
    hardware: Hardware
    domains: tuple[str, ...]
    healthy: bool
    wiring: HostModel | None
    gpu_links: GpuLinks | None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """All hosts by name, and where each level (host included) stands in `HostFacts.domains`.

    `wan` is the Mbit/s between two outermost domains, `links` that of uplinks by level, `uplinks`
    that of the link of a domain, by level and name, where it is another, `fabric` the graph of
    switches above the hosts.
    """

    hosts: Mapping[str, HostFacts]
    levels: Mapping[str, int]
    wan: Mapping[frozenset[str], int]
    links: Mapping[str, int]
    uplinks: Mapping[tuple[str, str], int]
    fabric: FabricFacts | None

    def uplink(self, level: str, domain: str) -> int | None:
        """Return the Mbit/s of the link of a domain, None if nothing is known of one."""
        if self.fabric is not None and level != HOST_LEVEL:
            return self.fabric.out_of(domain)
        return self.uplinks.get((level, domain), self.links.get(level))


def read_cluster(document: ClusterDocument) -> ClusterFacts:
    """Read a cluster that `check_cluster` accepts."""
    levels = (*document.levels, HOST_LEVEL)
    parents = {(entry.level, entry.name): entry.parent for entry in document.domains}
    hosts, pooled = {}, pooled_resources(document)
    for entry, inside in zip(document.hosts, links_of_hosts(document), strict=True):
        equipment = hardware(entry, pooled)
        wiring = None if entry.model is None else CATALOGUE[entry.model]
        above = _domains(entry.parent, document.levels, parents)
        for name in expand(entry.name):
            hosts[name] = HostFacts(name, equipment, (*above, name), entry.healthy, wiring, inside)
    wan = {frozenset(entry.between): entry.bandwidth_mbps for entry in document.wan}
    position_of = {level: position for position, level in enumerate(levels)}
    fabric = FabricFacts(document) if document.fabric else None
    usual = {level: link.bandwidth_mbps for level, link in document.links.items()}
    return ClusterFacts(hosts, position_of, wan, usual, document.own_uplinks, fabric)


def _domains(
    parent: str | None, levels: tuple[str, ...], parents: Mapping[tuple[str, str], str | None]
) -> tuple[str, ...]:
    above: list[str] = []
    for level in reversed(levels):
        if parent is None:
            break
        above.append(parent)
        parent = parents[level, parent]
    return tuple(reversed(above))


# Facts about regions and data: those of a round, and the plan sections about them.
#
# A set of regions is a whole number of which bit r stands for region r.


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
    taken = reserved_gpus(round_, cluster)
    for name, host in cluster.hosts.items():
        model, gpus = host.hardware.gpu_model, host.hardware.gpus
        if model is not None and host.healthy:
            free = gpus - len(taken.get(name, ()))
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


def reserved_places(round_: Round) -> tuple[set[str], Mapping[str, set[int]]]:
    """Return the hosts that are reserved as a whole, and the reserved GPUs of others."""
    hosts, gpus = set[str](), defaultdict[str, set[int]](set)
    for entry in round_.reservations:
        for name in expand(entry.host):
            if entry.gpus is None:
                hosts.add(name)
            else:
                gpus[name].update(entry.gpus)
    return hosts, gpus


def reserved_gpus(round_: Round, cluster: ClusterFacts) -> Mapping[str, set[int]]:
    """Return the reserved GPUs of each host that has some."""
    hosts, gpus = reserved_places(round_)
    every = {name: set(range(cluster.hosts[name].hardware.gpus)) for name in hosts}
    return {**gpus, **every}


# Hosts that task groups name: in their lists, and by the host sets of the round.


class NamedHosts:
    """Which hosts task groups of a round may arrive on, as far as they name any.

    Parameters
    ----------
    round_
        The round.
    hosts
        The names of its hosts, in the order of masks.
    """

    def __init__(self, round_: Round, hosts: Collection[str]) -> None:
        self._sets = round_.host_sets
        self._index = {host: i for i, host in enumerate(hosts)}
        self._of_set: dict[str, Bools] = {}
        self._of_list: dict[tuple[str, ...], Bools] = {}

    def include(self, group: TaskGroup, host: str) -> bool:
        """Whether a host is in the list of a group, if it has one, and in each of its sets."""
        at = self._index[host]
        return all(mask[at] for mask in self._masks(group))

    def mask(self, group: TaskGroup) -> Bools:
        """Return for which hosts `include` holds, (hosts,)."""
        every: Bools = np.ones(len(self._index), dtype=np.bool_)
        for mask in self._masks(group):
            every &= mask
        return every

    def text(self, group: TaskGroup) -> str:
        """Return the names that a host has to have, or the sets that it has to be in."""
        parts = [] if group.hosts is None else [f"one of {', '.join(group.hosts)}"]
        parts += [f"one of host set {name}" for name in group.host_sets]
        return ", and ".join(parts)

    @staticmethod
    def key(group: TaskGroup) -> Hashable:
        """Return what is equal for groups that name the same hosts in the same way."""
        return group.hosts, group.host_sets

    def _masks(self, group: TaskGroup) -> list[Bools]:
        masks = []
        if group.hosts is not None:
            if group.hosts not in self._of_list:
                self._of_list[group.hosts] = self._marked(group.hosts)
            masks.append(self._of_list[group.hosts])
        for name in group.host_sets:
            if name not in self._of_set:
                self._of_set[name] = self._marked(self._sets[name])
            masks.append(self._of_set[name])
        return masks

    def _marked(self, names: tuple[str, ...]) -> Bools:
        marked = np.zeros(len(self._index), dtype=np.bool_)
        marked[[self._index[host] for host in expand_all(names)]] = True
        return marked


# A plan resolved against its round: decisions with their jobs, options, groups and hosts.


class PlacedTask(NamedTuple):
    """A task whose group and host exist, and the indices that lead to it in the Plan document."""

    decision: int
    number: int
    task: Task
    group: TaskGroup
    host: HostFacts

    @property
    def path(self) -> tuple[str | int, ...]:
        """Where the task stands in the Plan document."""
        return "decisions", self.decision, "tasks", self.number

    @property
    def milli_per_gpu(self) -> int:
        """What the task takes of each of its GPUs, in milli-GPU."""
        return min(self.group.gpu, WHOLE_GPU)


class Placed(NamedTuple):
    """What runs after the round, whose job and option exist; `tasks` are those that can be read.

    `arrivals` are the tasks that come to a place: all of a job that starts or resizes, those of a
    migrated job that change host or GPUs, none of a kept job.
    """

    position: int
    job: Job
    chosen: int
    option: Option
    decision: Decision
    tasks: tuple[PlacedTask, ...]
    arrivals: tuple[PlacedTask, ...]

    @property
    def path(self) -> tuple[str | int, ...]:
        """Where the decision stands in the Plan document."""
        return "decisions", self.position

    @property
    def resizes(self) -> bool:
        """Whether it is a running job that goes on with another option."""
        return self.decision.decision is DecisionKind.RESIZE


class Member(NamedTuple):
    """A job of a group, and its offset in the slots of the period."""

    placed: Placed
    offset: int


class Group(NamedTuple):
    """Two jobs or more, all with a profile, that the plan lets take turns on the same GPUs.

    `period` is what the plan claims, in microseconds, None if that is no whole number. The group
    `stays` if its members are all kept, and ran together before, nobody else with them.
    """

    path: tuple[str | int, ...]
    members: tuple[Member, ...]
    period: int | None
    stays: bool


class Spans(NamedTuple):
    """Intervals of leases, as flat arrays: whose each is, its first lease, the one after its last.

    Those of one owner lie together, in the order of the plan.
    """

    owner: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]


class Promises(NamedTuple):
    """The section `leases` of a plan.

    `numbers` says which of its promises is that of a job, and `spans` have them as their owners.
    `timely` are the jobs of those whose intervals are in order and in reach, by the same numbers.
    """

    path: tuple[str | int, ...]
    section: LeaseSection
    numbers: Mapping[str, int]
    spans: Spans
    timely: Mapping[int, Job]

    def of(self, job: str) -> Promised | None:
        """Return the promise of a job, None if it has none."""
        number = self.numbers.get(job)
        return None if number is None else self.section.jobs[number]


class Preempted(NamedTuple):
    """A running job that is stopped."""

    path: tuple[str | int, ...]
    job: Job
    decision: Decision


@dataclass(frozen=True, slots=True)
class Reading:
    """The resolved plan that rules and terms look at.

    Whatever the plan names and the round does not have is left out here; the rules `known_job`,
    `legal_decision`, `option`, `gang` and `known_host` report it, and no other rule stumbles over
    it. `round` is without the invalid jobs of the one `given`. `running` says by job name what runs
    before the round; every job that moves, resizes or stops is in it. `migrated` has resized jobs,
    too. `named` tells which hosts groups name; `vacated` are the hosts that the policy empties.
    `sliced`: some job has or gets a MIG slice; `parted`: or asks for memory of GPUs. `groups` are
    those of the plan, and `held` what all tasks hold if there are some. `promises` are None where
    the plan has none that can be read, and `data` where the policy has no regions.
    """

    round: Round
    given: Round
    plan: Plan
    jobs: Mapping[str, Job]
    running: Mapping[str, Running]
    cluster: ClusterFacts
    named: NamedHosts
    vacated: frozenset[str]
    kept: tuple[Placed, ...]
    migrated: tuple[Placed, ...]
    started: tuple[Placed, ...]
    preempted: tuple[Preempted, ...]
    sliced: bool
    parted: bool
    groups: tuple[Group, ...] = ()
    held: tuple[PlacedTask, ...] | None = None
    promises: Promises | None = None
    data: Data | None = None

    @property
    def placed(self) -> tuple[Placed, ...]:
        """Kept, migrated and started jobs: all that run after the round."""
        return *self.kept, *self.migrated, *self.started

    @property
    def geo(self) -> Data:
        """The sections about data, under a policy that has regions."""
        if self.data is None:
            raise TypeError(f"policy {self.round.policy.formulation} has no regions")
        return self.data

    def promise_of(self, job: str) -> Promised | None:
        """Return what a job is promised after the round, None for nothing."""
        return None if self.promises is None else self.promises.of(job)

    @property
    def placed_anew(self) -> tuple[Placed, ...]:
        """Migrated, resized and started jobs: those whose place the plan chooses."""
        return *self.migrated, *self.started

    def arrivals(self) -> Iterator[PlacedTask]:
        """Yield the tasks that come to a place, those of migrated jobs first."""
        for placed in self.placed_anew:
            yield from placed.arrivals

    def placed_tasks(self) -> Iterator[PlacedTask]:
        """Yield all tasks that hold something after the round, those of kept jobs first."""
        for placed in (*self.kept, *self.placed_anew):
            yield from placed.tasks

    def held_tasks(self) -> Iterable[PlacedTask]:
        """Return the tasks with what they hold, so that it can be summed over a host or GPU."""
        return self.placed_tasks() if self.held is None else self.held

    def busy(self) -> set[str]:
        """Return the hosts on which some task runs before the round."""
        return {task.host for running in self.running.values() for task in running.tasks}

    def option_run(self, job: str) -> Option:
        """Return the option that a running job runs."""
        return self.jobs[job].options[self.running[job].option]


def demand(group: TaskGroup) -> tuple[tuple[str, int], ...]:
    """Return what one task of a group asks of its host besides GPUs, as (resource, amount)."""
    return ("cpu", group.cpu), ("memory", group.memory), *group.resources.items()


def read(round: Round, plan: Plan) -> Reading:  # noqa: A002
    """Resolve everything that the plan names."""
    given, round = round, round.valid_part()  # noqa: A001
    jobs = {job.name: job for job in round.jobs}
    running = {job.name: job.running for job in round.jobs if job.running is not None}
    cluster = read_cluster(round.cluster)
    kept: list[Placed] = []
    migrated: list[Placed] = []
    started: list[Placed] = []
    preempted: list[Preempted] = []
    hosts = cluster.hosts
    keep, start = DecisionKind.KEEP, DecisionKind.START
    migrate, preempt = DecisionKind.MIGRATE, DecisionKind.PREEMPT
    resize = DecisionKind.RESIZE
    for index, decision in enumerate(plan.decisions):
        job, chosen, kind = jobs.get(decision.job), decision.option, decision.decision
        if job is None:
            continue
        if kind is preempt:
            if job.running is not None:
                preempted.append(Preempted(("decisions", index), job, decision))
            continue
        if chosen is None or chosen >= len(job.options):
            continue
        option = job.options[chosen]
        groups = option.groups
        read_tasks = []
        for number, task in enumerate(decision.tasks):
            host = hosts.get(task.host)
            if host is not None and task.group < len(groups):
                read_tasks.append(PlacedTask(index, number, task, groups[task.group], host))
        tasks = tuple(read_tasks)
        if kind is keep:
            kept.append(Placed(index, job, chosen, option, decision, tasks, ()))
        elif kind is start:
            started.append(Placed(index, job, chosen, option, decision, tasks, tasks))
        elif kind is migrate and job.running is not None:
            moved = _moved(tasks, job.running)
            migrated.append(Placed(index, job, chosen, option, decision, tasks, moved))
        elif kind is resize and job.running is not None:
            migrated.append(Placed(index, job, chosen, option, decision, tasks, tasks))
    held = [jobs[name].options[now.option].groups for name, now in running.items()]
    held += [placed.option.groups for placed in (*kept, *migrated, *started)]
    # Jobs share groups, so few are looked at.
    asked = {id(group): group for groups in held for group in groups}.values()
    sliced = any(group.mig for group in asked)
    return Reading(
        round=round,
        given=given,
        plan=plan,
        jobs=jobs,
        running=running,
        cluster=cluster,
        named=NamedHosts(round, cluster.hosts),
        vacated=frozenset(host for name in round.policy.vacate for host in expand(name)),
        kept=tuple(kept),
        migrated=tuple(migrated),
        started=tuple(started),
        preempted=tuple(preempted),
        sliced=sliced,
        parted=sliced or any(group.gpu_memory for group in asked),
    )


def _moved(tasks: tuple[PlacedTask, ...], running: Running) -> tuple[PlacedTask, ...]:
    """Return the tasks that are not where they run: on the same host, GPUs and slot."""
    before = {_place(task) for task in running.tasks}
    return tuple(placed for placed in tasks if _place(placed.task) not in before)


def _place(task: Task) -> tuple[int, int, str, frozenset[int], int | None]:
    return task.group, task.index, task.host, frozenset(task.gpus), task.slot


# Outages, as the rules about places and promises read them.


def unavailable_hosts(reading: Reading) -> frozenset[str]:
    """Return the hosts with an outage that overlaps the current lease."""
    leases, now = reading.round.leases, reading.round.now
    return frozenset(
        host
        for outage in leases.outages
        if (outage.start is None or outage.start < now + leases.length_s)
        and (outage.end is None or outage.end > now)
        for host in expand(outage.host)
    )


# Precedence of jobs, and the terms that count the jobs of some precedences.


class Precedence(NamedTuple):
    """The precedence of a job with an option: cells, entitlement, then priority.

    The jobs that a tenant's cells are for come before all others.
    """

    cells: bool
    entitled: bool
    priority: int

    def __str__(self) -> str:
        suffix = ", guaranteed" if self.cells else "" if self.entitled else ", borrowed"
        return f"priority {self.priority}{suffix}"


class ClassTerm(NamedTuple):
    """A term of one class: the precedences that count in it, highest first, and what they ask."""

    precedences: tuple[Precedence, ...]
    asked: int
