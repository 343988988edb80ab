"""Stages: the moves that a start waits for, and no others."""

from __future__ import annotations

from typing import Any

from placewright.explain.move_curve import Stage, stages_of
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify
from placewright.rounds.sections.moves import move_section


def job(name: str, gpus: int, host: str | None = None, *held: int, **fields: Any) -> dict[str, Any]:
    """Return a job; it runs if a host is given."""
    made = {"name": name, "options": [{"groups": [{"gpu": gpus}]}], **fields}
    if host is not None:
        made["running"] = {"option": 0, "tasks": [{"host": host, "gpus": list(held)}]}
    return made


def round_of(jobs: list[dict[str, Any]], hosts: int = 3, **fields: Any) -> Round:
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "name": "stages",
            "cluster": {"hosts": [{"name": f"h[0-{hosts - 1}]", "gpus": 2, "gpu_model": "X"}]},
            "jobs": jobs,
            **fields,
        }
    )


def plan_of(round_: Round, *decided: tuple[str, str, list[int]] | str) -> Plan:
    """Return a plan that keeps (`keep`), stops (`stop`) or leaves waiting (`wait`), or places."""
    decisions: list[dict[str, Any]] = []
    for one, what in zip(round_.jobs, decided, strict=True):
        if what == "keep" and one.running is not None:
            tasks = [{"host": t.host, "gpus": t.gpus} for t in one.running.tasks]
            decisions.append({"job": one.name, "decision": "keep", "option": 0, "tasks": tasks})
        elif isinstance(what, str):
            kind = {"stop": "preempt", "wait": "wait"}[what]
            by = {"displaced_by": ["high"]} if what == "stop" else {}
            decisions.append({"job": one.name, "decision": kind, **by})
        else:
            kind, host, gpus = what
            tasks = [{"host": host, "gpus": gpus}]
            decisions.append({"job": one.name, "decision": kind, "option": 0, "tasks": tasks})
    raw = {"apiVersion": "placewright/v1alpha2", "kind": "Plan", "decisions": decisions}
    bare = Plan.model_validate(raw)
    section = move_section(round_, bare.decisions)
    plan = bare.model_copy(update={"sections": (section,)})
    assert verify(round_, plan).ok, verify(round_, plan).violations
    return plan


def test_a_start_waits_for_a_chain_of_moves_and_another_for_none():
    round_ = round_of(
        [
            job("a", 2, "h0", 0, 1),
            job("b", 1, "h1", 0),
            job("chain", 2),
            job("free", 1),
        ]
    )
    plan = plan_of(
        round_,
        ("migrate", "h1", [0, 1]),
        ("migrate", "h2", [0]),
        ("start", "h0", [0, 1]),
        ("start", "h2", [1]),
    )
    assert stages_of(round_, plan) == (Stage((), (3,)), Stage((1, 0), (2,)))


def test_jobs_that_change_places_move_together():
    round_ = round_of(
        [job("a", 2, "h0", 0, 1), job("b", 1, "h1", 0), job("start", 1)],
        hosts=2,
    )
    plan = plan_of(round_, ("migrate", "h1", [0, 1]), ("migrate", "h0", [0]), ("start", "h0", [1]))
    (stage,) = stages_of(round_, plan)
    assert (set(stage.moves), stage.starts) == ({0, 1}, (2,))


def test_a_start_that_needs_quota_waits_for_who_gives_it_back():
    jobs = [
        job("low", 2, "h0", 0, 1, tenant="t"),
        job("high", 2, tenant="t", priority=1),
    ]
    round_ = round_of(jobs, tenants=[{"name": "t", "quota": {"gpu": 2}}])
    plan = plan_of(round_, "stop", ("start", "h1", [0, 1]))
    assert stages_of(round_, plan) == (Stage((0,), (1,)),)


def test_what_brings_more_for_each_move_comes_first():
    round_ = round_of(
        [
            job("a", 1, "h0", 0),
            job("b", 1, "h1", 0),
            job("small", 1, weight=1),
            job("large", 2, weight=1),
        ],
        hosts=4,
    )
    plan = plan_of(
        round_,
        ("migrate", "h2", [0]),
        ("migrate", "h2", [1]),
        ("start", "h0", [0]),
        ("start", "h1", [0, 1]),
    )
    assert stages_of(round_, plan) == (Stage((1,), (3,)), Stage((0,), (2,)))


def test_moves_that_no_start_waits_for_come_last():
    round_ = round_of([job("a", 1, "h0", 0), job("b", 1, "h1", 0), job("w", 2)], hosts=3)
    plan = plan_of(round_, ("migrate", "h2", [0]), ("migrate", "h2", [1]), ("start", "h0", [0, 1]))
    assert stages_of(round_, plan) == (Stage((0,), (2,)), Stage((1,), ()))


def test_a_budget_passes_over_what_takes_more_moves_for_what_takes_fewer():
    round_ = round_of(
        [
            job("a", 2, "h0", 0, 1),
            job("b", 1, "h1", 0),
            job("c", 1, "h3", 0),
            job("large", 2, weight=9),
            job("small", 2),
        ],
        hosts=5,
    )
    plan = plan_of(
        round_,
        ("migrate", "h1", [0, 1]),
        ("migrate", "h2", [0]),
        ("migrate", "h4", [0]),
        ("start", "h0", [0, 1]),
        ("start", "h3", [0, 1]),
    )
    large, small = Stage((1, 0), (3,)), Stage((2,), (4,))
    assert stages_of(round_, plan) == (large, small)
    assert stages_of(round_, plan, 2) == (large,)
    assert stages_of(round_, plan, 1) == (small,)
    assert stages_of(round_, plan, 0) == ()
