"""Groups over time: by hand, what is conserved, and resumed replays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from examples import examples
from placewright.instances.traces.trace import NEVER, SECOND, Trace
from placewright.rounds.policies.named import GROUPINGS
from placewright.rounds.replay.book import Charge
from placewright.rounds.replay.loop import Loop, Outage, random_outages
from placewright.rounds.replay.measures import Result
from placewright.rounds.replay.spec import ReplaySpec, play
from tests.support.replay_traces import staged_trace

EVEN = (1, 1, 1)


def ends_s(trace: Trace, spec: ReplaySpec) -> list[float]:
    """Return when each job ends."""
    ends: list[float] = (play(trace, spec).end_us / SECOND).tolist()
    return ends


FIRST_S = 100 * 1.33 / 1.015**2
"""When a job of 100 s ends that shares its place: the period of two is that of one, contended."""


@pytest.mark.parametrize("policy", [one.name for one in GROUPINGS])
@pytest.mark.parametrize("places", ["free", "kept"])
def test_two_jobs_take_turns(policy: str, places: str) -> None:
    trace = staged_trace((0, 1, 100, EVEN), (0, 1, 200, EVEN))
    result = play(trace, ReplaySpec(policy, (1,), places=places))  # type: ignore[arg-type]
    # Then the second has done as much, and goes on alone.
    assert result.end_us / SECOND == pytest.approx([FIRST_S, FIRST_S + 100], abs=0.01)
    assert result.busy_gpu_us == result.end_us[1]
    assert result.shared_us.tolist() == [0, result.end_us[0]]
    assert result.moves.tolist() == result.stops.tolist() == [0, 0]


def test_others_go_on_faster_at_once_between_decisions() -> None:
    trace = staged_trace((0, 1, 100, EVEN), (0, 1, 200, EVEN))
    spec = ReplaySpec("muri-s", (1,), every_s=1000)
    assert ends_s(trace, spec) == pytest.approx([FIRST_S, FIRST_S + 100], abs=0.01)


def test_starts_of_others_are_waited_for_at_every_event() -> None:
    trace = staged_trace((0, 1, 100, EVEN), (0, 1, 200, EVEN))
    spec = ReplaySpec("muri-s", (1,), places="free", start_s=3, charge="event")
    # The end of the first is the only event that the second meets: 3 s + 3 s are lost.
    assert ends_s(trace, spec) == pytest.approx(
        [FIRST_S, FIRST_S + 200 - (FIRST_S - 6) * 100 / FIRST_S], abs=0.01
    )


def test_a_group_keeps_the_place_of_a_job_that_runs() -> None:
    # The large job takes one host; the small one runs on the other, which a third joins.
    trace = staged_trace((0, 4, 50, EVEN), (0, 2, 500, EVEN), (0, 2, 500, EVEN), (10, 4, 50, EVEN))
    result = play(trace, ReplaySpec("muri-l", (4, 4), move_s=5))
    assert result.moves.sum() == 0


def test_a_failure_stops_all_who_share_the_host() -> None:
    trace = staged_trace((0, 1, 100, EVEN), (0, 1, 100, EVEN), (0, 1, 100, EVEN))
    spec = ReplaySpec("muri-s", (1,), checkpoint_s=0)
    whole = ends_s(trace, spec)[0]
    away = play(trace, replace(spec, outages=(Outage(0, 20_000_000, 50_000_000),)))
    assert away.stops.tolist() == [1, 1, 1]
    assert away.end_us[0] / SECOND == pytest.approx(whole + 30, abs=0.01)


def random_staged(rng: np.random.Generator) -> Trace:
    """Draw a trace of jobs of few kinds."""
    kinds = [tuple(row) for row in rng.integers(0, 50, (4, 3)).tolist()]
    return staged_trace(
        *[
            (
                int(rng.integers(0, 60)),
                2 ** int(rng.integers(0, 4)),
                int(rng.integers(1, 60)),
                kinds[int(rng.integers(4))] if rng.integers(9) else EVEN,
            )
            for _ in range(int(rng.integers(1, 25)))
        ]
    )


def random_spec(rng: np.random.Generator) -> ReplaySpec:
    """Draw assumptions."""
    charge: Charge = ("start", "event")[int(rng.integers(2))]
    by_start = int(charge == "start")
    hosts = ((8,), (8, 8), (4, 4, 8))[int(rng.integers(3))]
    return ReplaySpec(
        [one.name for one in GROUPINGS][int(rng.integers(4))],
        hosts,
        places=("free", "kept")[int(rng.integers(2))],
        every_s=(None, 7)[int(rng.integers(2))],
        at_most_every=False,
        # Four starts of 1 s leave time to work in rounds of 7 s.
        start_s=int(rng.integers(2)),
        stop_s=by_start * int(rng.integers(3)),
        move_s=by_start * int(rng.integers(2)),
        checkpoint_s=(None, 5)[int(rng.integers(2))],
        charge=charge,
        outages=random_outages(len(hosts), 200_000_000, mean_up_s=60, mean_down_s=10, seed=1)
        if rng.integers(2)
        else (),
    )


def same(first: Result, second: Result) -> bool:
    """Return whether two replays are equal, to the millisecond."""
    columns = ("first_start_us", "end_us", "stops", "moves", "run_us", "overhead_us", "shared_us")
    return all((getattr(first, c) == getattr(second, c)).all() for c in columns)


def test_random_replays_conserve_and_give_no_gpu_twice() -> None:
    rng, number = np.random.default_rng(7), examples(day=40, nightly=150)
    shared = 0
    for _ in range(number):
        trace, spec = random_staged(rng), random_spec(rng)

        def watch(loop: Loop, trace: Trace = trace) -> None:
            holders = {loop.together.get(job, (job,))[0] for job in loop.place}
            held = sum(int(trace.gpus[job]) for job in holders)
            assert held == loop.busy_gpus == loop.ledger.open_total - loop.ledger.free_total
            for jobs in loop.together.values():
                assert 2 <= len(jobs) <= 4
                assert len({loop.place[job] for job in jobs}) == 1
                assert len({int(trace.gpus[job]) for job in jobs}) == 1

        # `play` checks conservation at the end.
        result = play(trace, spec, watch=watch)
        assert (result.end_us != NEVER).all()
        shared += int(result.shared_us.sum() > 0)
    assert shared > number / 2


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.mark.nightly
def test_a_replay_that_was_killed_goes_on(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    for number in range(20):
        trace, spec = random_staged(rng), random_spec(rng)
        left = int(rng.integers(2, 20))

        def kill(loop: Loop) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise KilledError

        folder = tmp_path / str(number)
        try:
            play(trace, spec, folder, save_every_s=0, watch=kill)
        except KilledError:
            assert (folder / "state.npz").is_file()
        resumed = play(trace, spec, folder, save_every_s=0)
        assert same(resumed, play(trace, spec))
