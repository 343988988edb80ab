"""How full uplinks are: the sum beyond their bandwidth is what the term `contention` counts."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from placewright import solve_round, verify
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.report.facts.usage import UplinkUsage, uplink_usage
from placewright.report.page import render_report

WIDTH = (("rack", 100), ("host", 70))
TERMS = ("value", "disruption", "spread", "contention")


def job(name: str, count: int, rate: int, *hosts: str) -> dict[str, Any]:
    group = {"count": count, "gpu": 8, "communication": {"rate_mbps": rate}}
    tasks = [{"host": h, "index": i, "gpus": list(range(8))} for i, h in enumerate(hosts)]
    running = {"running": {"tasks": tasks, "pinned": True}} if hosts else {}
    return {"name": name, "options": [{"groups": [group]}], **running}


@cache
def racks(terms: tuple[str, ...] = TERMS) -> tuple[Round, Plan]:
    """Three racks of four hosts; a gang of two racks runs, and one starts in the rest."""
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": f"r{r}", "level": "rack"} for r in range(3)],
                "hosts": [
                    {"name": f"r{r}h[0-3]", "parent": f"r{r}", "gpus": 8, "gpu_model": "X"}
                    for r in range(3)
                ],
                "links": {level: {"bandwidth_mbps": w, "latency_us": 1} for level, w in WIDTH},
            },
            "jobs": [job("runs", 3, 60, "r0h0", "r0h1", "r1h0"), job("starts", 9, 80)],
            "policy": {"terms": terms},
        }
    )
    return round_, solve_round(round_, time_limit=3.0, isolation="none")


def test_the_excess_of_uplinks_is_contention() -> None:
    round_, plan = racks()
    usage = uplink_usage(round_, build_cluster(round_.cluster), plan)
    assert usage[:3] == [
        UplinkUsage("rack", "r0", 100, 60, 140),
        UplinkUsage("rack", "r1", 100, 60, 140),
        UplinkUsage("host", "r0h2", 70, 0, 80),
    ]
    assert {one.domain for one in usage if one.level == "host"} == {
        f"r{r}h{h}" for r in range(3) for h in range(4)
    }
    excess = sum(max(0, one.after - one.bandwidth) for one in usage)
    before = sum(max(0, one.before - one.bandwidth) for one in usage)
    (term,) = (one for one in verify(round_, plan).terms.items() if one[0] == "contention")
    assert term == ("contention", excess - before)


def test_hosts_with_nics_have_no_link_and_a_wan_replaces_that_of_outermost_domains() -> None:
    round_, _ = racks()
    raw = round_.cluster.model_dump()
    for host in raw["hosts"]:
        host |= {"model": "dgx-h100", "gpus": None, "gpu_model": None}
    raw["wan"] = [{"between": ["r0", "r1"], "bandwidth_mbps": 5, "latency_us": 1}]
    cluster = type(round_.cluster).model_validate(raw)
    changed = round_.model_copy(update={"cluster": cluster})
    assert uplink_usage(changed, build_cluster(cluster)) == []


def test_nobody_asks_without_the_term() -> None:
    round_, plan = racks(("value", "disruption"))
    assert uplink_usage(round_, build_cluster(round_.cluster), plan) == []


@pytest.mark.parametrize("plans", [1, 2])
def test_a_page_shows_them(plans: int) -> None:
    round_, plan = racks()
    page = render_report(round_, *[plan] * plans)
    assert "Uplinks, fullest first" in page
    assert "140 Mbit/s, 140 %" in page
