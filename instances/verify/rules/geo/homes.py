"""Rules of the policy `replicas` about jobs: none starts, and each that can run has a home."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import and_, or_

from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind, Reason
from placewright.instances.documents.plan_data import Home
from placewright.instances.errors import Path
from placewright.instances.verify.data_facts import Data, bits
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule

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
    data = reading.data
    if data is None:
        return
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
    data = reading.data
    if data is None:
        return
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
    data = reading.data
    if data is None:
        return
    for number, one in enumerate(data.replicas.homes):
        job, region = reading.jobs.get(one.job), data.facts.number.get(one.region)
        if job is not None and region is not None:
            yield data, (*data.paths["replicas"], "homes", number), one, job, region


RULES_OF_HOMES: tuple[Rule[Reading], ...] = (
    Rule("data_only", data_only),
    Rule("home", home),
    Rule("home_data", home_data),
    Rule("homes", homes),
    Rule("data_reason", home_reason),
)
