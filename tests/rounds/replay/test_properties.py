"""Replays of random traces: beside a naive simulator, and what must hold whatever is played."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from replay_traces import LISTS, random_spec, random_trace

from examples import by_day
from placewright.instances.traces.trace import NEVER, SECOND, Trace
from placewright.rounds.policies.named import POLICIES
from placewright.rounds.replay.book import Place
from placewright.rounds.replay.loop import Loop, random_outages
from placewright.rounds.replay.measures import Result
from placewright.rounds.replay.spec import ReplaySpec, play

BLIND = tuple(name for name in LISTS if not POLICIES[name].sees & {"work_us", "remaining_us"})
NAIVE = ("fifo", "fit-first", "easy", "sjf", "srtf", "srsf")


def no_gpu_twice(loop: Loop) -> None:
    """Count GPUs held by host: what the ledger has free is the rest, all of it at the end."""
    held = [0] * len(loop.ledger.sizes)
    for place in loop.place.values():
        for host, gpus in place:
            held[host] += gpus
    for host, size in enumerate(loop.ledger.sizes):
        assert loop.ledger.free[host] == (0 if host in loop.ledger.closed else size) - held[host]
        assert loop.ledger.free[host] >= 0


@pytest.mark.parametrize("seed", by_day(range(1000), 40))
def test_time_is_conserved(seed: int) -> None:
    """`play` checks GPU time and jobs alive; here each job has done its work, and no more."""
    rng = np.random.default_rng(seed)
    spec = random_spec(rng, LISTS[seed % len(LISTS)])
    trace = random_trace(rng, sum(spec.hosts))
    if spec.placer != "counting" and seed % 3 == 0:
        away = random_outages(len(spec.hosts), 100_000_000, mean_up_s=60, mean_down_s=12, seed=seed)
        spec = replace(spec, outages=(*away, *away[:3]), checkpoint_s=3)
    found = play(trace, spec, watch=no_gpu_twice)
    ended = found.end_us != NEVER
    worked = (found.run_us - found.overhead_us - found.lost_us)[ended]
    assert worked.tolist() == trace.work_us[ended].tolist()
    assert ended.all()


def naive(
    policy: str, trace: Trace, sizes: tuple[int, ...], *, counting: bool, best: bool
) -> list[int]:
    """Play a trace without costs in steps of a second; return ends in ms, -1 for none."""
    jobs = range(len(trace))
    gpus, left = trace.gpus.tolist(), (trace.work_us // SECOND).tolist()
    submit, predicted = (
        (trace.submit_us // SECOND).tolist(),
        (trace.predicted_us // SECOND).tolist(),
    )
    hosts = [sum(sizes)] if counting else list(sizes)
    free, largest = hosts.copy(), max(hosts)
    ends, began, place, now = [-1] * len(trace), {}, dict[int, list[int]](), 0
    order = list[int]()

    def find(job: int, free: list[int]) -> list[int] | None:
        taken = [0] * len(hosts)
        whole, rest = divmod(gpus[job], largest) if gpus[job] > largest else (0, gpus[job])
        for host, room in enumerate(free):
            if whole and room == largest:
                taken[host], whole = largest, whole - 1
        rooms = list(enumerate(free))
        if best:
            rooms.sort(key=lambda pair: pair[1])
        for host, room in rooms:
            if rest and not taken[host] and room >= rest:
                taken[host], rest = rest, 0
        return None if whole or rest else taken

    def hold(free: list[int], taken: list[int], sign: int) -> None:
        for host, number in enumerate(taken):
            free[host] -= sign * number

    while min(ends) < 0 and now < 10_000:
        for job in jobs:
            if job in place and not left[job]:
                ends[job] = SECOND * now
                hold(free, place.pop(job), -1)
        came = [job for job in jobs if submit[job] == now]
        changed = bool(came) or SECOND * now in ends
        order = [job for job in order if ends[job] < 0] + came
        if changed and policy in ("srtf", "srsf"):
            order.sort(key=lambda job: left[job] * (gpus[job] if policy == "srsf" else 1))
            free, place = hosts.copy(), {}
        waiting = [job for job in order if job not in place]
        if policy == "sjf":
            waiting.sort(key=lambda job: (left[job], job))
        shadow: tuple[int, list[int], list[int]] | None = None
        for job in waiting if changed else ():
            taken = find(job, free)
            if taken is None and policy in ("fifo", "sjf"):
                break
            if taken is None and policy == "easy" and shadow is None:
                then = free.copy()
                expected = sorted((max(now, began[j] + predicted[j]), j) for j in place)
                for end in sorted({end for end, _ in expected}):
                    for other_end, other in expected:
                        if other_end == end:
                            hold(then, place[other], -1)
                    if find(job, then) is not None:
                        shadow = (end, then, [job])
                        break
                continue
            if taken is None:
                continue
            if shadow is not None and now + predicted[job] > shadow[0]:
                hold(shadow[1], taken, 1)
                if find(shadow[2][0], shadow[1]) is None:
                    hold(shadow[1], taken, -1)
                    continue
            hold(free, taken, 1)
            place[job], began[job] = taken, now
        for job in place:
            left[job] -= 1
        now += 1
    return ends


@pytest.mark.parametrize("seed", by_day(range(600), 40))
def test_lists_beside_a_naive_simulator(seed: int) -> None:
    rng = np.random.default_rng(10_000 + seed)
    policy = NAIVE[seed % len(NAIVE)]
    hosts = ((4,), (8, 8), (4, 4, 4))[int(rng.integers(3))]
    placer = ("first-fit", "best-fit", "counting")[int(rng.integers(3))]
    trace = random_trace(rng, sum(hosts))
    found = play(trace, ReplaySpec(policy, hosts, placer=placer, places="free"))
    expected = naive(policy, trace, hosts, counting=placer == "counting", best=placer == "best-fit")
    assert found.end_us.tolist() == expected


def same(first: Result, second: Result) -> bool:
    """Whether two replays decided the same."""
    return (
        first.end_us.tolist() == second.end_us.tolist()
        and first.stops.tolist() == second.stops.tolist()
    )


@pytest.mark.parametrize("seed", range(50))
def test_names_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spec = random_spec(rng, LISTS[seed % len(LISTS)])
    trace = random_trace(rng, sum(spec.hosts))
    names = tuple(f"z{number}" for number in rng.permutation(len(trace)).tolist())
    assert same(play(trace, spec), play(replace(trace, names=names), spec))


Decision = tuple[int, list[tuple[int, Place]]]
"""When it was made, and who runs where after it."""


@pytest.mark.parametrize("seed", by_day(range(500), 40))
def test_who_does_not_see_durations_decides_the_same_until_they_differ(seed: int) -> None:
    """Two traces differ in one duration: every decision before the job's first end is the same."""
    rng = np.random.default_rng(seed)
    spec = random_spec(rng, BLIND[seed % len(BLIND)])
    trace = random_trace(rng, sum(spec.hosts))
    job = int(rng.integers(len(trace)))
    longer = trace.work_us.copy()
    longer[job] += 7_000_000

    def played(trace: Trace) -> tuple[Result, list[Decision]]:
        decisions: list[Decision] = []

        def watch(loop: Loop) -> None:
            decisions.append((loop.now, sorted(loop.place.items())))

        return play(trace, spec, watch=watch), decisions

    first, decided = played(trace)
    _, decided_later = played(replace(trace, work_us=longer))
    until = int(first.end_us[job])
    before, before_later = (
        [decision for decision in decisions if decision[0] < until]
        for decisions in (decided, decided_later)
    )
    assert before == before_later
