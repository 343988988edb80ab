"""Plan sections of replicas and flows, from what a candidate says of data."""

from __future__ import annotations

from typing import Any

from placewright.formulations.common.wan.arrays import Wan
from placewright.formulations.plan_messages import DataPlan


def replica_section(wan: Wan, data: DataPlan) -> dict[str, Any]:
    """Return the section `replicas`."""
    jobs = wan.round.jobs
    return {
        "kind": "replicas",
        "creates": [
            {"dataset": wan.datasets[d], "region": wan.regions[r], "ready": ready}
            for d, r, ready in data.creates
        ],
        "drops": [
            {"dataset": wan.datasets[d], "region": wan.regions[r], "at": at}
            for d, r, at in data.drops
        ],
        "homes": [
            {"job": jobs[j].name, "region": wan.regions[r], "gpu_model": wan.models[m]}
            for j, (r, m) in sorted(data.homes.items())
        ],
    }


def flow_section(wan: Wan, data: DataPlan) -> dict[str, Any]:
    """Return the section `flows`, in the order of their start."""
    return {
        "kind": "flows",
        "flows": [
            {
                "dataset": wan.datasets[flow.dataset],
                "path": [wan.regions[r] for r in flow.path],
                "gib": flow.gib,
                "start": flow.start,
                "end": flow.end,
            }
            for flow in sorted(data.flows, key=lambda f: (f.start, f.dataset, f.path))
        ],
    }
