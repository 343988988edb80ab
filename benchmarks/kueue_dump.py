"""The placement of a Kueue with topology-aware scheduling, from what `kubectl get -o json` says."""

from __future__ import annotations

from pathlib import Path

from benchmarks.live_placements import TERMS, Placement, as_decided
from placewright.instances.converters import read_kubernetes

__all__ = ["kueue_placement"]


def kueue_placement(folder: Path) -> Placement:
    """Read workloads with their TopologyAssignment; bare pods that run are pinned.

    Kueue assigns hosts, no GPUs: they are the first free ones of each host.
    """
    round_ = read_kubernetes(sorted(folder.glob("*.json")), movable=True).round
    policy = round_.policy.model_copy(update={"terms": tuple(TERMS)})
    return as_decided(round_.model_copy(update={"name": folder.name, "policy": policy}))
