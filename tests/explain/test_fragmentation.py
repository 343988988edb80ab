"""Fragmentation of what is free, counted by hand."""

from __future__ import annotations

from typing import Any

from placewright.explain.places import WholeDomains, WholeTasks, fragmentation_of
from placewright.instances.io.files import parse_round


def round_of(**changes: Any) -> Any:
    """Return two racks of two hosts of 4 GPUs and 8 cores, where `held` runs on h0 and h2."""
    raw = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "name": "small",
        "cluster": {
            "levels": ["rack"],
            "domains": [{"name": "a", "level": "rack"}, {"name": "b", "level": "rack"}],
            "hosts": [
                {"name": "h[0-1]", "parent": "a", "gpus": 4, "gpu_model": "X", "cpu": 8},
                {"name": "h[2-3]", "parent": "b", "gpus": 4, "gpu_model": "X", "cpu": 8},
            ],
        },
        "jobs": [
            {
                "name": "held",
                "options": [{"groups": [{"count": 2, "gpu": 1, "cpu": 6}]}],
                "running": {
                    "option": 0,
                    "tasks": [
                        {"index": 0, "host": "h0", "gpus": [0]},
                        {"index": 1, "host": "h2", "gpus": [0]},
                    ],
                },
            },
            {"name": "waits", "options": [{"groups": [{"gpu": 2, "cpu": 4}]}]},
        ],
        **changes,
    }
    return parse_round(raw)


def test_free_hosts_and_domains_and_who_can_use_what_is_free():
    found = fragmentation_of(round_of())
    assert (found.free, found.whole) == (14000, 14)
    assert found.domains == (WholeDomains("rack", 0, 2), WholeDomains("host", 2, 4))
    # On h0 and h2 two cores are left: no room for 4.
    assert found.useless == 6000
    # Of three tasks two ask 1 GPU and 6 cores, which 8 GPUs have, one asks 2 GPUs and 4 cores.
    assert found.stranded == 6000
    assert found.tasks == (
        WholeTasks(1, 14, 0),
        WholeTasks(2, 6, 2000),
        WholeTasks(4, 2, 6000),
    )


def test_hosts_where_nothing_may_arrive_have_nothing_free():
    found = fragmentation_of(round_of(reservations=[{"host": "h1"}, {"host": "h3", "gpus": [0]}]))
    assert found.free == 9000
    assert found.domains[1].free == 0


def test_the_mix_says_what_is_stranded_and_without_waiting_jobs_nobody_needs_any():
    mix = [{"gpu": 4, "weight": 3}, {"gpu": 1, "weight": 1}]
    round_ = round_of(policy={"terms": ["value", "stranded"], "mix": mix})
    running_only = round_.model_copy(update={"jobs": round_.jobs[:1]})
    found = fragmentation_of(running_only)
    assert found.stranded == 6000 * 3 / 4
    assert found.useless is None
