"""Caps in whole rounds: the bundled one by all subsets of its jobs, and rounds that follow."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from placewright import Changes, Engine, load_round, solve_round
from placewright.instances.documents.base import API_VERSION
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify

LIBRARY = Path(__file__).parents[2] / "instances" / "library"
BACKENDS = ("highs", "cp-sat", "cbc", "scip")


def chosen(plan: Plan) -> dict[str, int]:
    """The option of each job that starts."""
    return {d.job: d.option or 0 for d in plan.decisions if d.decision is DecisionKind.START}


def within(round_: Round, options: dict[str, int]) -> bool:
    """Whether running jobs and these keep within GPUs of each model and within all caps."""
    held: dict[tuple[str, str], int] = {}
    for job in round_.jobs:
        number = options.get(job.name) if job.running is None else job.running.option
        if number is None:
            continue
        (group,) = job.options[number].groups
        (model,) = group.gpu_models or ()
        for owner in ("cluster", *job.caps):
            for what, amount in (("gpus", group.gpu), (model, group.gpu), ("jobs", 1)):
                held[owner, what] = held.get((owner, what), 0) + amount
    limits = {("cluster", model): 16_000 for model in ("H100", "A100")}
    for name, cap in round_.caps.items():
        limits |= {(name, m.name or m.kind): most for m, most in cap.limits.items()}
    return all(held.get(key, 0) <= most for key, most in limits.items())


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_bundled_round_has_the_answer_that_its_comments_state(backend: str) -> None:
    round_ = load_round(LIBRARY / "caps.yaml")
    waiting = [job for job in round_.jobs if job.running is None]
    ways = [
        {job.name: o for job, o in zip(waiting, numbers, strict=True) if o is not None}
        for numbers in product(*([None, *range(len(job.options))] for job in waiting))
    ]
    worth = {
        sum(job.value_of(way[job.name]) for job in waiting if job.name in way): way
        for way in ways
        if within(round_, way)
    }
    best = {"lab-2": 0, "lab-3": 0, "rush": 1}
    assert (max(worth), worth[max(worth)]) == (18_000, best)
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert chosen(plan) == best
    assert plan.certificate is not None
    assert [(t.value, t.bound) for t in plan.certificate.terms] == [(18_000, 18_000), (0, 0)]
    (waits,) = [d for d in plan.decisions if d.decision is DecisionKind.WAIT]
    assert (waits.reason, waits.detail and waits.detail.cap) == ("quota", "lab")


def job(name: str, *, at: int | None = None, **more: Any) -> dict[str, Any]:
    running = {} if at is None else {"running": {"tasks": [{"host": "h", "gpus": [at]}]}}
    return {"name": name, "caps": ["c"], "options": [{"groups": [{"gpu": 1}]}], **running, **more}


def round_of(cap: dict[str, Any], *jobs: dict[str, Any]) -> Round:
    return parse_round(
        {
            "apiVersion": API_VERSION,
            "kind": "Round",
            "cluster": {"hosts": [{"name": "h", "gpus": 8, "gpu_model": "H100"}]},
            "caps": {"c": cap},
            "jobs": list(jobs),
        }
    )


@pytest.mark.parametrize(("most", "rules"), [(3, {"cap"}), (4, set())])
def test_a_cap_counts_every_task_of_a_group(most: int, rules: set[str]) -> None:
    gang = job("g", options=[{"groups": [{"gpu": 2, "count": 2}]}])
    tasks = [{"index": i, "host": "h", "gpus": [2 * i, 2 * i + 1]} for i in range(2)]
    start = {"job": "g", "decision": "start", "option": 0, "tasks": tasks}
    found = verify(round_of({"gpus": most}, gang), Plan.model_validate({"decisions": [start]}))
    assert {violation.rule for violation in found.violations} == rules


def test_a_cap_that_running_jobs_exceed_stops_nobody_and_starts_nobody() -> None:
    runs = [job(f"r{i}", at=i) for i in range(3)]
    plan = solve_round(round_of({"jobs": 1}, *runs, job("w")), isolation="none")
    assert {d.job: str(d.decision) for d in plan.decisions} == {
        "r0": "keep",
        "r1": "keep",
        "r2": "keep",
        "w": "wait",
    }


def test_what_a_preempted_job_gives_back_of_a_cap_is_for_higher_jobs_alone() -> None:
    runs = job("low", at=0)
    same = solve_round(round_of({"jobs": 1}, runs, job("w", weight=9)), isolation="none")
    assert chosen(same) == {}
    above = round_of({"jobs": 1}, runs, job("w", priority=1, weight=2))
    higher = solve_round(above, isolation="none")
    assert chosen(higher) == {"w": 0}
    (victim,) = [d for d in higher.decisions if d.decision is DecisionKind.PREEMPT]
    assert victim.displaced_by == ("w",)


def test_an_engine_knows_new_caps() -> None:
    with Engine(round_of({"jobs": 1}, *(job(f"w{i}") for i in range(3))), time_limit=9) as engine:
        assert len(chosen(engine.round(Changes()))) == 1
        assert len(chosen(engine.round(Changes(caps={"c": {"jobs": 2}})))) == 1
        new = Job.model_validate(job("new", caps=["d"]))
        plan = engine.round(Changes(caps={"d": {"gpus": 0}}, added=[new]))
        assert chosen(plan) == {}
