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
from placewright.instances.verify.rules.gang.limits import asked_by
from placewright.instances.verify.rules.gang.terms import PLACEMENT_TERMS
from placewright.topology.units import UNLIMITED, WHOLE_GPU

# The section, its form, and the entries that name jobs of the round and options of theirs.


KIND = "schedule"


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
    named = entries(reading)
    for row in _rows(reading):
        pending, running = Counter[int](), Counter[int]()
        for entry in named.values():
            changes = running if entry.job.running is not None else pending
            amount = row.held(entry) if entry.job.running is not None else row.asked(entry)
            if entry.job.running is not None:
                changes[reading.round.now] += amount
                changes[entry.said.end] -= amount
                continue
            each = amount // _tasks(entry.option) if entry.said.waves else amount
            seconds = entry.stage.seconds(entry.said.option)
            for begin, count in entry.begins():
                taken = each * (count if entry.said.waves else 1)
                pending[begin] += taken
                pending[begin + seconds] -= taken
        times = sorted({*pending, *running})
        asks = accumulate(pending[time] for time in times)
        holds = accumulate(running[time] for time in times)
        for time, asked, held in zip(times, asks, holds, strict=True):
            if asked > max(0, row.capacity - held):
                yield Finding(
                    ("sections",),
                    f"jobs of the schedule ask {asked:,} of {row.name} at {time} s; expected at "
                    f"most {max(0, row.capacity - held):,}, which what runs leaves",
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


class _Row:
    """What some hosts, a quota or a pool have of a resource."""

    def __init__(self, reading: Reading, name: str, resource: str, capacity: int) -> None:
        self._reading, self.name, self._resource = reading, name, resource
        self.capacity = capacity

    def asked(self, entry: Entry) -> int:
        """Return what a pending job asks, all tasks at once."""
        raise NotImplementedError

    def held(self, entry: Entry) -> int:
        """Return what a running job holds."""
        return self.asked(entry)


class _HostRow(_Row):
    """What hosts of some GPU models have."""

    def __init__(self, reading: Reading, resource: str, models: frozenset[str | None]) -> None:
        self._models, self._reserved = models, reserved_gpus(reading.round, reading.cluster)
        self._closed, _ = reserved_places(reading.round)
        total = 0
        for name, host in reading.cluster.hosts.items():
            if self._is_mine(reading, name) and resource == "gpu":
                gpus = host.hardware.gpus - len(self._reserved.get(name, ()))
                total += gpus * WHOLE_GPU
            elif self._is_mine(reading, name):
                total += host.hardware.capacity.get(resource, 0)
        there = ", ".join(sorted(model for model in models if model is not None))
        super().__init__(reading, f"{resource} of {there or 'hosts'}", resource, total)

    def _is_mine(self, reading: Reading, name: str) -> bool:
        host = reading.cluster.hosts[name]
        return host.healthy and name not in self._closed and host.hardware.gpu_model in self._models

    def asked(self, entry: Entry) -> int:
        """Return what task groups ask that may be on these hosts alone."""
        return sum(
            group.count * _amounts(group)[self._resource]
            for group in entry.option.groups
            if _allowed(self._reading, group) <= self._models
        )

    def held(self, entry: Entry) -> int:
        """Return what tasks hold that are on these hosts, without reserved GPUs."""
        total, running = 0, entry.job.running
        for task in () if running is None else running.tasks:
            if not self._is_mine(self._reading, task.host):
                continue
            group = entry.option.groups[task.group]
            if self._resource == "gpu":
                free = [g for g in task.gpus if g not in self._reserved.get(task.host, ())]
                total += len(free) * min(group.gpu, WHOLE_GPU)
            else:
                total += _amounts(group)[self._resource]
        return total


class _Account(_Row):
    """A tenant's quota, or a pool of the whole cluster if there is no tenant."""

    def __init__(
        self, reading: Reading, resource: str, capacity: int, tenant: str | None, per: str
    ) -> None:
        name = f"pool of {resource}" if tenant is None else f"quota {resource} of {tenant}"
        super().__init__(reading, name, resource, capacity)
        self._tenant, self._per = tenant, per

    def asked(self, entry: Entry) -> int:
        """Return what a job counts."""
        if self._tenant not in (None, entry.job.tenant):
            return 0
        if self._per == "job":
            return entry.option.uses.get(self._resource, 0)
        if self._tenant is not None:
            return asked_by(entry.option)[self._resource]
        return sum(
            group.count * group.resources.get(self._resource, 0) for group in entry.option.groups
        )


def _rows(reading: Reading) -> Iterator[_Row]:
    sets: defaultdict[str, set[frozenset[str | None]]] = defaultdict(set)
    for job in reading.given.jobs:
        for group in (group for option in job.options for group in option.groups):
            for resource, amount in _amounts(group).items():
                if amount and job.name in reading.jobs:
                    sets[resource].add(_allowed(reading, group))
    for resource, mine in sets.items():
        family = set(mine)
        grown = True
        while grown:
            joined = {a | b for a in family for b in mine if a & b}
            grown = not joined <= family
            family |= joined
        for models in family:
            row = _HostRow(reading, resource, models)
            if row.capacity < UNLIMITED:
                yield row
    for tenant in reading.round.tenants:
        for resource, most in tenant.quota.items():
            yield _Account(reading, resource, most, tenant.name, "task")
    for pool in reading.round.cluster.pools:
        if pool.level is None:
            yield _Account(reading, pool.resource, pool.capacity, None, pool.per)


def _amounts(group: TaskGroup) -> Counter[str]:
    return Counter({"gpu": group.gpu, **dict(demand(group))})


def _allowed(reading: Reading, group: TaskGroup) -> frozenset[str | None]:
    """Return the GPU models of hosts that a group may use; None stands for hosts without GPUs."""
    models = {host.hardware.gpu_model for host in reading.cluster.hosts.values()}
    if group.gpu_models is not None:
        return frozenset(models & set(group.gpu_models))
    return frozenset(models - {None} if group.gpu else models)


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
