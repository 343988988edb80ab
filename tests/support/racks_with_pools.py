"""Rounds of two racks of hosts that share power."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round

Raw = dict[str, Any]
POWER = {"resource": "power_w", "level": "rack", "capacity": 12_000, "domains": {"r1": 9000}}


def round_of(*jobs: Raw, pools: Sequence[Raw] = (POWER,), hosts: int = 4) -> Round:
    """Two racks of hosts with 8 GPUs: a0, a1 ... in r0, b0, b1 ... in r1."""
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": f"r{i}", "level": "rack"} for i in range(2)],
                "hosts": [
                    {"name": f"{x}{i}", "parent": f"r{r}", "gpus": 8, "gpu_model": "X"}
                    for r, x in enumerate("ab")
                    for i in range(hosts)
                ],
                "pools": list(pools),
            },
            "jobs": list(jobs),
        }
    )
