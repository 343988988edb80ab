"""Predictions with Helios's errors: their distribution, and what a replay makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from replay_traces import trace_of

from placewright.rounds.replay.loop import helios_errors, predicted_with_errors
from placewright.rounds.replay.spec import ReplaySpec, play, trace_played

DRAWS = 100_000


def test_errors_are_distributed_as_those_of_helios() -> None:
    errors = helios_errors(DRAWS, np.random.default_rng(0))
    for most, share in ((0.1, 0.1), (0.5, 0.5), (1, 0.7), (10, 0.9), (100, 1)):
        assert np.mean(np.abs(errors) <= most) == pytest.approx(share, abs=0.005)
    assert np.mean(errors < 0) == pytest.approx(0.5, abs=0.005)


def test_negative_predictions_count_as_none() -> None:
    work = np.full(DRAWS, 1_000_000)
    predicted = predicted_with_errors(work, 0)
    errors = predicted / work - 1
    assert predicted.min() == 1
    assert np.mean(predicted == 1) == pytest.approx(0.15, abs=0.005)
    assert np.mean(np.abs(errors) <= 0.5) == pytest.approx(0.5, abs=0.005)
    assert errors.max() == pytest.approx(100, abs=0.1)


def test_qssf_takes_the_least_predicted_gpu_time_first() -> None:
    trace = trace_of((0, 4, 5), (0, 1, 12))
    assert play(trace, ReplaySpec("qssf", (4,))).end_us.tolist() == [17_000_000, 12_000_000]


def test_seeds_draw_other_errors() -> None:
    trace = trace_of(*((0, 1, 100),) * 50)
    seeds = (0, 0, 1)
    drawn = [
        trace_played(trace, ReplaySpec("qssf", (4,), predictions="helios", seed=seed)).predicted_us
        for seed in seeds
    ]
    assert drawn[0].tolist() == drawn[1].tolist()
    assert drawn[0].tolist() != drawn[2].tolist()
    assert trace_played(trace, ReplaySpec("qssf", (4,))).predicted_us.tolist() == [100_000_000] * 50
