"""Rules and terms of the policy `stages`: the plan section `schedule`, replayed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import DecisionKind, Reason
from placewright.instances.documents.stage import Scheduled, ScheduleSection, Stage
from placewright.instances.errors import Path
from placewright.instances.verify.policies import (
    PolicyRules,
    document_form,
    first_of,
    one_section,
)
from placewright.instances.verify.reading import (
    Reading,
    demand,
    read,
    reserved_gpus,
    reserved_places,
)
from placewright.instances.verify.result import Finding, rules
from placewright.instances.verify.rules.deadline.leases import Models, union_closure
from placewright.instances.verify.rules.gang.limits import asked_by
from placewright.instances.verify.rules.gang.terms import PLACEMENT_TERMS
from placewright.topology.units import UNLIMITED, WHOLE_GPU

# The section, its form, and the entries that name jobs of the round and options of theirs.


KIND = "schedule"
NO_MODEL = ""
"""The GPU model of hosts without GPUs."""


class Entry(NamedTuple):
    """An entry of the section, where it stands, its job and stage."""

    path: Path
    said: Scheduled
    job: Job
    stage: Stage

    @property
    def option(self) -> Option:
        """The option that the entry names."""
        return self.job.options[self.said.option]

    def begins(self) -> tuple[tuple[int, int], ...]:
        """When tasks begin, and how many: of a gang, and of what runs, all at once."""
        return self.said.waves or ((self.said.start, _tasks(self.option)),)


def form(_: Reading, entry: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Require the fields of the section; `sections.section` applies it."""
    yield from document_form(ScheduleSection, entry, path)


def as_begun(reading: Reading) -> Reading:
    """Return a reading in which jobs that are no gang ask for the tasks that begin now alone."""
    narrowed = {}
    for placed in reading.started:
        stage, groups = placed.job.stage, placed.option.groups
        count = len(placed.decision.tasks)
        if stage is None or stage.gang or len(groups) > 1 or not 0 < count < groups[0].count:
            continue
        group = groups[0].model_copy(update={"count": count})
        options = list(placed.job.options)
        options[placed.chosen] = placed.option.model_copy(update={"groups": (group,)})
        narrowed[placed.job.name] = placed.job.model_copy(update={"options": tuple(options)})
    if not narrowed:
        return reading
    jobs = tuple(narrowed.get(job.name, job) for job in reading.round.jobs)
    begun = read(reading.round.model_copy(update={"jobs": jobs}), reading.plan)
    return replace(begun, given=reading.given)


def entries(reading: Reading) -> dict[str, Entry]:
    """Return the entries of the section, by job; of a job that is named twice the first."""
    found = first_of(reading, KIND, ScheduleSection)
    jobs = {job.name: job for job in reading.given.jobs}
    named: dict[str, Entry] = {}
    if found is not None:
        for number, said in enumerate(found[1].jobs):
            job = jobs.get(said.job) if said.job in reading.jobs else None
            if job is not None and job.stage is not None and said.option < len(job.options):
                path = (*found[0], "jobs", number)
                named.setdefault(said.job, Entry(path, said, job, job.stage))
    return named


def schedule(reading: Reading) -> Iterator[Finding]:
    """Require one section, that has each job of the round once, with an option of its own."""
    yield from one_section(reading, KIND, f"section {KIND!r} is missing")
    found, named = first_of(reading, KIND, ScheduleSection), entries(reading)
    if found is None:
        return
    for number, said in enumerate(found[1].jobs):
        path = (*found[0], "jobs", number)
        if said.job not in named:
            yield Finding(
                path, f"job {said.job!r} or its option is unknown; expected those of the round"
            )
        elif named[said.job].path != path:
            yield Finding(path, f"job {said.job!r} is named already; expected it once")
    for name in reading.jobs:
        if name not in named:
            yield Finding(
                (*found[0], "jobs"), f"job {name!r} is missing; expected each job of the round"
            )


# When jobs run: as long as they take, after those that they wait for, within what there is.


def schedule_times(reading: Reading) -> Iterator[Finding]:
    """Require of each job the times and tasks that follow from when its tasks begin."""
    for entry in entries(reading).values():
        said, now = entry.said, reading.round.now
        begins, seconds = entry.begins(), entry.stage.seconds(said.option)
        running, option = entry.job.running, said.option
        apart = running is None and not entry.stage.gang
        start, end = begins[0][0], begins[-1][0] + seconds
        tasks = _at_once(begins, seconds)
        if running is not None:
            option, start = running.option, now if running.started is None else running.started
            end = max(start + entry.stage.seconds(option), now + 1)
        ordered = all(a < b for (a, _), (b, _) in pairwise(begins))
        whole = sum(count for _, count in begins) == _tasks(entry.option)
        if bool(said.waves) != apart or not ordered or not whole:
            yield Finding(
                (*entry.path, "waves"),
                f"waves of job {said.job!r} are not all of its tasks, in order; expected "
                + ("each task once" if apart else "none of a gang, or of what runs"),
            )
        elif (said.option, said.start, said.end, said.tasks) != (option, start, end, tasks):
            yield Finding(
                entry.path,
                f"job {said.job!r} has option {said.option}, from {said.start} to {said.end} s, "
                f"{said.tasks} tasks at once; expected option {option}, from {start} to {end} s, "
                f"{tasks} tasks",
            )
        elif running is None and start < now:
            yield Finding(
                (*entry.path, "start"),
                f"job {said.job!r} begins before now; expected {now} or later",
            )


def stage_order(reading: Reading) -> Iterator[Finding]:
    """Require that a job begins once all that it waits for are done."""
    named = entries(reading)
    for entry in named.values():
        for name in entry.stage.after:
            before = named.get(name)
            if before is not None and entry.begins()[0][0] < before.said.end:
                yield Finding(
                    (*entry.path, "start"),
                    f"job {entry.said.job!r} begins at {entry.begins()[0][0]} s, before job "
                    f"{name!r} is done; expected {before.said.end} s or later",
                )


def stage_capacity(reading: Reading) -> Iterator[Finding]:
    """Replay the schedule: at no time is more asked than what runs leaves, in counts."""
    named, now, counts = entries(reading), reading.round.now, _Counts(reading)
    for row in counts.rows():
        pending, running = Counter[int](), Counter[int]()
        for entry in named.values():
            if entry.job.running is not None:
                held = counts.held(row, entry)
                running[now] += held
                running[entry.said.end] -= held
                continue
            each = counts.asked(row, entry) // _tasks(entry.option)
            seconds = entry.stage.seconds(entry.said.option)
            for begin, tasks in entry.begins():
                pending[begin] += each * tasks
                pending[begin + seconds] -= each * tasks
        times = sorted({*pending, *running})
        asks = accumulate(pending[time] for time in times)
        holds = accumulate(running[time] for time in times)
        for time, asked, held in zip(times, asks, holds, strict=True):
            if asked > (left := max(0, row.capacity - held)):
                yield Finding(
                    ("sections",),
                    f"jobs of the schedule ask {asked:,} of {row.text} at {time} s; expected at "
                    f"most {left:,}, which what runs leaves",
                )
                break


def stage_start(reading: Reading) -> Iterator[Finding]:
    """Require that exactly the tasks start that the schedule has begin now, with its option."""
    now, named = reading.round.now, entries(reading)
    for index, decision in enumerate(reading.plan.decisions):
        entry = named.get(decision.job)
        if entry is None or entry.job.running is not None:
            continue
        begin, count = entry.begins()[0]
        expected = count if begin == now else 0
        if len(decision.tasks) != expected or (expected and decision.option != entry.said.option):
            yield Finding(
                ("decisions", index),
                f"job {decision.job!r} has {len(decision.tasks)} tasks of option "
                f"{decision.option}; expected {expected} of option {entry.said.option}, as the "
                "schedule says",
            )


def stage_keep(reading: Reading) -> Iterator[Finding]:
    """Require that what runs is kept: nothing moves or stops."""
    for index, decision in enumerate(reading.plan.decisions):
        if decision.job in reading.running and decision.decision is not DecisionKind.KEEP:
            yield Finding(
                ("decisions", index, "decision"),
                f"job {decision.job!r} does not stay; expected 'keep'",
            )


def later_reason(reading: Reading) -> Iterator[Finding]:
    """Require of a job that waits for `later` the time at which the schedule has it begin."""
    named = entries(reading)
    for index, decision in enumerate(reading.plan.decisions):
        entry, detail = named.get(decision.job), decision.detail
        if entry is None or decision.reason is not Reason.LATER or detail is None:
            continue
        if detail.at is not None and detail.at != entry.begins()[0][0]:
            yield Finding(
                ("decisions", index, "detail", "at"),
                f"job {decision.job!r} begins at {entry.begins()[0][0]} s; expected that time",
            )


def _tasks(option: Option) -> int:
    return sum(group.count for group in option.groups)


def _at_once(begins: tuple[tuple[int, int], ...], seconds: int) -> int:
    """Return the most tasks that run at one time."""
    change: Counter[int] = Counter()
    for begin, count in begins:
        change[begin] += count
        change[begin + seconds] -= count
    return max(accumulate(change[time] for time in sorted(change)))


# Capacity in counts: a row per resource and set of GPU models, per quota, per pool of the cluster.


class _Row(NamedTuple):
    """What hosts of some GPU models have of a resource; else a tenant's quota, or a pool."""

    text: str
    resource: str
    capacity: int
    models: Models | None = None
    tenant: str | None = None
    per_job: bool = False


class _Counts:
    """What there is, asked and held in counts, beside unhealthy hosts and what is reserved."""

    def __init__(self, reading: Reading) -> None:
        hosts, (closed, _) = reading.cluster.hosts, reserved_places(reading.round)
        self._reading, self._reserved = reading, reserved_gpus(reading.round, reading.cluster)
        self._every = frozenset(host.hardware.gpu_model or NO_MODEL for host in hosts.values())
        self._open = {
            name: host.hardware
            for name, host in hosts.items()
            if host.healthy and name not in closed
        }

    def rows(self) -> Iterator[_Row]:
        """Yield the rows; those of hosts for all unions of sets of models that overlap."""
        have, sets = Counter[tuple[str, str]](), defaultdict[str, set[Models]](set)
        for name, host in self._open.items():
            gpus = host.gpus - len(self._reserved.get(name, ()))
            for resource, amount in {**host.capacity, "gpu": gpus * WHOLE_GPU}.items():
                have[resource, host.gpu_model or NO_MODEL] += amount
        for job in self._reading.given.jobs:
            for group in (group for option in job.options for group in option.groups):
                for resource in _amounts(group) if job.name in self._reading.jobs else ():
                    sets[resource].add(self._allowed(group))
        for resource, mine in sets.items():
            for models in union_closure(mine):
                capacity = sum(have[resource, model] for model in models)
                if capacity < UNLIMITED:
                    there = ", ".join(sorted(models - {NO_MODEL})) or "hosts"
                    yield _Row(f"{resource} of {there}", resource, capacity, models)
        for tenant in self._reading.round.tenants:
            for resource, most in tenant.quota.items():
                text = f"quota {resource} of {tenant.name}"
                yield _Row(text, resource, most, tenant=tenant.name)
        for pool in self._reading.round.cluster.pools:
            if pool.level is None:
                text, per_job = f"pool of {pool.resource}", pool.per == "job"
                yield _Row(text, pool.resource, pool.capacity, per_job=per_job)

    def _allowed(self, group: TaskGroup) -> Models:
        """Return the models of hosts that a group may use."""
        if group.gpu_models is not None:
            return self._every & set(group.gpu_models)
        return self._every - {NO_MODEL} if group.gpu else self._every

    def asked(self, row: _Row, entry: Entry) -> int:
        """Return what a job asks of a row, all tasks at once."""
        if row.tenant is not None:
            mine = entry.job.tenant == row.tenant
            return asked_by(entry.option)[row.resource] if mine else 0
        if row.per_job:
            return entry.option.uses.get(row.resource, 0)
        return sum(
            group.count * _amounts(group)[row.resource]
            for group in entry.option.groups
            if row.models is None or self._allowed(group) <= row.models
        )

    def held(self, row: _Row, entry: Entry) -> int:
        """Return what a running job holds of a row, of hosts where it is and is not reserved."""
        if row.models is None or entry.job.running is None:
            return self.asked(row, entry)
        total = 0
        for task in entry.job.running.tasks:
            group, host = entry.option.groups[task.group], self._open.get(task.host)
            if host is None or (host.gpu_model or NO_MODEL) not in row.models:
                continue
            if row.resource == "gpu":
                free = {*task.gpus}.difference(self._reserved.get(task.host, ()))
                total += len(free) * min(group.gpu, WHOLE_GPU)
            else:
                total += _amounts(group)[row.resource]
        return total


def _amounts(group: TaskGroup) -> Counter[str]:
    return +Counter({"gpu": group.gpu, **dict(demand(group))})


# Terms.


def makespan(reading: Reading) -> int:
    """Seconds from now until all jobs are done."""
    ends = (entry.said.end for entry in entries(reading).values())
    return max(ends, default=reading.round.now) - reading.round.now


def completion(reading: Reading) -> int:
    """Sum, over jobs that nobody waits for, of weight times the seconds until they are done."""
    named = entries(reading)
    awaited = {name for entry in named.values() for name in entry.stage.after}
    return sum(
        entry.job.weight * (entry.said.end - reading.round.now)
        for name, entry in named.items()
        if name not in awaited
    )


POLICY = PolicyRules(
    terms={
        "makespan": makespan,
        "completion": completion,
        "spread": PLACEMENT_TERMS["spread"],
    },
    rules=rules(
        schedule, schedule_times, stage_order, stage_capacity, stage_start, stage_keep, later_reason
    ),
    forms={KIND: form},
    read=as_begun,
)
