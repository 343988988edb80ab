"""Who runs where in a replay, how far the jobs have come, and what that has cost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import (
    FULL_SPEED,
    NEVER,
    SPEED_BY_OPTION,
    SPREAD_SPEED,
    Trace,
)
from placewright.rounds.settings import InternalError

Charge: TypeAlias = Literal["start", "event"]


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """Overheads in microseconds in which a job holds GPUs without working.

    `start_us`: of a start, per job, int64 (jobs,), or of all; a change of option is one, too.
    `by_gpus_us`: of a start in place of that, by GPUs, ascending: that of the last number which
    the job reaches. `stop_us`: of a preemption; paid at
    the next start. `move_us`: of a migration. `checkpoint_us`: time at work between two
    checkpoints; a failure loses the work since the last one. None: a failure loses nothing.
    `charge`: `start`: the overhead of a start is paid after each start. `event`: after every event
    of the replay by every running job, as Muri's simulator does; an interval between two events
    that is shorter gives no progress, and one that ends with the job's end costs nothing.
    """

    start_us: Ints | int = 0
    by_gpus_us: tuple[tuple[int, int], ...] = ()
    stop_us: Ints | int = 0
    move_us: Ints | int = 0
    checkpoint_us: int | None = None
    charge: Charge = "start"

    def column(self, name: str, jobs: int) -> Ints:
        """Return an overhead per job."""
        return np.broadcast_to(np.asarray(getattr(self, name), dtype=np.int64), jobs).copy()

    def start(self, gpus: int, start_us: int) -> int:
        """Return the overhead of a start with so many GPUs, of a job that else has `start_us`."""
        table = self.by_gpus_us
        if not table:
            return start_us
        return table[max(0, bisect_right(table, gpus, key=lambda row: row[0]) - 1)][1]


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
    all GPUs of a model are on one host. `models`: the GPU model of each host, where there are
    several: a job has GPUs of one of them.

    A job that is larger than the largest host takes as many wholly free hosts of that size as it
    fills, and the rest on one other host.
    """

    def __init__(
        self, sizes: Sequence[int], placer: Placer = "first-fit", models: Sequence[str] = ()
    ) -> None:
        self.placer = placer
        self.models = tuple(dict.fromkeys(models)) or ("",)
        numbers = [self.models.index(model) for model in models] or [0] * len(sizes)
        if placer == "counting":
            self.sizes = [0] * len(self.models)
            for number, size in zip(numbers, sizes, strict=True):
                self.sizes[number] += size
            numbers = list(range(len(self.models)))
        else:
            self.sizes = list(sizes)
        self.model_of = numbers
        self.total = sum(sizes)
        self.closed: set[int] = set()
        self.largest = max(self.sizes)
        self._of_model = [0] * len(self.models)
        self._largest = [0] * len(self.models)
        for host, (number, size) in enumerate(zip(numbers, self.sizes, strict=True)):
            self._of_model[number] |= 1 << host
            self._largest[number] = max(self._largest[number], size)
        self.clear()

    def clear(self) -> None:
        """Release everything on hosts that are open."""
        self.free = [0 if h in self.closed else size for h, size in enumerate(self.sizes)]
        self.free_total = sum(self.free)
        self._by_free = [0] * (self.largest + 1)
        self.busy = [0] * len(self.models)
        """GPUs of each model that jobs hold."""
        if self.placer != "counting":
            for host, free in enumerate(self.free):
                if host not in self.closed:
                    self._by_free[free] |= 1 << host

    @property
    def open_total(self) -> int:
        """GPUs of all hosts in use."""
        return self.total - sum(self.sizes[host] for host in self.closed)

    @property
    def open_by_model(self) -> list[int]:
        """GPUs of each model on hosts in use."""
        found = [0] * len(self.models)
        for host, (number, size) in enumerate(zip(self.model_of, self.sizes, strict=True)):
            found[number] += 0 if host in self.closed else size
        return found

    def find(self, gpus: int) -> Place | None:
        """Return where a job of so many GPUs fits, None if it does not."""
        if len(self.models) > 1:
            places = (self.find_of(model, gpus) for model in range(len(self.models)))
            return next((place for place in places if place is not None), None)
        return self.find_of(0, gpus)

    def find_of(self, model: int, gpus: int, prefer: Place = ()) -> Place | None:
        """Return where a job of so many GPUs of a model fits, None if it does not.

        `prefer`: hosts that are taken before others.
        """
        if gpus > self.free_total:
            return None
        if self.placer == "counting":
            return ((model, gpus),) if self.free[model] >= gpus else None
        largest, others = self._largest[model], ~self._of_model[model]
        if gpus <= largest:
            host = self._host(gpus, others, prefer)
            return None if host is None else ((host, gpus),)
        whole, rest = divmod(gpus, largest)
        idle, taken, place = self._by_free[largest] & ~others, others, []
        for number in range(whole):
            if not idle:
                return None
            own = next((1 << h for h, _ in prefer[number:] if idle >> h & 1), 0)
            bit = own or idle & -idle
            idle ^= bit
            taken |= bit
            place.append((bit.bit_length() - 1, largest))
        if rest:
            host = self._host(rest, taken, prefer)
            if host is None:
                return None
            place.append((host, rest))
        return tuple(place)

    def find_spread(self, model: int, gpus: int, prefer: Place = ()) -> Place | None:
        """Return where a job of so many GPUs of a model fits on any hosts, the freest first.

        `prefer`: hosts that are taken before others.
        """
        own = {host for host, _ in prefer}
        hosts = [
            host for host, free in enumerate(self.free) if free and self.model_of[host] == model
        ]
        hosts.sort(key=lambda host: (host not in own, -self.free[host], host))
        place: list[tuple[int, int]] = []
        for host in hosts:
            if gpus <= 0:
                break
            taken = min(gpus, self.free[host])
            place.append((host, taken))
            gpus -= taken
        return None if gpus > 0 else tuple(place)

    def is_spread(self, place: Place) -> bool:
        """Whether a place has more hosts than its GPUs fill."""
        largest = self._largest[self.model_of[place[0][0]]]
        return len(place) > -(-sum(gpus for _, gpus in place) // largest)

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
            self.busy[self.model_of[host]] -= free
            self._by_free[0] &= ~(1 << host)
            self.closed.add(host)

    def open(self, host: int) -> None:
        """Take a host into use again."""
        if host in self.closed:
            self.closed.remove(host)
            self.busy[self.model_of[host]] += self.sizes[host]
            self._set(host, self.sizes[host])

    def _set(self, host: int, free: int) -> None:
        if not 0 <= free <= self.sizes[host]:
            raise InternalError(f"host {host} has {self.sizes[host]} GPUs; {free} would be free")
        more = free - self.free[host]
        self.free_total += more
        self.busy[self.model_of[host]] -= more
        if self.placer != "counting":
            bit = 1 << host
            self._by_free[self.free[host]] &= ~bit
            self._by_free[free] |= bit
        self.free[host] = free

    def _host(self, gpus: int, without: int, prefer: Place = ()) -> int | None:
        for host, _ in prefer:
            if self.free[host] >= gpus and not without >> host & 1:
                return host
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
    - `gpus`: GPUs that each job asks, or has by its option.
    - `option` (int64 (jobs,)): option of the trace with which a job runs or has run last; -1: none.
    - `resizes` (int64 (jobs,)): how often a job has gone on with another option.
    - `more_gpu_us`, `more_overhead_gpu_us`: by how much the GPU time of jobs, and of all overhead,
      is more than with the GPUs that they ask.
    - `on_model` (int64 (jobs,)): GPU model of the place where a job runs or has run last; -1: none.
    - `received_us` (int64 (jobs, models)): time on each GPU model, where there are several.

    `trace`, `ledger`, `costs`: whose jobs, on which hosts, and what starting, stopping and moving
    them costs.
    """

    def __init__(self, trace: Trace, ledger: HostLedger, costs: Costs | None) -> None:
        costs = Costs() if costs is None else costs
        jobs = len(trace)
        self.trace, self.ledger = trace, ledger
        self.costs = costs
        self.charges_events = costs.charge == "event"
        self.start_us = costs.column("start_us", jobs)
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
        self._asked: list[int] = trace.gpus.tolist()
        self.gpus = self._asked.copy()
        self.option = np.full(jobs, -1, dtype=np.int64)
        self.resizes = np.zeros(jobs, dtype=np.int64)
        self.more_gpu_us: dict[int, int] = {}
        self.more_overhead_gpu_us = 0
        self.several_models = len(ledger.models) > 1
        self.on_model = np.full(jobs, -1, dtype=np.int64)
        self.received_us = np.zeros(
            (jobs if self.several_models else 0, len(ledger.models)), dtype=np.int64
        )
        self._options: dict[tuple[int, int], list[int]] = {}
        for number, (gpus, model, _) in enumerate(trace.options):
            self._options.setdefault((ledger.models.index(model), gpus), []).append(number)
        self.busy_gpus = 0

    def column(self, name: str, jobs: Ints) -> Ints:
        """Return a column for some jobs: one of the trace, or one that changes."""
        if name == "now_us":
            return np.full(len(jobs), self.now, dtype=np.int64)
        if name == "running":
            return self.running[jobs]
        if name == "remaining_us":
            return self._left(jobs)
        elapsed = self.running[jobs] * (self.now - self.since[jobs])
        if name == "service_us":
            return self.run_us[jobs] + elapsed
        if name == "received_us":
            if not self.several_models:
                return (self.run_us[jobs] + elapsed)[:, None]
            received = self.received_us[jobs]
            received[np.arange(len(jobs)), self.on_model[jobs]] += elapsed
            return received
        if name == "overhead_due_us":
            return np.maximum(self.overhead_due[jobs] - elapsed, 0)
        if name == "option":
            return np.where(self.running[jobs] != 0, self.option[jobs], -1)
        if name == "restarts":
            return self.stops[jobs] + self.resizes[jobs]
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
        self._ran(job, elapsed, overhead)
        self._work(job, elapsed - overhead)
        self.unsaved_us[job] += elapsed - overhead
        self.since[job] = self.now

    def _ran(self, job: int, elapsed: int, overhead: int) -> None:
        self.run_us[job] += elapsed
        self.overhead_us[job] += overhead
        if more := self.gpus[job] - self._asked[job]:
            self.more_gpu_us[job] = self.more_gpu_us.get(job, 0) + more * elapsed
            self.more_overhead_gpu_us += more * overhead
        if self.several_models:
            self.received_us[job, self.on_model[job]] += elapsed
        if job in self.together and self.together[job][0] != job:
            self.shared_us[job] += elapsed

    def _work(self, job: int, elapsed: int) -> None:
        done, self.spare[job] = worked(elapsed, int(self.speed[job]), int(self.spare[job]))
        self.left[job] -= done

    def time_left(self, job: int, speed: int) -> int:
        """Return how long the work that was left at `since` takes at a speed, in microseconds."""
        return time_needed(int(self.left[job]), speed, int(self.spare[job]))

    def speed_in(self, job: int, place: Place, option: int | None = None) -> int:
        """Return how fast a job is in a place, with an option or its fastest of so many GPUs.

        It is 1 where the trace has no options. Raises InternalError if it is 0.
        """
        trace, ledger = self.trace, self.ledger
        if not trace.options:
            return FULL_SPEED
        sized = (ledger.model_of[place[0][0]], self.gpus[job])
        options = self._options.get(sized, []) if option is None else [option]
        spread = SPREAD_SPEED in trace.extra and ledger.is_spread(place)
        table = trace.extra[SPREAD_SPEED if spread else SPEED_BY_OPTION]
        speed = max((int(table[job, number]) for number in options), default=0)
        if not speed:
            raise InternalError(f"job {trace.names[job]} has no speed on {place}")
        return speed

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
        charges: Ints = self.start_us[jobs]
        for row, job in enumerate(jobs.tolist() if self.together else ()):
            if job in self.together:
                charges[row] = self.start_us[list(self.together[job])].sum()
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

    def start(self, job: int, place: Place, speed: int | None = None) -> None:
        """Start a waiting job on free GPUs, at the speed that it has there if none is given."""
        self.ledger.take(place)
        self._begin(job, place, self.speed_in(job, place) if speed is None else speed)

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
            self.overhead_due[job] += self._start_overhead(job)
        self.on_model[job] = self.ledger.model_of[place[0][0]]
        self._predict(job)

    def _start_overhead(self, job: int) -> int:
        return self.costs.start(self.gpus[job], int(self.start_us[job]))

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

    def assign_all(self, runs: Mapping[int, tuple[int, Place]]) -> None:
        """Let exactly these jobs run, each with an option in a place that the ledger has taken."""
        for job in [job for job in self.place if job not in runs]:
            self._preempt(job)
        for job, (option, place) in runs.items():
            if job not in self.place:
                self.option[job], self.gpus[job] = option, self.trace.options[option].gpus
                self._begin(job, place, self.speed_in(job, place, option))
            elif option != self.option[job]:
                self._change(job, option, place)
            elif place != self.place[job]:
                self._moved(job, place)

    def change(self, job: int, option: int, place: Place) -> None:
        """Let a running job go on with another option, its own GPUs counted as free."""
        self.ledger.release(self.place[job])
        self.ledger.take(place)
        self._change(job, option, place)

    def _change(self, job: int, option: int, place: Place) -> None:
        """Charge a stop and a start; what was due of the start before is not paid any more."""
        self._settle(job)
        self.unsaved_us[job] = 0
        self.resize(job, self.trace.options[option].gpus)
        self.option[job] = option
        self.resizes[job] += 1
        self.place[job] = place
        self.on_model[job] = self.ledger.model_of[place[0][0]]
        self.speed[job] = self.speed_in(job, place, option)
        self.other_speed[job] = 1
        self.overhead_due[job] = self._stop_us[job] + self._start_overhead(job)
        self._predict(job)

    def replace_all(self, places: dict[int, Place]) -> None:
        """Let exactly these jobs run, in these places; the ledger has been cleared and taken."""
        before = self.place
        for job in [job for job in before if job not in places]:
            self._preempt(job)
        for job, place in places.items():
            if job not in before:
                self._begin(job, place, self.speed_in(job, place))
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
        if self.trace.options:
            option = int(self.option[job])
            self.speed[job] = self.speed_in(job, place, None if option < 0 else option)
            self.other_speed[job] |= self.speed[job] != FULL_SPEED
            self.on_model[job] = self.ledger.model_of[place[0][0]]
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
