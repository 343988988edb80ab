"""Places of a job by region: what fits there, and why it may not be there at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from placewright.explain.facts.fact import named
from placewright.explain.places import GroupPlaces, NearestPlaces
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.derived.arrived_copies import with_arrived_copies
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.geo import Dataset, Geo, Read
from placewright.instances.documents.job import Job
from placewright.instances.documents.quantities import part_text
from placewright.instances.documents.round import Round
from placewright.instances.policies import GANG

MOST = 4
"""Places of a task group that are told."""


def places(round_: Round, name: str) -> tuple[GroupPlaces, ...]:
    """Return the nearest places of the first option of a job, those where it may be first.

    They are regions, or domains of a lower level if a task group has to be in one.
    """
    index = next(j for j, one in enumerate(round_.jobs) if one.name == name)
    policy = round_.policy.model_copy(update={"formulation": GANG.name, "terms": ("value",)})
    gangs = round_.model_copy(update={"policy": policy, "geo": Geo()})
    region_of = _region_of_domains(round_)
    why_not = {
        region: tuple(reasons_against(round_, named(name, round_), region))
        for region in dict.fromkeys(region_of.values())
    }
    nearest = NearestPlaces(compile_round(gangs))
    found = nearest.of(index, most=len(region_of), level=round_.geo.level)
    return tuple(_told(one, region_of, why_not) for one in found)


def _told(
    found: GroupPlaces, region_of: Mapping[str, str], why_not: Mapping[str, tuple[str, ...]]
) -> GroupPlaces:
    """Return the nearest places with why the job may not be there, most useful first."""
    told = [replace(one, why_not=why_not[region_of[one.name]]) for one in found.places]
    return replace(found, places=tuple(sorted(told, key=lambda one: bool(one.why_not))[:MOST]))


def _region_of_domains(round_: Round) -> dict[str, str]:
    """Return the region of each domain, of itself for a region, and of each host."""
    parent = {domain.name: domain.parent for domain in round_.cluster.domains}
    level_of = {domain.name: domain.level for domain in round_.cluster.domains}

    def region(domain: str | None) -> str | None:
        while domain is not None and level_of[domain] != round_.geo.level:
            domain = parent[domain]
        return domain

    found = {name: of for name in parent if (of := region(name)) is not None}
    for entry in round_.cluster.hosts:
        if (of := region(entry.parent)) is not None:
            found |= dict.fromkeys(expand(entry.name), of)
    return found


def reasons_against(round_: Round, job: Job, region: str) -> Iterator[str]:
    """Yield why a job may not be in a region, whatever room there is."""
    if job.regions is not None and region not in job.regions:
        yield "not among its regions"
    geo = with_arrived_copies(round_.geo, round_.now)
    datasets = {one.name: one for one in geo.datasets}
    for read in job.reads:
        if (lack := _lack_of_data(geo, datasets[read.dataset], read, region)) is not None:
            yield lack
    quota = {one.name: one.quotas for one in geo.regions}.get(region, {}).get(job.tenant or "")
    held = _held_in(round_, job.tenant, region)
    if quota is not None and held + min(option.milli_gpu for option in job.options) > quota:
        yield f"quota of {job.tenant} there, {part_text('gpu', held, quota)} in use"


def _lack_of_data(geo: Geo, data: Dataset, read: Read, region: str) -> str | None:
    """Return why a job cannot read a dataset in a region; None if it can."""
    if data.regions is not None and region not in data.regions:
        return f"{data.name} may not be there"
    if region in data.replicas:
        return None
    coming = next((c for c in geo.copying if (c.dataset, c.region) == (data.name, region)), None)
    if not read.remote:
        return f"no replica of {data.name}" + ("" if coming is None else " yet")
    linked = {one.source for one in geo.links if one.target == region and one.bandwidth}
    if linked.isdisjoint(data.replicas):
        return f"no link to a replica of {data.name}"
    return None


def _held_in(round_: Round, tenant: str | None, region: str) -> int:
    """Return the milli-GPU that running jobs of a tenant hold in a region."""
    region_of = _region_of_domains(round_)
    return sum(
        job.options[job.running.option].groups[task.group].gpu
        for job in round_.jobs
        if job.tenant == tenant and job.running is not None
        for task in job.running.tasks
        if region_of[task.host] == region
    )
