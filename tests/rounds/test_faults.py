"""Whatever the solver does, a verified plan comes back that says what went wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placewright.cli.app import main
from placewright.formulations.gang import run
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.documents.plan import Certificate, Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_plan, write
from placewright.instances.verify import verify
from placewright.rounds import InternalError, prove_bounds, solve_round
from placewright.rounds.certificate import Bounds
from placewright.solver import Arrays, InProcess, Outcome, Worker

PLANTED = Path(__file__).parents[1] / "solver"
"""The folder of planted_backends.py."""

BEST_VALUE, FEWEST_OPENED = 7000, 2
"""Of the full_cluster round; whatever starts 5 GPUs or more needs both hosts."""


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a planted backend in the place of every other."""

    def replace_all(name: str) -> None:
        monkeypatch.syspath_prepend(str(PLANTED))
        for solver in (Worker, InProcess):
            honest = solver.solve

            def solve(
                self: Any, backend: str, *rest: Any, honest: Callable[..., Outcome] = honest
            ) -> Outcome:
                return honest(self, f"planted_backends:{name}", *rest)

            monkeypatch.setattr(solver, "solve", solve)

    return replace_all


def certificate_of(plan: Plan) -> Certificate:
    assert plan.certificate is not None
    return plan.certificate


def survives(round_: Round, plan: Plan, *words: str) -> None:
    """The plan verifies, its bounds hold, and `degraded` says what went wrong."""
    assert verify(round_, plan).ok
    certificate = certificate_of(plan)
    value, opened = certificate.terms
    assert value.value >= 5000
    for bound in (value.bound, value.certified, value.claimed):
        assert bound is None or bound >= BEST_VALUE
    for bound in (opened.bound, opened.certified, opened.claimed):
        assert bound is None or bound <= FEWEST_OPENED
    assert value.certified is not None
    for word in words:
        assert any(word in what for what in certificate.degraded), certificate.degraded


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("raises", "raised ValueError: no luck"),
        ("answers_nothing", "answer NoneType is no outcome"),
        ("lies_about_the_point", "lied: it returned a point that is not feasible"),
        ("lies_about_the_objective", "lied: it claimed the objective 1000.0"),
        ("lies_about_the_bound", "lied: it claimed the bound"),
        ("lies_about_the_duals", "lied: it returned duals that are not a finite number per row"),
    ],
)
def test_a_backend_that_raises_or_lies_costs_only_quality(
    full_cluster: Round, model: str, plant: Callable[[str], None], name: str, words: str
) -> None:
    plant(name)
    survives(full_cluster, solve_round(full_cluster, isolation="none"), words)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hangs", "killed at the limit"),
        ("exits", "exit code 7: last words"),
        ("is_killed", "signal SIGKILL"),
        ("takes_memory", "MiB of memory; at most 300 MiB"),
    ],
)
def test_a_backend_that_has_to_be_killed_or_dies_costs_only_quality(
    full_cluster: Round, plant: Callable[[str], None], name: str, words: str
) -> None:
    plant(name)
    limits = full_cluster.limits.model_copy(update={"memory_mib": 300})
    round_ = full_cluster.model_copy(update={"limits": limits})
    survives(round_, solve_round(round_, time_limit=2.0 if name == "hangs" else 20.0), words)


def test_a_wrong_bound_that_its_own_point_does_not_beat_is_dropped(
    full_cluster: Round, model: str, plant: Callable[[str], None]
) -> None:
    plant("claims_the_bound_zero")
    plan = solve_round(full_cluster, isolation="none")
    survives(full_cluster, plan, "highs: claimed the bound 0 of value, which the plan's")
    assert {term.claimed for term in certificate_of(plan).terms} == {None}


@pytest.mark.parametrize(("term", "sense"), [("value", "max"), ("opened", "min")])
def test_a_claimed_bound_that_the_plan_beats_costs_all_claims(
    full_cluster: Round, monkeypatch: pytest.MonkeyPatch, model: str, term: str, sense: str
) -> None:
    honest = Session.optimise

    def lies(self: Session, arrays: Arrays, **how: Any) -> Outcome | None:
        outcome = honest(self, arrays, **how)
        if outcome is None or arrays.sense != sense:
            return outcome
        return replace(outcome, bound=1.0 if sense == "max" else 99.0)

    monkeypatch.setattr(Session, "optimise", lies)
    plan = solve_round(full_cluster, isolation="none")
    if (model, term) == ("exact", "opened"):
        # Its relaxation proves `opened`: no claim is asked for.
        assert certificate_of(plan).terms[1].claimed is None
        survives(full_cluster, plan)
        return
    survives(full_cluster, plan, f"of {term}, which the plan's")
    assert {term.claimed for term in certificate_of(plan).terms} == {None}
    for result in prove_bounds(full_cluster, plan):
        assert result.claimed is None
        assert result.certified is not None


def test_a_certified_bound_that_the_plan_beats_is_an_internal_error_with_the_plan(
    full_cluster: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = run.run

    def errs(*args: Any) -> Iterator[Candidate | Bound]:
        yield from honest(*args)
        yield Bound("value", 1, certified=True)

    monkeypatch.setattr(run, "run", errs)
    with pytest.raises(InternalError, match="value 7000 beats the bound 1") as caught:
        solve_round(full_cluster, isolation="none")
    assert caught.value.plan is not None
    assert verify(full_cluster, caught.value.plan.model_copy(update={"certificate": None})).ok


def test_a_session_does_not_stay_fooled_by_a_claim() -> None:
    """The claims come before the plan that beats one, and the same solver claims more after it."""
    session = Session(InProcess().solve, time.monotonic(), backend="cbc")
    terms = ("value", "opened")
    bounds = Bounds()
    bounds.add(Bound("value", 9, certified=True))
    bounds.add(Bound("value", 5))
    bounds.add(Bound("opened", 1, (("value", 5),)))
    bounds.update_session(session, terms, {"value": 5, "opened": 1})
    assert (session.first_bound, session.proven, session.degraded) == (5, True, [])

    bounds.update_session(session, terms, {"value": 6, "opened": 2})
    assert (session.first_bound, session.proven) == (9, False)
    words = "cbc: claimed the bound 5 of value, which the plan's 6 beats; its claims are dropped"
    assert session.degraded == [words]

    bounds.add(Bound("value", 6))
    bounds.add(Bound("opened", 2, (("value", 6),), certified=True))
    bounds.update_session(session, terms, {"value": 6, "opened": 2})
    assert (session.first_bound, session.proven) == (9, False)
    assert session.degraded == [words]
    value, opened = bounds.results(terms, {"value": 6, "opened": 2})
    assert (value.certified, value.claimed) == (9, None)
    assert (opened.certified, opened.claimed) == (2, None)


def test_no_time_gives_the_greedy_plan_with_bounds_that_need_no_solver(full_cluster: Round) -> None:
    plan = solve_round(full_cluster, time_limit=0.0)
    certificate = certificate_of(plan)
    assert verify(full_cluster, plan).ok
    assert [(t.name, t.certified, t.claimed) for t in certificate.terms] == [
        ("value", 12000.0, None),
        ("opened", 0.0, None),
    ]
    assert certificate.status == "feasible"
    assert certificate.terms[0].value > 0


@pytest.mark.usefixtures("model")
def test_an_interrupt_leaves_the_best_plan_on_disk_and_exits_130(
    full_cluster: Round, plant: Callable[[str], None], tmp_path: Path
) -> None:
    plant("interrupts_the_round")
    round_file, plan_file = tmp_path / "round.json", tmp_path / "plan.json"
    write(full_cluster, round_file)
    # A test run in the background may have inherited that interrupts are ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = main(["solve", str(round_file), "-o", str(plan_file)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 130
    plan = load_plan(plan_file)
    survives(full_cluster, plan)
    assert certificate_of(plan).degraded == ("interrupted",)


def test_without_a_folder_for_files_the_round_is_solved_in_this_process(
    full_cluster: Round, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    plan = solve_round(full_cluster, isolation="process")
    survives(full_cluster, plan, "highs: solved in this process, as no other could be started: ")
    assert certificate_of(plan).terms[0].value == BEST_VALUE


REPEATED = """
import sys
from dataclasses import replace
from placewright.formulations.gang import parameters
from placewright.instances.generators.gang import generate_round
from placewright.rounds import solve_round
run = replace(parameters.PARAMETERS.run, max_exact_variables=int(sys.argv[1]))
parameters.PARAMETERS = replace(parameters.PARAMETERS, run=run)
round_ = generate_round(48, 36, mix="tight", seed=5)
plan = solve_round(round_, deterministic=True, seed=7, time_limit=600)
assert plan.certificate.repeatable, plan.certificate
print(plan.model_dump_json(exclude={"certificate": {"run"}}))
"""


@pytest.mark.nightly
@pytest.mark.parametrize("cells", [6000, -1], ids=["exact", "counts"])
def test_deterministic_rounds_give_equal_plans_in_two_processes(cells: int) -> None:
    plans = [
        subprocess.run(
            [sys.executable, "-c", REPEATED, str(cells)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert plans[0] == plans[1]
