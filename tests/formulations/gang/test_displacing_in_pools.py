"""Displacement in rounds with pools: what a victim gang gives back of a domain counts once."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.formulations.gang.heuristics.displace import displace_greedily
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.documents.round import Round

Raw = dict[str, Any]


def gang(name: str, gpu: int, watts: int, priority: int, *hosts: str) -> Raw:
    group = {"count": len(hosts) or 2, "gpu": gpu, "resources": {"w": watts}}
    tasks = [{"index": i, "host": h, "gpus": list(range(gpu))} for i, h in enumerate(hosts)]
    running = {"running": {"tasks": tasks}} if hosts else {}
    return {"name": name, "priority": priority, "options": [{"groups": [group]}], **running}


@pytest.mark.parametrize(("capacity", "starts"), [(49, False), (60, True)])
def test_the_pool_of_a_gang_on_two_hosts_is_freed_once(capacity: int, starts: bool) -> None:
    """`low` holds 20 W and `kept` as much; `high` needs 40 W, and both of the hosts of `low`."""
    jobs = [
        gang("low", 2, 10, 0, "h0", "h1"),
        gang("kept", 8, 20, 1, "h2"),
        gang("high", 8, 20, 1),
    ]
    cluster = {
        "levels": ["rack"],
        "domains": [{"name": "r", "level": "rack"}],
        "hosts": [{"name": "h[0-2]", "parent": "r", "gpus": 8, "gpu_model": "A"}],
        "pools": [{"resource": "w", "level": "rack", "capacity": capacity}],
    }
    problem = compile_round(Round.model_validate({"cluster": cluster, "jobs": jobs}))
    placement = Placement(problem)
    displace_greedily(placement)
    assert not placement.is_overcommitted
    assert all((left >= 0).all() for left in placement.pools.left)
    assert placement.is_running(0) is not starts
