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
    """A job of one GPU and some watts a task; it runs on hosts, if they are given."""
    group = {"count": len(hosts) or count, "gpu": 1, "resources": {"w": watts} if watts else {}}
    tasks = [{"index": i, "host": host, "gpus": [gpu]} for i, host in enumerate(hosts)]
    running = {"running": {"tasks": tasks, **more.pop("running", {})}} if hosts else {}
    option = {"groups": [group], **({"uses": {"lic": 1}} if uses else {})}
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
    """Return the plan, none of whose candidates was invalid, and the decision of each job."""
    plan = solve_round(round_, time_limit=20, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert not any("invalid plan" in text for text in plan.certificate.degraded)
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
