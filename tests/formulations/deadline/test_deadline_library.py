"""The bundled rounds of deadline admission have the answers that their comments state."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from placewright import Plan, Round, load_round, solve_round, verify
from placewright.formulations.deadline.problem.compile import compile_admission
from placewright.instances import verify as verification
from placewright.instances.documents.plan import DecisionKind
from tests.formulations.deadline import oracle

LIBRARY = Path(verification.__file__).parents[1] / "library"
TINY = (
    *("deadline-falling", "deadline-gangs", "deadline-rising", "elasticflow"),
    *("chronus-best-effort", "chronus-lost-host", "chronus-maintenance", "chronus-soft"),
)
NAMES = (*TINY, "chronus")


@cache
def load(name: str) -> Round:
    return load_round(LIBRARY / f"{name}.yaml")


@cache
def solved(name: str) -> Plan:
    return solve_round(load(name))


def stated(name: str) -> dict[str, int]:
    """The terms of the answer that a comment states."""
    text = (LIBRARY / f"{name}.yaml").read_text(encoding="utf-8")
    answer = re.findall(r"^# Answer: (.+)$", text, flags=re.MULTILINE)[0]
    return {term: int(value) for term, value in (part.split() for part in answer.split(", "))}


def leases_of(name: str) -> dict[str, Any]:
    (section,) = [s for s in solved(name).sections if s["kind"] == "leases"]
    return section


def promises(name: str) -> dict[str, tuple[int, int]]:
    return {
        entry["job"]: (entry["option"], entry["promise"]["at"]) for entry in leases_of(name)["jobs"]
    }


def decisions(name: str) -> dict[str, DecisionKind]:
    return {decision.job: decision.decision for decision in solved(name).decisions}


@pytest.mark.parametrize("name", TINY)
def test_no_promises_are_worth_more_than_the_stated_answer(name: str) -> None:
    best = oracle.best(compile_admission(load(name)).problem)
    answer = stated(name)
    assert (best.broken, best.admitted) == (answer["broken"], answer["admitted"])


@pytest.mark.parametrize("name", NAMES)
def test_the_stated_answer_is_reached_and_proven(name: str) -> None:
    plan = solved(name)
    checked = verify(load(name), plan)
    assert checked.ok, checked.violations
    assert load(name).policy.terms == tuple(stated(name))
    assert checked.terms == stated(name)
    assert plan.certificate is not None
    bounds = {term.name: term.bound for term in plan.certificate.terms}
    assert bounds["broken"] == stated(name)["broken"]
    assert bounds["admitted"] == stated(name)["admitted"]


@pytest.mark.parametrize(
    ("name", "finish", "leases"),
    [("deadline-rising", 6000, [[2, 5]]), ("deadline-gangs", 3600, [[1, 3]])],
)
def test_a_refused_job_is_offered_the_earliest_end_that_can_be_kept(
    name: str, finish: int, leases: list[list[int]]
) -> None:
    (refused,) = leases_of(name)["refused"]
    assert refused["offer"] == {"option": 0, "at": finish, "leases": leases}


def test_soft_deadlines_are_missed_where_that_costs_least() -> None:
    assert promises("chronus-soft") == {"strict": (0, 2400), "short": (0, 4800), "long": (0, 8400)}


def test_a_lost_host_breaks_the_promise_that_costs_least_and_names_it() -> None:
    name = "chronus-lost-host"
    assert promises(name) == {"train": (0, 4800), "tune": (0, 9600)}
    assert leases_of(name)["broken"] == [{"job": "tune", "promise": {"at": 4800, "value": 10}}]
    assert decisions(name)["train"] is DecisionKind.KEEP
    (refused,) = leases_of(name)["refused"]
    assert refused["job"] == "new"
    assert refused["offer"] == {"option": 0, "at": 12_000, "leases": [[8, 10]]}


def test_maintenance_is_planned_around() -> None:
    taken = {entry["job"]: entry["leases"] for entry in leases_of("chronus-maintenance")["jobs"]}
    assert taken == {"gang": [[0, 1], [5, 6]], "early": [[1, 3]], "late": [[3, 5]]}


def test_best_effort_runs_where_a_promise_can_wait() -> None:
    started = decisions("chronus-best-effort")
    assert [job for job, kind in started.items() if kind is DecisionKind.START] == [
        "urgent",
        "single-1",
        "single-2",
    ]


def test_elastic_jobs_take_the_gpus_that_their_deadlines_need() -> None:
    assert promises("elasticflow") == {"rush": (2, 1200), "hurry": (1, 3600), "steady": (0, 3600)}
    alone = load("elasticflow").model_dump(mode="json")
    for job in alone["jobs"]:
        job["options"], job["deadline"]["paces"] = job["options"][:1], job["deadline"]["paces"][:1]
    plan = solve_round(Round.model_validate(alone))
    assert verify(Round.model_validate(alone), plan).terms["admitted"] == 1


def test_two_minutes_with_leases() -> None:
    assert promises("chronus") == {
        "pretrain": (0, 14_400),
        "finetune": (0, 7200),
        "distill": (0, 14_400),
        "audit": (0, 10_800),
    }
    assert [entry["job"] for entry in leases_of("chronus")["refused"]] == ["rush"]
    assert decisions("chronus")["night"] is DecisionKind.START


def test_without_time_bounds_are_what_each_job_could_have_alone() -> None:
    plan = solve_round(load("chronus-lost-host"), time_limit=0.0)
    assert verify(load("chronus-lost-host"), plan).ok
    assert plan.certificate is not None
    bounds = {term.name: (term.bound, term.certified) for term in plan.certificate.terms}
    assert bounds["broken"][0] is not None
    assert bounds["admitted"][0] is not None
    assert bounds["admitted"][0] <= 27


def test_who_is_not_ready_is_no_part_of_what_the_current_lease_could_do() -> None:
    round_ = load("chronus-best-effort").model_dump(mode="json")
    for job in round_["jobs"]:
        job["deadline"]["ready"] = 1
    plan = solve_round(Round.model_validate(round_))
    assert plan.certificate is not None
    terms = {term.name: (term.value, term.bound) for term in plan.certificate.terms}
    assert (terms["best_effort"], terms["early"]) == ((0, 0), (0, 0))
