"""Leases of a plan: their form, the work done in them, and what they have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from placewright.array_types import Ints
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.deadline import UNIT, Deadline, Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan_leases import Interval, LeaseSection
from placewright.instances.verify.policies import document_form, first_of, one_section
from placewright.instances.verify.reading import Promises, Reading, Spans, reserved_gpus
from placewright.instances.verify.result import Finding, rules
from placewright.instances.verify.rules.gang.limits import (
    Ledger,
    Resource,
    accounts_of,
    asked_in,
    limits_of,
)
from placewright.topology.units import WHOLE_GPU

# The verifier's own lease arithmetic: rates, the work of a lease, completion times, least hosts.
#
# Formulations have theirs in `instances.derived.leases`; a test compares the two. Work is
# in thousandths of a second at speed 1000, and times are in seconds.


def rate(pace: Pace, hosts: int) -> int:
    """Return the work per second on `hosts` hosts, in millionths of a second at speed 1000.

    The entry of `spanning` with the fewest hosts that are enough counts; beyond all, the last one.
    """
    remaining = UNIT
    for entry, part in pace.spanning if hosts > 1 else ():
        remaining = part
        if entry >= hosts:
            break
    return pace.speed * remaining


def lease_work(pace: Pace, length_s: int, hosts: int) -> int:
    """Return the work that a lease does after its overhead, rounded down."""
    if length_s <= pace.overhead_s:
        return 0
    return rate(pace, hosts) * (length_s - pace.overhead_s) // UNIT


def completion(start: int, work: int, pace: Pace, hosts: int) -> int:
    """Return the first second at which `work` is done in a lease that begins at `start`."""
    seconds, rest = divmod(work * UNIT, rate(pace, hosts))
    return start + pace.overhead_s + seconds + (rest > 0)


def fewest_hosts(option: Option, largest: Mapping[str, int]) -> int:
    """Return how many of the largest hosts the whole GPUs of an option fill, at least 1.

    `largest` has the most GPUs of a host by GPU model; a host may be of any model that some task
    group allows.
    """
    gpus = 0
    sizes = set()
    for group in option.groups:
        if group.gpu >= WHOLE_GPU:
            gpus += group.count * (group.gpu // WHOLE_GPU)
        models = largest if group.gpu_models is None else group.gpu_models
        sizes |= {largest.get(model, 0) for model in models}
    size = max(sizes, default=0)
    return max(1, (gpus + size - 1) // size) if size else 1


# The leases that a job can use, and its completion time in the leases of a plan.
#
# The current lease is placed: its speed is that of where the job is. Later leases are counted:
# their speed is that on the fewest hosts that can hold the job. A pinned job stays where it is.


def first_usable(reading: Reading, job: Job, option: int) -> int:
    """Return the first lease that a job can use with an option.

    No lease begins before the job is ready. A running job goes on with the option that it runs; any
    other has to wait for the next lease.
    """
    leases = reading.round.leases
    ready = job.deadline.ready if job.deadline is not None else None
    late = 0 if ready is None else max(0, ready - reading.round.now)
    first = -(-late // leases.length_s)
    other = job.running is not None and job.running.option != option
    return max(first, 1) if other else first


def in_order(spans: Spans, earliest: Sequence[int], horizon: int) -> npt.NDArray[np.bool_]:
    """Return which intervals are non-empty, within reach, and apart from the one before."""
    same = np.zeros(len(spans.owner), dtype=np.bool_)
    same[1:] = spans.owner[1:] == spans.owner[:-1]
    least = np.array(earliest, dtype=np.int64)[spans.owner]
    least[same] = spans.end[:-1][same[1:]] + 1
    ordered: npt.NDArray[np.bool_] = (
        (least <= spans.first) & (spans.first < spans.end) & (spans.end <= horizon)
    )
    return ordered


def largest_hosts(reading: Reading) -> dict[str, int]:
    """Return the most GPUs of a host, by GPU model."""
    largest: dict[str, int] = {}
    for host in reading.cluster.hosts.values():
        model, gpus = host.hardware.gpu_model, host.hardware.gpus
        if model is not None:
            largest[model] = max(gpus, largest.get(model, 0))
    return largest


class LeaseProgress:
    """The work that jobs do in their leases, and their completion times."""

    def __init__(self, reading: Reading) -> None:
        self._leases, self._now = reading.round.leases, reading.round.now
        self._largest = largest_hosts(reading)
        self._here = {
            placed.job.name: len({task.host.name for task in placed.tasks})
            for placed in reading.placed
        }

    def gained(self, job: Job, option: int) -> int:
        """Return the work of a job in the current lease, where it is placed.

        Without a deadline the pace is the usual one.
        """
        pace = (job.deadline or _usual()).pace(option)
        return lease_work(pace, self._leases.length_s, self._here.get(job.name, 1))

    def finish(
        self, job: Job, option: int, intervals: Sequence[Interval], *, placed: bool
    ) -> int | str:
        """Return the completion time of a job in these leases, or what is wrong with them.

        The intervals are in order. `placed`: in the current lease it is where the plan says, and
        not only counted.
        """
        deadline = job.deadline or _usual()
        pace, length = deadline.pace(option), self._leases.length_s
        later = fewest_hosts(job.options[option], self._largest)
        if job.running is not None and job.running.pinned:
            later = len({task.host for task in job.running.tasks})
        now = self._here.get(job.name, later) if placed else later
        begins, last = intervals[0][0] == 0, intervals[-1][1] - 1
        hosts = later if last else now
        count = sum(end - first for first, end in intervals)
        before = lease_work(pace, length, later) * (count - 1)
        if begins and last:
            before += lease_work(pace, length, now) - lease_work(pace, length, later)
        left = deadline.work - before
        if left > lease_work(pace, length, hosts):
            done = before + lease_work(pace, length, hosts)
            return (
                f"leases of job {job.name!r} do {done} thousandths of a second of its work; "
                f"expected {deadline.work}"
            )
        if left <= 0:
            return (
                f"job {job.name!r} is done before its last lease, {last}; "
                "expected no lease that it does not need"
            )
        return completion(self._leases.start(self._now, last), left, pace, hosts)


@cache
def _usual() -> Deadline:
    """Return the deadline of a job without one: made once, and only where there are leases."""
    return Deadline(work_s=1)


# The plan section `leases`: its form, and its promises as rules and terms read them.


KIND = "leases"


def spans(lists: Iterable[tuple[Interval, ...]]) -> Spans:
    """Return the intervals of some lists of them; the owner is the index of the list."""
    each = list(lists)
    flat = chain.from_iterable(chain.from_iterable(each))
    pairs = np.fromiter(flat, dtype=np.int64).reshape(-1, 2)
    owner = np.repeat(np.arange(len(each)), [len(one) for one in each])
    return Spans(owner, pairs[:, 0], pairs[:, 1])


def form(
    reading: Reading, entry: Mapping[str, Any], path: tuple[str | int, ...]
) -> Iterator[Finding]:
    """Require the fields of the section; `sections.section` applies it."""
    if reading.promises is not None and reading.promises.path == path:
        return
    yield from document_form(LeaseSection, entry, path)


def with_promises(reading: Reading) -> Reading:
    """Return a reading with the promises of its plan, if they can be read.

    Of a job that is named twice the first entry counts, and entries that name no job of the round
    with a deadline, or none of its options, are left out; a rule reports them.
    """
    found = first_of(reading, KIND, LeaseSection)
    if found is None:
        return reading
    path, section = found
    numbers: dict[str, int] = {}
    for number, promised in enumerate(section.jobs):
        job = reading.jobs.get(promised.job)
        if job is not None and job.deadline is not None and promised.option < len(job.options):
            numbers.setdefault(promised.job, number)
    each = spans(promised.leases for promised in section.jobs)
    earliest = [0] * len(section.jobs)
    for name, number in numbers.items():
        option = section.jobs[number].option
        earliest[number] = first_usable(reading, reading.jobs[name], option)
    wrong = ~in_order(each, earliest, reading.round.leases.horizon)
    out = frozenset(each.owner[wrong].tolist())
    timely = {number: reading.jobs[name] for name, number in numbers.items() if number not in out}
    return replace(reading, promises=Promises(path, section, numbers, each, timely))


def leases(reading: Reading) -> Iterator[Finding]:
    """Require one section, of leases as long as those of the round."""
    yield from one_section(reading, KIND, f"section {KIND!r} is missing")
    promises, length = reading.promises, reading.round.leases.length_s
    if promises is not None and promises.section.length != length:
        yield Finding(
            (*promises.path, "length"),
            f"leases of {promises.section.length} seconds are not those of the round; "
            f"expected {length}",
        )


def promised_job(reading: Reading) -> Iterator[Finding]:
    """Require of each promise a job with a deadline, once, and one of the job's options."""
    promises = reading.promises
    if promises is None:
        return
    for number, promised in enumerate(promises.section.jobs):
        job = reading.jobs.get(promised.job)
        if job is None:
            problem = "is not in the round; expected one of its jobs"
        elif job.deadline is None:
            problem = "has no deadline; expected jobs that can be promised something"
        elif promised.option >= len(job.options):
            problem = f"has no option {promised.option}; expected at most {len(job.options) - 1}"
        elif promises.numbers[promised.job] != number:
            problem = "is promised something already; expected it once"
        else:
            continue
        yield Finding((*promises.path, "jobs", number, "job"), f"job {promised.job!r} {problem}")


RULES_OF_LEASES = rules(leases, promised_job)


# Capacity of each lease in milli-GPU; hosts, CPU and memory are not considered.
#
# There is a row per set of GPU models, and one per quota and cap of GPUs, GPUs of a model or
# jobs. Demands that may use some models fit beside each other exactly if, for every union of
# their sets of models, those inside it ask no more than it has (Hall's condition); unions of sets
# without a common model add nothing.


Models = frozenset[str]
Span = tuple[int, int]
"""The first lease of an interval, and the one after its last."""


class LeaseCapacity:
    """Capacity rows of some jobs and options: by set of GPU models, and by quota and cap.

    `free` is (rows, horizon); `tolerated` (rows,) is the part of the current lease that those hold
    who run on unhealthy hosts and on reserved GPUs, where nobody else may come.
    Pinned jobs run on without a break: what they hold is subtracted, and they have no demand.
    """

    def __init__(self, reading: Reading, asking: Iterable[tuple[Job, int]]) -> None:
        self._reading = reading
        self._models = frozenset(
            host.hardware.gpu_model
            for host in reading.cluster.hosts.values()
            if host.hardware.gpu_model is not None
        )
        asking = list(asking)
        sets = {models for job, o in asking for models, _ in self._asked(job.options[o])}
        self.sets = sorted(union_closure(sets), key=sorted)
        owners = {account for job, _ in asking for account in accounts_of(job)}
        self._limits = [
            (account, resource, most)
            for account, limits in limits_of(reading.round, by_region=False).items()
            for resource, most in limits.items()
            if account in owners and _holds_in_every_lease(resource)
        ]
        pinned = list(_pinned(reading))
        by_model = _capacity(reading, pinned)
        there = _tolerated(reading)
        self.tolerated: Ints = np.array(
            [sum(there.get(model, 0) for model in each) for each in self.sets]
            + [0] * len(self._limits),
            dtype=np.int64,
        )
        none = np.zeros(reading.round.leases.horizon, dtype=np.int64)
        rows = [sum((by_model.get(model, none) for model in each), none) for each in self.sets]
        held = Ledger(reading).before
        for account, resource, most in self._limits:
            left = np.full_like(none, most)
            left[0] = max(most, held[account][resource] if account in held else 0)
            for job, option, end in pinned:
                if account in accounts_of(job):
                    left[:end] -= asked_in(account, option).get(resource, 0)
            rows.append(np.maximum(left, 0))
        self.free: Ints = np.array(rows, dtype=np.int64).reshape(len(rows), len(none))

    def names(self) -> list[str]:
        """Name each row for messages."""
        return [
            "GPUs" if each == self._models else f"GPUs of {', '.join(sorted(each))}"
            for each in self.sets
        ] + [str(account) for account, _, _ in self._limits]

    def demand(self, asking: Iterable[tuple[Job, int]]) -> Ints:
        """Return the demand of each job on each row in one lease (jobs, rows)."""
        table: list[list[int]] = []
        for job, chosen in asking:
            option, held = job.options[chosen], job.running
            if held is not None and held.pinned:
                table.append([0] * len(self.free))
                continue
            asked = self._asked(option)
            inside = [sum(gpu for models, gpu in asked if models <= each) for each in self.sets]
            mine = accounts_of(job)
            owned = [
                asked_in(account, option).get(resource, 0) if account in mine else 0
                for account, resource, _ in self._limits
            ]
            table.append(inside + owned)
        return np.array(table, dtype=np.int64).reshape(len(table), len(self.free))

    def taken(self, promises: Promises) -> Ints:
        """Return the usage of each row by the timely promises in each lease (rows, horizon)."""
        jobs, (rows, horizon) = promises.timely, self.free.shape
        asked = np.zeros((len(promises.section.jobs), rows), dtype=np.int64)
        counts = np.zeros(len(asked), dtype=np.bool_)
        for number in jobs:
            counts[number] = True
        asked[counts] = self.demand(
            (jobs[number], promises.section.jobs[number].option) for number in sorted(jobs)
        )
        owner, first, end = (array[counts[promises.spans.owner]] for array in promises.spans)
        change = np.zeros((horizon + 1, rows), dtype=np.int64)
        np.add.at(change, first, asked[owner])
        np.subtract.at(change, end, asked[owner])
        taken: Ints = np.cumsum(change[:-1], axis=0).T
        return taken

    def _asked(self, option: Option) -> list[tuple[Models, int]]:
        return [
            (self._models if group.gpu_models is None else frozenset(group.gpu_models), gpu)
            for group in option.groups
            if (gpu := group.milli_gpu)
        ]


def interval_minima(table: Ints, spans: Spans) -> Ints:
    """Range minima: the least entry of each row of a table in each interval (intervals, rows).

    The minima of all runs of 1, 2, 4, ... columns are made once; two of them cover an interval.
    """
    runs = [table]
    length = spans.end - spans.first
    for step in range(int(length.max(initial=1)).bit_length() - 1):
        last = runs[-1]
        runs.append(np.minimum(last[:, : -(1 << step)], last[:, 1 << step :]))
    least = np.empty((len(length), len(table)), dtype=np.int64)
    level = np.frexp(length.astype(np.float64))[1] - 1
    for step, run in enumerate(runs):
        of = np.flatnonzero(level == step)
        first, second = spans.first[of], spans.end[of] - (1 << step)
        least[of] = np.minimum(run[:, first], run[:, second]).T
    return least


def union_closure(sets: set[Models]) -> set[Models]:
    """Return some sets, and the unions of those that overlap."""
    family = set(sets)
    waiting = list(sets)
    while waiting:
        one = waiting.pop()
        for other in sets:
            union = one | other
            if one & other and union not in family:
                family.add(union)
                waiting.append(union)
    return family


def _holds_in_every_lease(resource: Resource) -> bool:
    """Whether a quota or cap of this holds in later leases, too."""
    return resource.kind != "resources" if isinstance(resource, Measure) else resource == "gpu"


class PinnedJob(NamedTuple):
    """A pinned job, its option, and the first lease after it is done."""

    job: Job
    option: Option
    end: int


def _pinned(reading: Reading) -> Iterator[PinnedJob]:
    """Yield the pinned jobs: each runs until its work is done, or for the whole horizon."""
    leases = reading.round.leases
    for name, running in reading.running.items():
        if not running.pinned:
            continue
        job, end = reading.jobs[name], leases.horizon
        if job.deadline is not None:
            pace = job.deadline.pace(running.option)
            each = lease_work(pace, leases.length_s, len({task.host for task in running.tasks}))
            if each:
                end = min(end, -(-job.deadline.work // each))
        yield PinnedJob(job, job.options[running.option], end)


def _capacity(reading: Reading, pinned: Iterable[PinnedJob]) -> Mapping[str, Ints]:
    """Return the milli-GPU of each GPU model in each lease (horizon,).

    Unhealthy hosts have none in any lease, and reserved GPUs are out of the current one; but what
    already runs there may stay for that lease.
    """
    hosts, horizon = reading.cluster.hosts, reading.round.leases.horizon
    away = _outages(reading)
    change: defaultdict[str, Ints] = defaultdict(lambda: np.zeros(horizon + 1, dtype=np.int64))
    for name, host in hosts.items():
        model = host.hardware.gpu_model
        if model is not None:
            whole = WHOLE_GPU * host.hardware.gpus * host.healthy
            _add(change[model], (0, horizon), whole)
            for span in away.get(name, ()):
                _add(change[model], span, -whole)
    for name, gpus in reserved_gpus(reading.round, reading.cluster).items():
        model = hosts[name].hardware.gpu_model
        if model is not None and hosts[name].healthy and not _away_now(away, name):
            _add(change[model], (0, 1), -WHOLE_GPU * len(gpus))
    for model, milli in _tolerated(reading).items():
        _add(change[model], (0, 1), milli)
    for held in pinned:
        for task in reading.running[held.job.name].tasks:
            host = hosts[task.host]
            model = host.hardware.gpu_model
            if model is None:
                continue
            takes = len(task.gpus) * min(held.option.groups[task.group].gpu, WHOLE_GPU)
            until = held.end if host.healthy else min(held.end, 1)
            _add(change[model], (0, until), -takes)
            for first, end in away.get(task.host, ()):
                if first < until:
                    _add(change[model], (first, min(end, until)), takes)
    return {model: each[:-1].cumsum() for model, each in change.items()}


def _add(change: Ints, span: Span, amount: int) -> None:
    """Add an amount in an interval of leases to an array of differences."""
    change[span[0]] += amount
    change[span[1]] -= amount


def _tolerated(reading: Reading) -> Mapping[str, int]:
    """Return the milli-GPU per model of what runs on unhealthy hosts and on reserved GPUs."""
    reserved = reserved_gpus(reading.round, reading.cluster)
    away = _outages(reading)
    found: defaultdict[str, int] = defaultdict(int)
    for name, running in reading.running.items():
        groups = reading.option_run(name).groups
        for task in running.tasks:
            host, gpus = reading.cluster.hosts[task.host], set(task.gpus)
            if host.healthy:
                gpus &= reserved.get(task.host, set())
            if gpus and host.hardware.gpu_model is not None and not _away_now(away, task.host):
                milli = len(gpus) * min(groups[task.group].gpu, WHOLE_GPU)
                found[host.hardware.gpu_model] += milli
    return found


def _away_now(away: Mapping[str, Sequence[Span]], host: str) -> bool:
    """Whether a host is away in the current lease."""
    return any(first == 0 for first, _ in away.get(host, ()))


def _outages(reading: Reading) -> dict[str, list[Span]]:
    """Return the leases in which each host with an outage is away: intervals that lie apart."""
    leases, now = reading.round.leases, reading.round.now
    spans: defaultdict[str, list[Span]] = defaultdict(list)
    for outage in leases.outages:
        first = 0 if outage.start is None else (outage.start - now) // leases.length_s
        last = leases.horizon if outage.end is None else -((now - outage.end) // leases.length_s)
        span = max(first, 0), min(last, leases.horizon)
        for name in expand(outage.host) if span[0] < span[1] else ():
            spans[name].append(span)
    away: dict[str, list[Span]] = {}
    for name, found in spans.items():
        apart = away[name] = []
        for first, end in sorted(found):
            if apart and first <= apart[-1][1]:
                apart[-1] = apart[-1][0], max(apart[-1][1], end)
            else:
                apart.append((first, end))
    return away
