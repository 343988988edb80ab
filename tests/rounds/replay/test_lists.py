"""List policies: the hand-made fixtures of the literature, in whole seconds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from replay_traces import trace_of

from placewright.instances.traces.trace import NEVER, SECOND, Trace
from placewright.rounds.policies.base import Columns, ListPolicy, UndeclaredColumnError
from placewright.rounds.policies.named import (
    EASY,
    EDF,
    FIFO,
    FIT_FIRST,
    LAS,
    SJF,
    SRSF,
    SRTF,
    ServiceQueues,
)
from placewright.rounds.replay.book import Costs, HostLedger
from placewright.rounds.replay.list_decider import list_decider
from placewright.rounds.replay.loop import Loop, Outage, Trigger
from placewright.rounds.replay.measures import measure, result_of


def played(
    policy: ListPolicy,
    trace: Trace,
    sizes: list[int],
    costs: Costs | None = None,
    outages: tuple[Outage, ...] = (),
) -> Loop:
    """Play a trace on hosts, first fit."""
    loop = Loop(
        trace, HostLedger(sizes), list_decider(policy, len(trace)), costs=costs, outages=outages
    )
    loop.run()
    return loop


def ends(loop: Loop) -> list[float]:
    """Return when each job ended, in seconds."""
    return (loop.end / SECOND).tolist()


@pytest.mark.parametrize(
    ("policy", "expected"), [(FIFO, [10, 15, 16]), (FIT_FIRST, [10, 15, 1]), (SJF, [16, 6, 1])]
)
def test_three_jobs_on_four_gpus(policy: ListPolicy, expected: list[float]) -> None:
    trace = trace_of((0, 2, 10), (0, 4, 5), (0, 2, 1))
    assert ends(played(policy, trace, [4])) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(EASY, [10, 15, 8, 24]), (FIT_FIRST, [10, 22, 8, 17]), (FIFO, [10, 15, 21, 24])],
)
def test_easy_backfilling_does_not_delay_the_first_that_waits(
    policy: ListPolicy, expected: list[float]
) -> None:
    trace = trace_of((0, 2, 10), (1, 4, 5), (2, 2, 6), (3, 2, 9))
    assert ends(played(policy, trace, [4])) == expected


def test_srtf_looks_at_time_and_srsf_at_gpu_time() -> None:
    trace = trace_of((0, 4, 3), (0, 1, 10))
    assert ends(played(SRTF, trace, [4])) == [3, 13]
    assert ends(played(SRSF, trace, [4])) == [13, 10]


def test_a_shorter_job_preempts_and_a_restart_costs() -> None:
    trace = trace_of((0, 4, 10), (2, 4, 3))
    loop = played(SRTF, trace, [4])
    assert ends(loop) == [13, 5]
    assert loop.stops.tolist() == [1, 0]
    assert ends(played(SRTF, trace, [4], Costs(stop_us=1_000_000))) == [14, 5]
    assert ends(played(SRTF, trace, [4], Costs(start_us=np.array([1_000_000, 0])))) == [15, 5]


def test_las_drops_a_job_that_has_attained_its_limit() -> None:
    policy = ListPolicy(
        LAS.name,
        LAS.order,
        LAS.sees,
        preempts=True,
        skips=True,
        queues=lambda jobs: ServiceQueues(jobs, (8,)),
    )
    assert ends(played(policy, trace_of((0, 2, 10), (3, 2, 2)), [2])) == [12, 6]
    assert ends(played(policy, trace_of((0, 2, 10), (3, 2, 2), (4, 1, 4)), [2])) == [16, 6, 10]


@pytest.mark.parametrize(
    ("policy", "expected", "met"),
    [(EDF, [16, 5, 11], 2 / 3), (FIFO, [5, 10, 16], 1 / 3), (FIT_FIRST, [5, 10, 16], 1 / 3)],
)
def test_earliest_deadline_first_meets_more(
    policy: ListPolicy, expected: list[float], met: float
) -> None:
    trace = trace_of((0, 4, 5), (0, 4, 5), (0, 1, 6))
    trace = replace(trace, deadline_us=np.array([20_000_000, 5_000_000, 6_000_000]))
    loop = played(policy, trace, [4])
    assert ends(loop) == expected
    assert measure(result_of(loop))["deadlines_met"] == pytest.approx(met)


def test_a_policy_sees_only_what_it_declares() -> None:
    policy = ListPolicy("peeks", lambda jobs: jobs.work_us, frozenset({"predicted_us"}))
    with pytest.raises(UndeclaredColumnError, match=r"work_us.*declares this column"):
        played(policy, trace_of((0, 1, 1)), [1])


def test_columns_are_read_only() -> None:
    def spoils(jobs: Columns) -> np.ndarray:
        jobs.gpus[0] = 3
        return jobs.gpus

    with pytest.raises(ValueError, match="read-only"):
        played(ListPolicy("spoils", spoils), trace_of((0, 1, 1)), [1])


def test_a_failure_loses_the_work_since_the_last_checkpoint() -> None:
    trace = trace_of((0, 1, 10))
    loop = played(
        FIFO, trace, [1], Costs(checkpoint_us=3_000_000), (Outage(0, 8_000_000, 20_000_000),)
    )
    assert ends(loop) == [24]
    assert loop.lost_us.tolist() == [2_000_000]


def test_a_job_that_is_too_large_waits_for_ever() -> None:
    loop = played(FIT_FIRST, trace_of((0, 3, 1), (0, 1, 1)), [2])
    assert loop.end.tolist() == [NEVER, 1_000_000]


def test_a_wake_within_a_pause_waits_for_its_end() -> None:
    trace = trace_of((0, 2, 10_000), (1, 2, 10))
    ledger, decider = HostLedger([2]), list_decider(LAS, len(trace))
    loop = Loop(trace, ledger, decider, trigger=Trigger(600_000_000, at_most=True))
    loop.run()
    assert loop.end.max() < NEVER
    assert loop.events < 60
