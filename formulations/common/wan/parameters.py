"""Tuning parameters of the transfer scheduler, read as `formulations/gang/parameters.py` says.

The unit of routing costs is that of one GiB over a link without egress price.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """All tuning parameters of the transfer scheduler."""

    # Attempts with congestion costs after the first one, which prefers fast links.
    num_congestion_attempts: int = 6
    # What a link without residual budget costs more in each attempt: after two, one more link.
    congestion_cost: float = 0.75
    # Cost of a very slow link in the first attempt; a usual one costs 1.
    max_slowness_cost: float = 4.0
    # Cost of reading a replica that is to be dropped, or that is not complete yet.
    dropped_source_cost: float = 0.2
    planned_source_cost: float = 0.4
    # Extra cost of a link whose budget a copy would use up: of paths that cost about the same,
    # those with budget to spare are taken.
    scarcity_cost: float = 0.02
    # Direct links whose costs differ by less differ by egress prices only; then all are used.
    egress_cost_range: float = 0.5
    saturation_share: float = 0.8  # Share of the window for which a saturated link is busy


PARAMETERS = Parameters()
