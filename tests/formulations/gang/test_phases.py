"""The portfolio is a list of phases: any but the first can be left out, and plans stay valid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from gang_parameters import set_parameters

from placewright.formulations.common.phases import Phase, leaving_out, run_phases
from placewright.formulations.deadline import run as deadline
from placewright.formulations.gang import run
from placewright.formulations.gang.heuristics.migration import COUNT_SEARCH, MIGRATION
from placewright.formulations.gang.heuristics.search import Search, Steps
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import fill_greedily
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.instances.verify import verify
from placewright.rounds.deciders.base import Memory
from placewright.rounds.settings import Settings
from placewright.rounds.solve import Solve
from placewright.solver import InProcess

NAMES = [phase.name for phase in (*run.PHASES, *MIGRATION, *COUNT_SEARCH)]


@pytest.fixture(autouse=True)
def _large_rounds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)


def solved(round_: Round, *without: str) -> Plan:
    settings = Settings.of(round_, isolation="none", deterministic=True, time_limit=100.0)
    search = partial(run.run, without=without)
    return Solve(round_, settings, None, Memory(), search).plan()


def test_phases_have_names_of_their_own() -> None:
    own = [phase.name for phase in run.PHASES]
    assert len(set(own)) == len(own)
    for nested in (MIGRATION, COUNT_SEARCH):
        assert len({phase.name for phase in nested}) == len(nested)


@pytest.mark.nightly(after=3)
@pytest.mark.parametrize("name", sorted({*NAMES} - {"greedy"}))
def test_a_plan_without_a_phase_is_valid(name: str) -> None:
    round_ = generate_round(32, 16, mix="hard", seed=1)
    plan = solved(round_, name)
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    assert verify(round_, plan).ok


def test_what_a_phase_finds_is_missing_without_it() -> None:
    round_ = generate_round(64, 30, mix="hard", seed=0)
    displacing = {"displacement", "migration"}

    def value(*without: str) -> float:
        certificate = solved(round_, *without).certificate
        assert certificate is not None
        return certificate.terms[0].value

    assert value(*displacing) < value()


def test_left_out_phases_are_not_run_and_none_after_the_search_has_finished() -> None:
    ran: list[str] = []

    def phase(name: str, *, ends: bool = False) -> Phase[Search, Candidate | Bound]:
        def note(search: Search) -> Steps:
            ran.append(name)
            search.finished = ends
            yield Candidate({}, name)

        return Phase(name, note)

    phases = [phase("a"), phase("b"), phase("c", ends=True), phase("d")]
    problem = compile_round(generate_round(32, 4, mix="easy"))
    session = Session(InProcess().solve, deadline=0.0)
    steps = [*run_phases(phases, Search(leaving_out(session, ["b"], phases), problem))]
    assert ran == ["a", "c"]
    assert [step.source for step in steps if isinstance(step, Candidate)] == ["a", "c"]


def test_a_phase_begins_from_the_best_plan_of_those_before() -> None:
    problem = compile_round(generate_round(32, 4, mix="easy"))
    greedy = Placement(problem)
    fill_greedily(greedy)
    good, poor = assign(greedy, "good"), Candidate({}, "poor")
    search = Search(Session(InProcess().solve, deadline=0.0), problem)
    seen: list[int] = []

    def first(search: Search) -> Steps:
        yield good
        search.incumbent = Placement(problem)  # where nothing has started
        yield poor

    def second(search: Search) -> Steps:
        placement = search.best_placement()
        seen.append(0 if placement is None else placement.value)
        yield from ()

    for step in run_phases([Phase("first", first), Phase("second", second)], search):
        if step is good:
            search.session.best_known.values = {"value": greedy.value}
    assert search.best_plan is good
    assert seen == [greedy.value]
    assert greedy.value > 0


@pytest.mark.parametrize(
    ("search", "name"),
    [(run.run, "LP rounding"), (run.run, "LNS"), (deadline.run, "time-indexed model")],
)
def test_phases_of_inner_lists_are_known_and_no_others(
    search: Callable[..., Iterator[Candidate | Bound]], name: str
) -> None:
    session = Session(InProcess().solve, deadline=0.0)
    with pytest.raises(ValueError, match="'no such phase'"):
        next(search(None, session, without=[name, "no such phase"]))
    with pytest.raises(AttributeError):  # the name is known; there is no problem to search
        next(search(None, session, without=[name]))
