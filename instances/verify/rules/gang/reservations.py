"""The rules about reservations, and about jobs that may not start yet.

The section `reservations` is replayed: at its time each reservation fits beside what is expected to
run then and the other reservations, before the plan and after it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from placewright.instances.derived.ranges import expand
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.base import Document, Index, Many, Name
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import DecisionKind, Reason, Task
from placewright.instances.verify.cluster_facts import HostFacts
from placewright.instances.verify.reading import Reading, demand
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.gang.waiting import end_of, may_start, queue_key
from placewright.topology.units import WHOLE_GPU

KIND = "reservations"
LAST = 10**15
"""Later than any time of a round."""

_FOREVER = float("inf")
_MINE = (Reason.HELD, Reason.NOT_BEFORE, Reason.RESERVED, Reason.HELD_FOR_RESERVATION)

Path = tuple[str | int, ...]


class ReservedTasks(Document):
    """How many tasks of a group are to be on a host."""

    group: Index = 0
    host: Name
    tasks: Annotated[int, Field(strict=True, ge=1)]


class ReservedJob(Document):
    """A reservation: a job, when it is to start and to end (None: never), with what, and where.

    `was` is its time in the last round, and `cause` why it is later now.
    """

    job: Name
    option: Index = 0
    at: Index
    end: Index | None = None
    was: Index | None = None
    cause: Literal["arrival", "overrun", "capacity"] | None = None
    tasks: Many[ReservedTasks]


class ReservationSection(Document):
    """The jobs at the head of the queue that start, and the reservations of the others."""

    kind: Literal["reservations"] = "reservations"
    starts: Many[Name] = ()
    jobs: Many[ReservedJob] = ()


def form(_: Reading, entry: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Require the fields of the section."""
    try:
        ReservationSection.model_validate(entry)
    except ValidationError as error:
        first = error.errors()[0]
        yield Finding((*path, *first["loc"]), f"section {KIND!r}: {first['msg']}")


def eligible(reading: Reading) -> Iterator[Finding]:
    """Refuse the start of a job that is held, or whose eligible time has not come."""
    for placed in reading.started:
        if not may_start(placed.job, reading.round.now):
            when = "it is held" if placed.job.held else f"before {placed.job.not_before} s"
            yield Finding(
                (*placed.path, "decision"),
                f"job {placed.job.name!r} starts, {when}; expected it to wait",
            )


def waiting_reason(reading: Reading) -> Iterator[Finding]:
    """Require that a job which waits by itself or for a reservation does so, with the right facts.

    A job held back for a reservation would not have ended by its time.
    """
    at = {
        str(job.get("job")): job.get("at")
        for entry in reading.plan.sections
        if entry.get("kind") == KIND
        for job in entry.get("jobs") or ()
    }
    now = reading.round.now
    for index, decision in enumerate(reading.plan.decisions):
        job, reason, detail = reading.jobs.get(decision.job), decision.reason, decision.detail
        if job is None or reason not in _MINE:
            continue
        time, other = (None, None) if detail is None else (detail.at, detail.job)
        true = {
            Reason.HELD: job.held,
            Reason.NOT_BEFORE: not may_start(job, now) and time == job.not_before,
            Reason.RESERVED: job.name in at and time == at[job.name],
            Reason.HELD_FOR_RESERVATION: other in at
            and time == at[other or ""]
            and end_of(job, now) > (time or 0),
        }
        if not true[reason]:
            yield Finding(
                ("decisions", index, "reason"),
                f"job {job.name!r} waits for {reason!s}, {reason_text(reason, detail)!r}, "
                "which is not so; expected another reason",
            )


class _Held(NamedTuple):
    """A job that holds something from now until its end."""

    job: Job
    option: Option
    tasks: tuple[Task, ...]
    end: float
    is_bound: bool


class _Reserved(NamedTuple):
    """A reservation with its job, option and groups."""

    path: Path
    job: Job
    option: Option
    at: int
    end: float
    tasks: tuple[tuple[TaskGroup, HostFacts, int], ...]
    was: int | None = None

    def active(self, at: float) -> bool:
        return self.at <= at < self.end


def reservations(reading: Reading) -> Iterator[Finding]:
    """Require one section if the policy has `backfill`, and that it keeps what it states."""
    policy = reading.round.policy
    given = [
        (("sections", index), entry)
        for index, entry in enumerate(reading.plan.sections)
        if entry.get("kind") == KIND
    ]
    if len(given) != (policy.backfill is not None):
        yield Finding(
            ("sections",),
            f"{len(given)} sections {KIND!r}; expected "
            f"{'one, as' if policy.backfill else 'none without'} policy.backfill",
        )
        return
    for path, entry in given:
        try:
            section = ReservationSection.model_validate(entry)
        except ValidationError:
            continue  # reported by its form
        yield from _Replay(reading, path, section).findings()


class _Replay:
    """One section, replayed over the times at which its reservations begin."""

    def __init__(self, reading: Reading, path: Path, section: ReservationSection) -> None:
        self._reading, self._path, self._section = reading, path, section
        self._now = reading.round.now
        jobs = reading.round.jobs
        self._order = {
            job.name: queue_key(job, i, self._now)
            for i, job in enumerate(jobs)
            if job.running is None and may_start(job, self._now)
        }
        self._reserved: list[_Reserved] = []

    def findings(self) -> Iterator[Finding]:
        problems = list(self._read())
        yield from problems
        if problems:
            return
        yield from self._in_turn()
        yield from self._in_order_of_time()
        yield from self._kept()

    def _read(self) -> Iterator[Finding]:
        """Resolve the reservations, and require that they make sense."""
        reading = self._reading
        started = {placed.job.name for placed in reading.started}
        for index, name in enumerate(self._section.starts):
            if name not in started or name not in self._order:
                yield Finding(
                    (*self._path, "starts", index),
                    f"job {name!r} does not start in its turn; expected jobs that start",
                )
        for index, entry in enumerate(self._section.jobs):
            path = (*self._path, "jobs", index)
            job = reading.jobs.get(entry.job)
            if job is None or entry.job not in self._order or entry.option >= len(job.options):
                yield Finding(
                    path,
                    f"reservation of job {entry.job!r}, option {entry.option}; "
                    "expected a pending job that may start, and one of its options",
                )
                continue
            option = job.options[entry.option]
            runtime = job.expected_runtime_s
            end = None if runtime is None else entry.at + runtime
            if entry.at <= self._now or entry.end != end:
                yield Finding(
                    path,
                    f"reservation of job {job.name!r} from {entry.at} to {entry.end}; "
                    f"expected a start after {self._now} and the end {end}",
                )
            if wrong := self._misplaced(option, entry.tasks):
                yield Finding((*path, "tasks"), f"reservation of job {job.name!r}: {wrong}")
                continue
            hosts = reading.cluster.hosts
            tasks = tuple((option.groups[t.group], hosts[t.host], t.tasks) for t in entry.tasks)
            until = _FOREVER if end is None else end
            self._reserved.append(_Reserved(path, job, option, entry.at, until, tasks, entry.was))

    def _misplaced(self, option: Option, tasks: Sequence[ReservedTasks]) -> str:
        """Say which tasks are where they may not be, "" if none is."""
        number = Counter[int]()
        domains: dict[tuple[int, str], set[str]] = defaultdict(set)
        for entry in tasks:
            host = self._reading.cluster.hosts.get(entry.host)
            if host is None or entry.group >= len(option.groups):
                return f"group {entry.group} on host {entry.host!r}; expected ones that exist"
            group = option.groups[entry.group]
            if not self._may_arrive(group, host):
                return f"no task of group {entry.group} may arrive on host {entry.host!r}"
            number[entry.group] += entry.tasks
            for key, level in ((entry.group, group.required), (-1, option.required)):
                if level is not None:
                    position = self._reading.cluster.levels[level]
                    domains[key, level].add(host.domains[position])
        for index, group in enumerate(option.groups):
            if number[index] != group.count:
                return f"{number[index]} tasks of group {index}; expected {group.count}"
        for (_, level), found in domains.items():
            if len(found) > 1:
                return f"tasks in {len(found)} domains of level {level!r}; expected one"
        return ""

    def _may_arrive(self, group: TaskGroup, host: HostFacts) -> bool:
        if not host.healthy or host.name in self._reading.vacated or host.name in self._closed[0]:
            return False
        if group.gpu_models is not None and host.hardware.gpu_model not in group.gpu_models:
            return False
        return group.hosts is None or host.name in {
            name for entry in group.hosts for name in expand(entry)
        }

    @cached_property
    def _closed(self) -> tuple[set[str], dict[str, set[int]]]:
        """Hosts, and GPUs by host, that reservations of the round close."""
        hosts, gpus = set[str](), defaultdict[str, set[int]](set)
        for entry in self._reading.round.reservations:
            for name in expand(entry.host):
                if entry.gpus is None:
                    hosts.add(name)
                else:
                    gpus[name] |= set(entry.gpus)
        return hosts, gpus

    def _in_turn(self) -> Iterator[Finding]:
        """Require that jobs are named in the order of the queue, and nobody is passed over."""
        backfill = self._reading.round.policy.backfill
        depth = len(self._order)
        if backfill is not None and backfill.depth != "all":
            depth = backfill.depth
        named = [self._order[r.job.name] for r in self._reserved]
        if named != sorted(set(named)) or len(named) > depth:
            yield Finding(
                (*self._path, "jobs"),
                f"{len(named)} reservations; expected at most {depth}, in the order of the queue",
            )
            return
        head = {*self._section.starts, *(r.job.name for r in self._reserved)}
        last = named[-1] if named and len(named) == depth else None
        for decision in self._reading.plan.decisions:
            place = self._order.get(decision.job)
            if place is None or decision.job in head or (last is not None and place > last):
                continue
            if decision.decision is not DecisionKind.WAIT:
                continue
            job = self._reading.jobs[decision.job]
            before = [r for r in self._reserved if self._order[r.job.name] < place]
            asked = _Reserved((), job, job.options[0], LAST, _FOREVER, ())
            at = self._earlier(asked, before)
            if at is not None:
                yield Finding(
                    (*self._path, "jobs"),
                    f"job {job.name!r} waits in its turn without a reservation; "
                    f"expected one at {at}, when it fits",
                )
        late = [name for name in self._section.starts if last and self._order[name] > last]
        if late:
            yield Finding(
                (*self._path, "starts"),
                f"job {late[0]!r} comes after the last reservation; expected jobs before it",
            )

    def _in_order_of_time(self) -> Iterator[Finding]:
        """Require that each reservation fits beside the earlier ones, and at no earlier time."""
        head = self._running + self._heads
        for k, reserved in enumerate(self._reserved):
            before = self._reserved[:k]
            times = {reserved.at, *(r.at for r in before if reserved.active(r.at))}
            for at in sorted(times):
                if wrong := self._excess(at, head, [*before, reserved]):
                    yield Finding(
                        reserved.path,
                        f"reservation of job {reserved.job.name!r} at {reserved.at}: {wrong} "
                        f"at {at}",
                    )
                    break
            else:
                # It leaves later ones as they were in the last round, which the plan does not say.
                after = any(r.was is not None for r in self._reserved[k + 1 :])
                bound = reserved.was is not None and after
                earlier = None if bound else self._earlier(reserved, before)
                if earlier is not None:
                    yield Finding(
                        (*reserved.path, "at"),
                        f"reservation of job {reserved.job.name!r} at {reserved.at}; "
                        f"expected {earlier}, when it fits",
                    )

    def _kept(self) -> Iterator[Finding]:
        """Require that no job that starts or moves delays a reservation."""
        heads = set(self._section.starts)
        after = [
            _Held(
                placed.job,
                placed.option,
                tuple(placed.decision.tasks),
                end_of(placed.job, self._now),
                placed.job.name not in heads and placed.job.running is None,
            )
            for placed in self._reading.placed
        ]
        for at in sorted({r.at for r in self._reserved}):
            if wrong := self._excess(at, after, self._reserved):
                first = next(r for r in self._reserved if r.at == at)
                yield Finding(
                    first.path,
                    f"reservation of job {first.job.name!r} at {at} is delayed: {wrong}",
                )

    @cached_property
    def _running(self) -> list[_Held]:
        """The jobs that run before the round."""
        reading = self._reading
        return [
            _Held(job, reading.option_run(name), running.tasks, end_of(job, self._now), False)
            for name, running in reading.running.items()
            for job in (reading.jobs[name],)
        ]

    @cached_property
    def _heads(self) -> list[_Held]:
        """The jobs that start in their turn."""
        heads = set(self._section.starts)
        return [
            _Held(p.job, p.option, tuple(p.decision.tasks), end_of(p.job, self._now), False)
            for p in self._reading.started
            if p.job.name in heads
        ]

    def _excess(self, at: int, held: Sequence[_Held], reserved: Sequence[_Reserved]) -> str:
        """Say of what hosts of reservations, or tenants, have too little at a time; "" if none."""
        active = [r for r in reserved if r.active(at)]
        hosts = {host.name: host for r in active for _, host, _ in r.tasks}
        taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for r in active:
            for group, host, number in r.tasks:
                taken[host.name]["gpu"] += gpus_of(group, number)
                for name, amount in demand(group):
                    taken[host.name][name] += number * amount
        gpus = {host: count["gpu"] for host, count in taken.items()}
        used: dict[str, set[int]] = {name: set(self._closed[1].get(name, ())) for name in hosts}
        for one in (*self._running, *self._heads):
            for task in one.tasks if one.end > at else ():
                if task.host in used and is_part(one.option.groups[task.group]):
                    used[task.host].update(task.gpus)
        for one in held:
            for task in one.tasks if one.end > at else ():
                if task.host not in hosts:
                    continue
                group = one.option.groups[task.group]
                if one.is_bound and gpus[task.host] and is_part(group):
                    return f"part of a GPU of host {task.host!r} goes to job {one.job.name!r}"
                used[task.host].update(task.gpus)
                for name, amount in demand(group):
                    taken[task.host][name] += amount
        for name, host in hosts.items():
            if gpus[name] and len(used[name]) + gpus[name] > host.hardware.gpus:
                return f"{len(used[name])} GPUs of host {name!r} in use, {gpus[name]} reserved"
            for resource, amount in taken[name].items():
                if resource != "gpu" and amount > host.hardware.capacity.get(resource, 0):
                    return f"too little {resource} on host {name!r}"
        return self._quota_excess(at, held, active)

    def _quota_excess(self, at: int, held: Iterable[_Held], active: Iterable[_Reserved]) -> str:
        uses: defaultdict[str, Counter[str]] = defaultdict(Counter)
        tenants = set[str]()
        for r in active:
            uses[r.job.tenant or ""].update(_asked(r.option))
            tenants.add(r.job.tenant or "")
        for one in held:
            if one.end > at and one.job.tenant in tenants:
                uses[one.job.tenant or ""].update(_asked(one.option))
        for tenant in self._reading.round.tenants:
            for name, most in tenant.quota.items() if tenant.name in tenants else ():
                if uses[tenant.name][name] > most:
                    return f"tenant {tenant.name!r} would hold more {name} than its quota"
        return ""

    def _earlier(self, reserved: _Reserved, before: Sequence[_Reserved]) -> int | None:
        """Return an earlier time at which a plain job of one group fits, None if there is none."""
        option, job = reserved.option, reserved.job
        group = option.groups[0]
        plain = (
            len(option.groups) == len(job.options) == 1
            and group.gpu >= WHOLE_GPU
            and not (group.slices or group.apart or group.mig or group.gpu_memory)
            and job.anti_affinity is None
        )
        if not plain:
            return None
        held = self._running + self._heads
        ends = {one.end for one in held} | {r.end for r in before}
        hosts = [
            host for host in self._reading.cluster.hosts.values() if self._may_arrive(group, host)
        ]
        level = group.required or option.required
        for at in sorted({self._now} | {int(e) for e in ends if self._now < e < _FOREVER}):
            if at >= reserved.at:
                break
            end = _FOREVER if job.expected_runtime_s is None else at + job.expected_runtime_s
            times = [at, *(r.at for r in before if at < r.at < end)]
            room = Counter[str]()
            for host in hosts:
                room[host.domains[self._reading.cluster.levels[level]] if level else ""] += min(
                    self._room(group, host, time, held, before) for time in times
                )
            if max(room.values(), default=0) < group.count:
                continue
            mine = _Reserved((), job, option, at, end, ())
            if not any(self._quota_excess(t, held, [*_at(before, t), mine]) for t in times):
                return at
        return None

    def _room(
        self,
        group: TaskGroup,
        host: HostFacts,
        at: int,
        held: Sequence[_Held],
        before: Sequence[_Reserved],
    ) -> int:
        """Return how many tasks of a group a host has room for at a time."""
        key = host.name, at, tuple(r.job.name for r in before)
        if key not in self._room_known:
            used = set(self._closed[1].get(host.name, ()))
            taken = Counter[str]()
            for one in held:
                for task in one.tasks if one.end > at else ():
                    if task.host == host.name:
                        used.update(task.gpus)
                        taken.update(dict(demand(one.option.groups[task.group])))
            gpus = len(used)
            for r in _at(before, at):
                for asked, where, number in r.tasks:
                    if where.name == host.name:
                        gpus += gpus_of(asked, number)
                        for name, amount in demand(asked):
                            taken[name] += number * amount
            self._room_known[key] = gpus, taken
        gpus, taken = self._room_known[key]
        room = (host.hardware.gpus - gpus) // (group.gpu // WHOLE_GPU)
        for name, amount in demand(group):
            if amount:
                room = min(room, (host.hardware.capacity.get(name, 0) - taken[name]) // amount)
        return max(room, 0)

    @cached_property
    def _room_known(self) -> dict[tuple[str, int, tuple[str, ...]], tuple[int, Counter[str]]]:
        return {}


def is_part(group: TaskGroup) -> bool:
    """Whether a task of a group takes a part of a GPU."""
    return group.mig is not None or group.gpu % WHOLE_GPU > 0


def gpus_of(group: TaskGroup, tasks: int) -> int:
    """Return the whole GPUs that are reserved on a host for tasks of a group."""
    if group.mig is not None or group.gpu >= WHOLE_GPU:
        return tasks * max(group.gpu // WHOLE_GPU, 1)
    if group.gpu == 0:
        return 0
    together = WHOLE_GPU // group.gpu
    return (tasks + together - 1) // together


def _at(reserved: Iterable[_Reserved], at: int) -> list[_Reserved]:
    return [r for r in reserved if r.active(at)]


def _asked(option: Option) -> Counter[str]:
    total = Counter[str]()
    for group in option.groups:
        total["gpu"] += group.milli_gpu
        for name, amount in demand(group):
            total[name] += group.count * amount
    return total


RULES: tuple[Rule[Reading], ...] = (
    Rule("eligible", eligible),
    Rule("reservations", reservations),
    Rule("waiting_reason", waiting_reason),
)
