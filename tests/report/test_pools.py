"""How full pools are: what jobs take of each domain, per task or per job, before and after."""

from __future__ import annotations

from functools import cache
from typing import Any

from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round
from placewright.report.facts.usage import PoolUsage, fullest, pool_usage, tenant_usage
from placewright.report.page import render_report


@cache
def power_and_trees() -> tuple[Round, Plan]:
    """Two racks of two hosts; a job in both runs, one starts in the second, one moves there."""
    group = {"gpu": 8, "resources": {"power_w": 400}}

    def job(name: str, count: int, hosts: tuple[str, ...] = (), **of_option: Any) -> dict[str, Any]:
        tasks = [{"host": h, "index": i, "gpus": list(range(8))} for i, h in enumerate(hosts)]
        return {
            "name": name,
            "tenant": "t",
            "options": [{"groups": [{**group, "count": count}], **of_option}],
            **({"running": {"tasks": tasks}} if hosts else {}),
        }

    round_ = parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": f"r{i}", "level": "rack"} for i in range(2)],
                "hosts": [
                    {"name": f"h{i}", "parent": f"r{i // 2}", "gpus": 8, "gpu_model": "X"}
                    for i in range(4)
                ],
                "pools": [
                    {
                        "resource": "power_w",
                        "level": "rack",
                        "capacity": 1000,
                        "domains": {"r1": 800},
                    },
                    {"resource": "power_w", "capacity": 1600},
                    {"resource": "trees", "level": "rack", "capacity": 4, "per": "job"},
                    {"resource": "store", "level": "host", "capacity": 0},
                ],
            },
            "tenants": [{"name": "t", "quota": {"gpu": 32, "power_w": 1500}}],
            "jobs": [
                job("runs", 2, ("h0", "h2"), uses={"trees": 1}),
                job("starts", 1, uses={"trees": 2}),
            ],
        }
    )
    plan = Plan.model_validate(
        {
            "decisions": [
                {
                    "job": "runs",
                    "decision": "migrate",
                    "option": 0,
                    "tasks": [
                        {"host": h, "index": i, "gpus": list(range(8))}
                        for i, h in enumerate(("h0", "h1"))
                    ],
                },
                {
                    "job": "starts",
                    "decision": "start",
                    "option": 0,
                    "tasks": [{"host": "h3", "gpus": list(range(8))}],
                },
            ]
        }
    )
    return round_, plan


def test_a_pool_counts_tasks_or_jobs_in_each_domain_and_the_fullest_is_first() -> None:
    round_, plan = power_and_trees()
    usage = pool_usage(round_, build_cluster(round_.cluster), plan)
    assert usage[:6] == [
        PoolUsage("power_w", "rack", "r0", 1000, 400, 800),
        PoolUsage("power_w", None, None, 1600, 800, 1200),
        PoolUsage("power_w", "rack", "r1", 800, 400, 400),
        PoolUsage("trees", "rack", "r1", 4, 1, 2),
        PoolUsage("trees", "rack", "r0", 4, 1, 1),
        PoolUsage("store", "host", "h0", 0, 0, 0),
    ]
    assert [one.share for one in usage] == [0.8, 0.75, 0.5, 0.5, 0.25, 0, 0, 0, 0]


def test_where_there_are_many_each_pool_is_shown() -> None:
    round_, plan = power_and_trees()
    usage = pool_usage(round_, build_cluster(round_.cluster), plan)
    assert [one.where for one in fullest(usage, 5)] == [
        "rack r0",
        "whole cluster",
        "rack r1",
        "rack r1",
        "host h0",
    ]
    assert fullest(usage, None) == fullest(usage, 9) == usage
    assert [one.where for one in fullest(usage, 2)] == ["rack r0", "whole cluster"]


def test_without_a_plan_before_and_after_are_the_same() -> None:
    round_, _ = power_and_trees()
    usage = pool_usage(round_, build_cluster(round_.cluster))
    assert {(one.before, one.after) for one in usage} == {(0, 0), (1, 1), (400, 400), (800, 800)}


def test_the_share_of_a_tenant_in_what_hosts_share_is_of_the_pools() -> None:
    round_, plan = power_and_trees()
    found = tenant_usage(round_, plan, build_cluster(round_.cluster))
    (power,) = (one for one in found if one.resource == "power_w")
    assert (power.after, power.capacity) == (1200, 1600)


def test_a_page_shows_pools_and_nothing_without_limit() -> None:
    page = render_report(*power_and_trees())
    assert "Pools, fullest first" in page
    assert "800, 80 %" in page
    assert "1000000000000" not in page.replace(",", "")
