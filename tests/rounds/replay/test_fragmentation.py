"""Fragmentation: what of the free GPUs jobs cannot use, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from placewright.rounds.replay.loop import unusable_parts
from placewright.rounds.replay.measures import measure
from placewright.rounds.replay.spec import ReplaySpec, play
from tests.support.replay_traces import trace_of


def test_free_gpus_are_lost_for_the_jobs_that_ask_for_more() -> None:
    parts = unusable_parts(np.array([1, 1, 4, 8]), 4)
    # One free GPU: half the jobs do not fit, the one of 8 since it asks for whole hosts.
    assert parts == [0, 500, 1000, 1500, 0]


def test_fragmentation_is_the_part_of_free_gpus_that_jobs_cannot_use() -> None:
    trace = trace_of((0, 3, 4000), (0, 2, 4000), (10, 4, 1))
    found = play(trace, ReplaySpec("fit-first", (4, 4)))
    # After an hour 1 and 2 GPUs are free: nobody could use the one, one job in three the two.
    assert [sample[4] for sample in found.samples] == [0, 1000 + 1333]
    assert measure(found)["fragmentation"] == pytest.approx(2.333 / (8 + 3))
