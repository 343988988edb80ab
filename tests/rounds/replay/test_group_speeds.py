"""How fast jobs are together: known answers, and beside the exact period of interleaving."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from placewright.formulations.interleaving.problem.packing_problem import best_offsets
from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.trace import FULL_SPEED
from placewright.rounds.replay.group_decider import GroupSpeeds, Stages, muri_period
from placewright.rounds.replay.spec import ReplaySpec, play
from tests.support.replay_traces import staged_trace, trace_of

RNG = np.random.default_rng(3)


def drawn(members: int) -> list[Stages]:
    """Draw stages that are longer or shorter by orders of magnitude."""
    times = (10 ** RNG.uniform(0, 6, (members, 3))).astype(np.int64)
    return [(first, second, third) for first, second, third in times.tolist()]


@pytest.mark.parametrize(
    ("jobs", "period"),
    [
        ([(3, 1, 1), (1, 2, 1)], 5),
        ([(1, 1, 1)] * 4, 4),
        ([(500, 166_000, 133_000)] * 2, 332_500),
    ],
)
def test_periods_by_hand(jobs: list[Stages], period: int) -> None:
    assert muri_period(jobs) == period


def test_three_jobs_have_the_exact_period() -> None:
    for _ in range(200):
        jobs = drawn(3)
        exact = int(best_offsets(np.array([jobs]), spanning=True)[0][0])
        assert muri_period(jobs) == exact


@pytest.mark.parametrize("members", [2, 4])
def test_others_are_never_longer_than_exact(members: int) -> None:
    for _ in range(200):
        jobs = drawn(members)
        exact = int(best_offsets(np.array([jobs]), spanning=True)[0][0])
        assert 0 < muri_period(jobs) <= exact


def test_order_of_the_jobs_makes_no_difference() -> None:
    for members in (2, 3, 4):
        jobs = drawn(members)
        assert len({muri_period(order) for order in permutations(jobs)}) == 1


def test_contention_makes_a_period_longer() -> None:
    trace = staged_trace((0, 1, 10, (3, 1, 1)), (0, 1, 10, (1, 2, 1)))
    speeds = GroupSpeeds(trace)
    assert speeds.speeds((0,)) == (FULL_SPEED,)
    # Iterations of 5 ms and 4 ms, each longer by 1.015, in a period of 5 x 1.33 / 1.015 ms.
    period = 5 * 1.33 / 1.015
    assert period == pytest.approx(6.5517, abs=1e-4)
    expected = [FULL_SPEED * 1.015 * iteration / period for iteration in (5, 4)]
    assert speeds.speeds((0, 1)) == pytest.approx(expected, abs=1.5)
    assert speeds.throughput((1, 0)) == sum(speeds.speeds((0, 1)))
    assert speeds.use((0, 1)) == pytest.approx(FULL_SPEED * 9 / (4 * period), abs=1.5)


def test_a_trace_without_stages_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="iteration_us"):
        play(trace_of((0, 1, 1)), ReplaySpec("muri-s", (1,)))
