"""The loop of a replay: when it decides, and hosts that fail, are repaired, leave and come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from replay_traces import staged_trace, trace_of

from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.trace import FULL_SPEED, NEVER, SECOND, Trace
from placewright.rounds.policies.base import ListPolicy, by_arrival
from placewright.rounds.policies.named import LAS, SRTF, ServiceQueues
from placewright.rounds.replay.book import Charge, HostLedger, time_needed, worked
from placewright.rounds.replay.list_decider import list_decider
from placewright.rounds.replay.loop import Decider, Loop, Outage, Trigger
from placewright.rounds.replay.spec import ReplaySpec, play


def decisions(trigger: Trigger, trace: Trace, policy: ListPolicy) -> list[int]:
    """Play on one host of two GPUs; return when there were decisions, in ms."""
    loop = Loop(trace, HostLedger([2]), list_decider(policy, len(trace)), trigger=trigger)
    found: list[int] = []

    def note(loop: Loop) -> None:
        if loop.last_decision == loop.now:
            found.append(loop.now)
        assert loop.events < 1000

    loop.run(after_event=note)
    assert (loop.end != NEVER).all()
    return found


SRTF_LIKE = ListPolicy("list", by_arrival, preempts=True, skips=True)
THREE = ((0, 2, 3), (1, 2, 3), (12, 1, 1))


def test_every_event_is_followed_by_a_decision() -> None:
    found = decisions(Trigger(), trace_of(*THREE), SRTF_LIKE)
    assert found == [0, 1_000_000, 3_000_000, 6_000_000, 12_000_000, 13_000_000]


def test_multiples_of_a_time_while_a_job_is_alive() -> None:
    found = decisions(Trigger(5_000_000), trace_of(*THREE), SRTF_LIKE)
    assert found == [0, 5_000_000, 15_000_000]


def test_an_arrival_at_a_multiple_is_decided_at_once() -> None:
    assert decisions(Trigger(5_000_000), trace_of((0, 2, 3)), SRTF_LIKE) == [0]


def test_after_events_but_not_before_a_pause() -> None:
    found = decisions(Trigger(5_000_000, at_most=True), trace_of(*THREE), SRTF_LIKE)
    assert found == [0, 5_000_000, 12_000_000]


def test_leases_start_jobs_at_events_and_stop_them_at_boundaries() -> None:
    """Host of 4, leases of 10 s, SRTF.

    A (2 GPUs, 17 s) runs from 0, so does B (2 GPUs, 3 s). C (4 GPUs, 1 s) comes at 1 and waits,
    D (2 GPUs, 30 s) takes B's GPUs at 3. At 10 C stops both; at 11 they go on.
    """
    trace = trace_of((0, 2, 17), (0, 2, 3), (1, 4, 1), (2, 2, 30))
    loop = Loop(
        trace,
        HostLedger([4]),
        list_decider(SRTF, len(trace)),
        trigger=Trigger(10_000_000, leases=True),
    )
    loop.run()
    assert loop.end.tolist() == [18_000_000, 3_000_000, 11_000_000, 34_000_000]
    assert loop.first_start.tolist() == [0, 0, 10_000_000, 3_000_000]
    assert loop.stops.tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize("policy", ["fifo", "fit-first", "easy", "sjf"])
def test_leases_change_nothing_where_no_job_is_ever_stopped(policy: str) -> None:
    trace = trace_of((0, 2, 17), (0, 3, 3), (1, 4, 1), (2, 1, 30), (29, 4, 2), (95, 1, 1))
    found = [
        play(trace, ReplaySpec(policy, (4,), every_s=every, leases=every is not None))
        for every in (None, 10)
    ]
    assert found[0].end_us.tolist() == found[1].end_us.tolist()


LIMITED = replace(LAS, queues=lambda jobs: ServiceQueues(jobs, (8, 50)))


@pytest.mark.parametrize(
    ("trigger", "drop"),
    [
        (Trigger(), 4_000_000),
        (Trigger(3_000_000), 6_000_000),
        (Trigger(3_000_000, at_most=True), 6_000_000),
    ],
)
def test_a_wake_is_decided_when_the_trigger_allows(trigger: Trigger, drop: int) -> None:
    """A job of two GPUs attains 8 GPU-seconds after 4 s, and is preempted then or at the round."""
    trace = trace_of((0, 2, 10), (3, 2, 2))
    loop = Loop(trace, HostLedger([2]), list_decider(LIMITED, 2), trigger=trigger)

    def bounded(loop: Loop) -> None:
        assert loop.events < 1000

    loop.run(after_event=bounded)
    assert loop.first_start.tolist() == [0, drop]
    assert (loop.end != NEVER).all()


@pytest.mark.parametrize("spec", [(5, False), (5, True), (None, False)])
def test_a_replay_in_which_nobody_can_run_ends(spec: tuple[int | None, bool]) -> None:
    every, at_most = spec
    away = (Outage(0, 1_000_000, NEVER),)
    for policy in ("fifo", "easy", "srtf", "2d-las"):
        found = play(
            trace_of((0, 2, 3), (9, 1, 1)),
            ReplaySpec(policy, (2,), every_s=every, at_most_every=at_most, outages=away),
        )
        assert found.end_us.tolist() == [NEVER, NEVER]
        assert found.events < 20


def ends(*outages: Outage, trace: Trace | None = None, policy: str = "fifo") -> list[int]:
    """Play one job of 10 s on one host; return ends in ms."""
    trace = trace_of((0, 2, 10)) if trace is None else trace
    spec = ReplaySpec(policy, (2,), outages=outages, checkpoint_s=4)
    found = play(trace, spec)
    assert found.horizon_us >= found.end_us.max()
    return [int(end) for end in found.end_us]


@pytest.mark.parametrize("policy", ["fifo", "easy", "srtf", "srsf"])
def test_overlapping_outages_of_a_host_last_until_the_last_ends(policy: str) -> None:
    """The job loses 2 s of 6, and has 6 left when the host is back."""
    both = (Outage(0, 6_000_000, 10_000_000), Outage(0, 8_000_000, 20_000_000))
    assert ends(*both, policy=policy) == [26_000_000]
    inside = (Outage(0, 6_000_000, 20_000_000), Outage(0, 8_000_000, 10_000_000))
    assert ends(*inside, policy=policy) == [26_000_000]
    twice = (Outage(0, 6_000_000, 20_000_000), Outage(0, 6_000_000, 20_000_000))
    assert ends(*twice, policy=policy) == [26_000_000]
    in_turn = (Outage(0, 6_000_000, 10_000_000), Outage(0, 10_000_000, 20_000_000))
    assert ends(*in_turn, policy=policy) == [26_000_000]


def test_a_host_that_leaves_without_loss() -> None:
    assert ends(Outage(0, 6_000_000, 10_000_000, loses=False)) == [14_000_000]


def test_an_end_at_the_time_of_a_failure_counts() -> None:
    assert ends(Outage(0, 10_000_000, 20_000_000)) == [10_000_000]
    assert ends(Outage(0, 9_999_999, 20_000_000)) == [22_000_000]


def test_outages_while_no_job_is_alive() -> None:
    """The first is over when the job comes, the second is not."""
    trace = trace_of((0, 1, 1), (30, 2, 10))
    assert ends(Outage(0, 5_000_000, 10_000_000), trace=trace) == [1_000_000, 40_000_000]
    assert ends(Outage(0, 5_000_000, 35_000_000), Outage(0, 6_000_000, 7_000_000), trace=trace) == [
        1_000_000,
        45_000_000,
    ]
    assert ends(Outage(0, 5_000_000, 30_000_000), trace=trace) == [1_000_000, 40_000_000]


@pytest.mark.parametrize("charge", ["start", "event"])
def test_a_failure_loses_work_whatever_is_charged(charge: Charge) -> None:
    """6 s with GPUs: 1 s of start, 5 s of work, of which 1 s is behind the last checkpoint."""
    spec = ReplaySpec(
        "srtf",
        (2,),
        start_s=1,
        charge=charge,
        checkpoint_s=4,
        outages=(Outage(0, 6_000_000, 8_000_000),),
    )
    found = play(trace_of((0, 2, 10)), spec)
    assert found.lost_us.tolist() == [1_000_000]
    worked = found.run_us - found.overhead_us - found.lost_us
    assert worked.tolist() == [10_000_000]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (ReplaySpec("fifo", (2,), outages=(Outage(1, 0, 9),)), r"outages\[0\]\.host"),
        (ReplaySpec("fifo", (2,), outages=(Outage(0, 9, 9),)), r"outages\[0\]\.end_us"),
        (
            ReplaySpec("fifo", (2, 2), placer="counting", outages=(Outage(1, 0, 9),)),
            "first-fit or best-fit",
        ),
        (ReplaySpec("fifo", (8, 4, 1)), "gpus"),
        (ReplaySpec("smith", (2,), every_s=10, leases=True), "expected a list policy"),
    ],
)
def test_what_cannot_be_played_is_told(spec: ReplaySpec, said: str) -> None:
    trace = trace_of((0, 2, 10)) if len(spec.hosts) < 3 else trace_of((0, 13, 1))
    with pytest.raises(InvalidInputError, match=said):
        play(trace, spec)


class Swaps(Decider):
    """Starts two jobs; when a third one comes, lets it leave, and swaps the others."""

    def __init__(self) -> None:
        super().__init__()
        self.came: list[int] = []

    def arrive(self, loop: Loop, job: int) -> None:
        self.came.append(job)

    def decide(self, loop: Loop) -> None:
        if self.came == [0, 1]:
            loop.start(0, ((0, 2),))
            loop.start(1, ((1, 1),))
        elif 2 in self.came:
            loop.withdraw(2)
            loop.resize(0, 1)
            loop.move_all({0: ((1, 1),), 1: ((0, 1),)})
            loop.set_speed(1, 2 * FULL_SPEED)
            assert loop.ledger.free == [1, 0]
        self.came = []

    def state(self) -> None: ...

    def restore(self, state: Any) -> None: ...


def test_jobs_swap_places_change_size_and_speed_and_leave_undone() -> None:
    loop = Loop(trace_of((0, 2, 10), (0, 1, 10), (4, 1, 1)), HostLedger([2, 1]), Swaps())
    loop.run()
    assert loop.end.tolist() == [10_000_000, 7_000_000, NEVER]
    assert loop.moves.tolist() == [1, 1, 0]
    assert loop.busy_gpu_us == SECOND * (4 * 3 + 3 * 2 + 3 * 1)
    assert loop.alive_us == SECOND * (4 * 2 + 3 * 2 + 3 * 1)


@pytest.mark.parametrize(("every_s", "is_refused"), [(3, True), (4, False)])
def test_rounds_in_which_starts_leave_no_time_are_refused(every_s: int, is_refused: bool) -> None:
    spec = ReplaySpec("srtf", (2,), every_s=every_s, start_s=3, charge="event")
    if is_refused:
        with pytest.raises(InvalidInputError, match="every_s: 3: expected rounds longer than 3 s"):
            play(trace_of(*THREE), spec)
    else:
        assert (play(trace_of(*THREE), spec).end_us != NEVER).all()


def test_work_is_exact_whatever_the_speed() -> None:
    """Columns of 64 bits beside whole numbers of any size, up to 31 years of work."""
    rng = np.random.default_rng(3)
    left, elapsed = (rng.integers(1, 10 ** rng.integers(1, 16, 500)) for _ in range(2))
    speed = rng.integers(1000, 5 * FULL_SPEED, 500)
    spare = rng.integers(0, FULL_SPEED, 500)
    done, after = worked(elapsed, speed, spare)
    needed = time_needed(left, speed, spare)
    for row in range(500):
        units = int(elapsed[row]) * int(speed[row]) + int(spare[row])
        assert (int(done[row]), int(after[row])) == divmod(units, FULL_SPEED)
        units = int(left[row]) * FULL_SPEED - int(spare[row])
        assert int(needed[row]) == -(-units // int(speed[row]))


@pytest.mark.parametrize("policy", ["srsf", "las", "2d-las", "2d-gittins", "muri-s"])
def test_gpu_time_beyond_64_bits_is_counted(policy: str) -> None:
    """Two jobs of 31 years on 10,000 GPUs: 2e19 microseconds."""
    years = 10**15
    trace = staged_trace((0, 10_000, 1, (1, 1, 1)), (0, 10_000, 1, (1, 1, 1)))
    trace = replace(trace, work_us=np.array([years, years]))
    found = play(trace, ReplaySpec(policy, (10_000,), places="free", every_s=10**9 // 4))
    assert found.busy_gpu_us > 10_000 * years
    assert (found.end_us != NEVER).all()


def test_a_load_that_takes_arrivals_beyond_the_clock_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"load: 0\.001: expected a load"):
        play(trace_of((0, 1, 1), (10**10, 1, 1)), ReplaySpec("fifo", (1,), load=0.001))
