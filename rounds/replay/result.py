"""`Result`: what became of each job in a replay, as columns, and integrals over time."""

from __future__ import annotations

from dataclasses import dataclass
from operator import mul

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import NEVER, Trace
from placewright.rounds.errors import InternalError
from placewright.rounds.replay.loop import Loop


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What became of each job; columns are int64 (jobs,), in the order of the trace.

    Parameters
    ----------
    trace
        What was played.
    first_start_us, end_us
        `NEVER` for a job that did not start or end.
    stops, moves
        Preemptions, those by failures counted, and migrations.
    run_us, overhead_us, lost_us
        Time with GPUs, and how much of it was overhead or work that was lost.
    other_speed
        1 for a job that has ever run at another speed than 1.
    shared_us
        How much of `run_us` a job ran in a place that another one held.
    gpus_total
        GPUs of the cluster.
    busy_gpu_us, alive_us
        Integrals over the events of the replay: of the GPUs held, and of the jobs alive.
    horizon_us
        The clock at the end.
    events, decisions
        How many there were.
    samples
        Per hour: time in µs, GPUs held, jobs running, jobs waiting, and free GPUs on which jobs do
        not fit, in thousandths (see `fragmentation`).
    rounds
        Per decision by a solver: time in µs, and the gap of its first term, None without a bound;
        empty for lists.
    """

    trace: Trace
    first_start_us: Ints
    end_us: Ints
    stops: Ints
    moves: Ints
    run_us: Ints
    overhead_us: Ints
    lost_us: Ints
    other_speed: Ints
    shared_us: Ints
    gpus_total: int
    busy_gpu_us: int
    alive_us: int
    horizon_us: int
    events: int
    decisions: int
    samples: tuple[tuple[int, int, int, int, int], ...] = ()
    rounds: tuple[tuple[int, float | None], ...] = ()

    def check(self) -> None:
        """Check what must be conserved, to the microsecond.

        Raises
        ------
        InternalError
            If GPU time held is not that of the jobs, a place that jobs share counted once, or jobs
            alive are not their time in the system, or a job that ended did not do its work.
        """
        trace, ended = self.trace, self.end_us != NEVER
        # A year of 100,000 GPUs has 3.2e18 microseconds: longer sums need more than 64 bits, which
        # numbers of Python have.
        alone = (self.run_us - self.shared_us).tolist()
        held = sum(map(mul, alone, trace.gpus.tolist()))
        if held != self.busy_gpu_us:
            raise InternalError(f"GPUs were held for {self.busy_gpu_us} µs, by jobs for {held}")
        came = trace.submit_us <= self.horizon_us
        until = np.minimum(self.end_us[came], self.horizon_us).tolist()
        alive = sum(until) - sum(trace.submit_us[came].tolist())
        if alive != self.alive_us:
            raise InternalError(f"jobs were alive for {self.alive_us} µs, by their ends {alive}")
        works = self.run_us - self.overhead_us - self.lost_us
        wrong = (works < 0) | (ended & (self.other_speed == 0) & (works != trace.work_us))
        if wrong.any():
            job = int(wrong.argmax())
            raise InternalError(
                f"job {trace.names[job]} has done {works[job]} µs of {trace.work_us[job]} µs work"
            )


def result_of(loop: Loop) -> Result:
    """Return what a loop that has run leads to, checked."""
    result = Result(
        trace=loop.trace,
        first_start_us=loop.first_start,
        end_us=loop.end,
        stops=loop.stops,
        moves=loop.moves,
        run_us=loop.run_us,
        overhead_us=loop.overhead_us,
        lost_us=loop.lost_us,
        other_speed=loop.other_speed,
        shared_us=loop.shared_us,
        gpus_total=loop.ledger.total,
        busy_gpu_us=loop.busy_gpu_us,
        alive_us=loop.alive_us,
        horizon_us=loop.now,
        events=loop.events,
        decisions=loop.decisions,
        samples=tuple(loop.samples),
        rounds=tuple(loop.decider.rounds),
    )
    result.check()
    return result
