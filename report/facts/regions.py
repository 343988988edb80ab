"""Facts about regions: what each offers, where jobs run, replicas, links and prices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from pydantic import ValidationError

from placewright.array_types import Floats, Ints
from placewright.instances.documents.base import Document
from placewright.instances.documents.plan_data import FlowSection, ReadsSection, ReplicaSection
from placewright.instances.verify import GeoFacts, read_cluster, read_geo
from placewright.topology.units import WHOLE_GPU

if TYPE_CHECKING:
    from placewright.instances.documents.geo import Read, WanLink
    from placewright.instances.documents.job import Job
    from placewright.instances.documents.plan import Plan, TermResult
    from placewright.instances.documents.plan_data import Flow
    from placewright.instances.documents.round import Round


# Facts about regions: what each offers, where jobs are counted, and which links there are.


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


# Facts about the replicas that a plan creates, moves and drops, and the links that it uses.


Section = TypeVar("Section", bound=Document)


class ChangeKind(StrEnum):
    """What happens to a replica; one that moves is created in a region and dropped in another."""

    CREATED = "created"
    MOVED = "moved"
    DROPPED = "dropped"


class Change(NamedTuple):
    """A replica that comes or goes, by names.

    Parameters
    ----------
    kind, dataset, gib
        What happens to what.
    region
        Where the replica will be, or was.
    other
        Of a replica that moves, where the other end is: the region that is left, or, where that is
        the change (`DROPPED`), the one that is moved to.
    sources, paths
        Of a copy: the regions that it comes from, and the regions of each path.
    start, end
        When its first flow begins, and when it is complete; both are the time of a drop.
    """

    kind: ChangeKind
    dataset: str
    gib: int
    region: str
    other: str | None
    sources: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    start: int
    end: int


@dataclass(slots=True)
class LinkUse:
    """What a plan sends over a link, by the indices of its ends.

    Parameters
    ----------
    copies, gib, budget
        How many flows there are, their GiB, and what they may be.
    jobs, reads, carries
        How many jobs read over the link, what they read per window, and what it carries in that
        time, in GiB.
    egress
        Micro-dollars of what is read.
    """

    source: int
    target: int
    budget: int
    carries: int
    copies: int = 0
    gib: int = 0
    jobs: int = 0
    reads: int = 0
    egress: int = 0

    @property
    def copied(self) -> float:
        """The part of the budget that copies take."""
        return _part(self.gib, self.budget)

    @property
    def read(self) -> float:
        """What is read, as a part of what the link carries."""
        return _part(self.reads, self.carries)


def changes_of(plan: Plan, regions: Regions) -> tuple[Change, ...]:
    """Return what happens to replicas, in the order in which it begins."""
    section = section_of(plan, ReplicaSection)
    flows: defaultdict[tuple[str, str], list[Flow]] = defaultdict(list)
    for flow in section_of(plan, FlowSection, flows=()).flows:
        flows[flow.dataset, flow.path[-1]].append(flow)
    leaving: defaultdict[str, list[str]] = defaultdict(list)
    for drop in sorted(section.drops, key=lambda drop: drop.at):
        leaving[drop.dataset].append(drop.region)
    changes, moved_to = [], {}
    for create in sorted(section.creates, key=lambda create: create.ready):
        parts = flows[create.dataset, create.region]
        left = leaving[create.dataset]
        other = left.pop(0) if left else None
        if other is not None:
            moved_to[create.dataset, other] = create.region
        changes.append(
            Change(
                ChangeKind.CREATED if other is None else ChangeKind.MOVED,
                create.dataset,
                regions.size[create.dataset],
                create.region,
                other,
                tuple(dict.fromkeys(flow.path[0] for flow in parts)),
                tuple(dict.fromkeys(flow.path for flow in parts)),
                min((flow.start for flow in parts), default=create.ready),
                create.ready,
            )
        )
    changes += [
        Change(
            ChangeKind.DROPPED,
            drop.dataset,
            regions.size[drop.dataset],
            drop.region,
            moved_to.get((drop.dataset, drop.region)),
            (),
            (),
            drop.at,
            drop.at,
        )
        for drop in section.drops
    ]
    return tuple(sorted(changes, key=lambda change: (change.start, change.end)))


def links_used(
    plan: Plan, regions: Regions, homes: Iterable[int]
) -> dict[tuple[int, int], LinkUse]:
    """Return what goes over each link that a plan uses, by its ends.

    `homes` has the region of each job after the plan, in the order of the round.
    """
    index, used = regions.index, {}

    def use(source: int, target: int) -> LinkUse:
        key = source, target
        if key not in used:
            used[key] = LinkUse(source, target, regions.budget(key), regions.carries(key))
        return used[key]

    for flow in section_of(plan, FlowSection, flows=()).flows:
        ends = [index[name] for name in flow.path]
        for source, target in pairwise(ends):
            link = use(source, target)
            link.copies, link.gib = link.copies + 1, link.gib + flow.gib
    readers = section_of(plan, ReadsSection).readers
    reading = {reader.job for reader in readers}
    jobs = {
        job.name: (job, home)
        for job, home in zip(regions.round.jobs, homes, strict=True)
        if job.name in reading
    }
    for reader in readers:
        job, home = jobs[reader.job]
        gib = {read.dataset: read.gib for read in job.reads}
        for source in {index[read.source] for read in reader.reads}:
            use(source, home).jobs += 1
        for read in reader.reads:
            link = use(index[read.source], home)
            link.reads += gib[read.dataset]
            document = regions.links.get((link.source, link.target))
            link.egress += gib[read.dataset] * (0 if document is None else document.egress)
    return used


def section_of(plan: Plan, section: type[Section], **empty: object) -> Section:
    """Return a section of a plan; one of nothing but `empty` if it has none that can be read."""
    kind = section.model_fields["kind"].default
    for found in plan.sections:
        if found.get("kind") == kind:
            try:
                return section.model_validate(found)
            except ValidationError:
                break
    return section.model_validate(empty)


def _part(amount: int, most: int) -> float:
    if not amount:
        return 0.0
    return amount / most if most else float("inf")


# Facts about a plan of regions: where jobs run, remote reads, storage and prices.


class Waits(NamedTuple):
    """A job that waits for data: what it asks, the region that it will run in, when it can.

    `coming` has the datasets that are not there yet.
    """

    job: str
    milli_gpu: int
    region: str
    ready: int
    coming: tuple[str, ...]


class Place(NamedTuple):
    """Where a job is counted before and after a plan (`NOWHERE`: in no region), in milli-GPU.

    It asks `asked` before, and holds `milli_gpu` after. `model` is the GPU model of its home under
    policy `replicas`, `remote` what it reads from other regions after the plan, in GiB.
    """

    job: str
    asked: int
    milli_gpu: int
    before: int
    after: int
    model: str | None
    remote: int


@dataclass(frozen=True, eq=False, slots=True)
class RegionPlan:
    """Regions before a plan, and after it; without a plan all that is after is zero.

    Parameters
    ----------
    regions
        What the round says of them.
    plan
        A valid plan of the round, or None.
    places
        Of the jobs, in the order of the round.
    before, after
        Milli-GPU that jobs hold or ask in each region (regions,).
    short
        Milli-GPU asked beyond what a region has of a model, after the plan (regions,).
    held, waiting
        Milli-GPU of jobs that run before the plan, and of those counted in the region that wait
        after it (regions,).
    remote
        GiB that jobs in a region read from others after the plan (regions,).
    stored
        GiB of replicas after the plan (regions,).
    cost
        Micro-dollars per hour for the GPUs held after the plan (regions,).
    changes, links, waits
        Of replicas, by when they begin; what links carry; and who waits for data, by when it comes.
    """

    regions: Regions
    plan: Plan | None
    places: tuple[Place, ...]
    before: Ints
    after: Ints
    short: Ints
    held: Ints
    waiting: Ints
    remote: Ints
    stored: Ints
    cost: Ints
    changes: tuple[Change, ...]
    links: Mapping[tuple[int, int], LinkUse]
    waits: tuple[Waits, ...]

    @property
    def slow(self) -> bool:
        """Whether it is the policy that decides where data lives."""
        return not self.regions.round.policy.spec.places_jobs

    def term(self, name: str) -> TermResult | None:
        """Return a term of the plan's certificate."""
        certificate = None if self.plan is None else self.plan.certificate
        terms = () if certificate is None else certificate.terms
        return next((term for term in terms if term.name == name), None)


def region_plan_of(round_: Round, plan: Plan | None) -> RegionPlan:
    """Return what a valid plan does to the regions of a round whose policy has some."""
    regions = regions_of(round_)
    slow = not round_.policy.spec.places_jobs
    changes = () if plan is None else changes_of(plan, regions)
    local = _local(regions, plan)
    places = _places(regions, plan, local)
    stored = regions.held.copy()
    for change in changes:
        sign = -1 if change.kind is ChangeKind.DROPPED else 1
        stored[regions.index[change.region]] += sign * change.gib

    def sums(chosen: Iterable[tuple[int, int]]) -> Ints:
        """Add amounts up by region (regions,)."""
        total = np.zeros(len(regions.names), dtype=np.int64)
        for region, amount in chosen:
            if region != NOWHERE:
                total[region] += amount
        return total

    jobs = round_.jobs
    both = list(zip(jobs, places, strict=True))
    return RegionPlan(
        regions=regions,
        plan=plan,
        places=places,
        before=sums((place.before, place.asked) for place in places),
        after=sums((place.after, place.milli_gpu) for place in places),
        short=_short(regions, places),
        held=sums((place.before, place.asked) for job, place in both if job.running is not None),
        waiting=sums(
            (place.before, place.asked)
            for job, place in both
            if plan is not None and job.running is None and place.after == NOWHERE
        ),
        remote=sums((place.after, place.remote) for place in places),
        stored=stored,
        cost=sums(() if slow or plan is None else _costs(regions, plan)) // WHOLE_GPU,
        changes=changes,
        links={} if plan is None else links_used(plan, regions, (place.after for place in places)),
        waits=() if plan is None else _waits(regions, plan, local),
    )


def heat(asked: Ints, supply: Ints) -> Floats:
    """Return demand over supply; a region without GPUs counts as having one."""
    return np.asarray(asked / np.maximum(supply, WHOLE_GPU))


def _local(regions: Regions, plan: Plan | None) -> dict[str, set[int]]:
    """Return the regions that each dataset can be read in after a plan.

    Under `replicas` that is where its replicas are once all copies are done, under `geo` where
    they are now.
    """
    round_, index = regions.round, regions.index
    slow = not round_.policy.spec.places_jobs
    local = {
        dataset.name: {index[name] for name in dataset.replicas} for dataset in round_.geo.datasets
    }
    for copy in round_.geo.copying:
        if slow or copy.ready <= round_.now:
            local[copy.dataset].add(index[copy.region])
    if slow and plan is not None:
        section = section_of(plan, ReplicaSection)
        for create in section.creates:
            local[create.dataset].add(index[create.region])
        for drop in section.drops:
            local[drop.dataset].discard(index[drop.region])
    return local


def _places(
    regions: Regions, plan: Plan | None, local: Mapping[str, set[int]]
) -> tuple[Place, ...]:
    """Return where each job is counted before and after a plan, in the order of the round."""
    round_, index = regions.round, regions.index
    slow = not round_.policy.spec.places_jobs
    homes = (
        {home.job: home for home in section_of(plan, ReplicaSection).homes}
        if slow and plan is not None
        else {}
    )
    decisions = {} if plan is None else {decision.job: decision for decision in plan.decisions}
    places = []
    for job, before in zip(round_.jobs, counted_in(regions), strict=True):
        asked = held = job.options[job.running.option if job.running and not slow else 0].milli_gpu
        after, home, decision = NOWHERE, homes.get(job.name), decisions.get(job.name)
        if home is not None:
            after = index[home.region]
        elif not slow and decision is not None and decision.option is not None:
            after = regions.region_of_host[decision.tasks[0].host]
            held = job.options[decision.option].milli_gpu
        remote = (
            0
            if after == NOWHERE
            else sum(read.gib for read in job.reads if after not in local[read.dataset])
        )
        model = None if home is None else home.gpu_model
        places.append(Place(job.name, asked, held, before, after, model, remote))
    return tuple(places)


def _short(regions: Regions, places: Iterable[Place]) -> Ints:
    """Return the excess of homes over the supply of their GPU model (regions,), in milli-GPU."""
    models = {model: m for m, model in enumerate(regions.models)}
    asked = np.zeros_like(regions.supply)
    for place in places:
        if place.model is not None:
            asked[place.after, models[place.model]] += place.milli_gpu
    return np.asarray(np.maximum(asked - regions.supply, 0).sum(axis=1))


def _costs(regions: Regions, plan: Plan) -> Iterator[tuple[int, int]]:
    """Yield the region of each task and what its GPUs cost, in thousandths of micro-dollars."""
    jobs = {job.name: job for job in regions.round.jobs}
    price = {
        (region, model): int(regions.prices[region, m])
        for region in range(len(regions.names))
        for m, model in enumerate(regions.models)
    }
    for decision in plan.decisions:
        if decision.option is not None:
            groups = jobs[decision.job].options[decision.option].groups
            for task in decision.tasks:
                region, model = regions.region_of_host[task.host], regions.model_of_host[task.host]
                if model is not None:
                    yield region, groups[task.group].gpu * price[region, model]


def _waits(regions: Regions, plan: Plan, local: Mapping[str, set[int]]) -> tuple[Waits, ...]:
    """Return the jobs that wait for data, by the time at which they get it."""
    jobs = {job.name: job for job in regions.round.jobs}
    facts = regions.facts

    def readable(read: Read, region: int) -> bool:
        """Whether a region can read a dataset now, there or over a link."""
        served = read.remote and facts.served(read.dataset, facts.datasets[read.dataset].now)
        return region in local[read.dataset] or bool(served >> region & 1)

    found = [
        Waits(
            entry.job,
            jobs[entry.job].options[0].milli_gpu,
            entry.region,
            entry.ready,
            tuple(
                read.dataset
                for read in jobs[entry.job].reads
                if not readable(read, regions.index[entry.region])
            ),
        )
        for entry in section_of(plan, ReadsSection).waiting
    ]
    return tuple(sorted(found, key=lambda entry: entry.ready))
