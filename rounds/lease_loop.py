"""Lease by lease: an `Engine` decides at every boundary, knowing only the jobs that have come.

Between boundaries jobs that wait take GPUs that are idle, as soon as there are enough of them, and
those without a promise first (`IdleGpus`). Nobody is stopped then but a job without a deadline, for
one that comes and would be late if it waited for the next boundary. Time passes in whole seconds. A
job that runs does its work at the pace of its option on the hosts that it has; the overhead of its
pace passes first each time it goes on after a stop or a move, and not in every lease, as promises
count on. A job leaves once it is done, or once no deadline of its own can be met any more.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21:
leases, and waiting jobs on idle GPUs between their boundaries.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import log2
from typing import TypeAlias

from placewright.instances.deadline import UNIT, Deadline, Due, relative
from placewright.instances.job import Job, Running
from placewright.instances.plan import Decision, DecisionKind, Plan
from placewright.instances.round import Round
from placewright.rounds.changes import Changes
from placewright.rounds.engine import Engine
from placewright.rounds.idle_gpus import IdleGpus
from placewright.rounds.leasing import promised
from placewright.rounds.settings import Isolation

__all__ = ["Served", "decide_leases"]

CLASSES, STEPS = 1000, 8
"""Classes among jobs of equal priority, and how many of them for each factor of two in work."""

Watch: TypeAlias = Callable[[Round, Plan], None]


@dataclass(frozen=True, slots=True)
class Served:
    """What became of a job.

    Parameters
    ----------
    came, finish
        Seconds on the round's clock; `finish` is None for a job that left undone.
    value, most
        What its finish was worth by its deadlines, and what its best deadline is worth.
    stops, moves
        How often it was preempted, and how often it migrated.
    broken
        Whether it ended after the last promise that it was given, or without one that it once had.
    """

    job: str
    came: int
    finish: int | None
    value: int
    most: int
    stops: int
    moves: int
    broken: bool


def decide_leases(
    round_: Round,
    *,
    time_limit: float | None = None,
    gap: float | None = None,
    backend: str = "auto",
    isolation: Isolation = "process",
    watch: Watch | None = None,
) -> tuple[Served, ...]:
    """Decide lease by lease until every job is done or has left.

    Parameters
    ----------
    round_
        Of policy `deadline`, at the first boundary. Each job has a deadline; it comes when it is
        `ready`, and no decision before that knows of it. Nobody runs yet.
    time_limit, gap, backend, isolation
        As for `solve_round`, for each lease.
    watch
        Called with each round that was decided and its plan.

    Returns
    -------
    tuple of Served
        In the order of the round.

    Raises
    ------
    ValueError
        If the round has another policy, or a job that runs or has no deadline.
    """
    if round_.policy.formulation != "deadline":
        raise ValueError("expected a round of policy 'deadline'")
    loop = _Loop(round_)
    first = round_.model_copy(update={"jobs": ()})
    with Engine(
        first, time_limit=time_limit, gap=gap, backend=backend, isolation=isolation
    ) as engine:
        while loop.more():
            plan = engine.round(loop.changes())
            if watch is not None and engine.round_solved is not None:
                watch(engine.round_solved, plan)
            loop.carry_out(plan)
            loop.pass_lease()
    return tuple(record.served() for record in loop.records)


@dataclass(slots=True)
class _Record:
    """A job on its way: the work and overhead that are left, and where it runs."""

    job: Job
    asked: Deadline
    came: int
    left: int
    level: int
    overhead: int = 0
    running: Running | None = None
    since: int = 0
    known: bool = False
    told: int = 0
    ran: bool = False
    finish: int | None = None
    stops: int = 0
    moves: int = 0
    had_promise: bool = False
    promise: Due | None = None

    @property
    def changed(self) -> bool:
        """Whether a round does not yet say how it is; `ran`: it did when the last one ended."""
        return self.running is not None or self.ran or self.told != self.priority

    @property
    def urgency(self) -> tuple[bool, int, str]:
        """Return how it stands among those that wait for idle GPUs: promises can wait."""
        gpus = min(option.milli_gpu for option in self.job.options)
        return self.promise is not None, self.left * gpus, self.job.name

    @property
    def priority(self) -> int:
        """Return its own priority, and among equals one that rises as less work is left.

        A promise is kept whoever comes before it, so that it has the least, as has who will get
        one.
        """
        if self.promise is not None or (self.asked.due and not self.known):
            return self.level
        gpus = min(option.milli_gpu for option in self.job.options)
        return self.level + CLASSES - round(STEPS * log2(max(1, self.left * gpus)))

    @property
    def rate(self) -> int:
        """Millionths of a second of work that are done in a second."""
        option = 0 if self.running is None else self.running.option
        hosts = 1 if self.running is None else len({task.host for task in self.running.tasks})
        pace = self.asked.pace(option)
        return pace.speed * relative(pace, hosts)

    def end(self, now: int) -> int:
        """Return when it is done if it runs on as it does, or on its own host from now on."""
        return now + self.overhead - (-UNIT * self.left // self.rate)

    def work(self, seconds: int) -> None:
        """Let it run for so many seconds, fewer than it needs."""
        overhead = min(self.overhead, seconds)
        self.overhead -= overhead
        self.left -= self.rate * (seconds - overhead) // UNIT

    def hopeless(self, now: int) -> bool:
        """Whether none of its deadlines can be met any more."""
        due = self.asked.due
        if not due:
            return False
        fastest = max(self.asked.pace(o).speed for o in range(len(self.job.options)))
        return now + self.overhead - (-self.left // fastest) > due[-1].at

    def stop(self) -> None:
        """Take it off its GPUs."""
        self.stops += 1
        self.restart()
        self.running = None

    def restart(self) -> None:
        """Charge what going on somewhere else costs."""
        option = 0 if self.running is None else self.running.option
        self.overhead = self.asked.pace(option).overhead_s

    def written(self, now: int) -> Job:
        """Return the job as a round has it."""
        left = -(-self.left // UNIT)
        deadline = self.asked.model_copy(
            update={"work_s": left, "ready": None, "promise": self.promise}
        )
        running = self.running
        if running is not None:
            cost = self.asked.pace(running.option).overhead_s
            running = running.model_copy(update={"checkpoint": now, "restart_s": cost})
        self.told = self.priority
        update = {"deadline": deadline, "running": running, "priority": self.told}
        return self.job.model_copy(update=update)

    def served(self) -> Served:
        """Return what became of it."""
        due, finish = self.asked.due, self.finish
        met = (one.value for one in due if finish is not None and finish <= one.at)
        late = self.promise is None or finish is None or finish > self.promise.at
        return Served(
            job=self.job.name,
            came=self.came,
            finish=finish,
            value=max(met, default=0),
            most=due[0].value if due else 0,
            stops=self.stops,
            moves=self.moves,
            broken=self.had_promise and late,
        )


@dataclass(slots=True)
class _Loop:
    round: Round
    now: int = field(init=False)
    records: list[_Record] = field(init=False)
    _coming: deque[_Record] = field(init=False)
    _alive: dict[str, _Record] = field(init=False, default_factory=dict)
    _removed: list[str] = field(init=False, default_factory=list)
    _limited: frozenset[str | None] = field(init=False)

    def __post_init__(self) -> None:
        self.now = self.round.now
        own = sorted({job.priority for job in self.round.jobs})
        level = {priority: CLASSES * number for number, priority in enumerate(own)}
        self.records = [_record(job, self.now, level[job.priority]) for job in self.round.jobs]
        self._limited = frozenset(tenant.name for tenant in self.round.tenants)
        self._coming = deque(sorted(self.records, key=lambda record: record.came))

    def more(self) -> bool:
        """Say whether a job is left; if all are still to come, go to the boundary after the first.

        A job that comes at a boundary is in the round of it.
        """
        if not self._alive and self._coming:
            length = self.round.leases.length_s
            self.now += max(0, -((self.now - self._coming[0].came) // length)) * length
        return bool(self._alive or self._coming)

    def changes(self) -> Changes:
        """Return what happened since the last boundary."""
        while self._coming and self._coming[0].came <= self.now:
            record = self._coming.popleft()
            self._alive[record.job.name] = record
        for record in [one for one in self._alive.values() if one.hopeless(self.now)]:
            self._leave(record)
        alive = self._alive.values()
        added = [one.written(self.now) for one in alive if not one.known]
        updated = [one.written(self.now) for one in alive if one.known and one.changed]
        for record in alive:
            record.known = True
        removed, self._removed = self._removed, []
        return Changes(removed=removed, updated=updated, added=added, now=self.now)

    def carry_out(self, plan: Plan) -> None:
        """Let jobs run where the plan says, and remember its promises."""
        promises = promised(plan.sections)
        for decision in plan.decisions:
            record = self._alive[decision.job]
            record.promise = promises.get(decision.job)
            record.had_promise |= record.promise is not None
            _decide(record, decision)
            record.ran = record.running is not None

    def pass_lease(self) -> None:
        """Go to the next boundary; jobs come, jobs end, and waiting ones take what is idle."""
        end = self.now + self.round.leases.length_s
        idle = IdleGpus(self.round.model_copy(update={"now": self.now}))
        ends: list[tuple[int, str]] = []
        waiting: list[tuple[bool, int, str]] = []
        for name, record in self._alive.items():
            if record.running is None:
                waiting.append(record.urgency)
            else:
                idle.take(record.running.tasks)
                record.since = self.now
                ends.append((record.end(self.now), name))
        waiting.sort()
        heapify(ends)
        while (now := self._next(ends)) <= end:
            while ends and ends[0][0] == now:
                record = self._alive[heappop(ends)[1]]
                idle.give(() if record.running is None else record.running.tasks)
                record.finish = now
                self._leave(record)
            while self._coming and self._coming[0].came == now:
                record = self._coming.popleft()
                self._alive[record.job.name] = record
                insort(waiting, record.urgency)
            if now < end:
                self._make_way(waiting, idle, ends, now)
                self._start(waiting, idle, ends, now)
        for record in self._alive.values():
            if record.running is not None:
                record.work(end - record.since)
        self.now = end

    def _next(self, ends: list[tuple[int, str]]) -> int:
        """Return when the next job ends or comes."""
        coming = self._coming[0].came if self._coming else sys.maxsize
        return min(ends[0][0], coming) if ends else coming

    def _start(
        self,
        waiting: list[tuple[bool, int, str]],
        idle: IdleGpus,
        ends: list[tuple[int, str]],
        now: int,
    ) -> None:
        """Let waiting jobs take idle GPUs, the most urgent first."""
        for entry in list(waiting) if idle.count else ():
            record = self._alive[entry[-1]]
            if record.hopeless(now) or record.job.tenant in self._limited:
                continue
            for number in range(len(record.job.options)):
                if self._started(entry, number, waiting, idle, ends, now):
                    break
            if not idle.count:
                break

    def _make_way(
        self,
        waiting: list[tuple[bool, int, str]],
        idle: IdleGpus,
        ends: list[tuple[int, str]],
        now: int,
    ) -> None:
        """Stop jobs without a deadline for jobs that ask for a promise and cannot wait for it."""
        end = self.now + self.round.leases.length_s
        for entry in list(waiting):
            record = self._alive[entry[-1]]
            late = bool(record.asked.due) and not record.known and record.hopeless(end)
            if not late or record.hopeless(now) or record.job.tenant in self._limited:
                continue
            for number, option in enumerate(record.job.options):
                if idle.find(option) is None:
                    self._stop_one(option.milli_gpu, waiting, idle, ends, now)
                if self._started(entry, number, waiting, idle, ends, now):
                    break

    def _stop_one(
        self,
        milli_gpu: int,
        waiting: list[tuple[bool, int, str]],
        idle: IdleGpus,
        ends: list[tuple[int, str]],
        now: int,
    ) -> None:
        """Stop the smallest job without a deadline that has so many GPUs, and most work left."""
        able = [
            (record.job.options[record.running.option].milli_gpu, -record.left, record.job.name)
            for record in self._alive.values()
            if record.running is not None and not record.asked.due
        ]
        chosen = min((one for one in able if one[0] >= milli_gpu), default=None)
        if chosen is None:
            return
        record = self._alive[chosen[-1]]
        idle.give(() if record.running is None else record.running.tasks)
        record.work(now - record.since)
        record.stop()
        ends[:] = [one for one in ends if one[1] != record.job.name]
        heapify(ends)
        insort(waiting, record.urgency)

    def _started(
        self,
        entry: tuple[bool, int, str],
        option: int,
        waiting: list[tuple[bool, int, str]],
        idle: IdleGpus,
        ends: list[tuple[int, str]],
        now: int,
    ) -> bool:
        """Start a waiting job with an option, if there are idle GPUs for it; return whether so."""
        record = self._alive[entry[-1]]
        tasks = idle.find(record.job.options[option])
        if tasks is None:
            return False
        idle.take(tasks)
        record.running = Running(option=option, tasks=tasks)
        record.since = now
        heappush(ends, (record.end(now), record.job.name))
        waiting.remove(entry)
        return True

    def _leave(self, record: _Record) -> None:
        del self._alive[record.job.name]
        if record.known:
            self._removed.append(record.job.name)


def _record(job: Job, now: int, level: int) -> _Record:
    asked = job.deadline
    if asked is None or job.running is not None:
        raise ValueError(f"job {job.name}: expected a deadline, and that it does not run yet")
    came = now if asked.ready is None else max(now, asked.ready)
    return _Record(job, asked, came, asked.work, level)


def _decide(record: _Record, decision: Decision) -> None:
    """Let a job run as a plan says."""
    kind = decision.decision
    if kind is DecisionKind.PREEMPT:
        record.stop()
    elif kind in (DecisionKind.START, DecisionKind.MIGRATE):
        record.running = Running(option=decision.option or 0, tasks=decision.tasks)
        if kind is DecisionKind.MIGRATE:
            record.moves += 1
            record.restart()
