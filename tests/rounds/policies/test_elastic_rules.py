"""Rules that choose sizes: the knapsack beside enumeration, and fixtures by hand."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from examples import by_day
from placewright.array_types import Ints
from placewright.instances.traces.trace import FULL_SPEED, SECOND, SPEED_BY_OPTION
from placewright.rounds.policies import elastic
from placewright.rounds.policies.base import Columns, ElasticPolicy, Offer
from placewright.rounds.policies.elastic import knapsack, useful_speeds
from placewright.rounds.policies.named import POLICIES


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
    source = Fixed(**{**columns, **times, SPEED_BY_OPTION: table})
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
