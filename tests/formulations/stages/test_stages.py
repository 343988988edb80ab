"""Rounds with stages: known answers, all schedules of tiny rounds, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from placewright import (
    Changes,
    Engine,
    InvalidInputError,
    Plan,
    Round,
    load_round,
    solve_round,
    verify,
)
from placewright.formulations.stages.heuristics.list_schedules import list_schedules
from placewright.formulations.stages.problem import compile_stages
from placewright.rounds import prove_bounds
from tests.formulations.stages.oracle import Tiny, draw, optima, written
from tests.support.examples import tried

LIBRARY = Path(__file__).parents[3] / "instances" / "library"
GRAHAM = (3, 2, 2, 2, 4, 4, 4, 4, 9)


def job(name: str, seconds: object, after: Sequence[str] = (), **asked: Any) -> Mapping[str, Any]:
    group = {"gpu": 1, **asked}
    return {
        "name": name,
        "options": [{"groups": [group]}],
        "stage": {"task_s": seconds, "after": list(after)},
    }


def round_of(jobs: Sequence[Mapping[str, Any]], gpus: int, **policy: Any) -> Round:
    hosts = [
        {"name": "gpu", "gpus": gpus, "gpu_model": "A100"},
        {"name": "cpu", "gpus": 0, "cpu": 64},
    ]
    return Round.of({"hosts": hosts}, jobs, policy={"formulation": "stages", **policy})


def solved(round_: Round) -> tuple[Plan, Mapping[str, int]]:
    plan = solve_round(round_, isolation="none")
    checked = verify(round_, plan)
    assert checked.ok, checked.violations
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    return plan, checked.terms


@pytest.mark.parametrize(("machines", "less", "makespan"), [(3, 0, 12), (4, 0, 12), (3, 1, 10)])
def test_grahams_anomalies_are_avoided(machines: int, less: int, makespan: int) -> None:
    after = {8: ["t0"], 4: ["t3"], 5: ["t3"], 6: ["t3"], 7: ["t3"]}
    jobs = [job(f"t{i}", p - less, after.get(i, ())) for i, p in enumerate(GRAHAM)]
    plan, terms = solved(round_of(jobs, machines))
    assert terms["makespan"] == makespan
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"


def test_metrics_on_cpus_let_the_gpu_go() -> None:
    gpu, tail = (5, 3, 4, 2, 6), (10, 1, 7, 0, 3)
    jobs = [job(f"e{i}", seconds) for i, seconds in enumerate(gpu)]
    jobs += [job(f"m{i}", t, [f"e{i}"], gpu=0, cpu=1) for i, t in enumerate(tail) if t]
    assert solved(round_of(jobs, 1))[1]["makespan"] == 20
    held = [job(f"e{i}", a + b) for i, (a, b) in enumerate(zip(gpu, tail, strict=True))]
    assert solved(round_of(held, 1))[1]["makespan"] == 41


@pytest.mark.parametrize("seed", range(tried(1000)))
def test_tiny_rounds_against_all_schedules(seed: int) -> None:
    rng = Random(seed)
    jobs: list[Tiny] = draw(rng)
    first = rng.choice(["makespan", "completion"])
    round_ = written(jobs, terms=[first, "spread"])
    plan, terms = solved(round_)
    best = optima(jobs)
    assert terms[first] == best[first]
    assert plan.certificate is not None
    for term in plan.certificate.terms:
        assert term.bound is not None
        assert term.bound <= best.get(term.name, 0)


def test_tasks_of_no_gang_run_any_number_at_a_time() -> None:
    spread = {
        "name": "map",
        "options": [{"groups": [{"gpu": 1, "count": 5}]}],
        "stage": {"task_s": 4, "gang": False},
    }
    plan, terms = solved(round_of([spread, job("reduce", 3, ["map"], count=2)], 2))
    assert terms["makespan"] == 15
    section = plan.sections[0]["jobs"]
    assert section[0] == {
        "job": "map",
        "option": 0,
        "start": 0,
        "end": 12,
        "tasks": 2,
        "waves": [[0, 2], [4, 2], [8, 1]],
    } or section[0]["waves"] == ((0, 2), (4, 2), (8, 1))
    assert len(plan.decisions[0].tasks) == 2
    assert (plan.decisions[1].reason, plan.decisions[1].detail.at) == ("later", 12)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([job("a", 1, ["b"]), job("b", 1, ["a"])], "a cycle: a, b"),
        ([job("a", 1, ["b"])], "'b': unknown job; expected a"),
        ([job("a", 1, count=3)], "never fits: 2 of 3 tasks have a place"),
        ([{"name": "a", "options": [{"groups": [{"gpu": 1}]}]}], "missing; expected how long"),
        ([job("a", "1h")], r"^jobs\[0\].stage.task_s: '1h': expected an integer$"),
        ([job("a", [0])], r"^jobs\[0\].stage.task_s\[0\]: 0: expected at least 1$"),
    ],
)
def test_what_can_never_run_is_one_clear_error(jobs: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        solve_round(round_of(jobs, 2))


@pytest.mark.parametrize(("name", "makespan"), [("graham", 12), ("acme-evaluation", 1200)])
def test_bundled_rounds_have_their_answers(name: str, makespan: int) -> None:
    plan, terms = solved(load_round(LIBRARY / f"{name}.yaml"))
    assert terms["makespan"] == makespan
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"


def test_waves_are_jobs_of_their_own_in_the_rounds_of_an_engine() -> None:
    spread = {
        "name": "map",
        "options": [{"groups": [{"gpu": 1, "count": 5}]}],
        "stage": {"task_s": 4, "gang": False},
    }
    round_ = round_of([spread, job("reduce", 3, ["map"], count=2)], 2)
    with Engine(round_, isolation="none", time_limit=5) as engine:
        engine.round()
        for now, done in ((4, "map@0"), (8, "map@4"), (12, "map")):
            plan = engine.round(Changes(now=now, removed=[done]))
    assert [(d.job, d.decision.value) for d in plan.decisions] == [("reduce", "start")]
    again = solve_round(round_, isolation="none", start=solve_round(round_, isolation="none"))
    assert again.certificate is not None
    assert again.certificate.terms[0].value == 15


def test_bounds_are_proven_of_a_plan_that_is_given() -> None:
    round_ = load_round(LIBRARY / "graham.yaml")
    (proven,) = prove_bounds(round_, solve_round(round_, isolation="none"), isolation="none")
    assert proven.bound == 12


def test_the_first_list_suits_the_first_term() -> None:
    # As many GPUs as chains, and one long chain: in any other order it begins too late.
    jobs = [job(f"s{i}", 2) for i in range(6)] + [job("long", 2), job("tail", 9, ["long"])]
    for term, best in (("makespan", 11), ("completion", 2 * 3 + 4 * 3 + 15)):
        round_ = round_of(jobs, 3, terms=[term])
        problem = compile_stages(round_)
        assert problem.values(next(list_schedules(problem)))[term] == best
