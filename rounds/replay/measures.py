"""Measures of a replay: what users feel, and how the cluster was used. Times in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from operator import mul
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.instances.traces.trace import (
    FULL_SPEED,
    NEVER,
    SECOND,
    SPEED_BY_OPTION,
    Trace,
)
from placewright.rounds.replay.book import HostLedger
from placewright.rounds.replay.loop import PARTS, Loop
from placewright.rounds.settings import InternalError


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What became of each job; columns are int64 (jobs,), in the order of the trace.

    - `trace`: what was played.
    - `first_start_us`, `end_us`: `NEVER` for a job that did not start or end.
    - `stops`, `moves`: preemptions, those by failures counted, and migrations.
    - `run_us`, `overhead_us`, `lost_us`: time with GPUs, and how much of it was overhead or work
      that was lost.
    - `other_speed`: 1 for a job that has ever run at another speed than 1.
    - `shared_us`: how much of `run_us` a job ran in a place that another one held.
    - `resizes`: how often a job went on with another option.
    - `more_gpu_us`, `more_overhead_gpu_us`: see `Progress`.
    - `held_gpu_us`: integral of the GPUs held of each model, by name, where there are several.
    - `gpus_total`: GPUs of the cluster.
    - `busy_gpu_us`, `alive_us`: integrals over the events of the replay: of the GPUs held, and of
      the jobs alive.
    - `horizon_us`: the clock at the end.
    - `events`, `decisions`: how many there were.
    - `isolated_us`: see `isolated_times`.
    - `samples`: per hour: time in µs, GPUs held, jobs running, jobs waiting, free GPUs on which
      jobs do not fit, in thousandths (see `fragmentation`), and Jain's index of the last hour's
      shares, in thousandths (see `Loop`).
    - `rounds`: per decision by a solver: time in µs, and the gap of its first term, None without a
      bound; empty for lists.
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
    resizes: Ints
    more_gpu_us: Mapping[int, int]
    more_overhead_gpu_us: int
    held_gpu_us: Mapping[str, int]
    gpus_total: int
    busy_gpu_us: int
    alive_us: int
    horizon_us: int
    events: int
    decisions: int
    isolated_us: Ints
    samples: tuple[tuple[int, int, int, int, int, int], ...] = ()
    rounds: tuple[tuple[int, float | None], ...] = ()

    def check(self) -> None:
        """Check what must be conserved, to the microsecond.

        Raises InternalError if GPU time held is not that of the jobs, a place that jobs share
        counted once, or jobs alive are not their time in the system, or a job that ended did not do
        its work.
        """
        trace, ended = self.trace, self.end_us != NEVER
        # A year of 100,000 GPUs has 3.2e18 microseconds: longer sums need more than 64 bits, which
        # numbers of Python have.
        alone = (self.run_us - self.shared_us).tolist()
        held = sum(map(mul, alone, trace.gpus.tolist())) + sum(self.more_gpu_us.values())
        if held != self.busy_gpu_us:
            raise InternalError(f"GPUs were held for {self.busy_gpu_us} µs, by jobs for {held}")
        by_model = sum(self.held_gpu_us.values())
        if self.held_gpu_us and by_model != held:
            raise InternalError(f"GPUs were held for {held} µs, by model for {by_model}")
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
        resizes=loop.resizes,
        more_gpu_us=loop.more_gpu_us,
        more_overhead_gpu_us=loop.more_overhead_gpu_us,
        held_gpu_us=(
            dict(zip(loop.ledger.models, loop.held_gpu_us, strict=True))
            if loop.several_models
            else {}
        ),
        gpus_total=loop.ledger.total,
        busy_gpu_us=loop.busy_gpu_us,
        alive_us=loop.alive_us,
        horizon_us=loop.now,
        events=loop.events,
        decisions=loop.decisions,
        isolated_us=isolated_times(loop.trace, loop.end, loop.ledger),
        samples=tuple(loop.samples),
        rounds=tuple(loop.decider.rounds),
    )
    result.check()
    return result


# Finish-time fairness: completion times over those on one's own part of the cluster.
# Source: Mahajan et al., "Themis: fair and efficient GPU cluster scheduling", NSDI 2020, section 3;
# what counts as fair is as in Zheng et al., "Shockwave", NSDI 2023, section 8.
FAIR = 1.05
"""Up to this times its isolated time a job's completion time is fair."""


def isolated_times(trace: Trace, end_us: Ints, ledger: HostLedger) -> Ints:
    """Return how long each job would take on its own part of the cluster, in microseconds.

    The part is one of as many as there are jobs alive, at each time, in the replay: with fewer GPUs
    than it asks a job runs so large a part of the time. Of GPU models it has each in proportion,
    and is as fast as in the mean over them. After the last event it is as at the last.

    `end_us`: int64 (jobs,), `NEVER` for a job that did not end. `ledger`: the hosts.
    """
    ends = np.sort(end_us[end_us != NEVER])
    times = np.unique(np.concatenate([trace.submit_us, ends]))
    alive = np.searchsorted(np.sort(trace.submit_us), times, side="right")
    alive = np.maximum(alive - np.searchsorted(ends, times, side="right"), 1)
    work = trace.work_us / _speed_alone(trace, ledger)
    isolated = np.empty(len(trace), dtype=np.int64)
    for size in np.unique(trace.gpus).tolist():
        jobs = np.flatnonzero(trace.gpus == size)
        rate = np.minimum(1, ledger.total / (alive * size))
        done = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(times))])
        until = np.interp(trace.submit_us[jobs], times, done) + work[jobs]
        beyond = np.maximum(until - done[-1], 0) / rate[-1]
        isolated[jobs] = np.rint(np.interp(until, done, times) + beyond) - trace.submit_us[jobs]
    return np.maximum(isolated, 1)


def _speed_alone(trace: Trace, ledger: HostLedger) -> Floats:
    """Return the mean speed of each job with the GPUs that it asks, over all GPUs; 1 without one.

    Of several plans on a model the fastest counts.
    """
    found = np.zeros(len(trace))
    for model, name in enumerate(ledger.models if trace.options else ()):
        speeds = [
            np.where(trace.gpus == option.gpus, trace.extra[SPEED_BY_OPTION][:, number], 0)
            for number, option in enumerate(trace.options)
            if option.gpu_model == name
        ]
        held = sum(
            size for size, of in zip(ledger.sizes, ledger.model_of, strict=True) if of == model
        )
        found += held / ledger.total * np.max(speeds, axis=0, initial=0) / FULL_SPEED
    return np.where(found > 0, found, 1.0)


Measures: TypeAlias = dict[str, float]

SHORT_S = 10.0
"""Bounded slowdown counts shorter jobs as this long (Feitelson et al., JSSPP 1997)."""

SIZES = ((1, "1"), (4, "2-4"), (8, "5-8"), (32, "9-32"), (2**62, "33+"))
"""Size classes: the largest number of GPUs, and the class's name."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which jobs are measured: those submitted from `warm_up_us` on and before `horizon_us`."""

    warm_up_us: int = 0
    horizon_us: int = NEVER

    @classmethod
    def of(cls, warm_up_s: float, until_s: float | None) -> Self:
        """Return the window of times in seconds; `until_s` None: to the end."""
        return cls(round(warm_up_s * SECOND), NEVER if until_s is None else round(until_s * SECOND))

    def rows(self, submit_us: Ints) -> Ints:
        """Return the numbers of the jobs that are measured."""
        inside: Ints = np.flatnonzero(
            (submit_us >= self.warm_up_us) & (submit_us < self.horizon_us)
        )
        return inside


def measure(result: Result, window: Window | None = None) -> Measures:
    """Return all measures of a replay.

    Those of time are over the jobs that ended; `unfinished` counts the others. `p99` is the element
    int(0.99 n) of the sorted times, counted from 0, as published tables have it.
    """
    rows = _rows(result, window)
    return {**_of_jobs(result, rows), **_of_cluster(result)}


def by_size(result: Result, window: Window | None = None) -> dict[str, Measures]:
    """Return the measures of jobs per size class."""
    rows = _rows(result, window)
    size = np.searchsorted([most for most, _ in SIZES], result.trace.gpus[rows])
    return {
        name: _of_jobs(result, rows[size == number])
        for number, (_, name) in enumerate(SIZES)
        if (size == number).any()
    }


def by_tenant(result: Result, window: Window | None = None) -> dict[str, Measures]:
    """Return the measures of jobs per tenant; empty where the trace names only one."""
    trace = result.trace
    if len(trace.tenants) < 2:
        return {}
    rows = _rows(result, window)
    tenant = trace.tenant[rows]
    return {
        name: _of_jobs(result, rows[tenant == number])
        for number, name in enumerate(trace.tenants)
        if (tenant == number).any()
    }


def _rows(result: Result, window: Window | None) -> Ints:
    return (Window() if window is None else window).rows(result.trace.submit_us)


def _of_jobs(result: Result, rows: Ints) -> Measures:
    trace = result.trace
    ended = rows[result.end_us[rows] != NEVER]
    jct = (result.end_us[ended] - trace.submit_us[ended]) / SECOND
    wait = (result.first_start_us[ended] - trace.submit_us[ended]) / SECOND
    work = trace.work_us[ended] / SECOND
    ranked, waits = np.sort(jct), np.sort(wait)
    slowdown = np.maximum(jct / np.maximum(work, SHORT_S), 1.0)
    fairness = SECOND * jct / result.isolated_us[ended]
    due = rows[trace.deadline_us[rows] != NEVER]
    met = result.end_us[due] <= trace.deadline_us[due]
    measures = {
        "jobs": float(len(rows)),
        "unfinished": float(len(rows) - len(ended)),
        "jct_mean_s": _mean(jct),
        "jct_p50_s": _at(ranked, 0.5),
        "jct_p90_s": _at(ranked, 0.9),
        "jct_p99_s": _at(ranked, 0.99),
        "wait_mean_s": _mean(wait),
        "wait_p50_s": _at(waits, 0.5),
        "wait_p90_s": _at(waits, 0.9),
        "wait_p99_s": _at(waits, 0.99),
        "bounded_slowdown_mean": _mean(slowdown),
        "rho_mean": _mean(jct / work),
        "rho_worst": float(np.max(jct / work, initial=0.0)),
        "finish_time_fairness_mean": _mean(fairness),
        "finish_time_fairness_worst": float(np.max(fairness, initial=0.0)),
        "unfair": _mean((fairness > FAIR).astype(np.float64)),
        "stops_per_job": _mean(result.stops[rows]),
        "moves_per_job": _mean(result.moves[rows]),
    }
    if trace.options:
        measures["resizes_per_job"] = _mean(result.resizes[rows])
        measures["restarts_per_job"] = _mean(result.resizes[rows] + result.stops[rows])
    if len(due):
        measures["deadlines_met"] = float(np.mean(met))
        measures["value_missed"] = float(trace.value[due][~met].sum())
    return measures


def _of_cluster(result: Result) -> Measures:
    trace = result.trace
    ends = result.end_us[result.end_us != NEVER]
    gpu_us = max(1, result.gpus_total * result.horizon_us)
    # Where jobs share GPUs, their overhead and lost work count by the part of GPU time held.
    gpus = trace.gpus.astype(np.float64)
    asked = result.busy_gpu_us - sum(result.more_gpu_us.values())
    held = asked / max(1.0, float(result.run_us @ gpus))
    overhead = held * float(result.overhead_us @ gpus) + result.more_overhead_gpu_us
    lost = held * float(result.lost_us @ gpus)
    measures = {
        "makespan_s": float(ends.max(initial=0)) / SECOND,
        "fragmentation": _fragmentation(result),
        "allocation": result.busy_gpu_us / gpu_us,
        "useful_gpu_s": (result.busy_gpu_us - overhead - lost) / SECOND,
        "overhead_gpu_s": overhead / SECOND,
        "lost_gpu_s": lost / SECOND,
        **{f"gpu_s_{model}": us / SECOND for model, us in result.held_gpu_us.items()},
        "events": float(result.events),
        "decisions": float(result.decisions),
    }
    if result.rounds:
        gaps = np.array([gap for _, gap in result.rounds if gap is not None])
        measures["gap_mean"] = _mean(gaps)
        measures["gap_most"] = float(np.max(gaps, initial=0.0))
        measures["rounds_without_bound"] = float(len(result.rounds) - len(gaps))
    return measures


def _fragmentation(result: Result) -> float:
    """Return the part of the free GPUs on which jobs do not fit, by the hourly samples.

    GPUs of hosts that are away count as free ones on which nothing is lost.
    """
    samples = np.array(result.samples, dtype=np.int64).reshape(-1, 6)
    free = len(samples) * result.gpus_total - int(samples[:, 1].sum())
    return float(samples[:, 4].sum()) / (PARTS * free) if free else 0.0


def _mean(rows: NDArray[np.float64] | Ints) -> float:
    return float(np.mean(rows)) if len(rows) else 0.0


def _at(ranked: Floats, part: float) -> float:
    return float(ranked[min(int(part * len(ranked)), len(ranked) - 1)]) if len(ranked) else 0.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds, and half the width of its 95 % interval."""

    mean: float
    half_width: float


T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Quantile 0.975 of Student's t for 1 to 10 degrees of freedom; beyond them 2.228 is safe."""


def interval(values: Floats) -> Interval:
    """Return the mean of independent values and its 95 % interval by Student's t."""
    count = len(values)
    if count < 2:
        return Interval(_mean(values), float("inf"))
    spread = float(np.std(values, ddof=1)) / sqrt(count)
    return Interval(_mean(values), T_975[min(count - 2, len(T_975) - 1)] * spread)


def paired(first: Floats, second: Floats) -> Interval:
    """Return how much the second is above the first, seed by seed."""
    return interval(np.asarray(second) - np.asarray(first))
