"""Small traces for tests of replays, by hand and at random."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from placewright.instances.traces.trace import (
    FULL_SPEED,
    SECOND,
    SPEED_BY_OPTION,
    SPREAD_SPEED,
    RunOption,
    Trace,
)
from placewright.rounds.policies.base import ElasticPolicy, GroupPolicy, RoundPolicy
from placewright.rounds.policies.named import POLICIES, QuotaPolicy, TunedPolicy
from placewright.rounds.replay.book import Charge
from placewright.rounds.replay.spec import ReplaySpec

LISTS = tuple(
    name
    for name, policy in POLICIES.items()
    if not isinstance(policy, RoundPolicy | QuotaPolicy | TunedPolicy | GroupPolicy | ElasticPolicy)
)
"""Policies that no solver takes part in, and that need no quotas, profiles and stages."""

HOSTS = ((4,), (8, 8), (4, 4, 4), (8, 4, 2), (2,) * 5)
UNFIT = (13, 14)
"""Numbers of GPUs that do not fit on hosts of 8, 4 and 2, though these have as many."""


def trace_of(*jobs: tuple[int, int, int]) -> Trace:
    """Make a trace of (arrival s, GPUs, work s)."""
    rows = np.array(jobs, dtype=np.int64)
    return Trace.of(SECOND * rows[:, 0], rows[:, 1], SECOND * rows[:, 2])


def random_trace(rng: np.random.Generator, largest: int) -> Trace:
    """Draw a small trace in which several jobs arrive at one time."""
    jobs = int(rng.integers(1, 25))
    submit, gpus = SECOND * rng.integers(0, 30, jobs), rng.integers(1, largest + 1, jobs)
    return Trace.of(
        submit,
        np.where(np.isin(gpus, UNFIT) & (largest == 14), 12, gpus),
        SECOND * rng.integers(1, 20, jobs),
        predicted_us=SECOND * rng.integers(1, 20, jobs),
        deadline_us=SECOND * rng.integers(1, 99, jobs),
        tenant=rng.integers(0, 3, jobs),
        tenants=("a", "b", "c"),
        extra={"group": rng.integers(0, 2, jobs)},
    )


def random_spec(rng: np.random.Generator, policy: str) -> ReplaySpec:
    """Draw assumptions."""
    hosts = HOSTS[int(rng.integers(len(HOSTS)))]
    every = (None, None, 7)[int(rng.integers(3))]
    charge: Charge = ("start", "event")[int(rng.integers(2))]
    by_start = int(charge == "start")
    return ReplaySpec(
        policy,
        hosts,
        placer=("first-fit", "best-fit", "counting")[int(rng.integers(3))],
        places=("kept", "free")[int(rng.integers(2))],
        every_s=every,
        at_most_every=every is not None and bool(rng.integers(2)),
        start_s=int(rng.integers(3)),
        stop_s=by_start * int(rng.integers(3)),
        move_s=by_start * int(rng.integers(2)),
        charge=charge,
        leases=every is not None and bool(rng.integers(2)),
    )


def staged_trace(*jobs: tuple[int, int, int, tuple[int, int, int]]) -> Trace:
    """Make a trace of (arrival s, GPUs, work s, stages of an iteration in ms)."""
    plain = trace_of(*(job[:3] for job in jobs))
    stages = 1000 * np.array([job[3] for job in jobs], dtype=np.int64)
    columns = {f"stage_{number}_us": stages[:, number] for number in range(3)}
    return replace(plain, extra={"iteration_us": stages.sum(axis=1), **columns})


def sized(trace: Trace, speeds: dict[int, Any], **spread: Any) -> Trace:
    """Return a trace whose jobs may have these GPUs, at these speeds, of all or of each job."""
    rows = [np.broadcast_to(s, len(trace)) for s in speeds.values()]
    extra = {SPEED_BY_OPTION: np.rint(FULL_SPEED * np.stack(rows, axis=1)).astype(np.int64)}
    if spread:
        rows = [np.broadcast_to(s, len(trace)) for s in spread["spread"].values()]
        extra[SPREAD_SPEED] = np.rint(FULL_SPEED * np.stack(rows, axis=1)).astype(np.int64)
    options = tuple(map(RunOption, speeds))
    return replace(trace, options=options, extra={**trace.extra, **extra})
