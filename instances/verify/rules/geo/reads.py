"""Rules of the policy `geo` about reads: sources of remote reads, and jobs that wait for data.

A replica can be read if it is complete now: copies under way count once they are ready.
"""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.documents.geo import Read
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind, Reason
from placewright.instances.documents.plan_data import RemoteRead, WaitsForData
from placewright.instances.errors import Path
from placewright.instances.verify.data_facts import Data, bits
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule


def readers(reading: Reading) -> Iterator[Finding]:
    """Require of the readers that they run after the round, each named once, each dataset once."""
    data = reading.data
    if data is None:
        return
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
    data = reading.data
    if data is None:
        return
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
    data = reading.data
    if data is None:
        return
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
    data = reading.data
    if data is None:
        return
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


RULES_OF_READS: tuple[Rule[Reading], ...] = (
    Rule("readers", readers),
    Rule("remote_read", remote_read),
    Rule("local_data", local_data),
    Rule("waits_for_data", waits_for_data),
)
