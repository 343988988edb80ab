"""Rules of regions for jobs: one for all tasks, where job and data may be, and tenants' quotas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Detail, Reason
from placewright.instances.documents.quantities import amount_text
from placewright.instances.verify.data_facts import Data, bits
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.geo.homes import waiting_jobs, which_could_run


def one_region(reading: Reading) -> Iterator[Finding]:
    """Require all tasks of a started or migrated job in one region, a migrated one's where it runs.

    Kept jobs stay where they are.
    """
    data = reading.data
    if data is None:
        return
    facts = data.facts
    for placed in reading.placed_anew:
        used = {facts.region_of(task.host) for task in placed.tasks}
        name = placed.job.name
        if len(used) > 1:
            regions = " and ".join(repr(facts.regions[r]) for r in sorted(used)[:2])
            problem = f"lies in {len(used)} regions, {regions} among them; expected one"
        elif (before := region_before(reading, data, name)) is not None and used - {before}:
            (now,) = used
            problem = (
                f"migrates to region {facts.regions[now]!r}; "
                f"expected region {facts.regions[before]!r}, where it runs"
            )
        else:
            continue
        yield Finding((*placed.path, "tasks"), f"job {name!r} {problem}")


def residency(reading: Reading) -> Iterator[Finding]:
    """Require of a started job a region where it and all data that it reads may be."""
    data = reading.data
    if data is None:
        return
    for placed in reading.started:
        region = data.runs.get(placed.job.name)
        if region is not None and not data.facts.allowed(placed.job) >> region & 1:
            yield Finding(
                (*placed.path, "tasks"),
                f"job {placed.job.name!r} or data that it reads may not be in region "
                f"{data.facts.regions[region]!r}; expected a region of all of them",
            )


def region_quota(reading: Reading) -> Iterator[Finding]:
    """Require that a tenant holds no more in a region than its quota there, or than before.

    Jobs migrate within their region, so only where one starts a tenant can come to hold more.
    """
    data = reading.data
    if data is None:
        return
    quotas = {
        (region, tenant): quota
        for region, entry in data.facts.entries.items()
        for tenant, quota in entry.quotas.items()
    }
    if not quotas:
        return
    last = {
        (data.runs.get(placed.job.name), placed.job.tenant): placed for placed in reading.started
    }
    before: defaultdict[tuple[int | None, str | None], int] = defaultdict(int)
    change: defaultdict[tuple[int | None, str | None], int] = defaultdict(int)
    stopped = {victim.job.name for victim in reading.preempted}
    hosts = reading.cluster.hosts
    owners = {tenant for _, tenant in quotas}
    for name, running in reading.running.items():
        job = reading.jobs[name]
        if job.tenant not in owners:
            continue
        here = data.facts.region_of(hosts[running.tasks[0].host])
        where: tuple[int | None, str | None] = (here, job.tenant)
        if where in last and where in quotas:
            held = job.options[running.option].milli_gpu
            before[where] += held
            change[where] -= held * (name in stopped)
    for placed in reading.started:
        where = data.runs.get(placed.job.name), placed.job.tenant
        if where in quotas:
            change[where] += placed.option.milli_gpu
    for (region, owner), quota in quotas.items():
        held = before[region, owner]
        after = held + change[region, owner]
        if after > max(quota, held):
            yield Finding(
                last[region, owner].path,
                f"jobs of tenant {owner!r} hold {amount_text('gpu', after)} in region "
                f"{data.facts.regions[region]!r} together; expected at most "
                f"{amount_text('gpu', max(quota, held))} (quota {amount_text('gpu', quota)}, "
                f"held before the round {amount_text('gpu', held)})",
            )


def data_reason(reading: Reading) -> Iterator[Finding]:
    """Require that the reasons about data and regions are true.

    A job with reason `data` is listed in the section `reads`, with the region and time that come
    with the reason. For one with `no_region` no region is feasible even once all copies are done.
    """
    data = reading.data
    if data is None:
        return
    waiting = {one.job: (one.region, one.ready) for one in data.reads.waiting}
    details = {decision.job: decision.detail or Detail() for decision in reading.plan.decisions}
    for path, job, given in waiting_jobs(reading):
        problem, detail = None, details[job.name]
        said, known = (detail.region, detail.at), waiting.get(job.name)
        if given is Reason.DATA and known and said not in (known, (None, None)):
            problem = (
                f"in region {detail.region!r} at {detail.at}; expected {known[0]!r} at {known[1]}"
            )
        elif given is Reason.DATA and not known:
            problem = "of which the section 'reads' says nothing; expected where it has its data"
        elif given is Reason.NO_REGION and (regions := _could_run(data, job)):
            problem = which_could_run(data, regions)
        if problem is not None:
            yield Finding(path, f"reason {given.value!r} of job {job.name!r}, {problem}")


def region_before(reading: Reading, data: Data, job: str) -> int | None:
    """Return the region in which a job runs before the round, None if it does not run."""
    running = reading.running.get(job)
    if running is None:
        return None
    return data.facts.region_of(reading.cluster.hosts[running.tasks[0].host])


def _could_run(data: Data, job: Job) -> int:
    """Return the regions that a job could have all its data in, and that have enough GPUs."""
    regions = data.facts.allowed(job)
    for read in job.reads:
        regions &= (data.readable if read.remote else data.final)[read.dataset]
    return sum(1 << region for region in bits(regions) if data.facts.has_gpus(job, region))


RULES_OF_REGIONS_OF_JOBS: tuple[Rule[Reading], ...] = (
    Rule("one_region", one_region),
    Rule("residency", residency),
    Rule("region_quota", region_quota),
    Rule("data_reason", data_reason),
)
