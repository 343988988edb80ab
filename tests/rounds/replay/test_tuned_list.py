"""Shares of CPU and memory that set speeds: by hand, and what must hold on random traces."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from replay_traces import HOSTS, random_trace, trace_of

from examples import by_day
from placewright.array_types import Ints
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.synergy import CORES
from placewright.instances.traces.papers import POINTS, SPEEDS
from placewright.instances.traces.trace import FULL_SPEED, SECOND, Trace
from placewright.rounds.policies.named import SHARES
from placewright.rounds.replay.loop import Loop, random_outages
from placewright.rounds.replay.policy_lists import points_of
from placewright.rounds.replay.spec import ReplaySpec, check_replay, play

COLUMNS = len(POINTS) // len(CORES)
LEAN = {1: 1.0}
HUNGRY = {1: 0.3, 2: 0.6, 3: 1.0, 6: 2.0, 9: 2.5}


def speeds(by_cores: dict[int, float]) -> list[int]:
    """Return speeds that depend on cores alone: those of the most cores that are not more."""
    return [
        round(FULL_SPEED * next(s for c, s in sorted(by_cores.items(), reverse=True) if c <= cores))
        for cores, _ in POINTS
    ]


def with_speeds(trace: Trace, *rows: dict[int, float]) -> Trace:
    """Give each job a row of speeds."""
    return replace(trace, extra={SPEEDS: np.array([speeds(row) for row in rows])})


def ends_s(trace: Trace, policy: str, gpus: int = 2) -> list[float]:
    """Play a trace on one host; return ends in seconds."""
    return [end / SECOND for end in play(trace, ReplaySpec(policy, (gpus,))).end_us.tolist()]


def test_shares_are_the_fastest_first_and_the_leanest_last() -> None:
    assert points_of(np.array(speeds(LEAN))) == ((1, 21_333, FULL_SPEED),)
    found = [(cores, speed) for cores, _, speed in points_of(np.array(speeds(HUNGRY)))]
    assert found == [(9, 2_500_000), (6, 2_000_000), (3, 1_000_000)]
    two = points_of(np.array(speeds(HUNGRY)), steps=False)
    assert [cores for cores, _, _ in two] == [9, 3]


def test_the_second_speeds_up_when_the_first_has_ended() -> None:
    """Two hungry jobs on 6 cores: 3 each; then 6 for one. With a lean one: 5 cores, speed 1."""
    both = with_speeds(trace_of((0, 1, 10), (0, 1, 30)), HUNGRY, HUNGRY)
    assert ends_s(both, "fifo-tuned") == [10, 20]
    assert ends_s(both, "fifo-synergy") == [10, 30]
    four = with_speeds(trace_of((0, 1, 10), (0, 1, 30)), HUNGRY, LEAN)
    assert ends_s(four, "fifo-tuned", gpus=4) == [4, 30]


def test_who_comes_first_takes_the_cores() -> None:
    """9 cores on 3 GPUs, 3 each at least: nothing is left. 12 on 4: the first has 6, then 9."""
    trace = with_speeds(trace_of((0, 1, 10), (0, 1, 10), (0, 1, 10)), HUNGRY, HUNGRY, HUNGRY)
    assert ends_s(trace, "fifo-tuned", gpus=3) == [10, 10, 10]
    assert ends_s(trace, "fifo-tuned", gpus=4) == [5, 7, 8.2]


def test_a_job_on_several_hosts_needs_room_on_each() -> None:
    """Four GPUs on two hosts leave nothing beyond 3 cores for each."""
    trace = with_speeds(trace_of((0, 4, 10)), HUNGRY)
    assert play(trace, ReplaySpec("fifo-tuned", (2, 2))).end_us.tolist() == [10_000_000]


def test_leases_and_traces_without_speeds_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="needs no column speed_by_share"):
        check_replay(trace_of((0, 1, 1)), ReplaySpec("fifo-tuned", (2,)))
    trace = with_speeds(trace_of((0, 1, 1)), LEAN)
    with pytest.raises(InvalidInputError, match="expected a list policy where there are leases"):
        check_replay(trace, ReplaySpec("fifo-tuned", (2,), every_s=7, leases=True))


def random_speeds(rng: np.random.Generator, jobs: int) -> Ints:
    """Draw matrices that ascend in both directions, 1 at the proportional share."""
    rows = []
    for _ in range(jobs):
        steps = rng.integers(0, 3, (len(CORES), COLUMNS))
        grown = 1 + steps.cumsum(axis=0).cumsum(axis=1)
        fair = grown[CORES.index(3), 1]
        rows.append((FULL_SPEED * grown // fair).ravel())
    return np.array(rows)


def used(loop: Loop, job: int) -> list[tuple[int, int]]:
    """Return the shares at which a job has the speed that it has."""
    row = loop.trace.extra[SPEEDS][job].tolist()
    return [point for point, s in zip(POINTS, row, strict=True) if s == loop.speed[job]]


@pytest.mark.parametrize("seed", by_day(range(200), 20))
def test_nobody_is_below_speed_one_and_work_is_done(seed: int) -> None:
    """Work is the integral of the speed, summed here by events; and no host has too few cores."""
    rng = np.random.default_rng(seed)
    hosts = HOSTS[seed % len(HOSTS)]
    trace = random_trace(rng, sum(hosts))
    trace = replace(trace, extra={SPEEDS: random_speeds(rng, len(trace))})
    spec = ReplaySpec(
        [one.name for one in SHARES][seed % len(SHARES)],
        hosts,
        places=("kept", "free")[int(rng.integers(2))],
        every_s=(None, 7)[int(rng.integers(2))],
        start_s=int(rng.integers(2)),
        stop_s=int(rng.integers(2)) if seed % 3 else 0,
        charge="start" if seed % 3 else "event",
    )
    fails = seed % 2 == 0
    if fails:
        away = random_outages(len(hosts), 100_000_000, mean_up_s=60, mean_down_s=12, seed=seed)
        spec = replace(spec, outages=tuple(away), checkpoint_s=3)
    work: dict[int, int] = defaultdict(int)
    before: dict[int, tuple[int, int]] = {}

    def watch(loop: Loop) -> None:
        for job, (since, speed) in before.items():
            work[job] += (loop.now - since) * speed
        before.clear()
        cores: dict[int, int] = defaultdict(int)
        for job, place in loop.place.items():
            before[job] = (loop.now, int(loop.speed[job]))
            assert loop.speed[job] >= FULL_SPEED
            least = min(point[0] for point in used(loop, job))
            for host, gpus in place:
                cores[host] += least * gpus
        assert all(cores[host] <= 3 * loop.ledger.sizes[host] for host in cores)

    found = play(trace, spec, watch=watch)
    assert (found.end_us < 10**9).all()
    if not fails and not spec.start_s and not spec.stop_s:
        for job in range(len(trace)):
            over = work[job] - int(trace.work_us[job]) * FULL_SPEED
            assert 0 <= over < 10 * FULL_SPEED


@pytest.mark.parametrize("seed", by_day(range(100), 20))
def test_no_job_of_one_gpu_ends_later_than_at_proportional_shares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trace = random_trace(rng, 1)
    trace = replace(trace, extra={SPEEDS: random_speeds(rng, len(trace))})
    proportional = play(trace, ReplaySpec("fifo", (2, 2))).end_us
    for policy in ("fifo-tuned", "fifo-synergy"):
        assert (play(trace, ReplaySpec(policy, (2, 2))).end_us <= proportional).all()


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("policy", [one.name for one in SHARES])
def test_ten_kills_change_nothing(policy: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    trace = random_trace(rng, 8)
    trace = replace(trace, extra={SPEEDS: random_speeds(rng, len(trace))})
    spec = ReplaySpec(policy, (8, 4), every_s=7, start_s=1)
    expected = play(trace, spec)
    for _ in range(10):
        left = int(rng.integers(1, 6))

        def watch(loop: Loop) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KilledError

        with suppress(KilledError):
            play(trace, spec, tmp_path, save_every_s=0, watch=watch)
    found = play(trace, spec, tmp_path, save_every_s=0)
    for column in ("end_us", "first_start_us", "stops", "moves", "run_us", "other_speed"):
        assert getattr(found, column).tolist() == getattr(expected, column).tolist()
    assert found.busy_gpu_us == expected.busy_gpu_us
