"""Online simulation of policy `deadline`: an `Engine` decides a round at every lease boundary.

It knows the jobs that have arrived, and no later ones. `admission_price.py` says which jobs ask for
a promise, `backfill.py` simulates a lease, `records.py` keeps the state of each job. A job leaves
when it is done, or when it can meet none of its deadlines.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.rounds.engine import Engine
from placewright.rounds.replay.admission_price import WINDOW_S, AdmissionPrice
from placewright.rounds.replay.backfill import Backfill
from placewright.rounds.replay.idle_gpus import IdleGpus
from placewright.rounds.replay.records import CLASSES, Record, Served
from placewright.rounds.settings import Isolation
from placewright.rounds.state.changes import Changes
from placewright.rounds.state.promises import promises_in
from placewright.topology.units import WHOLE_GPU

__all__ = ["Served", "decide_leases"]

Watch: TypeAlias = Callable[[Round, Plan], None]


def decide_leases(
    round_: Round,
    *,
    time_limit: float | None = None,
    gap: float | None = None,
    backend: str = "auto",
    isolation: Isolation = "process",
    watch: Watch | None = None,
) -> tuple[Served, ...]:
    """Simulate lease by lease until every job is done or has left.

    Parameters
    ----------
    round_
        A round of policy `deadline` at the first boundary, in which no job runs. Each job has a
        deadline; it arrives when it is `ready`, and no earlier decision knows of it.
    time_limit, gap, backend, isolation
        As for `solve_round`, for the round of each lease.
    watch
        Called with each round and its plan.

    Returns
    -------
    tuple of Served
        What became of each job, in the order of the round.

    Raises
    ------
    ValueError
        If the round has another policy, or a job that runs or has no deadline.
    """
    if "leases" not in round_.policy.spec.sections:
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
            loop.run_lease()
    return tuple(record.served() for record in loop.records)


@dataclass(slots=True)
class _Loop:
    round: Round
    now: int = field(init=False)
    records: list[Record] = field(init=False)
    _arrivals: deque[Record] = field(init=False)
    _alive: dict[str, Record] = field(init=False, default_factory=dict)
    _removed: list[str] = field(init=False, default_factory=list)
    _price: AdmissionPrice = field(init=False, default_factory=AdmissionPrice)
    _capacity: dict[int, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.now = self.round.now
        own = sorted({job.priority for job in self.round.jobs})
        level = {priority: CLASSES * number for number, priority in enumerate(own)}
        self.records = [_record(job, self.now, level[job.priority]) for job in self.round.jobs]
        self._arrivals = deque(sorted(self.records, key=lambda record: record.came))

    def more(self) -> bool:
        """Return whether a job is left; skip to the first arrival if none is there.

        The clock skips whole leases; a job that arrives at a boundary is in the round of it.
        """
        if not self._alive and self._arrivals:
            length = self.round.leases.length_s
            self.now += max(0, -((self.now - self._arrivals[0].came) // length)) * length
        return bool(self._alive or self._arrivals)

    def changes(self) -> Changes:
        """Return the changes since the last boundary: arrivals, departures, work done."""
        while self._next_arrival() <= self.now:
            self._arrive()
        for record in [one for one in self._alive.values() if one.hopeless(self.now)]:
            self._leave(record)
        alive = self._alive.values()
        price = self._price.price(self.now, self._milli_gpu())
        for record in alive:
            record.asks = record.promise is not None or record.value_per_gpu_time >= price
        added = [one.written(self.now) for one in alive if not one.known]
        updated = [one.written(self.now) for one in alive if one.known and one.changed]
        for record in alive:
            record.known = True
        removed, self._removed = self._removed, []
        return Changes(removed=removed, updated=updated, added=added, now=self.now)

    def carry_out(self, plan: Plan) -> None:
        """Carry a plan out: place its jobs, and record its promises."""
        promises = promises_in(plan.sections)
        for decision in plan.decisions:
            record = self._alive[decision.job]
            record.promise = promises.get(decision.job)
            record.had_promise |= record.promise is not None
            _apply_decision(record, decision)
            record.ran = record.running is not None

    def run_lease(self) -> None:
        """Simulate one lease event by event: arrivals, completions, backfilling."""
        end = self.now + self.round.leases.length_s
        round_ = self.round.model_copy(update={"now": self.now})
        backfill = Backfill(round_, self._alive.values(), end)
        while (now := min(backfill.next_end, self._next_arrival())) <= end:
            for record in backfill.finished(now):
                self._leave(record)
            while self._next_arrival() == now:
                backfill.arrive(self._arrive())
            if now < end:
                backfill.serve(now)
        backfill.run_to_boundary()
        self.now = end

    def _arrive(self) -> Record:
        record = self._arrivals.popleft()
        self._alive[record.job.name] = record
        self._price.arrive(record)
        return record

    def _milli_gpu(self) -> float:
        """Return the mean milli-GPU available over the next 24 hours."""
        leases = range(self.now, self.now + WINDOW_S, self.round.leases.length_s)
        for now in leases:
            if now not in self._capacity:
                round_ = self.round.model_copy(update={"now": now})
                self._capacity[now] = WHOLE_GPU * IdleGpus(round_).count
        return sum(self._capacity[now] for now in leases) / len(leases)

    def _next_arrival(self) -> int:
        return self._arrivals[0].came if self._arrivals else sys.maxsize

    def _leave(self, record: Record) -> None:
        del self._alive[record.job.name]
        if record.known:
            self._removed.append(record.job.name)


def _record(job: Job, now: int, level: int) -> Record:
    asked = job.deadline
    if asked is None or job.running is not None:
        raise ValueError(f"job {job.name}: expected a deadline, and that it does not run yet")
    came = now if asked.ready is None else max(now, asked.ready)
    return Record(job, asked, came, asked.work, level)


def _apply_decision(record: Record, decision: Decision) -> None:
    """Apply a decision to the record of its job."""
    kind = decision.decision
    if kind is DecisionKind.PREEMPT:
        record.stop()
    elif kind in (DecisionKind.START, DecisionKind.MIGRATE):
        record.running = Running(option=decision.option or 0, tasks=decision.tasks)
        if kind is DecisionKind.MIGRATE:
            record.moves += 1
            record.restart()
