"""The names of objective terms, and whether more or less of each is better."""

from __future__ import annotations

from typing import Literal

from placewright.formulations.gang.problem.dominant_shares import SHARE_TERMS

VALUE = "value"
PROGRESS = "progress"
BOTTLENECK = "bottleneck"
ENTITLED = "entitled"
PACKED = "packed"
"""Not a term of policies: what the hosts in use are worth (heuristics/empty_domains.py)."""
SENSE: dict[str, Literal["max", "min"]] = {
    "value": "max",
    "progress": "max",
    ENTITLED: "max",
    "disruption": "min",
    "remaining": "min",
    "freed": "max",
    PACKED: "min",
    "spread": "min",
    "proximity": "min",
    "opened": "min",
    "leftover": "min",
    BOTTLENECK: "min",
    "stranded": "min",
    "throughput": "max",
    "weighted_throughput": "max",
    "efficiency": "max",
    "broken": "min",
    "admitted": "max",
    "best_effort": "max",
    "early": "max",
    "remote_reads": "min",
    "egress_cost": "min",
    "gpu_cost": "min",
    "overload": "min",
    "copies": "min",
    "imbalance": "min",
    "hottest": "min",
    **dict.fromkeys(SHARE_TERMS, "max"),
}
