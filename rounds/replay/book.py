"""Who runs where in a replay, how far the jobs have come, and what that has cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import FULL_SPEED, NEVER, Trace
from placewright.rounds.settings import InternalError

Charge: TypeAlias = Literal["start", "event"]


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """Overheads in microseconds in which a job holds GPUs without working.

    `start_us`: of a start, per job, int64 (jobs,), or of all. `stop_us`: of a preemption; paid at
    the next start. `move_us`: of a migration. `checkpoint_us`: time at work between two
    checkpoints; a failure loses the work since the last one. None: a failure loses nothing.
    `charge`: `start`: the overhead of a start is paid after each start. `event`: after every event
    of the replay by every running job, as Muri's simulator does; an interval between two events
    that is shorter gives no progress, and one that ends with the job's end costs nothing.
    """

    start_us: Ints | int = 0
    stop_us: Ints | int = 0
    move_us: Ints | int = 0
    checkpoint_us: int | None = None
    charge: Charge = "start"

    def column(self, name: str, jobs: int) -> Ints:
        """Return an overhead per job."""
        return np.broadcast_to(np.asarray(getattr(self, name), dtype=np.int64), jobs).copy()


# Free GPUs by host: first fit and best fit by bit sets, one per number of free GPUs.
#
# A place is a tuple of (host, GPUs on it). Which GPUs of a host a job holds makes no difference
# to a replay, so they are counted; the ledger refuses to give out more than a host has.
Place: TypeAlias = tuple[tuple[int, int], ...]
Placer: TypeAlias = Literal["first-fit", "best-fit", "counting"]
Places: TypeAlias = Literal["free", "kept"]
"""Whether running jobs may be placed anew at every decision, or stay where they are."""


class HostLedger:
    """What is free on hosts.

    `sizes`: GPUs of each host, 1 or more. `placer`: `first-fit`: the first host with room.
    `best-fit`: the host with the fewest free GPUs that has room, the first of these. `counting`:
    all GPUs are on one host.

    A job that is larger than the largest host takes as many wholly free hosts of that size as it
    fills, and the rest on one other host.
    """

    def __init__(self, sizes: Sequence[int], placer: Placer = "first-fit") -> None:
        self.placer = placer
        self.sizes = [sum(sizes)] if placer == "counting" else list(sizes)
        self.total = sum(sizes)
        self.closed: set[int] = set()
        self.largest = max(self.sizes)
        self.clear()

    def clear(self) -> None:
        """Release everything on hosts that are open."""
        self.free = [0 if h in self.closed else size for h, size in enumerate(self.sizes)]
        self.free_total = sum(self.free)
        self._by_free = [0] * (self.largest + 1)
        if self.placer != "counting":
            for host, free in enumerate(self.free):
                if host not in self.closed:
                    self._by_free[free] |= 1 << host

    @property
    def open_total(self) -> int:
        """GPUs of all hosts in use."""
        return self.total - sum(self.sizes[host] for host in self.closed)

    def find(self, gpus: int) -> Place | None:
        """Return where a job of so many GPUs fits, None if it does not."""
        if gpus > self.free_total:
            return None
        if self.placer == "counting":
            return ((0, gpus),)
        if gpus <= self.largest:
            host = self._host(gpus, 0)
            return None if host is None else ((host, gpus),)
        whole, rest = divmod(gpus, self.largest)
        idle, taken, place = self._by_free[self.largest], 0, []
        for _ in range(whole):
            if not idle:
                return None
            bit = idle & -idle
            idle ^= bit
            taken |= bit
            place.append((bit.bit_length() - 1, self.largest))
        if rest:
            host = self._host(rest, taken)
            if host is None:
                return None
            place.append((host, rest))
        return tuple(place)

    def take(self, place: Place) -> None:
        """Take the GPUs of a place."""
        for host, gpus in place:
            self._set(host, self.free[host] - gpus)

    def release(self, place: Place) -> None:
        """Release the GPUs of a place; those of a closed host stay away."""
        for host, gpus in place:
            if host not in self.closed:
                self._set(host, self.free[host] + gpus)

    def close(self, host: int) -> None:
        """Take a host out of use; the jobs on it must have been stopped."""
        if host not in self.closed:
            free = self.free[host]
            if free != self.sizes[host]:
                raise InternalError(f"host {host} is closed while jobs run on it")
            self._set(host, 0)
            self._by_free[0] &= ~(1 << host)
            self.closed.add(host)

    def open(self, host: int) -> None:
        """Take a host into use again."""
        if host in self.closed:
            self.closed.remove(host)
            self._set(host, self.sizes[host])

    def _set(self, host: int, free: int) -> None:
        if not 0 <= free <= self.sizes[host]:
            raise InternalError(f"host {host} has {self.sizes[host]} GPUs; {free} would be free")
        self.free_total += free - self.free[host]
        if self.placer != "counting":
            bit = 1 << host
            self._by_free[self.free[host]] &= ~bit
            self._by_free[free] |= bit
        self.free[host] = free

    def _host(self, gpus: int, without: int) -> int | None:
        if self.placer == "best-fit":
            for hosts in self._by_free[gpus:]:
                if able := hosts & ~without:
                    return (able & -able).bit_length() - 1
            return None
        able = 0
        for hosts in self._by_free[gpus:]:
            able |= hosts
        able &= ~without
        return (able & -able).bit_length() - 1 if able else None


# How far the jobs of a replay have come, and what that has cost.
#
# Work is counted in microseconds at speed 1 and millionths of one, so that speeds of a millionth
# are exact, and a job ends at the first microsecond at which all its work is done.
Number = TypeVar("Number", int, Ints)
"""A number, or a column of them."""


class Progress:
    """The columns of the jobs of a replay, at the time `now`.

    - `now`: the clock, in microseconds.
    - `place`: the running jobs and where they are, in the order in which they started.
    - `alive`: the jobs that have come and not ended, in order of arrival.
    - `left` (int64 (jobs,)): work that is left as of `since`, in microseconds at speed 1, rounded
      up.
    - `spare` (int64 (jobs,)): by how many millionths of a microsecond less is left than that.
    - `speed` (int64 (jobs,)): speed in millionths, where the job runs now.
    - `other_speed` (int64 (jobs,)): 1 for a job that has ever run at another speed than 1.
    - `together`: the jobs that share one place, for each of them; the first counts as the one that
      holds it.
    - `shared_us` (int64 (jobs,)): how much of `run_us` a job ran in a place that another one held.

    `trace`, `ledger`, `costs`: whose jobs, on which hosts, and what starting, stopping and moving
    them costs.
    """

    def __init__(self, trace: Trace, ledger: HostLedger, costs: Costs | None) -> None:
        costs = Costs() if costs is None else costs
        jobs = len(trace)
        self.trace, self.ledger = trace, ledger
        self.costs = costs
        self.charges_events = costs.charge == "event"
        self._start_us = costs.column("start_us", jobs)
        self._stop_us = costs.column("stop_us", jobs)
        self._move_us = costs.column("move_us", jobs)
        self.now = 0
        self.place: dict[int, Place] = {}
        self.alive: dict[int, None] = {}
        self.left = trace.work_us.copy()
        self.spare = np.zeros(jobs, dtype=np.int64)
        self.speed = np.full(jobs, FULL_SPEED, dtype=np.int64)
        self.since = np.zeros(jobs, dtype=np.int64)
        self.overhead_due = np.zeros(jobs, dtype=np.int64)
        self.running = np.zeros(jobs, dtype=np.int64)
        self.other_speed = np.zeros(jobs, dtype=np.int64)
        self.started = np.zeros(jobs, dtype=np.int64)
        self.first_start = np.full(jobs, NEVER, dtype=np.int64)
        self.end = np.full(jobs, NEVER, dtype=np.int64)
        self.stops = np.zeros(jobs, dtype=np.int64)
        self.moves = np.zeros(jobs, dtype=np.int64)
        self.run_us = np.zeros(jobs, dtype=np.int64)
        self.overhead_us = np.zeros(jobs, dtype=np.int64)
        self.lost_us = np.zeros(jobs, dtype=np.int64)
        self.unsaved_us = np.zeros(jobs, dtype=np.int64)
        self.together: dict[int, tuple[int, ...]] = {}
        self.shared_us = np.zeros(jobs, dtype=np.int64)
        self.due = np.zeros(jobs, dtype=np.int64)
        self.ends: list[tuple[int, int]] = []
        self.gpus: list[int] = trace.gpus.tolist()
        self.busy_gpus = 0

    def column(self, name: str, jobs: Ints) -> Ints:
        """Return a column for some jobs: one of the trace, or one that changes."""
        if name == "now_us":
            return np.full(len(jobs), self.now, dtype=np.int64)
        if name == "running":
            return self.running[jobs]
        if name == "remaining_us":
            return self._left(jobs)
        if name == "service_us":
            return self.run_us[jobs] + self.running[jobs] * (self.now - self.since[jobs])
        rows = self.trace.extra.get(name)
        taken: Any = getattr(self.trace, name) if rows is None else rows
        chosen: Ints = taken[jobs]
        return chosen

    def _left(self, jobs: Ints) -> Ints:
        elapsed = self.running[jobs] * (self.now - self.since[jobs])
        works = elapsed - np.minimum(elapsed, self.overhead_due[jobs])
        left: Ints = self.left[jobs] - worked(works, self.speed[jobs], self.spare[jobs])[0]
        return left

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
        self.overhead_us[job] += overhead
        self._ran(job, elapsed)
        self._work(job, elapsed - overhead)
        self.unsaved_us[job] += elapsed - overhead
        self.since[job] = self.now

    def _ran(self, job: int, elapsed: int) -> None:
        self.run_us[job] += elapsed
        if job in self.together and self.together[job][0] != job:
            self.shared_us[job] += elapsed

    def _work(self, job: int, elapsed: int) -> None:
        done, self.spare[job] = worked(elapsed, int(self.speed[job]), int(self.spare[job]))
        self.left[job] -= done

    def time_left(self, job: int, speed: int) -> int:
        """Return how long the work that was left at `since` takes at a speed, in microseconds."""
        return time_needed(int(self.left[job]), speed, int(self.spare[job]))

    def _predict(self, job: int) -> None:
        left = self.time_left(job, int(self.speed[job]))
        due = min(self.now + int(self.overhead_due[job]) + left, NEVER)
        self.due[job] = due
        if not self.charges_events:
            heappush(self.ends, (due, job))

    def _charge_event(self, ended: list[int]) -> None:
        """Muri's costs: every running job pays its start at every event that is not its end.

        Those that share a place wait for each other's starts.
        """
        goes_on = self.place.keys() - set(ended)
        jobs = np.fromiter(goes_on, dtype=np.int64, count=len(goes_on))
        elapsed = self.now - self.since[jobs]
        overhead = np.minimum(elapsed, self._charges(jobs))
        self.overhead_us[jobs] += overhead
        self.run_us[jobs] += elapsed
        if self.together:
            follows = [self.together.get(job, (job,))[0] != job for job in jobs.tolist()]
            self.shared_us[jobs] += elapsed * np.array(follows, dtype=np.int64)
        done, self.spare[jobs] = worked(elapsed - overhead, self.speed[jobs], self.spare[jobs])
        self.left[jobs] -= done
        self.unsaved_us[jobs] += elapsed - overhead
        self.since[jobs] = self.now
        left = time_needed(self.left[jobs], self.speed[jobs], self.spare[jobs])
        self.due[jobs] = self.now + left

    def _charges(self, jobs: Ints) -> Ints:
        charges: Ints = self._start_us[jobs]
        for row, job in enumerate(jobs.tolist() if self.together else ()):
            if job in self.together:
                charges[row] = self._start_us[list(self.together[job])].sum()
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


def worked(elapsed: Number, speed: Number, spare: Number) -> tuple[Number, Number]:
    """Return by how much less work is left after that time, and what is spare then.

    Time is taken apart so that no product of two columns exceeds 64 bits.
    """
    seconds, rest = elapsed // FULL_SPEED, elapsed % FULL_SPEED
    done = rest * speed + spare
    return seconds * speed + done // FULL_SPEED, done % FULL_SPEED


def time_needed(left: Number, speed: Number, spare: Number) -> Number:
    """Return how long work takes at a speed, rounded up; taken apart as in `worked`."""
    whole, rest = left // speed, left % speed
    return whole * FULL_SPEED + (rest * FULL_SPEED - spare + speed - 1) // speed


class Group(NamedTuple):
    """Jobs of the same number of GPUs that share one place, each at its speed."""

    jobs: tuple[int, ...]
    place: Place
    speeds: tuple[int, ...]


class Book(Progress):
    """Starts, stops and moves jobs, with what that costs."""

    def start(self, job: int, place: Place, speed: int = FULL_SPEED) -> None:
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
        self.other_speed[job] |= speed != FULL_SPEED
        if self.first_start[job] == NEVER:
            self.first_start[job] = self.now
        if not self.charges_events:
            self.overhead_due[job] += self._start_us[job]
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
            self.unsaved_us[job] = 0
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
                self._begin(job, place, FULL_SPEED)
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
        self.unsaved_us[job] = 0
        self.overhead_due[job] = self._stop_us[job]
        return self._release(job)

    def _moved(self, job: int, place: Place) -> None:
        self._settle(job)
        self.place[job] = place
        self.moves[job] += 1
        self.overhead_due[job] += self._move_us[job]
        self._predict(job)

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
