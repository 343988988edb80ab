"""Measures of a replay against sums by hand, and intervals against known ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from placewright.instances.traces.trace import (
    FULL_SPEED,
    NEVER,
    SECOND,
    SPEED_BY_OPTION,
    RunOption,
    Trace,
)
from placewright.rounds.replay.book import HostLedger
from placewright.rounds.replay.measures import (
    Result,
    Window,
    by_size,
    by_tenant,
    interval,
    isolated_times,
    measure,
    paired,
)
from placewright.rounds.replay.spec import ReplaySpec, play
from placewright.rounds.settings import InternalError


def ints(*values: int) -> np.ndarray:
    """Make a column."""
    return np.array(values, dtype=np.int64)


def handmade(**changed: object) -> Result:
    """Four jobs on 8 GPUs: the third is stopped once, the last does not end before 100 s.

    Jobs as (submitted, GPUs, work; started, ended) in seconds: (0, 1, 10; 0, 10), (0, 4, 20;
    5, 25), (10, 8, 5; 30, 50), of which 3 s are overhead and 2 s lost, (20, 1, 60; 60, never).
    """
    trace = Trace.of(
        ints(0, 0, 10_000_000, 20_000_000),
        ints(1, 4, 8, 1),
        ints(10_000_000, 20_000_000, 5_000_000, 60_000_000),
        deadline_us=ints(10_000_000, 20_000_000, NEVER, 90_000_000),
        value=ints(1, 2, 4, 8),
        tenant=ints(0, 1, 1, 0),
        tenants=("a", "b"),
    )
    columns: dict[str, object] = {
        "trace": trace,
        "first_start_us": ints(0, 5_000_000, 30_000_000, 60_000_000),
        "end_us": ints(10_000_000, 25_000_000, 50_000_000, NEVER),
        "stops": ints(0, 0, 1, 0),
        "moves": ints(0, 2, 0, 0),
        "run_us": ints(10_000_000, 20_000_000, 10_000_000, 40_000_000),
        "overhead_us": ints(0, 0, 3_000_000, 0),
        "lost_us": ints(0, 0, 2_000_000, 0),
        "other_speed": ints(0, 0, 0, 0),
        "resizes": np.zeros(4, dtype=np.int64),
        "more_gpu_us": {},
        "more_overhead_gpu_us": 0,
        "held_gpu_us": {},
        "shared_us": ints(0, 0, 0, 0),
        "gpus_total": 8,
        "busy_gpu_us": 10_000_000 + 80_000_000 + 80_000_000 + 40_000_000,
        "alive_us": 10_000_000 + 25_000_000 + 40_000_000 + 80_000_000,
        "horizon_us": 100_000_000,
        "events": 9,
        "decisions": 7,
        "isolated_us": ints(10_000_000, 20_000_000, 10_000_000, 60_000_000),
    }
    return Result(**{**columns, **changed})  # type: ignore[arg-type]


def test_measures_are_those_by_hand() -> None:
    assert measure(handmade()) == pytest.approx(
        {
            "jobs": 4,
            "unfinished": 1,
            "jct_mean_s": (10 + 25 + 40) / 3,
            "jct_p50_s": 25,
            "jct_p90_s": 40,
            "jct_p99_s": 40,
            "wait_mean_s": (0 + 5 + 20) / 3,
            "wait_p50_s": 5,
            "wait_p90_s": 20,
            "wait_p99_s": 20,
            "bounded_slowdown_mean": (1 + 25 / 20 + 40 / 10) / 3,
            "rho_mean": (1 + 25 / 20 + 40 / 5) / 3,
            "rho_worst": 40 / 5,
            "finish_time_fairness_mean": (1 + 25 / 20 + 40 / 10) / 3,
            "finish_time_fairness_worst": 40 / 10,
            "unfair": 2 / 3,
            "stops_per_job": 1 / 4,
            "moves_per_job": 2 / 4,
            "deadlines_met": 1 / 3,
            "value_missed": 2 + 8,
            "makespan_s": 50,
            "allocation": 210 / 800,
            "fragmentation": 0.0,
            "useful_gpu_s": 210 - 40,
            "overhead_gpu_s": 24,
            "lost_gpu_s": 16,
            "events": 9,
            "decisions": 7,
        }
    )


def test_isolated_times_by_hand() -> None:
    """Two jobs are alive until 20 s: a part is 4 GPUs, on which the job of 8 runs half its time.

    It is done after 10 s; the others run all the time. One that is alone, and asks twice the GPUs
    that there are, takes twice its work.
    """
    found = handmade()
    isolated = isolated_times(found.trace, found.end_us, HostLedger([8]))
    assert isolated.tolist() == found.isolated_us.tolist()
    alone = Trace.of(ints(0), ints(8), ints(5_000_000))
    assert isolated_times(alone, ints(NEVER), HostLedger([4])).tolist() == [10_000_000]


def test_alone_a_job_is_as_fast_as_in_the_mean_over_models() -> None:
    """It is at speed 1 on 2 GPUs and at 1/4 on 6: 7/16 in the mean, so 7 s of work take 16 s."""
    speeds = np.array([[FULL_SPEED, FULL_SPEED // 4, FULL_SPEED]])
    trace = Trace.of(
        ints(0),
        ints(1),
        ints(7_000_000),
        options=(RunOption(1, "A"), RunOption(1, "B"), RunOption(2, "B")),
        extra={SPEED_BY_OPTION: speeds},
    )
    ledger = HostLedger([2, 6], models=("A", "B"))
    assert isolated_times(trace, ints(NEVER), ledger).tolist() == [16_000_000]


def test_jains_index_of_shares_of_an_hour() -> None:
    """Of two jobs on one GPU one runs for two hours, the other waits: 1/2; then it is alone: 1."""
    hour = 3_600_000_000
    trace = Trace.of(ints(0, 0), ints(1, 1), ints(2 * hour + 1, 2 * hour))
    samples = play(trace, ReplaySpec("fifo", (1,))).samples
    assert [sample[5] for sample in samples] == [1000, 500, 500, 1000, 1000]


def test_size_classes_and_tenants_part_the_jobs() -> None:
    sizes, tenants = by_size(handmade()), by_tenant(handmade())
    assert {name: one["jobs"] for name, one in sizes.items()} == {"1": 2, "2-4": 1, "5-8": 1}
    assert {name: one["jct_mean_s"] for name, one in tenants.items()} == {"a": 10, "b": 32.5}
    assert tenants["a"]["unfinished"] == 1


def test_a_window_cuts_warm_up_and_horizon() -> None:
    assert measure(handmade(), Window(warm_up_us=10_000_000))["jct_mean_s"] == 40
    first = measure(handmade(), Window(horizon_us=10_000_000))
    assert (first["jobs"], first["unfinished"], first["jct_mean_s"]) == (2, 0, 17.5)


def test_a_trace_whose_jobs_did_not_end_has_measures() -> None:
    never = ints(NEVER, NEVER, NEVER, NEVER)
    measures = measure(handmade(end_us=never, first_start_us=never))
    assert measures["unfinished"] == 4
    assert all(math.isfinite(value) for value in measures.values())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None),
        ({"busy_gpu_us": 210_000_001}, "GPUs were held for 210000001 µs, by jobs for 210000000"),
        ({"alive_us": 154_999_999}, "jobs were alive for 154999999 µs, by their ends 155000000"),
        ({"lost_us": ints(0, 0, 7_000_001, 0)}, "job 2 has done -1 µs of 5000000 µs work"),
        ({"lost_us": ints(0, 0, 1_999_999, 0)}, "job 2 has done 5000001 µs of 5000000 µs work"),
    ],
)
def test_what_is_not_conserved_is_an_error(changed: dict[str, object], said: str | None) -> None:
    result = handmade(**changed)
    if said is None:
        result.check()
        return
    with pytest.raises(InternalError, match=said):
        result.check()


@pytest.mark.parametrize(
    "spec",
    [
        ReplaySpec("srsf", (4, 4), start_s=0.03, stop_s=0.01, move_s=0.06, places="free"),
        ReplaySpec("2d-las", (4, 4), start_s=0.5, charge="event", places="free"),
        ReplaySpec("srtf", (8,), start_s=0.5, every_s=2),
        ReplaySpec("srsf", (4, 4), mtbf_s=200.0, repair_s=5, checkpoint_s=3, start_s=0.5),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_time_with_gpus_is_work_overhead_and_what_was_lost(spec: ReplaySpec, seed: int) -> None:
    rng = np.random.default_rng(seed)
    trace = Trace.of(
        rng.integers(0, 100_000_000, 40), rng.integers(1, 9, 40), rng.integers(1, 20_000_000, 40)
    )
    result = play(trace, spec)
    assert (result.end_us != NEVER).all()
    np.testing.assert_array_equal(
        result.run_us, trace.work_us + result.overhead_us + result.lost_us
    )


def test_percentiles_are_elements_from_0() -> None:
    count = 200
    trace = Trace.of(np.zeros(count), np.ones(count), np.arange(1, count + 1) * SECOND)
    column = np.zeros(count, dtype=np.int64)
    result = handmade(
        trace=trace,
        first_start_us=column,
        end_us=trace.work_us,
        stops=column,
        moves=column,
        run_us=trace.work_us,
        overhead_us=column,
        lost_us=column,
        isolated_us=trace.work_us,
    )
    measures = measure(result)
    assert [measures[f"jct_{one}_s"] for one in ("p50", "p90", "p99")] == [101, 181, 199]


def test_intervals_are_those_of_student() -> None:
    assert interval(np.array([5.0])).half_width == math.inf
    three = interval(np.array([1.0, 2.0, 3.0]))
    assert (three.mean, three.half_width) == pytest.approx((2, 4.303 / math.sqrt(3)))
    assert interval(np.array([1.0, 3.0])).half_width == pytest.approx(12.706)


def test_pairing_takes_out_what_a_seed_does_to_both() -> None:
    first, second = np.array([10.0, 90.0, 50.0]), np.array([11.0, 91.0, 51.0])
    assert paired(first, second).mean == pytest.approx(1)
    assert paired(first, second).half_width == pytest.approx(0)
    assert interval(first).half_width > 50
