"""`Result`: what became of each job in a replay, as columns, and integrals over time."""

from __future__ import annotations

from dataclasses import dataclass

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
    first_start_ms, end_ms
        `NEVER` for a job that did not start or end.
    stops, moves
        Preemptions, those by failures counted, and migrations.
    run_ms, overhead_ms, lost_ms
        Time with GPUs, and how much of it was overhead or work that was lost.
    other_speed
        1 for a job that has ever run at another speed than 1.
    shared_ms
        How much of `run_ms` a job ran in a place that another one held.
    gpus_total
        GPUs of the cluster.
    busy_gpu_ms, alive_ms
        Integrals over the events of the replay: of the GPUs held, and of the jobs alive.
    horizon_ms
        The clock at the end.
    events, decisions
        How many there were.
    samples
        Per hour: time in ms, GPUs held, jobs running, jobs waiting, and free GPUs on which jobs do
        not fit, in thousandths (see `fragmentation`).
    rounds
        Per decision by a solver: time in ms, and the gap of its first term, None without a bound;
        empty for lists.
    """

    trace: Trace
    first_start_ms: Ints
    end_ms: Ints
    stops: Ints
    moves: Ints
    run_ms: Ints
    overhead_ms: Ints
    lost_ms: Ints
    other_speed: Ints
    shared_ms: Ints
    gpus_total: int
    busy_gpu_ms: int
    alive_ms: int
    horizon_ms: int
    events: int
    decisions: int
    samples: tuple[tuple[int, int, int, int, int], ...] = ()
    rounds: tuple[tuple[int, float | None], ...] = ()

    def check(self) -> None:
        """Check what must be conserved, to the millisecond.

        Raises
        ------
        InternalError
            If GPU time held is not that of the jobs, a place that jobs share counted once, or jobs
            alive are not their time in the system, or a job that ended did not do its work.
        """
        trace, ended = self.trace, self.end_ms != NEVER
        held = int(((self.run_ms - self.shared_ms) * trace.gpus).sum())
        if held != self.busy_gpu_ms:
            raise InternalError(f"GPUs were held for {self.busy_gpu_ms} ms, by jobs for {held}")
        came = trace.submit_ms <= self.horizon_ms
        until = [int(ms) if ms != NEVER else self.horizon_ms for ms in self.end_ms[came]]
        alive = sum(until) - int(trace.submit_ms[came].sum())
        if alive != self.alive_ms:
            raise InternalError(f"jobs were alive for {self.alive_ms} ms, by their ends {alive}")
        works = self.run_ms - self.overhead_ms - self.lost_ms
        wrong = (works < 0) | (ended & (self.other_speed == 0) & (works != trace.work_ms))
        if wrong.any():
            job = int(wrong.argmax())
            raise InternalError(
                f"job {trace.names[job]} has done {works[job]} ms of {trace.work_ms[job]} ms work"
            )


def result_of(loop: Loop) -> Result:
    """Return what a loop that has run leads to, checked."""
    result = Result(
        trace=loop.trace,
        first_start_ms=loop.first_start,
        end_ms=loop.end,
        stops=loop.stops,
        moves=loop.moves,
        run_ms=loop.run_ms,
        overhead_ms=loop.overhead_ms,
        lost_ms=loop.lost_ms,
        other_speed=loop.other_speed,
        shared_ms=loop.shared_ms,
        gpus_total=loop.ledger.total,
        busy_gpu_ms=loop.busy_gpu_ms,
        alive_ms=loop.alive_ms,
        horizon_ms=loop.now,
        events=loop.events,
        decisions=loop.decisions,
        samples=tuple(loop.samples),
        rounds=tuple(loop.decider.rounds),
    )
    result.check()
    return result
