"""The Gittins index of known samples, beside its definition; queues in its order."""

from __future__ import annotations

import numpy as np
import pytest
from replay_traces import trace_of

from placewright.instances.traces.trace import SECOND
from placewright.rounds.policies.base import Columns
from placewright.rounds.policies.named import GITTINS, Distribution, GittinsQueues
from placewright.rounds.replay.book import HostLedger
from placewright.rounds.replay.list_decider import list_decider
from placewright.rounds.replay.loop import Loop


def ints(*values: int) -> np.ndarray:
    """Make a column."""
    return np.array(values, dtype=np.int64)


def test_index_of_three_samples() -> None:
    index = Distribution([20, 2, 2]).index(ints(0, 2, 18, 20, 99), 2)
    assert index.tolist() == pytest.approx([1 / 3, 0, 1 / 2, 0, 0])


def test_no_samples_give_no_index() -> None:
    assert Distribution([]).index(ints(0, 7), 2).tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(50))
def test_index_is_that_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = rng.integers(1, 50, int(rng.integers(1, 30))).tolist()
    horizon, attained = int(rng.integers(1, 40)), np.arange(55)
    found = Distribution(samples).index(attained, horizon).tolist()
    for service, index in enumerate(found):
        left = [s - service for s in samples if s > service]
        expected = 0.0
        if left:
            ends = sum(rest <= horizon for rest in left) / len(left)
            expected = ends / (sum(min(rest, horizon) for rest in left) / len(left))
        assert index == pytest.approx(expected)


def test_jobs_that_have_not_ended_count_as_longer() -> None:
    """Of four jobs one ends at 2; two are seen until 3 and 5, the last ends at 6."""
    index = Distribution([2, 6], [3, 5]).index(ints(0, 2, 4, 6), 4)
    assert index.tolist() == pytest.approx([(1 / 4) / (2 + 3 / 4 * 2), 1 / 4, 1 / 2, 0])


def ends_of(*jobs: tuple[int, int, int]) -> list[float]:
    """Play a trace of (arrival s, GPUs, work s) on one GPU; return when each job ended."""
    trace = trace_of(*jobs)
    loop = Loop(trace, HostLedger([1]), list_decider(GITTINS, len(trace)))
    loop.run()
    return (loop.end / SECOND).tolist()


def test_before_any_job_has_ended_the_first_that_came_goes_on() -> None:
    assert ends_of((0, 1, 100), (1, 1, 50)) == [100, 150]


def test_a_job_that_outlives_all_that_ended_gives_way() -> None:
    """Two jobs took 100 s each: after 100 s the third is likely to be long, and the fourth not."""
    jobs = ((0, 1, 100), (0, 1, 100), (200, 1, 1000), (310, 1, 100))
    assert ends_of(*jobs) == [100, 200, 1300, 410]


class Ended:
    """A job of one GPU that has ended, with its service in ms."""

    def __init__(self, service: int) -> None:
        self._service = service

    def column(self, name: str, jobs: np.ndarray) -> np.ndarray:
        return np.full(len(jobs), self._service if name == "service_us" else 1)


def test_state_is_taken_over() -> None:
    def job(service: int) -> Columns:
        return Columns(Ended(service), ints(0), GITTINS.sees)

    first, second = GittinsQueues(3), GittinsQueues(3)
    for service in range(40, 0, -1):
        first.end(job(service))
    first.queue[1] = 2
    first.keys(job(25), ints(0))
    second.restore(first.state())
    assert second.state() == first.state()
    for queues in (first, second):
        queues.end(job(7))
        queues.keys(job(1), ints(0))
    assert second.state() == first.state()
    assert second.queue.tolist() == [0, 2, 0]
    assert first.state()[2:] == [40, [25]]
