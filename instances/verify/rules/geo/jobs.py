"""Rules of regions for jobs: where jobs and data may be, homes, reads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import and_, or_

from placewright.instances.documents.geo import Read
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind, Detail, Reason
from placewright.instances.documents.plan_data import Home, RemoteRead, WaitsForData
from placewright.instances.errors import Path
from placewright.instances.verify.reading import Data, Reading, bits
from placewright.instances.verify.result import Finding, Rule, rules
from placewright.instances.verify.rules.gang.limits import exceeded

# Rules of the policy `replicas` about jobs: none starts, and each that can run has a home.


_STAY = (DecisionKind.KEEP, DecisionKind.WAIT)


def data_only(reading: Reading) -> Iterator[Finding]:
    """Require that running jobs are kept and pending ones wait."""
    for index, decision in enumerate(reading.plan.decisions):
        if decision.decision not in _STAY:
            yield Finding(
                ("decisions", index, "decision"),
                f"decision {decision.decision.value!r} of job {decision.job!r} under policy "
                f"{reading.round.policy.formulation!r}, which decides about data only; "
                "expected keep or wait",
            )


def home(reading: Reading) -> Iterator[Finding]:
    """Require that each home is a region where job and data may be, with a GPU model that it has.

    The job's first option allows the model for all its tasks.
    """
    for data, path, one, job, region in _homes(reading):
        if not data.facts.allowed(job) >> region & 1:
            yield Finding(
                (*path, "region"),
                f"job {job.name!r} or data that it reads may not be in region {one.region!r}; "
                "expected a region of all of them",
            )
        if one.gpu_model not in data.facts.models:
            continue
        if one.gpu_model not in models(data, job):
            yield Finding(
                (*path, "gpu_model"),
                f"job {job.name!r} does not run on GPU model {one.gpu_model!r}; "
                "expected one that its first option allows",
            )
        elif not data.facts.having[one.gpu_model] >> region & 1:
            yield Finding(
                (*path, "gpu_model"),
                f"region {one.region!r} has no GPU of model {one.gpu_model!r}; "
                "expected a model that it has on healthy hosts, not reserved",
            )


def home_data(reading: Reading) -> Iterator[Finding]:
    """Require that each home has its data once all copies are done: there, or over a direct link.

    Over a link come reads that may be remote, from a region that holds a replica then.
    """
    for data, path, one, job, region in _homes(reading):
        for read in job.reads:
            found = data.readable if read.remote else data.final
            if not found[read.dataset] >> region & 1:
                yield Finding(
                    (*path, "region"),
                    f"job {job.name!r} cannot read dataset {read.dataset!r} in region "
                    f"{one.region!r}; expected a replica there"
                    + (", or in a region with a link to it" if read.remote else ""),
                )


def homes(reading: Reading) -> Iterator[Finding]:
    """Require one home for each job that can run somewhere once all copies are done."""
    data = reading.geo
    seen: set[str] = set()
    path: Path = (*data.paths.get("replicas", ("sections",)), "homes")
    for number, one in enumerate(data.replicas.homes):
        if one.job in seen:
            yield Finding(
                (*path, number, "job"), f"job {one.job!r} has a home already; expected one"
            )
        seen.add(one.job)
    for job in reading.round.jobs:
        if job.name not in seen and (could := possible(data, job)):
            region = data.facts.regions[next(bits(could))]
            yield Finding(
                path, f"job {job.name!r} has no home; expected one, such as region {region!r}"
            )


def home_reason(reading: Reading) -> Iterator[Finding]:
    """Require `no_region` of the jobs that no region could run, and of no others."""
    data = reading.geo
    for path, job, given in waiting_jobs(reading):
        regions = possible(data, job)
        problem = None
        if given is Reason.NO_REGION and regions:
            problem = which_could_run(data, regions)
        elif given is Reason.NOT_ASKED and not regions:
            problem = "which no region could run; expected no_region"
        if problem is not None:
            yield Finding(path, f"reason {given.value!r} of job {job.name!r}, {problem}")


def waiting_jobs(reading: Reading) -> Iterator[tuple[Path, Job, Reason]]:
    """Yield each job that waits with a reason: where that stands, the job, and the reason."""
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        waits = decision.decision is DecisionKind.WAIT
        if job is not None and waits and decision.reason is not None:
            yield ("decisions", index, "reason"), job, decision.reason


def which_could_run(data: Data, regions: int) -> str:
    """Say in which of some regions a job could run that is said to have none."""
    name = data.facts.regions[next(bits(regions))]
    return f"which could run in region {name!r}; expected another"


def models(data: Data, job: Job) -> frozenset[str]:
    """Return the GPU models that the first option of a job may have for all its tasks."""
    allowed = [group.gpu_models for group in job.options[0].groups]
    return reduce(
        and_, (frozenset(one) for one in allowed if one is not None), frozenset(data.facts.models)
    )


def possible(data: Data, job: Job) -> int:
    """Return the regions in which a job can have its home."""
    regions = data.facts.allowed(job)
    for read in job.reads:
        regions &= (data.readable if read.remote else data.final)[read.dataset]
    return regions & reduce(or_, (data.facts.having[one] for one in models(data, job)), 0)


def _homes(reading: Reading) -> Iterator[tuple[Data, Path, Home, Job, int]]:
    """Yield the homes of jobs of the round in its regions."""
    data = reading.geo
    for number, one in enumerate(data.replicas.homes):
        job, region = reading.jobs.get(one.job), data.facts.number.get(one.region)
        if job is not None and region is not None:
            yield data, (*data.paths["replicas"], "homes", number), one, job, region


RULES_OF_HOMES = (*rules(data_only, home, home_data, homes), Rule("data_reason", home_reason))


# Rules of regions for jobs: one for all tasks, where job and data may be, and tenants' quotas.


def one_region(reading: Reading) -> Iterator[Finding]:
    """Require all tasks of a started or migrated job in one region, a migrated one's where it runs.

    Kept jobs stay where they are.
    """
    data = reading.geo
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
    data = reading.geo
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

    Jobs migrate within their region.
    """
    return exceeded(reading, "tenant", by_region=True)


def data_reason(reading: Reading) -> Iterator[Finding]:
    """Require that the reasons about data and regions are true.

    A job with reason `data` is listed in the section `reads`, with the region and time that come
    with the reason. For one with `no_region` no region is feasible even once all copies are done.
    """
    data = reading.geo
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


RULES_OF_REGIONS_OF_JOBS = rules(one_region, residency, region_quota, data_reason)


# Rules of the policy `geo` about reads: sources of remote reads, and jobs that wait for data.
#
# A replica can be read if it is complete now: copies under way count once they are ready.


def readers(reading: Reading) -> Iterator[Finding]:
    """Require of the readers that they run after the round, each named once, each dataset once."""
    data = reading.geo
    seen: set[str] = set()
    for number, reader in enumerate(data.reads.readers):
        path: Path = (*data.paths["reads"], "readers", number)
        if reader.job in seen:
            yield Finding(
                (*path, "job"), f"job {reader.job!r} reads already; expected each job once"
            )
        elif reader.job in reading.jobs and reader.job not in data.runs:
            yield Finding((*path, "job"), f"job {reader.job!r} does not run; expected jobs that do")
        seen.add(reader.job)
        names = [read.dataset for read in reader.reads]
        for k, name in enumerate(names):
            if name in names[:k]:
                yield Finding(
                    (*path, "reads", k, "dataset"),
                    f"job {reader.job!r} reads dataset {name!r} already; expected it once",
                )


def remote_read(reading: Reading) -> Iterator[Finding]:
    """Require that a remote read is allowed, not of local data, and from a region with a replica.

    Over a direct link that carries something, and of data that may be in both regions.
    """
    data = reading.geo
    for number, reader in enumerate(data.reads.readers):
        region = data.runs.get(reader.job)
        if region is None:
            continue
        reads = {read.dataset: read for read in reading.jobs[reader.job].reads}
        for k, one in enumerate(reader.reads):
            if one.dataset not in data.facts.datasets or one.source not in data.facts.number:
                continue
            problem = _problem(data, reads.get(one.dataset), one, region)
            if problem is not None:
                yield Finding(
                    (*data.paths["reads"], "readers", number, "reads", k),
                    f"job {reader.job!r} in region {data.facts.regions[region]!r} reads dataset "
                    f"{one.dataset!r} from {one.source!r}, {problem}",
                )


def local_data(reading: Reading) -> Iterator[Finding]:
    """Require that what a job reads is in its region, or listed with a region that it comes from.

    A job that runs already goes on without: of its reads only those are listed that may be remote,
    and that some region can serve.
    """
    data = reading.geo
    listed = {(reader.job, read.dataset) for reader in data.reads.readers for read in reader.reads}
    paths: dict[str, Path] = {}
    for name, read in data.missing:
        if (name, read.dataset) in listed:
            continue
        region = data.runs[name]
        served = data.facts.served(read.dataset, data.facts.datasets[read.dataset].now)
        can = read.remote and served >> region & 1
        if not can and name in reading.running:
            continue
        if not paths:
            paths = {placed.job.name: placed.path for placed in reading.placed}
        yield Finding(
            paths[name],
            f"job {name!r} reads dataset {read.dataset!r}, which is not in region "
            f"{data.facts.regions[region]!r}; expected "
            + ("the region that it comes from" if can else "a region that has it"),
        )


def waits_for_data(reading: Reading) -> Iterator[Finding]:
    """Require of each job that waits for data a region that may run it, and when it has all of it.

    That region has the GPUs, as far as they can be counted, and all data at `ready` and not before:
    replicas that are there by then, or that may be read over a direct link from where they are.
    """
    data = reading.geo
    waiting = {
        decision.job: decision.reason
        for decision in reading.plan.decisions
        if decision.decision is DecisionKind.WAIT
    }
    seen: set[str] = set()
    for number, one in enumerate(data.reads.waiting):
        path: Path = (*data.paths["reads"], "waiting", number)
        job, region = reading.jobs.get(one.job), data.facts.number.get(one.region)
        if job is None or region is None:
            continue
        if job.name in seen:
            problem: str | None = "is named already; expected each job once"
        elif waiting.get(job.name) is not Reason.DATA:
            problem = "does not wait for 'data'; expected jobs that do"
        else:
            problem = _cannot_wait(data, job, one, region)
        seen.add(job.name)
        if problem is not None:
            yield Finding(path, f"job {one.job!r} {problem}")


def _problem(data: Data, read: Read | None, one: RemoteRead, region: int) -> str | None:
    facts = data.facts
    dataset, source = facts.datasets[one.dataset], facts.number[one.source]
    if read is None:
        return "which it does not ask for; expected what it reads"
    if not read.remote:
        return "which may not be remote; expected it in its region"
    if dataset.now >> region & 1:
        return "which is in its own region; expected only what is not"
    if not dataset.now >> source & 1:
        return "which does not hold it now; expected a region with a complete replica"
    if (source, region) not in facts.links:
        return "from where no link leads; expected a direct link that carries data"
    if not dataset.within >> region & 1:
        return "and the data may not be in its region; expected regions where it may"
    return None


def _cannot_wait(data: Data, job: Job, one: WaitsForData, region: int) -> str | None:
    """Say why a job does not wait for its data in a region until a time, if so."""
    facts, name = data.facts, data.facts.regions[region]
    if not facts.allowed(job) >> region & 1:
        return f"or data that it reads may not be in region {name!r}; expected one of their regions"
    if not facts.has_gpus(job, region):
        return f"asks more GPUs than region {name!r} has; expected a region that could run it"
    ready = facts.round.now
    for read in job.reads:
        first = _first(data, read, region)
        if first is None:
            return f"never has dataset {read.dataset!r} in region {name!r}; expected a copy to it"
        ready = max(ready, first)
    if ready == facts.round.now:
        return f"has all its data in region {name!r} now; expected another reason to wait"
    if ready != one.ready:
        return f"has its data in region {name!r} at {ready}, not at {one.ready}; expected {ready}"
    return None


def _first(data: Data, read: Read, region: int) -> int | None:
    """Return from when on a dataset can be read in a region, None if it never can."""
    since = [data.since(read.dataset, region)]
    if read.remote and data.facts.datasets[read.dataset].within >> region & 1:
        since += [
            data.since(read.dataset, source)
            for source in bits(data.final[read.dataset])
            if (source, region) in data.facts.links
        ]
    return min((at for at in since if at is not None), default=None)


RULES_OF_READS = rules(readers, remote_read, local_data, waits_for_data)
