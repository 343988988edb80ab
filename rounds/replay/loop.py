"""The loop of a replay: events in order of time, each followed by what a decider decides.

Order of events at equal times: ends, repairs, failures, arrivals, timers; then one decision. While
no job is alive, hosts fail and are repaired unnoticed, without events.
Time is in whole milliseconds. A job works `PER_MS` units a millisecond at speed 1, so that it ends
at the first millisecond at which all its work is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import NEVER, PER_MS, Trace
from placewright.rounds.errors import InternalError
from placewright.rounds.replay.costs import Costs
from placewright.rounds.replay.fragmentation import unusable_parts
from placewright.rounds.replay.ledger import HostLedger, Place

HOUR_MS = 3_600_000


class Outage(NamedTuple):
    """A host is away from `begin_ms` until before `end_ms`; `loses` work since a checkpoint.

    Without `loses`, capacity changes: the host leaves, and its jobs are preempted: they keep their
    work and pay for a stop. Outages of a
    host may overlap; it is away while one of them lasts.
    """

    host: int
    begin_ms: int
    end_ms: int
    loses: bool = True


class Group(NamedTuple):
    """Jobs of the same number of GPUs that share one place, each at its speed."""

    jobs: tuple[int, ...]
    place: Place
    speeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trigger:
    """When decisions are made.

    `every_ms` None: after every event, and when the decider wakes. Else at multiples of it; with
    `at_most`, after events and wakes, but not before so much time has passed since the last
    decision. `leases`: multiples of `every_ms` are the boundaries of leases, at which jobs may be
    stopped and moved; after events between them the decider may start jobs, by `Decider.between`.
    """

    every_ms: int | None = None
    at_most: bool = False
    leases: bool = False


class Decider(ABC):
    """Decides who runs where, by `start`, `stop` and `move` of the loop.

    `rounds` has the time and the gap of each decision that a solver made; None where it proved no
    bound. `state` is plain JSON; a new decider
    that has restored it decides as this one would, if this one `can_be_saved` then.
    """

    def __init__(self) -> None:
        self.rounds: list[tuple[int, float | None]] = []

    @abstractmethod
    def decide(self, loop: Loop) -> None:
        """Start, stop and move jobs."""

    @abstractmethod
    def arrive(self, loop: Loop, job: int) -> None:
        """Take note of an arrival, or of a job that a failure has stopped."""

    def between(self, loop: Loop) -> None:  # noqa: B027
        """Start jobs within a lease; running ones keep their GPUs until it ends."""

    def leave(self, loop: Loop, job: int) -> None:  # noqa: B027
        """Take note of a job that has ended."""

    def shrink(self, loop: Loop, jobs: tuple[int, ...]) -> None:  # noqa: B027
        """Take note of jobs that go on sharing a place although one of them has ended."""

    def wakes_ms(self, loop: Loop) -> int:  # noqa: ARG002
        """Return when the decider wants to be asked although nothing happens; else `NEVER`."""
        return NEVER

    @property
    def can_be_saved(self) -> bool:
        """Whether `state` is all that later decisions depend on."""
        return True

    @abstractmethod
    def state(self) -> Any:
        """Return the state as plain JSON."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Take a state over."""

    def close(self) -> None:  # noqa: B027
        """End what the decider has started."""


class Loop:
    """A replay of a trace on hosts, event by event.

    Parameters
    ----------
    trace, ledger, decider, costs, trigger
        What is played, on which hosts, who decides, what it costs, and when it is decided.
    outages
        Hosts that are away for a while.

    Attributes
    ----------
    now : int
        The clock, in milliseconds.
    place : dict of int to Place
        The running jobs and where they are, in the order in which they started.
    alive : dict of int to None
        The jobs that have come and not ended, in order of arrival.
    left : int64 (jobs,)
        Work that is left, in units of `PER_MS`, as of `since`.
    speed : int64 (jobs,)
        Units of work per millisecond, where the job runs now.
    other_speed : int64 (jobs,)
        1 for a job that has ever run at another speed than 1.
    together : dict of int to tuple of int
        The jobs that share one place, for each of them; the first counts as the one that holds it.
    shared_ms : int64 (jobs,)
        How much of `run_ms` a job ran in a place that another one held.
    """

    def __init__(
        self,
        trace: Trace,
        ledger: HostLedger,
        decider: Decider,
        *,
        costs: Costs | None = None,
        trigger: Trigger | None = None,
        outages: Sequence[Outage] = (),
    ) -> None:
        costs = Costs() if costs is None else costs
        jobs = len(trace)
        self.trace, self.ledger, self.decider = trace, ledger, decider
        self.trigger = Trigger() if trigger is None else trigger
        self.costs = costs
        self.charges_events = costs.charge == "event"
        self._start_ms = costs.column("start_ms", jobs)
        self._stop_ms = costs.column("stop_ms", jobs)
        self._move_ms = costs.column("move_ms", jobs)
        self.now = 0
        self.place: dict[int, Place] = {}
        self.alive: dict[int, None] = {}
        self.left = trace.work_ms * PER_MS
        self.speed = np.full(jobs, PER_MS, dtype=np.int64)
        self.since = np.zeros(jobs, dtype=np.int64)
        self.overhead_due = np.zeros(jobs, dtype=np.int64)
        self.running = np.zeros(jobs, dtype=np.int64)
        self.other_speed = np.zeros(jobs, dtype=np.int64)
        self.started = np.zeros(jobs, dtype=np.int64)
        self.first_start = np.full(jobs, NEVER, dtype=np.int64)
        self.end = np.full(jobs, NEVER, dtype=np.int64)
        self.stops = np.zeros(jobs, dtype=np.int64)
        self.moves = np.zeros(jobs, dtype=np.int64)
        self.run_ms = np.zeros(jobs, dtype=np.int64)
        self.overhead_ms = np.zeros(jobs, dtype=np.int64)
        self.lost_ms = np.zeros(jobs, dtype=np.int64)
        self.unsaved_ms = np.zeros(jobs, dtype=np.int64)
        self.together: dict[int, tuple[int, ...]] = {}
        self.shared_ms = np.zeros(jobs, dtype=np.int64)
        self.due = np.zeros(jobs, dtype=np.int64)
        self.ends: list[tuple[int, int]] = []
        self.gpus: list[int] = trace.gpus.tolist()
        self._submit: list[int] = [*trace.submit_ms.tolist(), NEVER]
        self.next_arrival = 0
        self._outages = sorted(outages, key=lambda outage: outage.begin_ms, reverse=True)
        self.outages_left = len(outages)
        self.repairs: list[tuple[int, int]] = []
        self.busy_gpus = self.busy_gpu_ms = self.alive_ms = 0
        self.events = self.decisions = 0
        self.samples: list[tuple[int, int, int, int, int]] = []
        self._unusable = unusable_parts(trace.gpus, max(ledger.sizes))
        self.sample_at = 0
        self.last_decision = -NEVER
        self.pending = self.stuck = False

    # What deciders and policies read.

    def column(self, name: str, jobs: Ints) -> Ints:
        """Return a column for some jobs: one of the trace, or one that changes."""
        if name == "now_ms":
            return np.full(len(jobs), self.now, dtype=np.int64)
        if name == "running":
            return self.running[jobs]
        if name == "remaining_ms":
            return self._left(jobs) // PER_MS
        if name == "service_ms":
            return self.run_ms[jobs] + self.running[jobs] * (self.now - self.since[jobs])
        rows = self.trace.extra.get(name)
        taken: Any = getattr(self.trace, name) if rows is None else rows
        chosen: Ints = taken[jobs]
        return chosen

    def _left(self, jobs: Ints) -> Ints:
        elapsed = self.running[jobs] * (self.now - self.since[jobs])
        works = elapsed - np.minimum(elapsed, self.overhead_due[jobs])
        left: Ints = self.left[jobs] - works * self.speed[jobs]
        return left

    # What deciders do.

    def start(self, job: int, place: Place, speed: int = PER_MS) -> None:
        """Start a waiting job on free GPUs."""
        self.ledger.take(place)
        self._begin(job, place, speed)

    def _begin(self, job: int, place: Place, speed: int) -> None:
        if job in self.place or job not in self.alive:
            raise InternalError(f"job {self.trace.names[job]} cannot start")
        if sum(gpus for _, gpus in place) != self.gpus[job]:
            raise InternalError(f"job {self.trace.names[job]} starts on {place}")
        self.place[job] = place
        self.busy_gpus += self.gpus[job]
        self.running[job] = 1
        self.since[job] = self.started[job] = self.now
        self.speed[job] = speed
        self.other_speed[job] |= speed != PER_MS
        if self.first_start[job] == NEVER:
            self.first_start[job] = self.now
        if not self.charges_events:
            self.overhead_due[job] += self._start_ms[job]
        self._predict(job)

    def stop(self, job: int) -> None:
        """Preempt a running job."""
        self.ledger.release(self._preempt(job))

    def withdraw(self, job: int) -> None:
        """Let a job leave undone, whether it runs or waits."""
        if job in self.place:
            self._settle(job)
            self.ledger.release(self._release(job))
        del self.alive[job]

    def move(self, job: int, place: Place) -> None:
        """Migrate a running job to a place that is free, its own GPUs counted as free."""
        self.ledger.release(self.place[job])
        self.ledger.take(place)
        self._moved(job, place)

    def set_speed(self, job: int, speed: int) -> None:
        """Let a running job go on at another speed; its work so far is saved."""
        if speed != self.speed[job]:
            self._settle(job)
            self.unsaved_ms[job] = 0
            self.speed[job] = speed
            self.other_speed[job] = 1
            self._predict(job)

    def move_all(self, places: Mapping[int, Place]) -> None:
        """Migrate running jobs to places that are free once all of them have left theirs."""
        for job in places:
            self.ledger.release(self.place[job])
        for job, place in places.items():
            self.ledger.take(place)
            self._moved(job, place)

    def resize(self, job: int, gpus: int) -> None:
        """Let a job ask for another number of GPUs; one that runs is moved next."""
        self.busy_gpus += (gpus - self.gpus[job]) * int(self.running[job])
        self.gpus[job] = gpus

    def replace_all(self, places: dict[int, Place]) -> None:
        """Let exactly these jobs run, in these places; the ledger has been cleared and taken."""
        before = self.place
        for job in [job for job in before if job not in places]:
            self._preempt(job)
        for job, place in places.items():
            if job not in before:
                self._begin(job, place, PER_MS)
            elif before[job] != place:
                self._moved(job, place)

    def share_all(self, groups: Sequence[Group]) -> None:
        """Let exactly these groups run; the ledger has been cleared and taken, once a group."""
        running = {job for group in groups for job in group.jobs}
        for job in list(self.place):
            self._settle(job)
            if job not in running:
                self._preempt(job)
        self.together = {}
        for jobs, place, speeds in groups:
            for job, speed in zip(jobs, speeds, strict=True):
                if job not in self.place:
                    self._begin(job, place, speed)
                    continue
                if self.place[job] != place:
                    self._moved(job, place)
                self.set_speed(job, speed)
            if len(jobs) > 1:
                self.together.update(dict.fromkeys(jobs, jobs))
        self.busy_gpus = sum(self.gpus[group.jobs[0]] for group in groups)

    def _preempt(self, job: int) -> Place:
        """Stop a job; return the place that it had, which the ledger still holds."""
        self._settle(job)
        self.stops[job] += 1
        self.unsaved_ms[job] = 0
        self.overhead_due[job] = self._stop_ms[job]
        return self._release(job)

    def _moved(self, job: int, place: Place) -> None:
        self._settle(job)
        self.place[job] = place
        self.moves[job] += 1
        self.overhead_due[job] += self._move_ms[job]
        self._predict(job)

    # Progress.

    def settle(self) -> None:
        """Account for what all running jobs have done so far."""
        for job in self.place:
            self._settle(job)

    def _settle(self, job: int) -> None:
        """Account for what a running job did since it was last looked at."""
        elapsed = self.now - int(self.since[job])
        if not elapsed:
            return
        overhead = min(int(self.overhead_due[job]), elapsed)
        self.overhead_due[job] -= overhead
        self.overhead_ms[job] += overhead
        self._ran(job, elapsed)
        self.left[job] -= (elapsed - overhead) * int(self.speed[job])
        self.unsaved_ms[job] += elapsed - overhead
        self.since[job] = self.now

    def _ran(self, job: int, elapsed: int) -> None:
        self.run_ms[job] += elapsed
        if job in self.together and self.together[job][0] != job:
            self.shared_ms[job] += elapsed

    def _predict(self, job: int) -> None:
        due = (
            self.now + int(self.overhead_due[job]) - (-int(self.left[job]) // int(self.speed[job]))
        )
        self.due[job] = due
        if not self.charges_events:
            heappush(self.ends, (due, job))

    def _release(self, job: int) -> Place:
        """Take a job from its place; return the GPUs that are free then."""
        place = self.place.pop(job)
        self.running[job] = 0
        self.due[job] = NEVER
        if self._leave_others(job):
            return ()
        self.busy_gpus -= self.gpus[job]
        return place

    def _leave_others(self, job: int) -> tuple[int, ...]:
        """Take a job from those that share its place; return the others."""
        others = tuple(other for other in self.together.pop(job, ()) if other != job)
        for other in others:
            self._settle(other)
        for other in others:
            if len(others) > 1:
                self.together[other] = others
            else:
                del self.together[other]
        return others

    def _charge_event(self, ended: list[int]) -> None:
        """Muri's costs: every running job pays its start at every event that is not its end.

        Those that share a place wait for each other's starts.
        """
        goes_on = self.place.keys() - set(ended)
        jobs = np.fromiter(goes_on, dtype=np.int64, count=len(goes_on))
        elapsed = self.now - self.since[jobs]
        overhead = np.minimum(elapsed, self._charges(jobs))
        self.overhead_ms[jobs] += overhead
        self.run_ms[jobs] += elapsed
        if self.together:
            follows = [self.together.get(job, (job,))[0] != job for job in jobs.tolist()]
            self.shared_ms[jobs] += elapsed * np.array(follows, dtype=np.int64)
        self.left[jobs] -= (elapsed - overhead) * self.speed[jobs]
        self.unsaved_ms[jobs] += elapsed - overhead
        self.since[jobs] = self.now
        self.due[jobs] = self.now - (-self.left[jobs] // self.speed[jobs])

    def _charges(self, jobs: Ints) -> Ints:
        charges: Ints = self._start_ms[jobs]
        for row, job in enumerate(jobs.tolist() if self.together else ()):
            if job in self.together:
                charges[row] = self._start_ms[list(self.together[job])].sum()
        return charges

    def _next_end(self) -> int:
        if self.charges_events:
            jobs = np.fromiter(self.place, dtype=np.int64, count=len(self.place))
            return int(self.due[jobs].min()) if len(jobs) else NEVER
        ends = self.ends
        while ends and self.due[ends[0][1]] != ends[0][0]:
            heappop(ends)
        return ends[0][0] if ends else NEVER

    def _ended(self) -> list[int]:
        if self.charges_events:
            return sorted(job for job in self.place if self.due[job] == self.now)
        found = []
        while self._next_end() == self.now:
            found.append(heappop(self.ends)[1])
            self.due[found[-1]] = NEVER
        return sorted(found)

    # Events.

    def run(self, until_ms: int = NEVER, after_event: Callable[[Loop], None] | None = None) -> None:
        """Play until all jobs have ended, nothing can happen any more, or the clock is there.

        `after_event` is called after each event and the decision that follows it.
        """
        while (time := self._next_event()) < min(until_ms, NEVER):
            self._advance(time)
            self._happen()
            if after_event is not None:
                after_event(self)
        if until_ms != NEVER:
            self._advance(until_ms)
        self.settle()

    def _next_event(self) -> int:
        time = min(self._next_end(), self._submit[self.next_arrival])
        if self.alive and not (time == NEVER and self.stuck):
            time = min(time, self._next_decision())
        if self.outages_left and self.alive:
            time = min(time, self._outages[self.outages_left - 1].begin_ms)
        if self.repairs and self.alive:
            time = min(time, self.repairs[0][0])
        return time

    def _next_decision(self) -> int:
        """Return when to decide if nothing happens: a wake, the next multiple, a pause's end."""
        every = self.trigger.every_ms
        if every is not None and not self.trigger.at_most:
            return (self.now // every + 1) * every
        wakes = self.now if self.pending else max(self.now, self.decider.wakes_ms(self))
        return wakes if every is None else max(wakes, self.last_decision + every)

    def _advance(self, time: int) -> None:
        while self.sample_at <= time:
            waiting = len(self.alive) - len(self.place)
            fragments = sum(map(self._unusable.__getitem__, self.ledger.free))
            self.samples.append(
                (self.sample_at, self.busy_gpus, len(self.place), waiting, fragments)
            )
            self.sample_at += HOUR_MS
        self.busy_gpu_ms += self.busy_gpus * (time - self.now)
        self.alive_ms += len(self.alive) * (time - self.now)
        self.now = time

    def _happen(self) -> None:
        """Let everything happen that happens now, then decide."""
        self.events += 1
        ended = self._ended()
        if self.charges_events:
            self._charge_event(ended)
        self._finish_all(ended)
        while self.repairs and self.repairs[0][0] <= self.now:
            host = heappop(self.repairs)[1]
            if all(away != host for _, away in self.repairs):
                self.ledger.open(host)
        while self.outages_left and self._outages[self.outages_left - 1].begin_ms <= self.now:
            self.outages_left -= 1
            outage = self._outages[self.outages_left]
            if outage.end_ms > self.now:
                self._fail(outage)
        while self._submit[self.next_arrival] == self.now:
            self.alive[self.next_arrival] = None
            self.decider.arrive(self, self.next_arrival)
            self.next_arrival += 1
        self.pending, self.stuck = True, False
        if self._decides():
            self.pending = False
            self.last_decision = self.now
            self.decisions += 1
            self.decider.decide(self)
            self.stuck = not self.place and self.decider.wakes_ms(self) == NEVER
        elif self.trigger.leases:
            self.decider.between(self)

    def _decides(self) -> bool:
        every = self.trigger.every_ms
        if every is None:
            return True
        if self.trigger.at_most:
            return self.now >= self.last_decision + every
        return self.now % every == 0

    def _finish_all(self, ended: list[int]) -> None:
        """Finish jobs; tell the decider of those that shared a place with them and go on."""
        others = {other for job in ended for other in self.together.get(job, ())}
        for job in ended:
            self._finish(job)
        go_on = sorted(others.difference(ended))
        for jobs in dict.fromkeys(self.together.get(job, (job,)) for job in go_on):
            self.decider.shrink(self, jobs)

    def _finish(self, job: int) -> None:
        elapsed = self.now - int(self.since[job])
        overhead = 0 if self.charges_events else min(int(self.overhead_due[job]), elapsed)
        self.overhead_ms[job] += overhead
        self._ran(job, elapsed)
        if self.other_speed[job]:
            speed = int(self.speed[job])
            left = int(self.left[job]) - (elapsed - overhead) * speed
            if not -speed < left <= 0:
                raise InternalError(f"job {self.trace.names[job]} ends with {left} units left")
        self.left[job] = 0
        self.ledger.release(self._release(job))
        self.end[job] = self.now
        del self.alive[job]
        self.decider.leave(self, job)

    def _fail(self, outage: Outage) -> None:
        stopped = [j for j, place in self.place.items() if any(h == outage.host for h, _ in place)]
        for job in stopped:
            self._settle(job)
            checkpoint = self.costs.checkpoint_ms
            if outage.loses and checkpoint is not None:
                lost = int(self.unsaved_ms[job]) % max(checkpoint, 1)
                self.lost_ms[job] += lost
                self.left[job] += lost * int(self.speed[job])
            self.stop(job)
            if outage.loses:
                self.overhead_due[job] = 0
            self.decider.arrive(self, job)
        self.ledger.close(outage.host)
        heappush(self.repairs, (outage.end_ms, outage.host))
