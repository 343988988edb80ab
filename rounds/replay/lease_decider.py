"""Policy `deadline` lease by lease: rounds at the boundaries, and backfilling between them."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from placewright.instances.checks.round import hosts_by_name
from placewright.instances.documents.deadline import UNIT
from placewright.instances.documents.job import Running
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.traces.trace import FULL_SPEED, NEVER, SECOND
from placewright.rounds.engine import Engine
from placewright.rounds.replay.book import Place
from placewright.rounds.replay.idle_gpus import IdleGpus
from placewright.rounds.replay.loop import Decider, Loop
from placewright.rounds.replay.records import Record
from placewright.rounds.settings import InternalError
from placewright.rounds.state.admission import promises_in
from placewright.rounds.state.changes import Changes
from placewright.topology.units import WHOLE_GPU

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

        Parameters
        ----------
        now
            Seconds on the round's clock.
        milli_gpu
            Mean capacity of the next 24 hours.
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
#
# References
# ----------
# Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21.


__all__ = ["LeaseDecider", "Watch"]

Watch: TypeAlias = Callable[[Round, Plan], None]


class LeaseDecider(Decider):
    """Decides rounds of policy `deadline`. GPUs of the loop are thousandths.

    Parameters
    ----------
    round_
        The round at the first boundary, where the loop's clock begins.
    records
        The jobs of the loop.
    engine
        Has decided nothing yet.
    watch
        Called with each round and its plan.
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
