"""Pools together with reservations, displacement, cells, budgets and engines."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]

WATTS: Raw = {"resource": "w", "level": "rack", "capacity": 100}
LICENCE: Raw = {"resource": "lic", "level": "rack", "capacity": 1, "per": "job"}


def job(
    name: str,
    watts: int,
    *hosts: str,
    gpu: int = 0,
    count: int = 1,
    uses: bool = False,
    **more: Any,
) -> Raw:
    """A job worth its priority + 1, of a GPU and some watts a task; it runs on given hosts."""
    group = {"count": len(hosts) or count, "gpu": 1, "resources": {"w": watts} if watts else {}}
    tasks = [{"index": i, "host": host, "gpus": [gpu]} for i, host in enumerate(hosts)]
    running = {"running": {"tasks": tasks, **more.pop("running", {})}} if hosts else {}
    value = more.get("priority", 0) + 1
    option = {"value": value, "groups": [group], **({"uses": {"lic": 1}} if uses else {})}
    return {"name": name, "options": [option], **more, **running}


def round_of(pools: list[Raw], jobs: list[Raw], racks: int = 2, **more: Any) -> Round:
    """Return a round of racks with two hosts of 8 GPUs each."""
    return Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": f"r{r}", "level": "rack"} for r in range(racks)],
                "hosts": [
                    {"name": f"r{r}h[0-1]", "parent": f"r{r}", "gpus": 8, "gpu_model": "x"}
                    for r in range(racks)
                ],
                "pools": pools,
            },
            "jobs": jobs,
            **more,
        }
    )


def solved(round_: Round) -> tuple[Plan, dict[str, str]]:
    """Return the plan, which nothing has degraded, and the decision of each job."""
    plan = solve_round(round_, time_limit=20, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    return plan, {decision.job: decision.decision.value for decision in plan.decisions}


@pytest.mark.parametrize(
    ("pool", "asked", "uses"),
    [(WATTS, 60, False), ({**WATTS, "level": None}, 60, False), (LICENCE, 0, True)],
)
def test_a_reservation_waits_for_a_pool(pool: Raw, asked: int, uses: bool) -> None:
    """Of five jobs that run for 100 s one may start; the others would delay the first to wait."""
    jobs = [
        job("runs", asked, "r0h0", uses=uses, expected_runtime_s=50, running={"started": 0}),
        job("first", asked, uses=uses, submitted=1, expected_runtime_s=100),
        job("short", asked, uses=uses, submitted=2, expected_runtime_s=10),
        job("other", 0, submitted=3, expected_runtime_s=1000),
    ]
    jobs[0]["running"]["pinned"] = True
    plan, decided = solved(
        round_of([pool], jobs, racks=1, now=10, policy={"backfill": {"depth": 1}})
    )
    assert decided == {"runs": "keep", "first": "wait", "short": "wait", "other": "start"}
    (section,) = (s for s in plan.sections if s["kind"] == "reservations")
    assert [(entry["job"], entry["at"]) for entry in section["jobs"]] == [("first", 50)]


@pytest.mark.parametrize(
    ("pool", "asked", "uses"), [(WATTS, 30, False), (LICENCE, 0, True)], ids=["task", "job"]
)
def test_a_longer_job_leaves_a_reservation_its_part_of_a_pool(
    pool: Raw, asked: int, uses: bool
) -> None:
    jobs = [
        job("runs", 2 * asked, "r0h0", uses=uses, expected_runtime_s=50, running={"started": 0}),
        job("first", 80 if asked else 0, uses=uses, submitted=1, expected_runtime_s=100),
        job("short", asked, submitted=2, expected_runtime_s=40),
        job("long", asked, uses=uses, submitted=3, expected_runtime_s=100),
    ]
    jobs[0]["running"]["pinned"] = True
    _, decided = solved(round_of([pool], jobs, racks=1, now=10, policy={"backfill": {"depth": 1}}))
    assert decided == {"runs": "keep", "first": "wait", "short": "start", "long": "wait"}


def displacers(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return who displaces each preempted job."""
    return {d.job: d.displaced_by for d in plan.decisions if d.decision.value == "preempt"}


@pytest.mark.parametrize("level", ["rack", None])
def test_a_job_on_another_host_displaces_who_has_of_its_pool(level: str | None) -> None:
    jobs = [
        job("low", 60, "r0h0", priority=0),
        job("beside", 40, "r0h1", priority=1),
        job("high", 60, priority=2),
    ]
    jobs[1]["running"]["pinned"] = True
    pool = {**WATTS, "level": level, "domains": {"r1": 0} if level else {}}
    round_ = round_of([pool], jobs)
    plan, decided = solved(round_)
    assert decided == {"low": "preempt", "beside": "keep", "high": "start"}
    assert displacers(plan) == {"low": ("high",)}


@pytest.mark.parametrize(("asked", "by"), [(50, ("a", "b")), (30, ("a",))])
def test_as_few_as_possible_that_take_of_a_pool_displace_a_victim(
    asked: int, by: tuple[str, ...]
) -> None:
    jobs = [
        job("low", 60, "r0h0", priority=0),
        job("a", asked, priority=2),
        job("b", asked, priority=2),
        job("none", 0, priority=2),
    ]
    plan, decided = solved(round_of([WATTS], jobs, racks=1))
    assert decided == {"low": "preempt", "a": "start", "b": "start", "none": "start"}
    assert displacers(plan) == {"low": by}


@pytest.mark.parametrize(
    ("pool", "asked", "uses"),
    [(WATTS, 60, False), ({**WATTS, "level": None}, 60, False), (LICENCE, 0, True)],
)
def test_a_guaranteed_job_evicts_who_has_of_its_pool(pool: Raw, asked: int, uses: bool) -> None:
    jobs = [
        job("here", asked, "r0h1", uses=uses),
        job("there", 0, "r0h1", gpu=1),
        job("mine", asked, uses=uses, tenant="owner"),
    ]
    tenants = [{"name": "owner", "cells": [{"level": "rack"}]}]
    plan, decided = solved(round_of([pool], jobs, racks=1, tenants=tenants))
    assert decided == {"here": "preempt", "there": "keep", "mine": "start"}
    assert displacers(plan) == {"here": ("mine",)}


def test_an_evicted_job_finds_another_rack() -> None:
    jobs = [job("here", 60, "r0h1"), job("mine", 60, tenant="owner")]
    tenants = [{"name": "owner", "cells": [{"level": "rack"}]}]
    pool = {**WATTS, "domains": {"r1": 70}}
    _, decided = solved(round_of([pool], jobs, tenants=tenants))
    assert decided["mine"] == "start"
    assert decided["here"] != "preempt"


@pytest.mark.parametrize("limits", [{"preempted_jobs": 0}, {"migrated_jobs": 0}])
def test_jobs_go_back_to_their_pools_for_the_disruption_budget(limits: Raw) -> None:
    jobs = [
        job("low", 60, "r0h0", priority=0),
        job("high", 60, priority=2),
        job("full", 90, "r1h0", priority=2),
    ]
    policy = {"limits": {"disruption": limits}}
    _, decided = solved(round_of([WATTS], jobs, policy=policy))
    assert decided["full"] == "keep"
    assert decided["low"] == ("keep" if "preempted_jobs" in limits else "preempt")


@pytest.mark.parametrize(("asked", "decision"), [(20, "wait"), (15, "start")])
@pytest.mark.parametrize("level", ["rack", None])
def test_nobody_takes_of_a_pool_what_an_evicted_job_gave_back(
    level: str | None, asked: int, decision: str
) -> None:
    jobs = [
        job("stays", 40, "r0h0", priority=2),
        job("low", 45, "r0h1", priority=1),
        job("mine", 20, tenant="owner"),
        job("other", asked),
    ]
    tenants = [{"name": "owner", "cells": [{"level": "rack"}]}]
    _, decided = solved(round_of([{**WATTS, "level": level}], jobs, racks=1, tenants=tenants))
    assert decided == {"stays": "keep", "low": "preempt", "mine": "start", "other": decision}
