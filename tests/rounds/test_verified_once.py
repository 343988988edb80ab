"""Rules, reasons and names are worked out for the first plan, and for the one returned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples import by_night
from placewright.formulations.gang import run
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io import digest
from placewright.instances.io.files import load_round
from placewright.instances.verify import Verification, verify
from placewright.rounds import solve, solve_round
from placewright.rounds.deciders import residual
from placewright.rounds.displacement.victims import displacers
from placewright.rounds.regions import region_rounds

LIBRARY = Path(__file__).parents[2] / "instances/library"
SOLVERS = (solve, residual, region_rounds)
"""The modules that verify plans while a round is decided."""
FIRST = ["quickstart", "mast-regions", "chronus", "muri", "backfill-easy", "mast-replicas", "hived"]
NAMES = sorted(path.stem for path in LIBRARY.glob("*.yaml"))


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Return the plans that are verified in full from now on."""
    plans: list[Plan] = []

    def noted(round_: Round, plan: Plan) -> Verification:
        plans.append(plan)
        return verify(round_, plan)

    for module in SOLVERS:
        monkeypatch.setattr(module, "verify", noted)
    return plans


@pytest.mark.parametrize("name", NAMES if by_night() else FIRST)
def test_a_solve_verifies_two_plans_at_most_and_returns_none_unverified(
    name: str, checked: list[Plan]
) -> None:
    round_ = load_round(LIBRARY / f"{name}.yaml")
    plan = solve_round(round_, time_limit=2.0, isolation="none")
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    assert 1 <= len(checked) <= 2
    assert (plan.decisions, plan.sections) == (checked[-1].decisions, checked[-1].sections)
    assert verify(round_, plan).ok


def test_names_are_worked_out_once_for_all_plans_but_the_first(
    full_cluster: Round, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    named: list[Candidate] = []

    def noted(round_: Round, hosts: Any, candidate: Candidate) -> dict[int, tuple[int, ...]]:
        named.append(candidate)
        return displacers(round_, hosts, candidate)

    monkeypatch.setattr("placewright.rounds.decisions.displacers", noted)
    solve_round(full_cluster, isolation="none")
    assert len(named) <= 2


@pytest.fixture
def errs_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """After its first plan the formulation yields one that starts all jobs on the same GPUs."""
    runs = 0
    honest = run.run

    def errs(problem: Any, session: Any) -> Iterator[Candidate | Bound]:
        nonlocal runs
        runs += 1
        is_first = True
        for step in honest(problem, session):
            yield step
            if is_first and isinstance(step, Candidate):
                is_first = False
                _, places = next(iter(step.starts.values()))
                one = dict.fromkeys(range(len(problem.round.jobs)), (0, places[:1]))
                yield replace(step, starts=one, source="planted")

    monkeypatch.setattr(run, "run", errs)
    return lambda: runs


def test_a_plan_that_breaks_a_rule_has_the_round_decided_again(
    full_cluster: Round, errs_once: Callable[[], int], model: str
) -> None:
    plan = solve_round(full_cluster, isolation="none")
    assert verify(full_cluster, plan).ok
    assert plan.certificate is not None
    assert [term.value for term in plan.certificate.terms] == [7000, 2]
    assert errs_once() == 2
    assert any("planted: invalid plan" in line for line in plan.certificate.degraded)


def test_the_digest_of_a_round_is_worked_out_once(
    full_cluster: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_ = full_cluster.model_copy()
    plan = solve_round(round_, isolation="none")
    monkeypatch.setattr(digest, "_text", None)  # what a digest is made of
    assert plan.round == digest.round_digest(round_)
    assert verify(round_, plan).ok
    monkeypatch.undo()
    other = round_.model_copy(update={"name": "other"})
    assert digest.round_digest(other) != plan.round
