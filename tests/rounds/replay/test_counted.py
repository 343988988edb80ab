"""Lists on counted GPUs beside the lease-by-lease simulator of the benchmark `deadline`."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lease_loop_rules import counted
from benchmarks.lease_rules import chronus
from placewright.instances.converters.support.trace_jobs import TraceJob, overhead_s
from placewright.instances.traces.trace import Trace
from placewright.rounds.policies.base import Columns, Keys, ListPolicy
from placewright.rounds.replay.costs import Costs
from placewright.rounds.replay.ledger import HostLedger
from placewright.rounds.replay.list_decider import list_decider
from placewright.rounds.replay.loop import Loop, Trigger

GPUS = 6
MANY = 1000
"""More than the jobs of a trace."""


def _least_gpu_time(jobs: Columns) -> Keys:
    """Order by GPU time that is left, then by arrival."""
    return jobs.remaining_ms * jobs.gpus * MANY + jobs.numbers


LEAST_GPU_TIME = ListPolicy(
    "least-gpu-time", _least_gpu_time, frozenset({"remaining_ms"}), preempts=True, skips=True
)


@pytest.mark.parametrize("seed", range(1000))
def test_a_list_on_counted_gpus_is_what_the_lease_simulator_counts(seed: int) -> None:
    """Jobs without deadlines, of which the least GPU time goes first; stops cost time."""
    rng = np.random.default_rng(seed)
    number = int(rng.integers(1, 20))
    submit = np.sort(rng.integers(0, 400, number))
    gpus, work = rng.integers(1, GPUS + 1, number), rng.integers(1, 200, number)
    submit[0] = 0
    jobs = tuple(
        TraceJob(f"j{job}", *row, "model", ())
        for job, row in enumerate(zip(gpus.tolist(), submit.tolist(), work.tolist(), strict=True))
    )
    trace = Trace.of(1000 * submit, gpus, 1000 * work)
    stop_ms = np.array([1000 * overhead_s(job.gpus) for job in jobs], dtype=np.int64)
    loop = Loop(
        trace,
        HostLedger([4, 2], "counting"),
        list_decider(LEAST_GPU_TIME, number),
        costs=Costs(stop_ms=stop_ms),
        trigger=Trigger(1000),
    )
    loop.run()
    served = counted(chronus, jobs, GPUS, length_s=1)
    assert loop.end.tolist() == [1000 * (one.finish or 0) for one in served]
    assert loop.stops.tolist() == [one.stops for one in served]
