"""PAI's estimates: means by hand, and shortest jobs first by better and better knowledge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placewright.array_types import Ints
from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.trace import Trace
from placewright.rounds.policies.base import Columns
from placewright.rounds.policies.named import FIT_FIRST, SJF, SJG, SJGG, SJU, MeanTimes
from placewright.rounds.replay.book import HostLedger
from placewright.rounds.replay.list_decider import list_decider
from placewright.rounds.replay.loop import Loop
from placewright.rounds.replay.spec import ReplaySpec, play

FIELDS = ("tenant", "group", "gpus")
JOBS = {
    "tenant": [0, 0, 0, 1, 2],
    "group": [5, 5, 6, 5, 7],
    "gpus": [1, 2, 1, 1, 1],
    "service_us": [10, 40, 100, 1000, 0],
}


class Fixed:
    """Columns of the five jobs."""

    def column(self, name: str, jobs: Ints) -> Ints:
        return np.array(JOBS[name], dtype=np.int64)[jobs]


def job(number: int) -> Columns:
    """Return the columns of one of the five jobs."""
    return Columns(Fixed(), np.array([number]), SJGG.sees)


def test_a_job_is_like_those_of_its_finest_class_that_has_ended() -> None:
    times = MeanTimes(FIELDS)
    assert times.key(job(0)) == 0
    times.end(job(3))
    assert times.key(job(0)) == 1000
    times.end(job(2))
    assert times.key(job(0)) == 100
    times.end(job(1))
    assert times.key(job(0)) == 40
    times.end(job(0))
    assert times.key(job(0)) == 10
    assert times.key(job(1)) == 40
    assert times.key(job(4)) == (10 + 40 + 100 + 1000) / 4
    again = MeanTimes(FIELDS)
    again.restore(times.state())
    assert [again.key(job(number)) for number in range(5)] == [
        times.key(job(number)) for number in range(5)
    ]


def recurring(seed: int) -> Trace:
    """Draw jobs whose running time is known by user, group and GPUs but for a fifth.

    Jobs of two GPUs are the shorter ones, so that the shortest first leaves no GPU idle.
    """
    rng, jobs = np.random.default_rng(seed), 3000
    user, group = rng.integers(0, 3, jobs), rng.integers(0, 3, jobs)
    gpus = rng.integers(1, 3, jobs)
    work = 60_000 * 4.0**user * 3.0**group * 0.3**gpus * rng.uniform(0.8, 1.2, jobs)
    apart = float(np.mean(work * gpus)) / 8
    return Trace.of(
        np.cumsum(rng.exponential(apart, jobs)).astype(np.int64),
        gpus,
        work.astype(np.int64),
        tenant=user,
        tenants=tuple("abc"),
        extra={"group": group},
    )


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("seed", range(3))
def test_who_knows_more_makes_jobs_wait_less(seed: int) -> None:
    """All skip, as PAI's simulator does; its published order is SJF, SJGG, SJG, SJU, FIFO."""
    trace = recurring(seed)
    policies = (replace(SJF, skips=True), SJGG, SJG, SJU, FIT_FIRST)
    mean = []
    for policy in policies:
        loop = Loop(trace, HostLedger([8]), list_decider(policy, len(trace)))
        loop.run()
        mean.append(float(np.mean(loop.end - trace.submit_us)))
    assert mean == sorted(mean)


def test_a_trace_without_groups_is_refused() -> None:
    trace = replace(recurring(0), extra={})
    with pytest.raises(
        InvalidInputError, match="policy: 'sjg': expected a policy that needs no column group"
    ):
        play(trace, ReplaySpec("sjg", (8,)))
