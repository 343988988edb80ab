"""Replays of policy `deadline`: at the boundaries of leases, and between them."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Any, TypeAlias

import numpy as np

from placewright.instances.checks.round import hosts_by_name
from placewright.instances.derived.leases import relative_speed, unavailable_hosts
from placewright.instances.derived.names import is_anywhere
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.deadline import UNIT, Deadline, Due
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import DecisionKind, Plan, Task
from placewright.instances.documents.plan_leases import promises_in
from placewright.instances.documents.round import Round
from placewright.instances.traces.trace import FULL_SPEED, NEVER, SECOND, Trace
from placewright.rounds.engine import Engine
from placewright.rounds.replay.book import HostLedger, Place
from placewright.rounds.replay.loop import Decider, Loop, Trigger
from placewright.rounds.settings import InternalError, Isolation
from placewright.rounds.state.changes import Changes
from placewright.topology.units import WHOLE_GPU

# Lease by lease: what is known of each job beside its progress, and what became of it.
#
# Progress is the loop's. A running job works at the pace of its option on its hosts. Overhead is
# charged after each preemption and migration only, whereas promises budget it in every lease.
CLASSES, STEPS = 1000, 8
"""Priority levels among jobs of equal priority, and levels per factor of two in GPU time."""


@dataclass(frozen=True, slots=True)
class Served:
    """What became of a job.

    `came`, `finish`: arrival and completion, in seconds on the round's clock, the latter rounded
    up; None for a job that left undone. `value`, `most`: the value of the deadline that it met, 0
    if none, and that of its best deadline. `stops`, `moves`: how often it was preempted, and how
    often it migrated. `broken`: whether it had a promise and did not end in time for its last one,
    or lost it.
    """

    job: str
    came: int
    finish: int | None
    value: int
    most: int
    stops: int
    moves: int
    broken: bool


@dataclass(slots=True)
class Record:
    """A job in the loop.

    Work that is left is in thousandths of a second at speed 1000.

    - `job`, `asked`: the job as it arrived, and its deadline.
    - `came`: arrival, in seconds on the round's clock.
    - `level`: priority of jobs that have or get a promise.
    - `running`: where it runs.
    - `known`, `written_as`: whether the engine has it, and with which priority and whether as
      asking.
    - `asks`, `promise`, `had_promise`: whether it asks for a promise, which it has, and whether it
      ever had one.
    - `ran`: whether it ran after the last round.
    """

    job: Job
    asked: Deadline
    came: int
    level: int
    running: Running | None = None
    known: bool = False
    written_as: tuple[int, bool] | None = None
    asks: bool = True
    ran: bool = False
    had_promise: bool = False
    promise: Due | None = None

    def changed(self, left: int) -> bool:
        """Whether the engine's round is out of date for this job."""
        written_as = self.priority(left), self.asks
        return self.running is not None or self.ran or self.written_as != written_as

    def backfill_key(self, left: int) -> tuple[bool, int, str]:
        """Sort key for backfilling: without a promise first, then the least remaining GPU time."""
        gpus = min(option.milli_gpu for option in self.job.options)
        return self.promise is not None, left * gpus, self.job.name

    def priority(self, left: int) -> int:
        """Return the job's priority, refined among equals: the less GPU time left, the higher.

        Jobs with a promise, or about to get one, are at the lowest level: the policy keeps promises
        whatever their priority.
        """
        if self.promise is not None or (self.asked.due and self.asks and not self.known):
            return self.level
        gpus = min(option.milli_gpu for option in self.job.options)
        return self.level + CLASSES - round(STEPS * log2(max(1, left * gpus)))

    @property
    def least_gpu_time(self) -> float:
        """Milli-GPU-seconds of its work with the most efficient option."""
        options = enumerate(self.job.options)
        each = (option.milli_gpu * UNIT / self.asked.pace(o).speed for o, option in options)
        return self.asked.work_s * min(each)

    @property
    def value_per_gpu_time(self) -> float:
        """Value density: the value of its first deadline per milli-GPU-second."""
        return self.asked.due[0].value / self.least_gpu_time if self.asked.due else 0.0

    @property
    def rate(self) -> int:
        """Speed where it runs, in millionths."""
        option = 0 if self.running is None else self.running.option
        hosts = 1 if self.running is None else len({task.host for task in self.running.tasks})
        pace = self.asked.pace(option)
        return pace.speed * relative_speed(pace, hosts)

    @property
    def fastest(self) -> int:
        """Speed with the fastest option, in thousandths."""
        return max(self.asked.pace(o).speed for o in range(len(self.job.options)))

    @property
    def overhead_us(self) -> int:
        """Overhead of a restart from where it runs."""
        option = 0 if self.running is None else self.running.option
        return SECOND * self.asked.pace(option).overhead_s

    def written(self, now: int, left: int) -> Job:
        """Return the job as a document for the round at `now`, and note what was written."""
        due = self.asked.due if self.asks else ()
        deadline = self.asked.model_copy(
            update={
                "work_s": -(-left // UNIT),
                "ready": None,
                "promise": self.promise,
                "due": due,
            }
        )
        running = self.running
        if running is not None:
            cost = self.asked.pace(running.option).overhead_s
            running = running.model_copy(update={"checkpoint": now, "restart_s": cost})
        priority = self.priority(left)
        self.written_as = priority, self.asks
        update = {"deadline": deadline, "running": running, "priority": priority}
        return self.job.model_copy(update=update)

    def served(self, finish: int | None, stops: int, moves: int) -> Served:
        """Return the result for this job."""
        due = self.asked.due
        met = (one.value for one in due if finish is not None and finish <= one.at)
        late = self.promise is None or finish is None or finish > self.promise.at
        return Served(
            job=self.job.name,
            came=self.came,
            finish=finish,
            value=max(met, default=0),
            most=due[0].value if due else 0,
            stops=stops,
            moves=moves,
            broken=self.had_promise and late,
        )


class IdleGpus:
    """Idle GPUs by host.

    Only options of whole GPUs, perhaps of some models, are placed here; all others wait for the
    next round.

    `round_`: unhealthy hosts, hosts with an outage in the current lease, and reserved GPUs are
    never idle. GPUs of running jobs are marked by `hold`.
    """

    def __init__(self, round_: Round) -> None:
        hosts = hosts_by_name(round_.cluster)
        gone = unavailable_hosts(round_.leases, round_.now)
        self._model = {name: one.gpu_model for name, one in hosts.items()}
        self._free: dict[str, set[int]] = {}
        for entry in round_.cluster.hosts:
            for name in expand(entry.name):
                if entry.healthy and name not in gone and hosts[name].gpus:
                    self._free[name] = set(range(hosts[name].gpus))
        self._largest = max(map(len, self._free.values()), default=0)
        for reservation in round_.reservations:
            for name in expand(reservation.host):
                every = range(hosts[name].gpus)
                self._free.get(name, set()).difference_update(reservation.gpus or every)
        self.count = sum(map(len, self._free.values()))

    def hold(self, tasks: Iterable[Task]) -> None:
        """Mark the GPUs of tasks as used."""
        for task in tasks:
            free = self._free.get(task.host)
            if free is not None:
                before = len(free)
                free.difference_update(task.gpus)
                self.count += len(free) - before

    def release(self, tasks: Iterable[Task]) -> None:
        """Mark the GPUs of tasks as idle."""
        for task in tasks:
            free = self._free.get(task.host)
            if free is not None:
                free.update(task.gpus)
                self.count += len(task.gpus)

    def find(self, option: Option) -> tuple[Task, ...] | None:
        """Return best-fit places for the tasks of an option, None if they do not fit.

        An option that fits the largest host is placed on one host, that with the fewest idle GPUs;
        a larger one task by task, the largest first, each on the host with the fewest.
        """
        if option.required is not None or not all(map(_whole_gpus_only, option.groups)):
            return None
        asked = sum(group.milli_gpu for group in option.groups) // WHOLE_GPU
        if asked > self.count:
            return None
        numbered = [(g, t) for g, group in enumerate(option.groups) for t in range(group.count)]
        if asked <= self._largest:
            host = self._best_fit_host(asked, option.groups)
            return None if host is None else self._tasks_on(option, dict.fromkeys(numbered, host))
        numbered.sort(key=lambda one: -option.groups[one[0]].gpu)
        return self._over_several_hosts(option, numbered)

    def _over_several_hosts(
        self, option: Option, numbered: list[tuple[int, int]]
    ) -> tuple[Task, ...] | None:
        found: list[Task] = []
        for g, t in numbered:
            group = option.groups[g]
            host = self._best_fit_host(group.gpu // WHOLE_GPU, (group,))
            if host is None:
                self.release(found)
                return None
            placed = self._tasks_on(option, {(g, t): host})
            self.hold(placed)
            found += placed
        self.release(found)
        return tuple(found)

    def _best_fit_host(self, asked: int, groups: Sequence[TaskGroup]) -> str | None:
        """Best fit: the host of an allowed model with the fewest idle GPUs, at least `asked`."""
        suited = (
            (len(free), name)
            for name, free in self._free.items()
            if len(free) >= asked
            and all(g.gpu_models is None or self._model[name] in g.gpu_models for g in groups)
        )
        return min(suited, default=(0, None))[1]

    def _tasks_on(self, option: Option, on: dict[tuple[int, int], str]) -> tuple[Task, ...]:
        """Return the tasks on their hosts, each with the idle GPUs of lowest index."""
        left = {host: sorted(self._free[host], reverse=True) for host in on.values()}
        return tuple(
            Task(
                group=g,
                index=t,
                host=host,
                gpus=tuple(
                    sorted(left[host].pop() for _ in range(option.groups[g].gpu // WHOLE_GPU))
                ),
            )
            for (g, t), host in on.items()
        )


def _whole_gpus_only(group: TaskGroup) -> bool:
    """Whether a group asks for whole GPUs, perhaps of some models, and nothing else."""
    return (
        group.gpu >= WHOLE_GPU
        and not (group.cpu or group.memory or group.resources or group.gpu_memory)
        and is_anywhere(group)
        and group.required is None
        and group.slices is None
        and group.apart is None
        and group.mig is None
    )


# Admission price: a job asks for a promise only if its value per GPU-second is at least the price.
#
# A promise reserves GPUs for days, so they are missing for jobs that arrive later. The price is
# the value density (value per GPU-second) of the marginal job when the arrivals of the last 24
# hours are admitted in descending order of density until `SHARE` of the GPU time is used up; 0 if
# it is not. A job below the price waits like a job without a deadline, and may ask later.
WINDOW_S = 86_400
SHARE = 0.8
"""Part of the GPU time that promises may fill; the rest is for gaps and other jobs."""


class AdmissionPrice:
    """The admission price, from the arrivals of the last 24 hours."""

    def __init__(self) -> None:
        self._recent: deque[Record] = deque()

    def arrive(self, record: Record) -> None:
        """Record an arrival; calls are in the order of arrival."""
        if record.asked.due:
            self._recent.append(record)

    def price(self, now: int, milli_gpu: float) -> float:
        """Return the admission price, in value per milli-GPU-second.

        `now`: seconds on the round's clock. `milli_gpu`: mean capacity of the next 24 hours.
        """
        while self._recent and self._recent[0].came <= now - WINDOW_S:
            self._recent.popleft()
        value_per_gpu_time = np.array([record.value_per_gpu_time for record in self._recent])
        needed = np.array([record.least_gpu_time for record in self._recent])
        order = np.argsort(-value_per_gpu_time, kind="stable")
        last = int(np.searchsorted(needed[order].cumsum(), SHARE * milli_gpu * WINDOW_S))
        return float(value_per_gpu_time[order[last]]) if last < len(order) else 0.0


# Between boundaries waiting jobs start on idle GPUs, those without a promise first, shortest GPU
# time first. Two kinds of running jobs may be preempted: one without a deadline, for an arrival
# that asks for a promise and would miss its deadline if it waited for the next lease; and a
# backfilled one whose promise later leases keep anyway, for a job without a deadline. A job
# leaves when it can meet none of its deadlines.
# Source: Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs",
# SoCC'21.
Watch: TypeAlias = Callable[[Round, Plan], None]


class LeaseDecider(Decider):
    """Decides rounds of policy `deadline`. GPUs of the loop are thousandths.

    `round_`: the round at the first boundary, where the loop's clock begins. `records`: the jobs of
    the loop. `engine`: has decided nothing yet. `watch`: called with each round and its plan.
    """

    def __init__(
        self, round_: Round, records: Sequence[Record], engine: Engine, watch: Watch | None
    ) -> None:
        super().__init__()
        self._round, self._records = round_, records
        self._engine, self._watch = engine, watch
        self._numbers = {record.job.name: number for number, record in enumerate(records)}
        self._hosts = {name: number for number, name in enumerate(hosts_by_name(round_.cluster))}
        self._limited = frozenset(tenant.name for tenant in round_.tenants)
        self._price = AdmissionPrice()
        self._capacity: dict[int, int] = {}
        self._removed: list[str] = []
        self._end_us = 0
        self._idle = IdleGpus(round_)
        self._waiting: list[tuple[bool, int, str]] = []
        self._backfilled: set[int] = set()

    def state(self) -> Any:
        """Return nothing: no run goes on after a kill."""

    def restore(self, state: Any) -> None:
        """Take nothing over."""

    def wakes_us(self, loop: Loop) -> int:
        """Return a time while anyone waits: a job may start at any boundary."""
        return loop.now if loop.alive else NEVER

    def arrive(self, loop: Loop, job: int) -> None:
        """Add an arrival to the waiting jobs."""
        self._price.arrive(self._records[job])
        insort(self._waiting, self._key(loop, job))

    def leave(self, loop: Loop, job: int) -> None:  # noqa: ARG002
        """Release the GPUs of a job that is done."""
        self._idle.release(self._running(job).tasks)
        self._forget(job)

    def _forget(self, job: int) -> None:
        record = self._records[job]
        record.running = None
        self._backfilled.discard(job)
        if record.known:
            self._removed.append(record.job.name)

    # At a boundary.

    def decide(self, loop: Loop) -> None:
        """Decide a round, carry its plan out, and begin a lease; not while nobody is there."""
        if not loop.alive:
            return
        loop.settle()
        now = self._round.now + loop.now // SECOND
        for job in [job for job in loop.alive if self._hopeless(loop, job, loop.now)]:
            loop.withdraw(job)
            self._forget(job)
        plan = self._engine.round(self._changes(loop, now))
        if self._watch is not None:
            self._watch(self._engine.round_solved, plan)
        self._carry_out(loop, plan)
        self._end_us = loop.now + SECOND * self._round.leases.length_s
        self._idle = IdleGpus(self._round.model_copy(update={"now": now}))
        for job in loop.place:
            self._idle.hold(self._running(job).tasks)
        self._waiting = sorted(self._key(loop, job) for job in loop.alive if job not in loop.place)
        self._backfilled.clear()

    def _changes(self, loop: Loop, now: int) -> Changes:
        """Return the changes since the last boundary: arrivals, departures, work done."""
        alive = [(self._records[job], _left(loop, job)) for job in loop.alive]
        price = self._price.price(now, self._milli_gpu(now))
        for record, _ in alive:
            record.asks = record.promise is not None or record.value_per_gpu_time >= price
        added = [one.written(now, left) for one, left in alive if not one.known]
        updated = [one.written(now, left) for one, left in alive if one.known and one.changed(left)]
        for record, _ in alive:
            record.known = True
        removed, self._removed = self._removed, []
        return Changes(removed=removed, updated=updated, added=added, now=now)

    def _milli_gpu(self, now: int) -> float:
        """Return the mean milli-GPU available over the next 24 hours."""
        leases = range(now, now + WINDOW_S, self._round.leases.length_s)
        for begin in leases:
            if begin not in self._capacity:
                round_ = self._round.model_copy(update={"now": begin})
                self._capacity[begin] = WHOLE_GPU * IdleGpus(round_).count
        return sum(self._capacity[begin] for begin in leases) / len(leases)

    def _carry_out(self, loop: Loop, plan: Plan) -> None:
        """Carry a plan out: place its jobs, and record its promises."""
        promises = promises_in(plan.sections)
        started: list[tuple[int, Running]] = []
        moved: list[int] = []
        for decision in plan.decisions:
            job = self._numbers[decision.job]
            record = self._records[job]
            record.promise = promises.get(decision.job)
            record.had_promise |= record.promise is not None
            kind = decision.decision
            if kind is DecisionKind.PREEMPT:
                self._preempt(loop, job)
            elif kind in (DecisionKind.START, DecisionKind.MIGRATE):
                running = Running(option=decision.option or 0, tasks=decision.tasks)
                if kind is DecisionKind.START:
                    started.append((job, running))
                else:
                    record.running = running
                    loop.resize(job, record.job.options[running.option].milli_gpu)
                    loop.overhead_due[job] = record.overhead_us
                    moved.append(job)
        loop.move_all({job: self._place(job) for job in moved})
        for job in moved:
            loop.set_speed(job, self._records[job].rate)
        for job, running in started:
            self._start(loop, job, running)
        for job in loop.alive:
            self._records[job].ran = job in loop.place

    # Between boundaries.

    def between(self, loop: Loop) -> None:
        """Start waiting jobs, in their order, on idle GPUs or by preemption."""
        if loop.now >= self._end_us:
            return
        for entry in list(self._waiting):
            job = self._numbers[entry[-1]]
            asked = self._records[job].job
            if self._hopeless(loop, job, loop.now) or asked.tenant in self._limited or asked.caps:
                continue
            if any(self._backfill(loop, job, number) for number in range(len(asked.options))):
                self._waiting.remove(entry)

    def _backfill(self, loop: Loop, job: int, number: int) -> bool:
        """Start a waiting job with an option if it fits; return whether it started."""
        option = self._records[job].job.options[number]
        tasks = self._idle.find(option)
        if tasks is None:
            self._preempt_for(loop, job, option.milli_gpu)
            tasks = self._idle.find(option)
        if tasks is None:
            return False
        self._start(loop, job, Running(option=number, tasks=tasks))
        self._idle.hold(tasks)
        if self._records[job].asked.due and not self._hopeless(loop, job, self._end_us):
            self._backfilled.add(job)
        return True

    def _preempt_for(self, loop: Loop, job: int, milli_gpu: int) -> None:
        """Preempt the preemptible job with the fewest GPUs, at least `milli_gpu`, if there is one.

        Among equals, the one with the most work left.
        """
        able = (
            (loop.gpus[other], -int(loop.left[other]), self._records[other].job.name)
            for other in self._preemptible_for(loop, job)
            if loop.gpus[other] >= milli_gpu
        )
        chosen = min(able, default=None)
        if chosen is not None:
            other = self._numbers[chosen[-1]]
            self._idle.release(self._running(other).tasks)
            self._backfilled.discard(other)
            self._preempt(loop, other)
            insort(self._waiting, self._key(loop, other))

    def _preemptible_for(self, loop: Loop, job: int) -> list[int]:
        """Return the running jobs that may be preempted for a waiting one."""
        record = self._records[job]
        if not record.asked.due:
            return list(self._backfilled)
        if record.known or not self._hopeless(loop, job, self._end_us):
            return []
        return [other for other in loop.place if not self._records[other].asked.due]

    # At any time.

    def _start(self, loop: Loop, job: int, running: Running) -> None:
        record = self._records[job]
        record.running = running
        loop.resize(job, record.job.options[running.option].milli_gpu)
        loop.start(job, self._place(job), record.rate)

    def _preempt(self, loop: Loop, job: int) -> None:
        loop.stop(job)
        loop.overhead_due[job] = self._records[job].overhead_us
        self._records[job].running = None

    def _running(self, job: int) -> Running:
        running = self._records[job].running
        if running is None:
            raise InternalError(f"job {self._records[job].job.name} does not run")
        return running

    def _place(self, job: int) -> Place:
        """Return the milli-GPU that a running job holds on its hosts."""
        running = self._running(job)
        groups = self._records[job].job.options[running.option].groups
        held: dict[int, int] = {}
        for task in running.tasks:
            host = self._hosts[task.host]
            held[host] = held.get(host, 0) + groups[task.group].gpu
        return tuple(sorted(held.items()))

    def _key(self, loop: Loop, job: int) -> tuple[bool, int, str]:
        return self._records[job].backfill_key(_left(loop, job))

    def _hopeless(self, loop: Loop, job: int, now_us: int) -> bool:
        """Whether a job can meet none of its deadlines even if it runs at its fastest from then on.

        What it has done is that of when it was last accounted for.
        """
        record = self._records[job]
        if not record.asked.due:
            return False
        speed = FULL_SPEED // UNIT * record.fastest
        ends = now_us + int(loop.overhead_due[job]) + loop.time_left(job, speed)
        return ends > SECOND * (record.asked.due[-1].at - self._round.now)


def _left(loop: Loop, job: int) -> int:
    """Return work that is left, in thousandths of a second at speed 1000, rounded up."""
    return -(-int(loop.left[job]) * UNIT // SECOND)


# Online simulation of policy `deadline`: an `Engine` decides a round at every lease boundary.
#
# It knows the jobs that have arrived, and no later ones. `lease_decider.py` says what happens at
# boundaries and between them, and `lease_decider.py` which jobs ask for a promise.
#
# Source: Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs",
# SoCC'21.
def decide_leases(
    round_: Round,
    *,
    time_limit: float | None = None,
    gap: float | None = None,
    backend: str = "auto",
    isolation: Isolation = "auto",
    watch: Watch | None = None,
) -> tuple[Served, ...]:
    """Simulate lease by lease until every job is done or has left.

    Returns what became of each job, in the order of the round. `round_`: a round of policy
    `deadline` at the first boundary, in which no job runs. Each job has a deadline; it arrives when
    it is `ready`, and no earlier decision knows of it. `time_limit`, `gap`, `backend`, `isolation`:
    as for `solve_round`, for the round of each lease. `watch`: called with each round and its plan.
    Raises ValueError if the round has another policy, or a job that runs or has no deadline.
    """
    if "leases" not in round_.policy.spec.sections:
        raise ValueError("expected a round of policy 'deadline'")
    own = sorted({job.priority for job in round_.jobs})
    level = {priority: CLASSES * number for number, priority in enumerate(own)}
    every = [_record(job, round_.now, level[job.priority]) for job in round_.jobs]
    records = sorted(every, key=lambda record: record.came)
    first = round_.model_copy(update={"jobs": ()})
    sizes = [WHOLE_GPU * host.gpus for host in hosts_by_name(round_.cluster).values()]
    with Engine(
        first, time_limit=time_limit, gap=gap, backend=backend, isolation=isolation
    ) as engine:
        loop = Loop(
            _trace(records, round_.now),
            HostLedger(sizes),
            LeaseDecider(round_, records, engine, watch),
            trigger=Trigger(SECOND * round_.leases.length_s, leases=True),
        )
        loop.run()
    served = {
        record.job.name: record.served(
            None if end == NEVER else round_.now - (-end // SECOND), stops, moves
        )
        for record, end, stops, moves in zip(
            records, loop.end.tolist(), loop.stops.tolist(), loop.moves.tolist(), strict=True
        )
    }
    return tuple(served[job.name] for job in round_.jobs)


def _trace(records: list[Record], now: int) -> Trace:
    """Return the jobs in the order of arrival, on a clock that begins at `now`."""
    rows = [
        (SECOND * (one.came - now), one.job.options[0].milli_gpu, SECOND * one.asked.work_s)
        for one in records
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return replace(Trace.of(*table.T), submit_us=table[:, 0])


def _record(job: Job, now: int, level: int) -> Record:
    asked = job.deadline
    if asked is None or job.running is not None:
        raise ValueError(f"job {job.name}: expected a deadline, and that it does not run yet")
    came = now if asked.ready is None else max(now, asked.ready)
    return Record(job, asked, came, level)
