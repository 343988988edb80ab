"""Jobs that wait for reservations, and the run time with which they would not."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from examples import by_day, examples
from fuzz.explanations import reservations
from fuzz.explanations.samples import RESERVED, waiting
from placewright import explain_job, load_round, solve_round
from placewright.explain import job_corrections
from placewright.explain.explanation import Explanation, HeldBy, Verdict
from placewright.explain.kinds import explain_all
from placewright.instances.documents.plan import DecisionKind, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.report.verdicts import verdict_text

LIBRARY = Path(__file__).parents[2] / "instances" / "library"
NOW, HOUR = 100_000, 3600


def job(name: str, gpu: int, hours: float | None, count: int = 1, **more: Any) -> dict[str, Any]:
    runtime = None if hours is None else int(hours * HOUR)
    groups = [{"count": count, "gpu": gpu}]
    return {"name": name, "expected_runtime_s": runtime, "options": [{"groups": groups}], **more}


def queue(depth: int | str, *behind: Mapping[str, Any]) -> Round:
    """Three hosts, of which two are taken for two hours, and a gang of three before some jobs."""
    tasks = [{"index": i, "host": f"h{i}", "gpus": [*range(8)]} for i in (0, 1)]
    runs = {"started": NOW, "pinned": True, "tasks": tasks}
    jobs = [
        job("runs", 8, 2, count=2, running=runs),
        job("gang", 8, 1, count=3, submitted=NOW - 10),
        *behind,
    ]
    hosts = [{"name": f"h{i}", "gpus": 8, "gpu_model": "A"} for i in range(3)]
    policy = {"terms": ["value"], "backfill": {"depth": depth}}
    return Round.model_validate(
        {"now": NOW, "cluster": {"hosts": hosts}, "jobs": jobs, "policy": policy}
    )


def planned(round_: Round) -> Plan:
    return solve_round(round_, time_limit=5, isolation="none")


def explained(round_: Round, name: str, plan: Plan | None = None) -> Explanation:
    plan = planned(round_) if plan is None else plan
    return explain_job(round_, plan, name, corrections=6, isolation="none")


def starts(round_: Round, name: str, seconds: int) -> bool:
    """Whether the plan of a round starts a job once that has a run time."""
    jobs = tuple(
        one.model_copy(update={"expected_runtime_s": seconds}) if one.name == name else one
        for one in round_.jobs
    )
    decisions = planned(round_.model_copy(update={"jobs": jobs})).decisions
    return any(d.job == name and d.decision is DecisionKind.START for d in decisions)


@pytest.mark.parametrize(("depth", "hours"), [*product((1, 2, "all"), (24, None))])
def test_a_job_behind_a_gang_is_told_whom_it_waits_for_and_for_how_long_it_may_run(
    depth: int | str, hours: float | None
) -> None:
    round_ = queue(depth, job("long", 8, hours, submitted=NOW - 5))
    plan = planned(round_)
    (reason,) = (one.reason for one in plan.decisions if one.job == "long")
    assert reason is (Reason.HELD_FOR_RESERVATION if depth == 1 else Reason.RESERVED)
    found = explained(round_, "long", plan)
    assert found.verdict is Verdict.HELD_FOR_RESERVATION
    assert found.held_by == HeldBy("gang", NOW + 2 * HOUR, NOW + 3 * HOUR)
    assert verdict_text(found, beside=True) == (
        "could start, but would delay the reservation of job gang, from 2h00 to 3h00 from now"
    )
    assert found.corrections is not None
    (one,) = found.corrections.now
    assert one.text == "ask for a run time of at most 2h00"
    assert (one.minimal, one.beside_plan) == (True, True)
    edited = apply_edits(round_, one.edits)
    assert edited.jobs[-1].expected_runtime_s == 2 * HOUR
    assert starts(round_, "long", 2 * HOUR)
    assert not starts(round_, "long", 2 * HOUR + 1)


def test_the_gang_itself_waits_for_what_runs_and_nothing_shorter_helps_it() -> None:
    round_ = queue(2, job("long", 8, 24, submitted=NOW - 5))
    found = explained(round_, "gang")
    assert (found.verdict, found.held_by) == (Verdict.NOT_NOW, None)
    assert found.corrections is not None
    assert "wait 2h00 until job runs has ended" in {one.text for one in found.corrections.now}
    assert all(p.kind != "runtime" for one in found.corrections.now for p in one.parts)


def test_corrections_say_whether_they_suffice_beside_reservations() -> None:
    round_ = queue(1, *(job(f"{h}h", 8, h, submitted=NOW - 5, held=True) for h in (1, 24)))
    plan = planned(round_)
    for name, is_beside in (("1h", True), ("24h", False)):
        corrections = explained(round_, name, plan).corrections
        assert corrections is not None
        told = {one.text: one.beside_plan for one in corrections.now}
        assert told["resume it"] is is_beside


def test_without_a_plan_a_job_meets_the_reservations_that_any_plan_begins_with() -> None:
    behind = [job(f"{h}h", 8, h, submitted=NOW - 5) for h in (1, 24, 2)]
    round_ = queue("all", *behind)
    said = {
        name: verdict_text(explain_job(round_, None, name, isolation="none"), beside=False)
        for name in ("1h", "24h", "2h")
    }
    assert said == {
        "1h": "could start now",
        "24h": "could start, but would delay the reservation of job gang, from 2h00 to 3h00 "
        "from now",
        "2h": "could start now, but for jobs before it in the queue",
    }
    alone = queue("all", behind[1])
    found = explain_job(alone, None, "24h", corrections=6, isolation="none").corrections
    assert found is not None
    (one,) = found.now
    assert one.text == "ask for a run time of at most 2h00"


def test_jobs_that_wait_for_reservations_are_one_kind_for_each() -> None:
    behind = [job("long", 8, 24, submitted=NOW - 5), job("longer", 8, 48, submitted=NOW - 4)]
    round_ = queue("all", *behind)
    kinds = explain_all(round_, planned(round_), isolation="none")
    held = {k.jobs: k.explanation.held_by for k in kinds if k.explanation.held_by is not None}
    assert {names: by.job for names, by in held.items() if by} == {("long", "longer"): "gang"}


def test_what_a_plan_of_the_edited_round_does_not_do_is_not_proposed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    round_ = queue(1, job("long", 8, 24, submitted=NOW - 5))
    plan = planned(round_)
    nothing = plan.model_copy(update={"decisions": ()})
    monkeypatch.setattr(job_corrections, "solve_round", lambda *_, **__: nothing)
    corrections = explained(round_, "long", plan).corrections
    assert corrections is not None
    assert (corrections.now, corrections.left_out) == ((), ())


def test_maintenance_leaves_time_for_a_shorter_job() -> None:
    round_ = load_round(LIBRARY / "maintenance.yaml")
    found = explain_job(round_, None, "long", corrections=6, isolation="none").corrections
    assert found is not None
    (one,) = (one for one in found.now if one.parts[0].kind == "runtime")
    (edit,) = one.edits.edits
    assert edit.job is not None
    seconds = edit.job["long"].expected_runtime_s
    assert seconds is not None
    assert starts(round_, "long", seconds)
    assert not starts(round_, "long", seconds + 1)


def test_verdicts_and_run_times_are_those_of_the_rule_book() -> None:
    held, wrong = 0, list[str]()
    seeds = (6, 35, 40, 64, 72, 78, 92, 101, 112, 134, 138, 140, 155, 202, 206)
    for sample in waiting(RESERVED, by_day(seeds, 6)):
        assert sample.plan is not None
        (reason,) = (one.reason for one in sample.plan.decisions if one.job == sample.job)
        if reason in (Reason.RESERVED, Reason.HELD_FOR_RESERVATION):
            found = sample.explained(corrections=6)
            held += found.verdict is Verdict.HELD_FOR_RESERVATION
            wrong += [f"{sample.job}: {fault}" for fault in reservations.faults(found, sample)]
    assert wrong == []
    assert held > examples(day=3, nightly=10)
