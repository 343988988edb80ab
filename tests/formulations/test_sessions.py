"""Sessions of one decision: what they share while a phase runs with a part of the time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from placewright.formulations.common.phases import Phase, SearchState, run_phases
from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session
from placewright.solver import Model, Outcome, Status

HOUR = 3600.0


def fails(*_: object) -> Outcome:
    return Outcome(Status.FAILED, message="out of memory", wall_stopped=True)


def session(seconds: float = HOUR, *, deterministic: bool = False) -> Session:
    return Session(fails, time.monotonic() + seconds, deterministic=deterministic)


def learn(session: Session, values: dict[str, int], bound: float, *, proven: bool = False) -> None:
    known = session.best_known
    known.values, known.first_bound, known.proven = values, bound, proven


def solve(session: Session) -> None:
    model = Model()
    model.term("value", model.variables("x", 1, upper=3), 1, sense="max")
    session.optimise(model.arrays("value"))


def test_a_part_ends_earlier_by_its_reserve_and_the_share_of_others() -> None:
    whole = session()
    assert whole.part().before_deadline() == pytest.approx(HOUR, abs=1.0)
    assert whole.part(0.25, reserve=HOUR / 2).before_deadline() == pytest.approx(HOUR / 8, abs=1.0)
    assert whole.part(0.5).part(0.5).before_deadline() == pytest.approx(HOUR / 4, abs=1.0)
    assert whole.part(reserve=2 * HOUR).expired()
    assert not whole.expired()


def test_no_part_of_time_that_is_over_ends_later() -> None:
    late = session(-HOUR)
    assert late.part(0.5).deadline == late.deadline


def test_a_deterministic_part_has_all_of_the_time() -> None:
    whole = session(deterministic=True)
    assert whole.part(0.5, reserve=60.0).deadline == whole.deadline


def test_time_reserved_meanwhile_shortens_all_sessions_of_the_decision() -> None:
    whole = session()
    sessions = [whole, whole.part(0.5), whole.inner(), whole.inner().part(0.25)]
    before = [each.before_deadline() for each in sessions]
    whole.clock.reserved_s += 60.0
    after = [each.before_deadline() for each in sessions]
    assert [b - a for b, a in zip(before, after, strict=True)] == pytest.approx([60.0] * 4, abs=1.0)


def test_faults_and_the_clock_of_a_part_reach_the_whole() -> None:
    whole = session()
    solve(whole.part(0.5).inner())
    assert whole.wall_stopped
    assert whole.degraded == ["highs: out of memory"]


def test_nothing_is_known_of_an_inner_round_and_what_is_learnt_stays_there() -> None:
    whole = session()
    learn(whole, {"value": 3}, 3, proven=True)
    inner = whole.inner()
    assert (inner.best, inner.first_bound, inner.proven) == (None, None, False)
    inner.part(0.5).best_known.values = {"value": 1}
    assert inner.best == {"value": 1}
    assert whole.best == {"value": 3}


def _half(_: SearchState) -> float:
    return 0.5


def test_a_phase_with_a_share_of_the_time_sees_what_the_round_learns() -> None:
    state = SearchState(session())
    whole, seen = state.session, list[object]()

    def phase(state: SearchState) -> Iterator[Bound]:
        mine = state.session
        yield Bound("value", 9)
        seen.extend((mine is whole, mine.best, mine.first_bound, mine.proven))
        seen.append(mine.close_enough(7))

    for bound in run_phases([Phase("half", phase, share=_half)], state):
        learn(whole, {"value": 7}, 7, proven=True)
        assert bound.value == 9
    assert seen == [False, {"value": 7}, 7, True, True]
    assert state.session is whole


def test_a_phase_that_fails_leaves_the_whole_session() -> None:
    state = SearchState(session())
    whole = state.session

    def phase(_: SearchState) -> Iterator[Bound]:
        yield Bound("value", 9)
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        list(run_phases([Phase("half", phase, share=_half)], state))
    assert state.session is whole


def ran(state: SearchState, *phases: tuple[str, dict[str, bool]]) -> list[str]:
    def phase(name: str, checks: dict[str, bool]) -> Phase[SearchState, str]:
        return Phase(name, lambda _: iter([name]), **checks)  # type: ignore[arg-type]

    return list(run_phases([phase(*each) for each in phases], state))


def test_phases_are_left_out_without_time_or_where_the_gap_is_reached() -> None:
    phases = ("any", {}), ("timed", {"needs_time": True}), ("gap", {"needs_gap": True})
    state = SearchState(session())
    assert ran(state, *phases) == ["any", "timed", "gap"]
    assert ran(SearchState(session(-1.0)), *phases) == ["any", "gap"]
    learn(state.session, {"value": 7, "spread": 1}, 7)
    assert ran(state, *phases) == ["any", "timed"]
    state.session.best_known.first_bound = 9
    assert ran(state, *phases) == ["any", "timed", "gap"]
    assert ran(SearchState(replace(session(), without=frozenset({"any", "gap"}))), *phases) == [
        "timed"
    ]


def test_no_phase_runs_once_the_search_has_ended() -> None:
    phases = ("a", {}), ("b", {})
    assert ran(SearchState(session(), finished=True), *phases) == []
    proven = SearchState(session())
    proven.session.best_known.proven = True
    assert ran(proven, *phases) == []
