"""Rules that choose sizes: the knapsack beside enumeration, and fixtures by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from replay_traces import sized, trace_of

from examples import by_day
from placewright.array_types import Ints
from placewright.instances.traces.trace import FULL_SPEED, SECOND, SPEED_BY_OPTION, Trace
from placewright.rounds.policies import elastic
from placewright.rounds.policies.base import Columns, ElasticPolicy, Offer
from placewright.rounds.policies.elastic import knapsack, useful_speeds
from placewright.rounds.policies.named import POLICIES
from placewright.rounds.replay.spec import ReplaySpec, loop_of, play


class Fixed:
    """Columns that are given."""

    def __init__(self, **columns: Any) -> None:
        self.columns = {name: np.array(rows) for name, rows in columns.items()}

    def column(self, name: str, jobs: Ints) -> Ints:
        found: Ints = self.columns[name][jobs].copy()
        return found


def choice(
    name: str, speeds: Any, gpus: list[int], free: int, start_s: int = 30, **columns: Any
) -> list[int]:
    """Return the GPUs that a policy gives each job, 0 where it waits; times in seconds."""
    policy = POLICIES[name]
    assert isinstance(policy, ElasticPolicy)
    jobs = len(speeds)
    times = {n: SECOND * np.array(rows) for n, rows in columns.items() if n.endswith("_us")}
    table = np.rint(FULL_SPEED * np.array(speeds)).astype(np.int64)
    asked = {"gpus": columns.pop("gpus_")} if "gpus_" in columns else {}
    source = Fixed(**{**columns, **asked, **times, SPEED_BY_OPTION: table})
    offer = Offer(
        np.array(gpus),
        np.zeros(len(gpus), dtype=np.int64),
        np.array([free]),
        np.full((jobs, len(gpus)), start_s * SECOND),
    )
    found = policy.chooser().choose(Columns(source, np.arange(jobs), policy.sees), offer)
    return [gpus[option] if option >= 0 else 0 for option in found.tolist()]


@pytest.mark.parametrize("seed", by_day(range(300), 40))
def test_the_knapsack_is_as_good_as_any_choice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    models = int(rng.integers(1, 3))
    gpus = np.tile([1, 2, 3], models)
    offer = Offer(
        gpus, np.repeat(np.arange(models), 3), rng.integers(0, 6, models), np.zeros((0, 0), int)
    )
    values = rng.integers(-2, 9, (int(rng.integers(1, 5)), len(gpus))).astype(float)
    values[rng.random(values.shape) < 0.2] = -np.inf

    def worth(chosen: Any) -> float:
        held = np.zeros(models)
        for option in chosen:
            if option >= 0:
                held[offer.model[option]] += gpus[option]
        if (held > offer.open_gpus).any():
            return -np.inf
        return sum(values[job, option] for job, option in enumerate(chosen) if option >= 0)

    best = max(map(worth, product(range(-1, len(gpus)), repeat=len(values))))
    assert worth(knapsack(values, offer).tolist()) == best


def test_a_knapsack_with_too_many_states_still_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic, "MAX_STATES", 1)
    offer = Offer(np.array([1, 2]), np.array([0, 1]), np.array([1, 2]), np.zeros((0, 0), int))
    assert knapsack(np.array([[1.0, 3.0], [2.0, 1.0]]), offer).tolist() == [1, 0]


def test_options_that_are_no_faster_with_more_gpus_are_left_out() -> None:
    table = np.array([[5, 7, 7, 6, 8]]) * FULL_SPEED
    source = Columns(Fixed(**{SPEED_BY_OPTION: table}), np.array([0]), frozenset({SPEED_BY_OPTION}))
    offer = Offer(
        np.array([1, 2, 4, 8, 16]), np.array([0, 0, 0, 1, 1]), np.array([9, 9]), np.zeros((0, 0))
    )
    assert useful_speeds(source, offer).tolist() == [[5, 7, 0, 6, 8]]


SPEEDS = [[1.0, 1.9], [1.0, 1.2]]
NEW = partial(choice, gpus=[1, 2], free=3, option=[-1, -1], restarts=[0, 0])


def test_sia_gives_the_third_gpu_to_the_job_whose_goodput_grows_more() -> None:
    """1.1 - 1.9^-0.5 = 0.375 and 0.1, against 0.1 and 1.1 - 1.2^-0.5 = 0.187."""
    times = {"now_us": [0, 0], "submit_us": [0, 0]}
    assert NEW("sia", SPEEDS, **times) == [2, 1]
    assert NEW("sia", SPEEDS[::-1], **times) == [1, 2]


def test_sia_keeps_a_size_whose_change_costs_more_than_it_gains() -> None:
    """Age 100 s, a start of 30 s: 1.9 x 100/130 = 1.46; after two restarts 1.9 x 40/130 = 0.58."""
    running: dict[str, Any] = {"now_us": [100], "submit_us": [0], "option": [0]}
    for name in ("sia", "pollux"):
        assert choice(name, [[1.0, 1.9]], [1, 2], 2, restarts=[0], **running) == [2]
        assert choice(name, [[1.0, 1.9]], [1, 2], 2, restarts=[2], **running) == [1]


def test_sia_lets_a_job_wait_that_gains_little_and_pollux_does_not() -> None:
    """1.1 - 4^-0.5 = 0.6 is more than 1.1 - 2^-0.5 and 1.1 - 1.05^-0.5 together, 0.517."""
    speeds = [[1.0, 2.0, 4.0], [1.0, 1.05, 1.1]]
    new = {"now_us": [0, 0], "submit_us": [0, 0], "option": [-1, -1], "restarts": [0, 0]}
    assert choice("sia", speeds, [1, 2, 4], 4, **new) == [4, 0]
    assert choice("pollux", speeds, [1, 2, 4], 4, **new) == [2, 2]


def test_afs_l_gives_the_third_gpu_by_its_asymmetric_rule() -> None:
    """Short 1.0 -> 1.6 against long 1.0 -> 1.9: 0.6 > 0.9 / 1.9; with 1.4 it goes to the long."""
    left: dict[str, Any] = {"remaining_us": [10, 100], "overhead_due_us": [0, 0]}
    both = partial(choice, "afs-l", gpus=[1, 2], free=3, option=[-1, -1], **left)
    assert both([[1.0, 1.6], [1.0, 1.9]]) == [2, 1]
    assert both([[1.0, 1.4], [1.0, 1.9]]) == [1, 2]


def test_afs_l_starts_the_shortest_first() -> None:
    left: dict[str, Any] = {"remaining_us": [30, 10, 20], "overhead_due_us": [0, 0, 0]}
    speeds = [[1.0, 2.0]] * 3
    assert choice("afs-l", speeds, [1, 2], 2, option=[-1] * 3, **left) == [0, 1, 1]


def test_ones_uses_all_gpus_where_least_remains() -> None:
    """Of 3 GPUs 2 and 1: 2 x 5 + 60 = 70 GPU-seconds remain, or 10 + 2 x 40 = 90."""
    left: dict[str, Any] = {"remaining_us": [10, 60], "overhead_due_us": [0, 0]}
    ones = partial(choice, "ones", gpus=[1, 2], start_s=0, option=[-1, -1], **left)
    assert ones([[1.0, 2.0], [1.0, 1.5]], free=3) == [2, 1]
    assert ones([[1.0, 1.2], [1.0, 2.0]], free=3) == [1, 2]
    assert ones([[1.0, 2.0], [1.0, 1.5]], free=1) == [1, 0]


LYRA: dict[str, Any] = {"overhead_due_us": [0, 0], "start_s": 0}


def test_lyra_grows_by_the_seconds_saved() -> None:
    """Two jobs with one GPU and two more: A saves 10 and 14, B 8 and 15: each one, 18 in all."""
    speeds = [[1.0, 28 / 18, 2.0], [1.0, 30 / 22, 2.0]]
    lyra = partial(choice, "lyra", speeds, [1, 2, 3], remaining_us=[28, 30], **LYRA)
    assert lyra(free=4, option=[0, 0]) == [2, 2]
    assert lyra(free=5, option=[0, 0]) == [2, 3]


def test_lyra_takes_growth_back_for_who_waits_by_shortest_time() -> None:
    speeds = [[1.0, 2.0]] * 2
    assert choice("lyra", speeds, [1, 2], 2, remaining_us=[9, 5], option=[1, -1], **LYRA) == [1, 1]
    assert choice("lyra", speeds, [1, 2], 1, remaining_us=[9, 5], option=[-1, -1], **LYRA) == [0, 1]
    assert choice("lyra", speeds, [1, 2], 1, remaining_us=[9, 5], option=[0, -1], **LYRA) == [1, 0]


def test_unicron_grows_where_it_is_worth_the_transition() -> None:
    """At 1,000 s of a start a job at speed 2 loses 2 x 1000/3600 = 0.56 of what it gains."""
    unicron = partial(choice, "unicron", gpus=[1, 2, 4], free=4, option=[1])
    assert unicron([[1.0, 2.0, 2.5]], start_s=1000) == [2]
    assert unicron([[1.0, 2.0, 2.6]], start_s=1000) == [4]


def test_oobleck_grows_back_to_what_was_asked_by_arrival() -> None:
    oobleck = partial(choice, "oobleck", [[0.5, 1.0]] * 3, [2, 4])
    assert oobleck(free=8, gpus_=[4, 4, 4], option=[0, 1, -1]) == [4, 4, 0]
    assert oobleck(free=7, gpus_=[4, 4, 4], option=[0, 1, -1]) == [2, 4, 0]
    assert oobleck(free=12, gpus_=[4, 4, 4], option=[0, 1, -1]) == [4, 4, 4]


def test_rubick_needs_fewer_gpus_with_a_better_plan() -> None:
    """Who asks 2 GPUs at speed 1 has it with one and another plan; the third one is growth."""
    new = {"now_us": [0, 0], "submit_us": [0, 0], "restarts": [0, 0]}
    speeds = [[0.9, 1.1, 1.0, 2.0], [0.6, 0.5, 1.0, 1.2]]
    rubick = partial(choice, "rubick", speeds, [1, 1, 2, 2], option=[-1, -1], **new)
    assert rubick(free=3) == [1, 2]
    assert rubick(free=4) == [2, 2]
    assert rubick(free=2) == [2, 0]


def test_rubick_leaves_alone_who_has_just_come() -> None:
    """After 100 s a start of 30 s is 30 % of the time; after 1,000 s with one of 25 s, 2.5 %."""
    rubick = partial(choice, "rubick", [[1.0, 2.0]], [1, 2], 2, option=[0], restarts=[0])
    assert rubick(now_us=[100], submit_us=[0]) == [1]
    assert rubick(now_us=[1000], submit_us=[0], start_s=25) == [2]


def test_edf_gives_the_fastest_size_by_deadline_and_skips() -> None:
    """The second is fastest on 4 of 6 GPUs, 8 would be faster; the first needs 4, the third 2."""
    speeds = [[0.5, 1.0, 0.9], [1.0, 2.0, 3.0], [1.0, 0.9, 0.8]]
    due = {"deadline_us": [20, 10, 30]}
    edf = partial(choice, "edf-fastest", speeds, [2, 4, 8], option=[-1] * 3)
    assert edf(free=6, **due) == [0, 4, 2]


def test_gandivas_jobs_take_turns() -> None:
    """Two jobs of an hour on all GPUs, in slices of a minute: they end after 119 and 120 min."""
    trace = sized(trace_of((0, 4, 3600), (0, 4, 3600)), {4: 1.0})
    found = play(trace, ReplaySpec("gandiva", (4,)))
    assert (found.end_us / (60 * SECOND)).tolist() == [119, 120]
    assert found.stops.tolist() == [59, 59]


def test_gandivas_jobs_grow_while_nobody_waits() -> None:
    """10 s at speed 2 alone, then 80 s at speed 1 with its two GPUs."""
    trace = sized(trace_of((0, 2, 100), (10, 2, 100)), {2: 1.0, 4: 2.0})
    found = play(trace, ReplaySpec("gandiva", (4,)))
    assert found.end_us.tolist() == [90 * SECOND, 100 * SECOND]
    assert found.resizes.tolist() == [1, 1]


def deadlines(*jobs: tuple[int, int, int, int]) -> Trace:
    """Return a trace of (arrival s, GPUs, work s, deadline s), as fast as they have GPUs."""
    plain = trace_of(*(job[:3] for job in jobs))
    due = SECOND * np.array([job[3] for job in jobs])
    asked = np.array([job[1] for job in jobs])
    return sized(replace(plain, deadline_us=due), {n: n / asked for n in (1, 2, 4)})


def test_elasticflow_gives_the_fewest_gpus_that_make_each_deadline() -> None:
    """400 GPU-s by 460 s (one slot of slack) need 1 GPU, 800 by 460 s 2; the fourth is growth."""
    trace = deadlines((0, 1, 400, 460), (0, 1, 800, 460))
    loop = loop_of(trace, ReplaySpec("elasticflow", (4,)))
    loop.run(until_us=SECOND)
    assert sorted(loop.gpus) == [2, 2]
    loop.run()
    assert (loop.end <= loop.trace.deadline_us).all()


def test_elasticflow_refuses_a_promise_that_breaks_another() -> None:
    """The second would need 3 of 4 GPUs, and the first has 2: it runs later, on what is left."""
    trace = deadlines((0, 2, 400, 460), (1, 2, 500, 461))
    found = play(trace, ReplaySpec("elasticflow", (4,)))
    assert found.end_us[0] <= 460 * SECOND < found.end_us[1]


def test_elasticflow_keeps_a_size_that_makes_the_deadline() -> None:
    """Growth from 2 to 4 GPUs at 100 s would save 50 s and take 60."""
    trace = deadlines((0, 2, 200, 900), (0, 2, 100, 900))
    found = play(trace, ReplaySpec("elasticflow", (4,), start_s=60))
    assert found.resizes.tolist() == [0, 0]


def test_jobs_without_deadlines_run_on_what_is_left() -> None:
    trace = sized(trace_of((0, 2, 10), (0, 2, 10)), {1: 0.5, 2: 1.0})
    found = play(trace, ReplaySpec("elasticflow", (3,)))
    assert found.end_us.tolist() == [10 * SECOND, 20 * SECOND]
