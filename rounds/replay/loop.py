"""The loop of a replay: events in order of time, each followed by what a decider does."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.converters.support.csv_table import read_table
from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.formats import MAX_S
from placewright.instances.traces.trace import FULL_SPEED, NEVER, SECOND, Trace
from placewright.rounds.replay.book import Book, Costs, HostLedger, Place
from placewright.rounds.settings import InternalError

# Fragmentation: free GPUs that lie where the jobs of a trace do not fit.
# Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
# Gradient Descent" (FGD), USENIX ATC 2023, section 3.
PARTS = 1000
"""Fragments are counted in thousandths of a GPU."""


def unusable_parts(gpus: Ints, largest: int) -> list[int]:
    """Return how much of a host's free GPUs cannot be used, by how many are free.

    What is expected for a job drawn from a trace: all of them where it asks more, else nothing. A
    job that is larger than any host asks for whole hosts.

    Returns thousandths of a GPU, for 0 to `largest` free GPUs. `gpus`: GPUs of each job of the
    trace, int64 (jobs,). `largest`: GPUs of the largest host.
    """
    asked = np.bincount(np.minimum(gpus, largest), minlength=largest + 1)
    larger = len(gpus) - np.cumsum(asked)
    parts = PARTS * np.arange(largest + 1) * larger / max(1, len(gpus))
    return [int(part) for part in np.rint(parts)]


# The loop of a replay: events in order of time, each followed by what a decider decides.
#
# Order of events at equal times: ends, repairs, failures, arrivals, timers; then one decision.
# While no job is alive, hosts fail and are repaired unnoticed, without events. Time is in whole
# microseconds.
HOUR_US = 3600 * SECOND

MOST_ALIVE = 1000
"""Jobs whose shares are looked at in a sample."""


class Outage(NamedTuple):
    """A host is away from `begin_us` until before `end_us`; `loses` work since a checkpoint.

    Without `loses`, capacity changes: the host leaves, and its jobs are preempted: they keep their
    work and pay for a stop. Outages of a host may overlap; it is away while one of them lasts.
    """

    host: int
    begin_us: int
    end_us: int
    loses: bool = True


@dataclass(frozen=True, slots=True)
class Trigger:
    """When decisions are made.

    `every_us` None: after every event, and when the decider wakes. Else at multiples of it; with
    `at_most`, after events and wakes, but not before so much time has passed since the last
    decision. `leases`: multiples of `every_us` are the boundaries of leases, at which jobs may be
    stopped and moved; after events between them the decider may start jobs, by `Decider.between`.
    """

    every_us: int | None = None
    at_most: bool = False
    leases: bool = False


class Decider(ABC):
    """Decides who runs where, by `start`, `stop` and `move` of the loop.

    `rounds` has the time and the gap of each decision that a solver made; None where it proved no
    bound. `state` is plain JSON; a new decider that has restored it decides as this one would, if
    this one `can_be_saved` then.
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

    def survives(self, loop: Loop, job: int, host: int) -> tuple[int, Place] | None:  # noqa: ARG002
        """Return the option and the place with which a job goes on without a host; None: not."""
        return None

    def returns(self, loop: Loop, host: int) -> int:  # noqa: ARG002
        """Return which host goes in place of this one, whose planned outage begins."""
        return host

    def wakes_us(self, loop: Loop) -> int:  # noqa: ARG002
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


class Loop(Book):
    """A replay of a trace on hosts, event by event.

    `trace`, `ledger`, `decider`, `costs`, `trigger`: what is played, on which hosts, who decides,
    what it costs, and when it is decided. `outages`: hosts that are away for a while.
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
        super().__init__(trace, ledger, costs)
        self.decider = decider
        self.trigger = Trigger() if trigger is None else trigger
        self._submit: list[int] = [*trace.submit_us.tolist(), NEVER]
        self.next_arrival = 0
        self._outages = sorted(outages, key=lambda outage: outage.begin_us, reverse=True)
        self.outages_left = len(outages)
        self.on_loan = sorted({outage.host for outage in outages if not outage.loses})
        self.goes_for: dict[int, int] = {}
        """The host that goes in place of one whose planned outage has begun."""
        self.repairs: list[tuple[int, int]] = []
        self.busy_gpu_us = self.alive_us = 0
        self.held_gpu_us = [0] * len(ledger.models)
        """GPU time held on each model, where there are several."""
        self.events = self.decisions = 0
        self.samples: list[tuple[int, int, int, int, int, int]] = []
        self.served_us = np.zeros(len(trace), dtype=np.int64)
        """Time with GPUs of each job alive at the last sample."""
        self._unusable = unusable_parts(trace.gpus, max(ledger.sizes))
        self.sample_at = 0
        self.last_decision = -NEVER
        self.pending = self.stuck = False

    def run(self, until_us: int = NEVER, after_event: Callable[[Loop], None] | None = None) -> None:
        """Play until all jobs have ended, nothing can happen any more, or the clock is there.

        `after_event` is called after each event and the decision that follows it.
        """
        while (time := self._next_event()) < min(until_us, NEVER):
            self._advance(time)
            self._happen()
            if after_event is not None:
                after_event(self)
        if until_us != NEVER:
            self._advance(until_us)
        self.settle()

    def _next_event(self) -> int:
        time = min(self._next_end(), self._submit[self.next_arrival])
        if self.alive and not (time == NEVER and self.stuck):
            time = min(time, self._next_decision())
        if self.outages_left and self.alive:
            time = min(time, self._outages[self.outages_left - 1].begin_us)
        if self.repairs and self.alive:
            time = min(time, self.repairs[0][0])
        return time

    def _next_decision(self) -> int:
        """Return when to decide if nothing happens: a wake, the next multiple, a pause's end."""
        every = self.trigger.every_us
        if every is not None and not self.trigger.at_most:
            return (self.now // every + 1) * every
        wakes = self.now if self.pending else max(self.now, self.decider.wakes_us(self))
        return wakes if every is None else max(wakes, self.last_decision + every)

    def _advance(self, time: int) -> None:
        first = self.sample_at
        while self.sample_at <= time:
            # Nothing changes in between, so that all but the first and the last repeat the second.
            if self.sample_at <= first + HOUR_US or self.sample_at + HOUR_US > time:
                waiting = len(self.alive) - len(self.place)
                fragments = sum(map(self._unusable.__getitem__, self.ledger.free))
                held = (self.busy_gpus, len(self.place), waiting, fragments, self._jain())
            self.samples.append((self.sample_at, *held))
            self.sample_at += HOUR_US
        self.busy_gpu_us += self.busy_gpus * (time - self.now)
        if self.several_models:
            for model, busy in enumerate(self.ledger.busy):
                self.held_gpu_us[model] += busy * (time - self.now)
        self.alive_us += len(self.alive) * (time - self.now)
        self.now = time

    def _jain(self) -> int:
        """Return Jain's fairness index of the jobs' shares of the last hour, in thousandths.

        Of the jobs alive throughout it, a share is the GPU time that a job had over that of its
        part of the cluster, one of as many as there are jobs, but of no more GPUs than it asks. It
        is 1 if all are alike, and 1 / jobs if one has all. Where more than `MOST_ALIVE` are alive,
        it is that of the first of them.

        Source: Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for
        resource allocation in shared computer systems", DEC-TR-301, 1984.
        """
        count = len(self.alive)
        jobs = np.fromiter(islice(self.alive, MOST_ALIVE), dtype=np.int64)
        served = self.run_us[jobs] + self.running[jobs] * (self.sample_at - self.since[jobs])
        had = np.minimum(served - self.served_us[jobs], HOUR_US)
        self.served_us[jobs] = served
        whole = self.trace.submit_us[jobs] <= self.sample_at - HOUR_US
        gpus = self.trace.gpus[jobs[whole]]
        share = had[whole] * gpus / np.minimum(gpus, self.ledger.total / max(count, 1))
        squares = float(share @ share)
        return round(1000 * float(share.sum()) ** 2 / (len(share) * squares)) if squares else 1000

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
        while self.outages_left and self._outages[self.outages_left - 1].begin_us <= self.now:
            self.outages_left -= 1
            outage = self._outages[self.outages_left]
            if outage.end_us > self.now:
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
            self.stuck = not self.place and self.decider.wakes_us(self) == NEVER
        elif self.trigger.leases:
            self.decider.between(self)

    def _decides(self) -> bool:
        every = self.trigger.every_us
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
        self._ran(job, elapsed, overhead)
        if self.other_speed[job]:
            self._work(job, elapsed - overhead)
            left = int(self.left[job]) * FULL_SPEED - int(self.spare[job])
            if not -self.speed[job] < left <= 0:
                raise InternalError(f"job {self.trace.names[job]} ends with {left} millionths left")
        self.left[job] = self.spare[job] = 0
        self.ledger.release(self._release(job))
        self.end[job] = self.now
        del self.alive[job]
        self.decider.leave(self, job)

    def _host_of(self, outage: Outage) -> int:
        """Return the host that goes: the same one in all planned outages that overlap."""
        if outage.loses:
            return outage.host
        if self.goes_for.get(outage.host, -1) not in self.ledger.closed:
            self.goes_for[outage.host] = self.decider.returns(self, outage.host)
        return self.goes_for[outage.host]

    def _fail(self, outage: Outage) -> None:
        host = self._host_of(outage)
        stopped = [j for j, place in self.place.items() if any(h == host for h, _ in place)]
        for job in stopped:
            kept = self.decider.survives(self, job, host)
            if kept is not None:
                self.change(job, *kept)
                continue
            self._settle(job)
            checkpoint = self.costs.checkpoint_us
            if outage.loses and checkpoint is not None:
                lost = int(self.unsaved_us[job]) % max(checkpoint, 1)
                self.lost_us[job] += lost
                self._work(job, -lost)
            self.stop(job)
            if outage.loses:
                self.overhead_due[job] = 0
            self.decider.arrive(self, job)
        self.ledger.close(host)
        heappush(self.repairs, (outage.end_us, host))


def read_outages(path: str | os.PathLike[str], hosts: int) -> tuple[Outage, ...]:
    """Read a CSV file with the columns host (a number from 0), begin_s and end_s.

    Seconds are on the clock of the replay, which begins at the first arrival. Where it has a column
    `planned`, 1 says that jobs are stopped without losing work. Raises InvalidInputError for a file
    that cannot be used, with line and column.
    """
    table = read_table(path)
    table.require("host", "begin_s", "end_s")
    host = table.integers("host", hosts - 1)
    begin, end = table.integers("begin_s", MAX_S), table.integers("end_s", MAX_S)
    planned = table.integers("planned", 1, blank=0) if table.has("planned") else np.zeros_like(host)
    if (end <= begin).any():
        raise table.error(int((end <= begin).argmax()), "end_s", "expected more than begin_s")
    rows = zip(host.tolist(), begin.tolist(), end.tolist(), planned.tolist(), strict=True)
    return tuple(Outage(h, SECOND * b, SECOND * e, loses=not p) for h, b, e, p in rows)


def random_outages(
    hosts: int, until_us: int, *, mean_up_s: float, mean_down_s: float, seed: int
) -> tuple[Outage, ...]:
    """Draw failures of each host: exponential times from repair to failure, and until repair.

    Outages of a host do not depend on how many hosts there are.
    """
    found = []
    for host in range(hosts):
        rng = np.random.default_rng((seed, host))
        now = 0
        while True:
            begin = now + round(SECOND * rng.exponential(mean_up_s))
            if begin >= until_us:
                break
            now = begin + max(1, round(SECOND * rng.exponential(mean_down_s)))
            found.append(Outage(host, begin, now))
    return tuple(found)


def check_outages(outages: Sequence[Outage], hosts: int) -> None:
    """Raise InvalidInputError for the first outage that is of no host or has no length."""
    for number, outage in enumerate(outages):
        if not 0 <= outage.host < hosts:
            raise InvalidInputError(
                f"expected 0 to {hosts - 1}", path=("outages", number, "host"), value=outage.host
            )
        if outage.end_us <= outage.begin_us or outage.begin_us < 0:
            raise InvalidInputError(
                "expected an end after the beginning, from 0",
                path=("outages", number, "end_us"),
                value=outage.end_us,
            )


# Predicted running times with the errors that a predictor has.
# Source: Hu et al., "Characterization and prediction of deep learning workloads in large-scale GPU
# datacenters", SC 2021 (Helios); the distribution is that of its artifact.
Predictions: TypeAlias = Literal["trace", "helios"]
"""Those of the trace, or the true running times with the errors of Helios's predictor."""

LEVELS = (0.1, 0.5, 0.7, 0.9)
"""Shares of jobs whose error is at most that of each of `ERRORS` but the last."""

ERRORS = (0.1, 0.5, 1.0, 10.0, 100.0)
"""Relative errors; within a level they are uniform from the one before, of either sign."""

_STREAM = 1
"""Tells these draws from others of the same seed."""


def helios_errors(jobs: int, rng: np.random.Generator) -> Floats:
    """Draw relative errors of predictions: 10 % of jobs within 10 %, 50 % within 50 % ..."""
    level = np.searchsorted(LEVELS, rng.random(jobs))
    most = np.array(ERRORS)[level]
    least = np.array((0.0, *ERRORS))[level]
    size = least + (most - least) * rng.random(jobs)
    errors: Floats = size * rng.choice((-1, 1), jobs)
    return errors


def predicted_with_errors(work_us: Ints, seed: int) -> Ints:
    """Return predictions of running times with Helios's errors; those below 0 count as 1 µs."""
    errors = helios_errors(len(work_us), np.random.default_rng((seed, _STREAM)))
    predicted: Ints = np.rint(work_us * np.maximum(1 + errors, 0)).astype(np.int64)
    return np.maximum(predicted, 1)
