"""Fair shares over time, played: by hand, beside published orders, and going on after an end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from replay_traces import random_trace, trace_of

from examples import examples
from placewright.array_types import Floats
from placewright.instances.traces.trace import (
    FULL_SPEED,
    NEVER,
    SECOND,
    SPEED_BY_OPTION,
    RunOption,
    Trace,
)
from placewright.rounds.policies.fair_time import FAIR_TIME, FairTime
from placewright.rounds.policies.time_fractions import (
    BASES,
    LATENESS,
    REMAINING,
    WINDOW_ROUNDS,
    WINDOW_S,
    Demand,
    Standing,
    window,
)
from placewright.rounds.replay.elastic_decider import ElasticDecider
from placewright.rounds.replay.loop import Loop
from placewright.rounds.replay.spec import ReplaySpec, loop_of, play, trace_digest
from placewright.solver import InProcess

NAMES = tuple(policy.name for policy in FAIR_TIME)
ROUND_S = 360


def ends(policy: str, trace: Trace, hosts: tuple[int, ...] = (1,), **how: object) -> list[float]:
    """Play a trace in rounds; return when each job ended, in rounds."""
    spec = replace(ReplaySpec(policy, hosts, every_s=ROUND_S), **how)
    return (play(trace, spec).end_us / (ROUND_S * SECOND)).tolist()


def with_speeds(trace: Trace, speeds: dict[str, list[float]]) -> Trace:
    """Give each job a speed on each model, with the GPUs that it asks."""
    sizes = [(gpus, model) for gpus in np.unique(trace.gpus).tolist() for model in speeds]
    table = [
        [speeds[model][job] if gpus == asked else 0 for gpus, model in sizes]
        for job, asked in enumerate(trace.gpus.tolist())
    ]
    return replace(
        trace,
        options=tuple(RunOption(*size) for size in sizes),
        extra={SPEED_BY_OPTION: np.rint(FULL_SPEED * np.array(table)).astype(np.int64)},
    )


@pytest.mark.parametrize("policy", ["max-min-time", "gavel-max-min", "themis"])
def test_two_equal_jobs_take_turns(policy: str) -> None:
    jobs = trace_of((0, 1, 2 * ROUND_S), (0, 1, 2 * ROUND_S))
    assert ends(policy, jobs) == [3, 4]


def test_gpu_time_is_shared_and_not_turns() -> None:
    """A job of 2 GPUs gets one round of three, each of two jobs of 1 GPU the other two.

    Priorities are 1/3 and 2/3 over half a round and the rounds had: small, large, small, small,
    large, small.
    """
    jobs = trace_of((0, 2, 2 * ROUND_S), (0, 1, 4 * ROUND_S), (0, 1, 4 * ROUND_S))
    assert ends("max-min-time", jobs, (2,)) == [5, 6, 6]


def test_each_job_runs_where_it_is_faster_for_it() -> None:
    """Of V100 one gains 3/4 and one 1/5: with 15/19 and 4/19 of it both are done after 4.75."""
    jobs = with_speeds(
        trace_of((0, 1, 4 * ROUND_S), (0, 1, 4 * ROUND_S)), {"K80": [0.25, 0.8], "V100": [1, 1]}
    )
    told, not_told = (
        max(ends(policy, jobs, hosts=(1, 1), gpu_models=("V100", "K80")))
        for policy in ("gavel-makespan", "open-shop")
    )
    assert told == pytest.approx(4.75, abs=0.5)
    assert not_told > told


def test_a_job_does_not_run_on_a_model_on_which_it_has_no_speed() -> None:
    jobs = with_speeds(trace_of((0, 1, ROUND_S), (0, 2, ROUND_S)), {"A": [1, 0], "B": [0, 1]})
    for policy in NAMES:
        found = ends(policy, jobs, hosts=(1, 2), gpu_models=("A", "B"))
        assert found == [1, 1], policy


def test_makespan_runs_the_longest_jobs_all_the_time() -> None:
    """Three jobs of 1, 1 and 2 rounds on 2 GPUs end together after two rounds."""
    jobs = trace_of((0, 1, ROUND_S), (0, 1, ROUND_S), (0, 1, 2 * ROUND_S))
    assert sorted(ends("open-shop", jobs, (2,))) == [1, 2, 2]
    assert ends("open-shop", jobs, (2,))[2] == 2


def test_shockwave_ends_a_short_job_first_and_the_long_one_no_later() -> None:
    jobs = trace_of((0, 1, 20 * ROUND_S), (0, 1, ROUND_S), (0, 1, 19 * ROUND_S))
    found = ends("shockwave", jobs, (2,))
    assert found[1] <= 2
    assert max(found) == 20


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("seed", range(examples(day=1, nightly=20)))
def test_all_jobs_end_and_a_saved_policy_goes_on_as_before(policy: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    trace = random_trace(rng, 8)
    trace = trace.arriving(300 * trace.submit_us)
    trace = replace(trace, work_us=300 * trace.work_us)
    spec = ReplaySpec(policy, (4, 4, 2), every_s=(None, 120)[seed % 2])
    plain = play(trace, spec)
    assert (plain.end_us < NEVER).all()
    events = 0

    def anew(loop: Loop) -> None:
        nonlocal events
        events += 1
        if events in (7, 30):
            state = loop.decider.state()
            loop.decider.close()
            assert isinstance(loop.decider, ElasticDecider)
            loop.decider = ElasticDecider(loop.decider._policy)
            loop.decider.restore(state)

    loop = loop_of(trace, spec)
    loop.run(after_event=anew)
    loop.decider.close()
    assert loop.end.tolist() == plain.end_us.tolist()


def test_a_trace_of_options_is_played_with_the_gpus_that_jobs_ask() -> None:
    jobs = trace_of((0, 2, ROUND_S), (0, 1, ROUND_S))
    table = np.array([[FULL_SPEED, FULL_SPEED // 2], [FULL_SPEED, FULL_SPEED]])
    jobs = replace(
        jobs, options=(RunOption(2), RunOption(1)), extra={SPEED_BY_OPTION: table.astype(np.int64)}
    )
    assert ends("themis", jobs, (2,)) == ends("themis", replace(jobs, options=(), extra={}), (2,))


def test_a_fair_policy_plays_the_same_trace_as_a_list() -> None:
    """Replays are compared only if they do, by the digest of the trace."""
    jobs = with_speeds(trace_of((0, 1, ROUND_S), (0, 1, ROUND_S)), {"A": [1, 1], "B": [1, 0.5]})
    for trace, models in ((jobs, ("A", "B")), (trace_of((0, 1, ROUND_S)), ())):
        digests = {
            trace_digest(play(trace, ReplaySpec(name, (1, 1), models, every_s=ROUND_S)).trace)
            for name in ("fifo", "themis")
        }
        assert len(digests) == 1


def welfare(demand: Demand, standing: Standing, time: Floats) -> Floats:
    """Return the objective of the window for seconds of each job on one model, (points, jobs)."""
    done, left = standing.done, standing.left
    progress = (done + time) / (done + left)
    logs = np.interp(progress, BASES, np.log(np.maximum(BASES, 1e-6)))
    alone = demand.isolated()
    ends = standing.elapsed + WINDOW_S + (left - time) / alone
    late = np.maximum(ends / standing.isolated - 1, 0)
    longest = (left - time).max(axis=1)
    jobs = len(left)
    found: Floats = logs.sum(axis=1) / (jobs * WINDOW_ROUNDS) - REMAINING * longest
    return found - LATENESS * late.sum(axis=1)


@pytest.mark.parametrize("seed", range(examples(day=15, nightly=150)))
def test_no_window_is_better_than_that_of_the_lp(seed: int) -> None:
    """Beside a grid over what two jobs may have of one model."""
    rng = np.random.default_rng(seed)
    demand = Demand(np.ones((2, 1)), rng.integers(1, 3, 2), rng.integers(2, 4, 1))
    left, done = rng.uniform(100, 6000, 2), rng.uniform(0, 3000, 2)
    elapsed = rng.uniform(0, 6000, 2)
    standing = Standing(done, left, elapsed, rng.uniform(0.5, 2, 2) * (elapsed + 2 * left))
    found = window(demand, standing, InProcess())[:, 0] * np.minimum(left, WINDOW_S)
    room = demand.capacity[0] * WINDOW_S * (1 + 1e-6)
    assert found @ demand.gpus <= room
    steps = np.linspace(0, 1, 201) * np.minimum(left, WINDOW_S)[:, None]
    grid = np.stack(np.meshgrid(*steps), axis=-1).reshape(-1, 2)
    grid = grid[grid @ demand.gpus <= room]
    best = welfare(demand, standing, grid).max()
    assert welfare(demand, standing, found[None, :])[0] >= best - 1e-6


def test_the_order_of_models_is_that_of_a_seed() -> None:
    jobs = with_speeds(trace_of(*[(0, 1, 4 * ROUND_S)] * 3), {"A": [1] * 3, "B": [0.5] * 3})
    spec = ReplaySpec("max-min-time", (1, 1), gpu_models=("A", "B"), every_s=ROUND_S)

    def end(seed: int) -> list[int]:
        loop = loop_of(jobs, spec)
        assert isinstance(loop.decider, ElasticDecider)
        chooser = loop.decider._chooser
        assert isinstance(chooser, FairTime)
        loop.decider._chooser = FairTime(chooser._rule, pooled=True, seed=seed)
        loop.run()
        found: list[int] = loop.end.tolist()
        return found

    assert end(0) == end(0)
    assert len({tuple(end(seed)) for seed in range(9)}) > 1
