"""Rounds in a replay: a solver decides, every plan is verified, and replays repeat."""

from __future__ import annotations

import numpy as np
import pytest
from replay_traces import trace_of

from examples import examples
from placewright.instances.documents.plan import Plan
from placewright.instances.traces.trace import SECOND, Trace
from placewright.instances.verify import verify
from placewright.rounds.engine import Engine
from placewright.rounds.replay import round_decider
from placewright.rounds.replay.book import Places
from placewright.rounds.replay.loop import Outage
from placewright.rounds.replay.measures import measure
from placewright.rounds.replay.spec import ReplaySpec, play
from placewright.rounds.state.changes import Changes


def test_a_round_chooses_the_jobs_that_together_are_worth_most() -> None:
    """The list takes the one with the least GPU time; rounds take the two worth more together."""
    trace = trace_of((0, 3, 10), (0, 2, 16), (0, 2, 16))
    assert play(trace, ReplaySpec("srsf", (4,))).end_us.tolist() == [
        10_000_000,
        26_000_000,
        26_000_000,
    ]
    found = play(trace, ReplaySpec("smith", (4,)))
    assert found.end_us.tolist() == [26_000_000, 16_000_000, 16_000_000]
    assert [gap for _, gap in found.rounds] == [0.0, 0.0]


def test_a_shorter_job_preempts() -> None:
    found = play(trace_of((0, 4, 10), (2, 4, 3)), ReplaySpec("smith", (4,)))
    assert found.end_us.tolist() == [13_000_000, 5_000_000]
    assert found.stops.tolist() == [1, 0]


JOBS = examples(day=12, nightly=30)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("seed", range(3))
def test_a_replay_repeats(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trace = Trace.of(
        SECOND * rng.integers(0, 300, JOBS),
        2 ** rng.integers(0, 5, JOBS),
        SECOND * rng.integers(1, 99, JOBS),
    )
    first, again = (play(trace, ReplaySpec("smith", (8, 8))) for _ in range(2))
    assert first.end_us.tolist() == again.end_us.tolist()
    assert measure(first) == measure(again)
    assert measure(first)["unfinished"] == 0


def test_where_all_places_are_free_several_jobs_of_a_larger_rank_may_preempt() -> None:
    """One job is worth 1/10, two others 1/16 each; they have more GPU time left."""
    trace = trace_of((0, 3, 12), (2, 2, 16), (2, 2, 16))
    kept, free = (play(trace, ReplaySpec("smith", (4,), places=p)) for p in ("kept", "free"))
    assert kept.end_us.tolist() == [12_000_000, 28_000_000, 28_000_000]
    assert free.end_us.tolist() == [28_000_000, 18_000_000, 18_000_000]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("places", ["kept", "free"])
def test_plans_verify_while_hosts_fail_and_engines_begin_anew(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No plan uses a host that is away, all verify, and all jobs end."""
    outages = (
        Outage(0, 20_000_000, 60_000_000),
        Outage(1, 50_000_000, 90_000_000),
        Outage(0, 120_000_000, 121_000_000),
    )
    opened, rounds = [], []

    class CheckedEngine(Engine):
        def round(self, changes: Changes | None = None) -> Plan:
            plan = super().round(changes)
            assert verify(self.round_solved, plan).ok
            now_us = SECOND * self.round_solved.now
            away = {f"h{o.host}" for o in outages if o.begin_us <= now_us < o.end_us}
            assert not away & {task.host for d in plan.decisions for task in d.tasks}
            opened.append(self)
            rounds.append(plan)
            return plan

    monkeypatch.setattr(round_decider, "Engine", CheckedEngine)
    monkeypatch.setattr(round_decider, "REOPEN", 4)
    rng, jobs = np.random.default_rng(7), examples(day=16, nightly=24)
    trace = Trace.of(
        SECOND * rng.integers(0, 120, jobs),
        rng.integers(1, 13, jobs),
        SECOND * rng.integers(1, 60, jobs),
    )
    found = play(trace, ReplaySpec("smith", (8, 8), places=places, outages=outages))
    assert measure(found)["unfinished"] == 0
    assert len(set(map(id, opened))) == -(-len(rounds) // 4) > 3
    assert len(found.rounds) == len(rounds)
    assert max(gap for _, gap in found.rounds if gap is not None) <= 1e-6
