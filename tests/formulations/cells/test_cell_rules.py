"""A plan for a round with cells is valid; each single corruption breaks the rules named."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.instances.verify.rules.cells import RULES_OF_CELLS, RULES_OF_REASONS_OF_CELLS
from placewright.rounds import solve_round

Raw = dict[str, Any]


def job(name: str, tenant: str | None, *at: str, count: int = 1, **more: Any) -> Raw:
    """A job of whole hosts of two GPUs; it runs if there are hosts `at`."""
    raw: Raw = {"name": name, "tenant": tenant, **more}
    raw["options"] = [{"groups": [{"gpu": 2, "count": len(at) or count}]}]
    if at:
        tasks = [{"index": i, "host": host, "gpus": [0, 1]} for i, host in enumerate(at)]
        raw["running"] = {"tasks": tasks}
    return raw


HOST = {"gpus": 2, "gpu_model": "A100"}
ROUND = Round.model_validate(
    {
        "cluster": {
            "levels": ["rack"],
            "domains": [{"name": rack, "level": "rack"} for rack in ("r0", "r1", "r2", "r3")],
            "hosts": [
                {**HOST, "name": "a[0-1]", "parent": "r0"},
                {**HOST, "name": "b[0-1]", "parent": "r1"},
                {**HOST, "name": "c[0-1]", "parent": "r2"},
                {**HOST, "name": "d0", "parent": "r3"},
                {**HOST, "name": "d1", "parent": "r3", "healthy": False},
                {"name": "e0", "parent": "r3", "gpus": 4, "gpu_model": "H100"},
            ],
        },
        "tenants": [
            {
                "name": "red",
                "cells": [
                    {"level": "rack", "gpu_model": "A100", "count": 2},
                    {"level": "host", "gpu_model": "A100"},
                ],
            },
            {"name": "blue", "cells": [{"level": "host", "gpu_model": "A100", "count": 2}]},
            {"name": "green"},
        ],
        "bindings": [
            {"tenant": "red", "cell": 0, "domain": "r0"},
            {"tenant": "blue", "cell": 0, "domain": "c0"},
        ],
        "jobs": [
            job("old", "red", "a0"),
            job("kept", "blue", "c0"),
            job("taker", "blue"),
            job("more", "blue"),
            job("guest", "green", "c1", priority=9),
            job("any", None, priority=1, opportunistic=True),
        ],
    }
)
OLD, KEPT, TAKER, MORE, GUEST, ANY = range(6)
PLAN: Raw = {
    "decisions": [
        {"job": "old", "decision": "keep", "option": 0, "tasks": [{"host": "a0", "gpus": [0, 1]}]},
        {"job": "kept", "decision": "keep", "option": 0, "tasks": [{"host": "c0", "gpus": [0, 1]}]},
        {
            "job": "taker",
            "decision": "start",
            "option": 0,
            "tasks": [{"host": "d0", "gpus": [0, 1]}],
        },
        {"job": "more", "decision": "wait", "reason": "quota"},
        {
            "job": "guest",
            "decision": "keep",
            "option": 0,
            "tasks": [{"host": "c1", "gpus": [0, 1]}],
        },
        {"job": "any", "decision": "start", "option": 0, "tasks": [{"host": "a1", "gpus": [0, 1]}]},
    ],
    "sections": [
        {
            "kind": "cells",
            "bindings": [
                {"tenant": "red", "cell": 0, "level": "rack", "domain": "r0", "jobs": ["old"]},
                {"tenant": "blue", "cell": 0, "level": "host", "domain": "c0", "jobs": ["kept"]},
                {"tenant": "blue", "cell": 0, "level": "host", "domain": "d0", "jobs": ["taker"]},
            ],
        }
    ],
}


def place(raw: Raw, job: int, host: str) -> None:
    raw["decisions"][job]["tasks"][0]["host"] = host


def bindings(raw: Raw) -> list[Raw]:
    return raw["sections"][0]["bindings"]


def start(raw: Raw, job: int, host: str) -> None:
    raw["decisions"][job] = {
        "job": ROUND.jobs[job].name,
        "decision": "start",
        "option": 0,
        "tasks": [{"host": host, "gpus": [0, 1]}],
    }


def wait(raw: Raw, job: int) -> None:
    raw["decisions"][job] = {"job": ROUND.jobs[job].name, "decision": "wait"}


def taker_takes(host: str, level: str = "host", domain: str | None = None, cell: int = 0) -> Any:
    def edit(raw: Raw) -> None:
        place(raw, TAKER, host)
        bindings(raw)[2].update(domain=domain or host, level=level, cell=cell)

    return edit


def evict_guest(raw: Raw) -> None:
    taker_takes("c1")(raw)
    raw["decisions"][GUEST] = {"job": "guest", "decision": "preempt", "displaced_by": "taker"}
    raw["sections"].append({"kind": "moves", "steps": ["guest"], "needs_spare": []})


def one_more(raw: Raw) -> None:
    start(raw, MORE, "b0")
    bindings(raw).append(
        {"tenant": "blue", "cell": 0, "level": "host", "domain": "b0", "jobs": ["more"]}
    )


def taker_waits(raw: Raw) -> None:
    wait(raw, TAKER)
    raw["decisions"][MORE].pop("reason")
    bindings(raw).pop()


def more_waits(reason: str, **detail: Any) -> Any:
    """More waits, as each of the two cells of its tenant is in use by a job as large."""

    def edit(raw: Raw) -> None:
        raw["decisions"][MORE]["reason"] = reason
        if detail:
            raw["decisions"][MORE]["detail"] = detail

    return edit


QUOTA = {"tenant": "blue", "cells": 0, "resource": "gpu"}
QUOTA |= {"asked": 2, "used": 4, "limit": 4, "excess": 2}
NO_REASONS = {
    name: (more_waits(reason, **detail), {"cell_reason"}, "decisions[3].reason")
    for name, reason, detail in (
        ("never_fits of a job that fits", "never_fits", {}),
        ("capacity where the quota lacks", "capacity", {}),
        ("a guaranteed job that was not chosen", "not_chosen", {}),
        ("a guaranteed job displaced by priority", "displaced_by_priority", {}),
        ("cells not in use", "quota", {**QUOTA, "cells": 1}),
        ("other cells", "quota", {**QUOTA, "tenant": "red"}),
        ("GPUs that are not used", "quota", {**QUOTA, "used": 5, "excess": 3}),
        ("more GPUs than there are", "quota", {**QUOTA, "limit": 5, "excess": 1}),
    )
}


def any_displaces_guest(raw: Raw) -> None:
    place(raw, ANY, "c1")
    raw["decisions"][GUEST] = {"job": "guest", "decision": "preempt", "displaced_by": "any"}
    raw["sections"].append({"kind": "moves", "steps": ["guest"], "needs_spare": []})


def old_rebound(raw: Raw) -> None:
    bindings(raw)[0].update(level="host", domain="a0", cell=1)


CORRUPTIONS: dict[str, tuple[Any, set[str], str]] = {
    "no section": (lambda raw: raw["sections"].clear(), {"cells"}, "sections"),
    "two sections": (
        lambda raw: raw["sections"].append(raw["sections"][0]),
        {"cells"},
        "sections",
    ),
    "bindings that are no list": (
        lambda raw: raw["sections"][0].update(bindings={}),
        {"section", "cells", "inside_cells", "granted"},
        "sections[0]",
    ),
    "a binding without a field": (
        lambda raw: bindings(raw)[0].pop("level"),
        {"section", "cells", "inside_cells"},
        "sections[0].bindings[0]",
    ),
    "an unknown tenant": (
        lambda raw: bindings(raw)[2].update(tenant="grey"),
        {"cells", "inside_cells", "granted"},
        "sections[0].bindings[2]",
    ),
    "a tenant without such a cell": (
        lambda raw: bindings(raw)[2].update(cell=1),
        {"cells", "inside_cells", "granted"},
        "sections[0].bindings[2]",
    ),
    "a domain of another level": (
        lambda raw: bindings(raw)[2].update(domain="r3"),
        {"cells", "inside_cells", "granted"},
        "sections[0].bindings[2]",
    ),
    "a host of another model": (
        taker_takes("e0"),
        {"cells", "inside_cells", "granted"},
        "sections[0].bindings[2]",
    ),
    "more cells than are owned": (one_more, {"cells", "claims"}, "sections[0].bindings[3]"),
    "cells that share a host": (
        taker_takes("a1"),
        {"cells", "gpu_capacity"},
        "sections[0].bindings[2]",
    ),
    "a cell that failed": (taker_takes("d1"), {"cells", "healthy"}, "sections[0].bindings[2]"),
    "a cell in use bound to another": (old_rebound, {"cells", "claims"}, "sections[0]"),
    "a job outside the cells": (
        lambda raw: place(raw, TAKER, "b0"),
        {"inside_cells"},
        "decisions[2].tasks[0]",
    ),
    "a job in a cell of another tenant": (
        lambda raw: (place(raw, ANY, "d0"), place(raw, TAKER, "a1")),
        {"inside_cells"},
        "decisions[2].tasks[0]",
    ),
    "a binding that names no job": (
        lambda raw: bindings(raw)[2].update(jobs=[]),
        {"inside_cells"},
        "sections[0].bindings[2].jobs",
    ),
    "a binding that names a stranger": (
        lambda raw: bindings(raw)[0]["jobs"].append("any"),
        {"inside_cells"},
        "sections[0].bindings[0].jobs",
    ),
    "a cell that breaks another tenant's": (taker_takes("b0"), {"claims"}, "sections"),
    "a guaranteed job that moves": (
        lambda raw: (
            place(raw, OLD, "a1"),
            place(raw, ANY, "a0"),
            raw["decisions"][OLD].update(decision="migrate"),
            raw["sections"].append({"kind": "moves", "steps": ["old"], "needs_spare": []}),
        ),
        {"inside_cells"},
        "decisions[0]",
    ),
    **NO_REASONS,
    "a job that waits inside its quota": (taker_waits, {"granted"}, "decisions[2]"),
    "a job that is not guaranteed displaces for no guarantee": (
        any_displaces_guest,
        {"preemption", "displaced_by"},
        "decisions[4]",
    ),
}


def check(edit: Any) -> Any:
    raw = copy.deepcopy(PLAN)
    edit(raw)
    return verify(ROUND, Plan.model_validate(raw))


def test_the_plan_is_valid_before_it_is_corrupted():
    check_round(ROUND)
    assert check(lambda raw: None).violations == ()


def test_a_guaranteed_job_displaces_one_of_higher_priority():
    assert check(evict_guest).violations == ()


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_plan_is_rejected(name):
    edit, rules, where = CORRUPTIONS[name]
    found = check(edit).violations
    assert {violation.rule for violation in found} == rules
    assert where in [violation.where for violation in found]
    assert all("expected " in violation.message for violation in found)


def test_every_rule_about_cells_is_broken_alone():
    alone = {next(iter(rules)) for _, rules, _ in CORRUPTIONS.values() if len(rules) == 1}
    assert {rule.id for rule in (*RULES_OF_CELLS, *RULES_OF_REASONS_OF_CELLS)} <= alone


def test_the_true_reason_of_a_guaranteed_job_is_accepted():
    assert check(more_waits("quota", **QUOTA)).ok


def test_the_round_is_solved_with_nobody_in_the_way():
    plan = solve_round(ROUND, isolation="none")
    assert verify(ROUND, plan).ok
    # The host beside the failed one is claimed: nothing runs there, and no rack needs it.
    assert [t.host for t in plan.decisions[TAKER].tasks] == ["d0"]
    assert plan.decisions[MORE].reason == "quota"
    assert [d.decision.value for d in plan.decisions[GUEST:]] == ["keep", "start"]
    assert not plan.certificate.degraded
