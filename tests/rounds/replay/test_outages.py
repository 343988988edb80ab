"""Outages of hosts: overlapping ones, planned ones, and drawn ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.trace import SECOND, Trace
from placewright.rounds.replay.loop import Outage, random_outages, read_outages
from placewright.rounds.replay.spec import ReplaySpec, play


def one_job(work_s: int) -> Trace:
    """Return a trace of one job on one GPU."""
    return Trace.of(np.array([0]), np.array([1]), np.array([SECOND * work_s]))


def test_a_host_comes_back_when_its_last_outage_ends() -> None:
    away = (Outage(0, 5_000_000, 10_000_000), Outage(0, 8_000_000, 20_000_000))
    assert play(one_job(8), ReplaySpec("fifo", (1,), outages=away)).end_us.tolist() == [23_000_000]


def test_a_job_that_ends_as_its_host_fails_has_ended() -> None:
    spec = ReplaySpec("fifo", (1,), outages=(Outage(0, 8_000_000, 20_000_000),), checkpoint_s=100)
    assert play(one_job(8), spec).end_us.tolist() == [8_000_000]


def test_planned_outages_lose_no_work(tmp_path: Path) -> None:
    path = tmp_path / "outages.csv"
    path.write_text("host,begin_s,end_s,planned\n0,5,10,1\n0,12,20,0\n")
    spec = ReplaySpec("fifo", (1,), outages=read_outages(path, 1), checkpoint_s=100)
    found = play(one_job(10), spec)
    assert found.lost_us.tolist() == [2_000_000]
    assert found.end_us.tolist() == [25_000_000]


def test_drawn_failures_have_their_means_and_repeat() -> None:
    drawn = random_outages(50, 10**12, mean_up_s=5000, mean_down_s=500, seed=3)
    assert drawn == random_outages(50, 10**12, mean_up_s=5000, mean_down_s=500, seed=3)
    down = np.mean([outage.end_us - outage.begin_us for outage in drawn])
    assert abs(down / 500_000_000 - 1) < 0.1
    assert abs(len(drawn) / (50 * 10**6 / 5500) - 1) < 0.1


def test_rounds_know_of_failures() -> None:
    spec = ReplaySpec(
        "smith", (2, 2), outages=(Outage(0, 3_000_000, 9_000_000), Outage(1, 3_000_000, 6_000_000))
    )
    trace = Trace.of(np.array([0, 0]), np.array([2, 2]), np.array([5_000_000, 5_000_000]))
    assert sorted(play(trace, spec).end_us.tolist()) == [8_000_000, 10_000_000]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("2,0,1", "line 2, column host: '2': expected an integer from 0 to 1"),
        ("0,5,5", "line 2, column end_s: '5': expected more than begin_s"),
        ("0,-1,5", "line 2, column begin_s"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, row: str, said: str) -> None:
    file = tmp_path / "outages.csv"
    file.write_text(f"host,begin_s,end_s\n{row}\n")
    with pytest.raises(InvalidInputError, match=said):
        read_outages(file, 2)


def test_failures_of_a_host_do_not_depend_on_the_others() -> None:
    four, two = (random_outages(n, 10**7, mean_up_s=50, mean_down_s=9, seed=3) for n in (4, 2))
    assert two == tuple(outage for outage in four if outage.host < 2)


@pytest.mark.parametrize(("loses", "overhead"), [(True, 0), (False, 3_000_000)])
def test_a_preemption_costs_a_stop_and_a_failure_does_not(loses: bool, overhead: int) -> None:
    away = (Outage(0, 5_000_000, 10_000_000, loses),)
    found = play(one_job(10), ReplaySpec("fifo", (1,), outages=away, stop_s=3))
    assert found.overhead_us.tolist() == [overhead]
    assert found.end_us.tolist() == [15_000_000 + overhead]


def test_more_failures_than_can_be_drawn_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="mtbf_s: 1: expected a longer time between"):
        play(one_job(10**9), ReplaySpec("fifo", (1,), mtbf_s=1, repair_s=1))
