"""Facts about a plan of regions: where jobs run, remote reads, storage and prices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.documents.plan_data import ReadsSection, ReplicaSection
from placewright.report.facts.regions import NOWHERE, Regions, counted_in, regions_of
from placewright.report.facts.replicas import (
    Change,
    ChangeKind,
    LinkUse,
    changes_of,
    links_used,
    section_of,
)
from placewright.topology.units import WHOLE_GPU

if TYPE_CHECKING:
    from placewright.instances.documents.geo import Read
    from placewright.instances.documents.plan import Plan, TermResult
    from placewright.instances.documents.round import Round


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
