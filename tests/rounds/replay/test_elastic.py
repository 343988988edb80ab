"""Jobs that change their sizes in a replay: by hand, and at random beside a naive count."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replay_traces import sized, trace_of

from examples import by_day
from placewright.array_types import Ints
from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.trace import (
    FULL_SPEED,
    NEVER,
    SECOND,
    SPEED_BY_OPTION,
    SPREAD_SPEED,
    RunOption,
    Trace,
)
from placewright.rounds.policies.base import Chooser, Columns, ElasticPolicy, Offer
from placewright.rounds.policies.elastic import ELASTIC
from placewright.rounds.policies.named import POLICIES
from placewright.rounds.replay.book import Costs, HostLedger
from placewright.rounds.replay.elastic_decider import ElasticDecider
from placewright.rounds.replay.loop import Loop, Outage, Trigger, random_outages
from placewright.rounds.replay.measures import measure, result_of
from placewright.rounds.replay.spec import ReplaySpec, play, restore, save


class Scripted(Chooser):
    """Answers with what a script has for the time."""

    def __init__(self, script: dict[int, list[int]]) -> None:
        self.script = script

    def choose(self, jobs: Columns, offer: Offer) -> Ints:
        now = int(jobs.now_us[0]) // SECOND
        found = self.script[max(time for time in self.script if time <= now)]
        return np.array([found[job] for job in jobs.numbers], dtype=np.int64)

    def wakes_us(self, jobs: Columns) -> int:
        now = int(jobs.now_us[0]) if len(jobs) else NEVER
        return min((SECOND * time for time in self.script if SECOND * time > now), default=NEVER)


def played(script: dict[int, list[int]], trace: Trace, hosts: list[int], **costs: Any) -> Loop:
    """Play a script on hosts."""
    policy = ElasticPolicy("script", partial(Scripted, script), frozenset({"now_us"}))
    loop = Loop(trace, HostLedger(hosts), ElasticDecider(policy), costs=Costs(**costs))
    loop.run()
    result_of(loop)
    return loop


def test_a_job_grows_and_shrinks_and_pays_for_starts() -> None:
    """10 s at speed 1, 10 s of 2, 5 of 1: with starts of 2 s it has done 8 + 16 in 20 s."""
    trace = sized(trace_of((0, 2, 100)), {2: 1.0, 4: 2.0})
    loop = played({0: [0], 10: [1], 20: [0]}, trace, [4], start_us=2 * SECOND)
    assert loop.end.tolist() == [(22 + 76) * SECOND]
    assert loop.resizes.tolist() == [2]
    assert loop.overhead_us.tolist() == [6 * SECOND]
    assert loop.busy_gpu_us == (2 * 88 + 4 * 10) * SECOND
    measures = measure(result_of(loop))
    assert measures["resizes_per_job"] == measures["restarts_per_job"] == 2
    assert measures["overhead_gpu_s"] == 2 * 2 + 4 * 2 + 2 * 2
    assert measures["useful_gpu_s"] == 216 - 16


def test_a_start_costs_by_gpus() -> None:
    trace = sized(trace_of((0, 2, 100)), {2: 1.0, 4: 2.0})
    table = ((1, SECOND), (4, 5 * SECOND))
    loop = played({0: [0], 10: [1]}, trace, [4], by_gpus_us=table)
    assert loop.end.tolist() == [round(SECOND * (15 + 91 / 2))]


def test_who_changes_size_is_placed_anew_the_largest_first_on_its_own_hosts() -> None:
    """On two hosts of 4: 0 and 1 have 2 each; 1 grows to a host, 0 to one GPU, 2 gets the rest."""
    speeds = {1: 1.0, 2: 1.5, 4: 2.0}
    trace = sized(trace_of((0, 2, 50), (0, 2, 50), (5, 2, 50)), speeds)
    policy = ElasticPolicy(
        "script", partial(Scripted, {0: [1, 1, -1], 5: [0, 2, 1]}), frozenset({"now_us"})
    )
    loop = Loop(trace, HostLedger([4, 4]), ElasticDecider(policy))
    loop.run(until_us=6 * SECOND)
    assert loop.place == {1: ((0, 4),), 0: ((1, 1),), 2: ((1, 2),)}


def test_a_job_without_a_place_of_its_size_gets_the_next_smaller_one() -> None:
    """Two hosts of 4 with a free GPU each have no 2 on one host."""
    trace = sized(trace_of((0, 3, 50), (0, 3, 50), (5, 2, 50)), {1: 1.0, 2: 1.5, 3: 2.0})
    policy = ElasticPolicy(
        "script", partial(Scripted, {0: [2, 2, -1], 5: [2, 2, 1]}), frozenset({"now_us"})
    )
    loop = Loop(trace, HostLedger([4, 4]), ElasticDecider(policy))
    loop.run(until_us=6 * SECOND)
    assert loop.gpus == [3, 3, 1]
    assert loop.place == {0: ((0, 3),), 1: ((1, 3),), 2: ((0, 1),)}


def test_jobs_are_moved_for_one_that_has_no_place_where_places_are_free() -> None:
    """Two jobs of 2 on a host each of 4; one of 4 comes: one of them moves, for 10 s."""
    trace = sized(trace_of((0, 2, 50), (0, 2, 50), (0, 2, 3), (5, 4, 50)), {2: 1.0, 4: 2.0})
    policy = ElasticPolicy(
        "script",
        partial(Scripted, {0: [0, -1, 0, -1], 2: [0, 0, 0, -1], 5: [0, 0, -1, 1]}),
        frozenset({"now_us"}),
    )
    loop = Loop(
        trace,
        HostLedger([4, 4]),
        ElasticDecider(policy, "free"),
        costs=Costs(move_us=10 * SECOND),
    )
    loop.run(until_us=6 * SECOND)
    assert loop.place == {0: ((1, 2),), 1: ((1, 2),), 3: ((0, 4),)}
    assert loop.moves.tolist() == [1, 0, 0, 0]
    loop.run()
    assert loop.end.tolist() == [60 * SECOND, 52 * SECOND, 3 * SECOND, 30 * SECOND]


def test_speeds_of_spread_places() -> None:
    """4 GPUs on hosts with 2 and 3 free are spread: 4 s at speed 1/2."""
    trace = sized(
        trace_of((0, 1, 9), (0, 1, 9), (1, 4, 2)), {1: 1.0, 4: 1.0}, spread={1: 1, 4: 0.5}
    )
    loop = played({0: [0, 0, -1], 1: [0, 0, 1]}, trace, [4, 3])
    assert loop.end.tolist() == [9 * SECOND, 9 * SECOND, 5 * SECOND]


@pytest.mark.parametrize(("survives", "lost"), [(True, 0), (False, 10)])
def test_a_job_goes_on_without_a_lost_host(survives: bool, lost: int) -> None:
    """After 56 s of work 16 GPUs become 8; who does not survive loses 10 s since a checkpoint."""
    trace = sized(trace_of((0, 16, 120)), {8: 0.5, 16: 1.0})
    policy = ElasticPolicy(
        "script", partial(Scripted, {0: [1], 60: [0]}), frozenset({"now_us"}), survives=survives
    )
    loop = Loop(
        trace,
        HostLedger([8, 8]),
        ElasticDecider(policy),
        costs=Costs(start_us=4 * SECOND, checkpoint_us=23 * SECOND),
        outages=(Outage(1, 60 * SECOND, 10_000 * SECOND),),
    )
    loop.run()
    result_of(loop)
    assert loop.lost_us.tolist() == [lost * SECOND]
    assert loop.resizes.tolist() == [int(survives)]
    assert loop.end.tolist() == [(60 + 4 + 2 * (64 + lost)) * SECOND]


def test_of_hosts_on_loan_those_go_back_that_take_the_fewest_gpus() -> None:
    """Hosts whose jobs have 12, 16 and 4 GPUs: the third goes for the first, whatever overlaps.

    Then a job of 4 is on each of the others: of equal ones the host goes that is named.
    """
    trace = sized(trace_of((0, 4, 99), (0, 12, 99), (0, 4, 99)), {4: [1, 0, 1], 12: [0, 1, 0]})
    policy = ElasticPolicy(
        "script",
        partial(Scripted, {0: [0, 1, 0], 5: [0, -1, 0]}),
        frozenset({"now_us"}),
        returns=True,
    )
    times = ((0, 5), (0, 6), (1, 20))
    outages = [Outage(h, t * SECOND, 50 * SECOND, loses=False) for h, t in times]
    outages += [Outage(2, 21 * SECOND, 50 * SECOND, loses=False)]
    loop = Loop(trace, HostLedger([8, 8, 8]), ElasticDecider(policy), outages=outages)
    loop.run(until_us=SECOND)
    assert loop.place == {1: ((0, 8), (1, 4)), 0: ((1, 4),), 2: ((2, 4),)}
    loop.run(until_us=20 * SECOND)
    assert loop.ledger.closed == {2}
    loop.run(until_us=21 * SECOND)
    assert loop.ledger.closed == {1, 2}


def test_models_of_gpus_have_speeds_and_times_of_their_own() -> None:
    """20 s of work: 10 on two slow GPUs at 1/4, then on two fast ones."""
    plain = trace_of((0, 2, 20))
    table = np.array([[FULL_SPEED, FULL_SPEED // 4]])
    options = (RunOption(2, "V100"), RunOption(2, "K80"))
    trace = replace(plain, options=options, extra={SPEED_BY_OPTION: table})
    policy = ElasticPolicy(
        "script", partial(Scripted, {0: [1], 10: [0]}), frozenset({"now_us", "received_us"})
    )
    ledger = HostLedger([4, 4], "first-fit", ["V100", "K80"])
    loop = Loop(trace, ledger, ElasticDecider(policy))
    loop.run(until_us=15 * SECOND)
    received = loop.column("received_us", np.array([0]))
    assert received.tolist() == [[5 * SECOND, 10 * SECOND]]
    loop.run()
    assert loop.end.tolist() == [round(27.5 * SECOND)]
    measures = measure(result_of(loop))
    assert (measures["gpu_s_V100"], measures["gpu_s_K80"]) == (35, 20)


class Random(Chooser):
    """Draws options that fit, and keeps the state of its generator."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(5)

    def choose(self, jobs: Columns, offer: Offer) -> Ints:
        speeds, open_gpus = getattr(jobs, SPEED_BY_OPTION), offer.open_gpus.copy()
        chosen = np.full(len(jobs), -1)
        for row in self._rng.permutation(len(jobs)).tolist():
            fits = (speeds[row] > 0) & (offer.gpus <= open_gpus[offer.model])
            options = [*np.flatnonzero(fits).tolist(), -1]
            kept = int(jobs.option[row])
            chosen[row] = kept if kept in options and self._rng.random() < 0.5 else options[0]
            if self._rng.random() < 0.4:
                chosen[row] = self._rng.choice(options)
            if chosen[row] >= 0:
                open_gpus[offer.model[chosen[row]]] -= offer.gpus[chosen[row]]
        return chosen

    def state(self) -> Any:
        return self._rng.bit_generator.state

    def restore(self, state: Any) -> None:
        self._rng.bit_generator.state = state


RANDOM = ElasticPolicy("random", Random)


def random_loop(seed: int, policy: ElasticPolicy = RANDOM) -> Loop:
    """Draw a trace with options, hosts of one or two models, costs and outages."""
    rng = np.random.default_rng(seed)
    several = bool(seed % 2)
    models = ["A", "B", "A", "B"] if several else []
    ledger = HostLedger([4, 4, 2, 4], ("first-fit", "best-fit")[seed // 2 % 2], models)
    names = ledger.models
    options = tuple(RunOption(gpus, model) for model in names for gpus in (1, 2, 4))
    jobs = int(rng.integers(2, 12))
    speeds = rng.integers(1, 4 * FULL_SPEED, (jobs, len(options)))
    speeds[rng.random(speeds.shape) < 0.2] = 0
    speeds[:, 0] = FULL_SPEED
    extra = {SPEED_BY_OPTION: speeds}
    if rng.random() < 0.5:
        extra[SPREAD_SPEED] = speeds // 2
    trace = Trace.of(
        SECOND * rng.integers(0, 60, jobs),
        rng.integers(1, 5, jobs),
        rng.integers(1, 90 * SECOND, jobs),
        deadline_us=SECOND * rng.integers(20, 200, jobs),
        extra=extra,
        options=options,
    )
    return Loop(
        trace,
        ledger,
        ElasticDecider(
            replace(policy, survives=bool(rng.integers(2))), ("kept", "free")[seed // 3 % 2]
        ),
        costs=Costs(
            start_us=int(rng.integers(3)) * SECOND,
            by_gpus_us=((1, SECOND), (3, 3 * SECOND)) if rng.random() < 0.5 else (),
            stop_us=int(rng.integers(2)) * SECOND,
            checkpoint_us=(None, 7 * SECOND)[int(rng.integers(2))],
        ),
        trigger=(Trigger(), Trigger(9 * SECOND), Trigger(9 * SECOND, at_most=True))[seed % 3],
        outages=random_outages(4, 200 * SECOND, mean_up_s=90, mean_down_s=20, seed=seed),
    )


@pytest.mark.parametrize("seed", by_day(range(600), 40))
def test_work_and_gpu_time_beside_a_naive_count(seed: int) -> None:
    """Between events each running job does speed x time behind its overhead; nothing else."""
    loop = random_loop(seed)
    work = dict.fromkeys(range(len(loop.trace)), 0.0)
    before: list[tuple[int, int, int, int]] = []
    at, held = 0, 0

    def watch(loop: Loop) -> None:
        nonlocal before, at, held
        for job, speed, overhead, gpus in before:
            work[job] += max(0, loop.now - at - overhead) * speed / FULL_SPEED
            held += gpus * (loop.now - at)
        at = loop.now
        used = [0] * 4
        for place in loop.place.values():
            assert len({loop.ledger.model_of[host] for host, _ in place}) == 1
            for host, gpus in place:
                used[host] += gpus
        for host, size in enumerate(loop.ledger.sizes):
            size = 0 if host in loop.ledger.closed else size
            assert loop.ledger.free[host] == size - used[host] >= 0
        before = []
        for job, place in loop.place.items():
            option = int(loop.option[job])
            gpus = sum(number for _, number in place)
            assert gpus == loop.trace.options[option].gpus == loop.gpus[job]
            spread = SPREAD_SPEED in loop.trace.extra and loop.ledger.is_spread(place)
            speed = loop.trace.extra[SPREAD_SPEED if spread else SPEED_BY_OPTION][job, option]
            overhead = int(loop.overhead_due[job]) - (loop.now - int(loop.since[job]))
            before.append((job, int(speed), max(overhead, 0), gpus))

    loop.run(after_event=watch)
    result = result_of(loop)
    assert held == result.busy_gpu_us
    for job, done in work.items():
        lost = loop.lost_us[job] * 4.0
        if loop.end[job] != NEVER:
            assert -2 <= done - loop.trace.work_us[job] <= lost + 50, job


@pytest.mark.parametrize("seed", by_day(range(60), 6))
def test_a_replay_that_is_resumed_goes_on(seed: int, tmp_path: Path) -> None:
    whole, begun, resumed = random_loop(seed), random_loop(seed), random_loop(seed)
    whole.run()
    begun.run(until_us=40 * SECOND)
    begun = random_loop(seed)

    class StopError(Exception):
        pass

    def stop(loop: Loop) -> None:
        if loop.now > 40 * SECOND:
            save(loop, tmp_path / "state.npz", "key")
            raise StopError

    try:
        begun.run(after_event=stop)
    except StopError:
        assert restore(resumed, tmp_path / "state.npz", "key")
        resumed.run()
        one, other = result_of(whole), result_of(resumed)
        assert one.end_us.tolist() == other.end_us.tolist()
        assert one.resizes.tolist() == other.resizes.tolist()
        assert (one.more_gpu_us, one.held_gpu_us) == (other.more_gpu_us, other.held_gpu_us)
        assert one.busy_gpu_us == other.busy_gpu_us


@pytest.mark.parametrize("policy", ELASTIC, ids=lambda policy: policy.name)
@pytest.mark.parametrize("seed", by_day(range(0, 60, 2), 4))
def test_every_policy_ends_all_jobs(policy: ElasticPolicy, seed: int) -> None:
    loop = random_loop(seed, policy)
    loop.run()
    assert (result_of(loop).end_us != NEVER).all()


@pytest.mark.parametrize(
    ("policy", "changes", "said"),
    [
        ("sia", {"charge": "event"}, "charge: 'event': expected charge start"),
        ("sia", {"hosts": (1,)}, "trace.0: expected a job with an option that fits"),
        ("sia", {"gpu_models": ("V100",)}, "trace.0: expected a job with an option"),
        ("srsf", {"hosts": (4, 4), "gpu_models": ("V100", "K80")}, "2 GPUs K80"),
        ("smith", {"hosts": (4, 4), "gpu_models": ("V100", "K80")}, "expected a list policy"),
    ],
)
def test_what_cannot_be_played_is_refused(policy: str, changes: Any, said: str) -> None:
    model = "V100" if policy != "sia" else "A100"
    trace = replace(sized(trace_of((0, 2, 10)), {2: 1.0}), options=(RunOption(2, model),))
    spec = ReplaySpec(policy, (2,), gpu_models=("A100",))
    with pytest.raises(InvalidInputError, match=said):
        play(trace, replace(spec, **changes))


@pytest.mark.nightly
def test_rounds_choose_sizes_and_hosts_together() -> None:
    """On one host they are those of the knapsack; on two of 3 GPUs nobody can have 4."""
    trace = sized(trace_of((0, 2, 90), (7, 2, 50), (20, 2, 70)), {1: 0.6, 2: 1.0, 4: 1.5})
    one, other = (
        play(trace, ReplaySpec(name, (6,), search_s=30)) for name in ("sia", "sia-rounds")
    )
    assert one.end_us.tolist() == other.end_us.tolist()
    assert one.resizes.tolist() == other.resizes.tolist()
    found = play(trace, ReplaySpec("sia-rounds", (3, 3), search_s=30))
    assert max(found.resizes.tolist()) > 0
    # Jobs of 1 and 2 GPUs on each: all three run at once.
    assert (found.first_start_us == trace.submit_us).all()
    with pytest.raises(InvalidInputError, match="placer: 'counting'"):
        play(trace, ReplaySpec("sia-rounds", (6,), placer="counting"))


def test_policies_that_choose_sizes_need_speeds() -> None:
    with pytest.raises(InvalidInputError, match="speed_by_option"):
        play(trace_of((0, 2, 10)), ReplaySpec("sia", (2,)))
    assert all(POLICIES[policy.name] is policy for policy in ELASTIC)


def test_an_option_of_any_model_is_one_of_each() -> None:
    trace = sized(trace_of((0, 2, 10), (0, 2, 10)), {1: 0.5, 2: 1.0})
    found = play(trace, ReplaySpec("sia", (2, 2), gpu_models=("V100", "K80")))
    assert found.end_us.tolist() == [10 * SECOND] * 2
    assert found.held_gpu_us == {"V100": 20 * SECOND, "K80": 20 * SECOND}
