"""The rule about the plan section `reservations`, which is replayed in the order of the queue.

At its time each reservation fits beside what is expected to run then and the other reservations,
before the plan and after it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.errors import Path
from placewright.instances.verify.policies import first_of, given
from placewright.instances.verify.reading import HostFacts, Reading
from placewright.instances.verify.result import Finding, rules
from placewright.instances.verify.rules.gang.places import TIES, Located, crowded, miscounted, torn
from placewright.instances.verify.rules.gang.timeline import (
    FOREVER,
    KIND,
    EarliestTimes,
    Overbooking,
    ReservationSection,
    Reserved,
    ReservedJob,
    Timeline,
    held_by,
)
from placewright.instances.verify.rules.gang.waiting import (
    Entitlement,
    Turn,
    end_of,
    may_start,
    queue_key,
)

_BEHIND = 10**9 + 1
"""More than the negative of any priority."""


def reservations(reading: Reading) -> Iterator[Finding]:
    """Require one section if the policy has `backfill`, and that it keeps what it states."""
    policy = reading.round.policy
    number = len(given(reading, KIND))
    if number != (policy.backfill is not None):
        yield Finding(
            ("sections",),
            f"{number} sections {KIND!r}; expected "
            f"{'one, as' if policy.backfill else 'none without'} policy.backfill",
        )
    elif (found := first_of(reading, KIND, ReservationSection)) is not None:
        yield from _Replay(reading, *found).findings()


class _Replay:
    """One section, replayed over the times at which its reservations begin."""

    def __init__(self, reading: Reading, path: Path, section: ReservationSection) -> None:
        self._reading, self._path, self._section = reading, path, section
        self._now = reading.round.now
        self._entitlement = Entitlement(reading.round)
        jobs = reading.round.jobs
        backfill = reading.round.policy.backfill
        self._listed = backfill is not None and backfill.order == "listed"
        self._order: dict[str, Turn] = {
            job.name: (i,)
            if self._listed
            else (not self._rank(job)[0], *queue_key(job, i, self._now))
            for i, job in enumerate(jobs)
            if job.running is None and may_start(job, self._now)
        }
        named = [self._order[entry.job] for entry in section.jobs if entry.job in self._order]
        self._last = max(named) if named and len(named) == self._depth else None
        self._turns = {name: self._turn_of(reading.jobs[name]) for name in self._order}
        self._starts = {name: self._turns[name] for name in section.starts if name in self._turns}
        self._turns_of_starts = sorted(self._starts.values())
        self._reserved: list[Reserved] = []
        self._timeline = Timeline(reading, self._starts)
        self._times = EarliestTimes(self._timeline)

    @property
    def _depth(self) -> int:
        backfill = self._reading.round.policy.backfill
        if backfill is None or backfill.depth == "all":
            return len(self._order)
        return backfill.depth

    def _turn_of(self, job: Job) -> Turn:
        """Return what jobs are taken in the order of.

        Behind the last reservation those of a precedence go first that end before all of them.
        """
        place = self._order[job.name]
        if self._listed or self._last is None or place <= self._last:
            return place
        first = min(entry.at for entry in self._section.jobs)
        entitled, priority = self._rank(job)
        return _BEHIND, not entitled, -priority, end_of(job, self._now) > first, *place

    def _rank(self, job: Job) -> tuple[bool, int]:
        """Return the precedence of a job: whether it is entitled with some option, its priority."""
        options = range(len(job.options))
        return any(self._entitlement.of(job, o).entitled for o in options), job.priority

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
            until = FOREVER if end is None else end
            if wrong := self._misplaced(option, entry, until):
                yield Finding((*path, "tasks"), f"reservation of job {job.name!r}: {wrong}")
                continue
            hosts = reading.cluster.hosts
            tasks = tuple((option.groups[t.group], hosts[t.host], t.tasks) for t in entry.tasks)
            self._reserved.append(Reserved(path, job, option, entry.at, until, tasks, entry.was))

    def _misplaced(self, option: Option, reserved: ReservedJob, end: float) -> str:
        """Say which tasks are where they may not be, "" if none is."""
        number = Counter[int]()
        hosts: list[tuple[HostFacts, int, int]] = []
        for entry in reserved.tasks:
            host = self._reading.cluster.hosts.get(entry.host)
            if host is None or entry.group >= len(option.groups):
                return f"group {entry.group} on host {entry.host!r}; expected ones that exist"
            group = option.groups[entry.group]
            if not self._timeline.may_arrive(group, host, reserved.at, end):
                return f"no task of group {entry.group} may arrive on host {entry.host!r}"
            number[entry.group] += entry.tasks
            hosts.append((host, entry.group, entry.tasks))
        for index, group in enumerate(option.groups):
            if number[index] != group.count:
                return f"{number[index]} tasks of group {index}; expected {group.count}"
        return self._misarranged(option, hosts)

    def _misarranged(self, option: Option, hosts: list[tuple[HostFacts, int, int]]) -> str:
        """Say which constraint of topology tasks break, by host, group and number; "" if none.

        Which task is where is not said: neighbours are numbered one after the other.
        """
        levels, tasks = self._reading.cluster.levels, list[Located]()
        next_of = Counter[int]()
        for host, group, number in sorted(hosts, key=lambda one: one[0].domains):
            first = next_of[group]
            next_of[group] += number
            tasks += [(group, index, host) for index in range(first, first + number)]
        for tie in TIES:
            for level, _, used in torn(tie, levels, option, tasks):
                return f"tasks in {len(used)} domains of level {level!r}; expected one"
        for group, rule, domain, count in crowded(levels, option, tasks):
            return f"{count} tasks of group {group} in {domain!r}; expected at most {rule.most}"
        for _, asked, number in miscounted(option, tasks):
            return f"tasks on {number} hosts; expected {asked.min} to {asked.max or 'any'}"
        return ""

    def _in_turn(self) -> Iterator[Finding]:
        """Require that jobs are named in the order of the queue, and nobody is passed over."""
        named = [self._order[r.job.name] for r in self._reserved]
        if named != sorted(set(named)) or len(named) > self._depth:
            yield Finding(
                (*self._path, "jobs"),
                f"{len(named)} reservations; expected at most {self._depth}, in the order of the "
                "queue",
            )
            return
        head = {*self._section.starts, *(r.job.name for r in self._reserved)}
        for decision in self._reading.plan.decisions:
            place = self._order.get(decision.job)
            if place is None or decision.job in head:
                continue
            if decision.decision is not DecisionKind.WAIT:
                continue
            job = self._reading.jobs[decision.job]
            is_behind = self._last is not None and place > self._last
            if is_behind and self._is_outranked(job):
                continue
            at = self._earliest(job, self._now + 1 if is_behind else FOREVER)
            if at is not None:
                yield Finding(
                    (*self._path, "jobs"),
                    f"job {job.name!r} waits in its turn without a reservation; expected "
                    + ("a start, as it fits now" if is_behind else f"one at {at}, when it fits"),
                )

    @cached_property
    def _all_stay(self) -> bool:
        return all(running.pinned for running in self._reading.running.values())

    def _is_outranked(self, job: Job) -> bool:
        """Whether a job of higher precedence waits where running jobs may move or stop."""
        if self._all_stay:
            return False
        waiting = (name for name in self._order if name not in self._starts)
        return any(self._rank(self._reading.jobs[name]) > self._rank(job) for name in waiting)

    def _earliest(self, job: Job, last: float) -> int | None:
        """Return the first time before `last` at which a job fits beside those before it."""
        turn = self._turns[job.name]
        before = [r for r in self._reserved if self._turns[r.job.name] < turn]
        starts = bisect_left(self._turns_of_starts, turn)
        return self._times.earliest(job, starts, before, last)

    def _in_order_of_time(self) -> Iterator[Finding]:
        """Require that each reservation fits beside the earlier ones, and at no earlier time."""
        held = (*self._timeline.running, *self._timeline.starts)
        overbooking = Overbooking(self._timeline, held, self._reserved)
        for k, reserved in enumerate(self._reserved):
            before = self._reserved[:k]
            times = {reserved.at, *(r.at for r in before if reserved.active(r.at))}
            over = overbooking.add(reserved) or self._timeline.has_accounts
            for at in sorted(times) if over else ():
                if wrong := self._timeline.excess(at, held, [*before, reserved]):
                    yield Finding(
                        reserved.path,
                        f"reservation of job {reserved.job.name!r} at {reserved.at}: {wrong} "
                        f"at {at}",
                    )
                    break
            else:
                # It leaves the others of the last round as they were, which the plan does not say.
                if reserved.was is not None and self._depth > 1:
                    continue
                earlier = self._earliest(reserved.job, reserved.at)
                if earlier is not None:
                    yield Finding(
                        (*reserved.path, "at"),
                        f"reservation of job {reserved.job.name!r} at {reserved.at}; "
                        f"expected {earlier}, when it fits",
                    )

    def _kept(self) -> Iterator[Finding]:
        """Require that no job that starts or moves delays a reservation."""
        after = [
            held_by(
                placed,
                self._now,
                is_bound=placed.job.name not in self._starts and placed.job.running is None,
            )
            for placed in self._reading.placed
        ]
        for at in sorted({r.at for r in self._reserved}):
            if wrong := self._timeline.excess(at, after, self._reserved):
                first = next(r for r in self._reserved if r.at == at)
                yield Finding(
                    first.path,
                    f"reservation of job {first.job.name!r} at {at} is delayed: {wrong}",
                )


RULES_OF_RESERVATIONS = rules(reservations)
