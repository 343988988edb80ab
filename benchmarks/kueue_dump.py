"""The placement of a Kueue with topology-aware scheduling, from what `kubectl get -o json` says.

A reading for captured dumps, no converter: one container per pod, one pod set per workload, one
cluster queue with a quota of GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.live_placements import Placement, placement_of, raw_round
from placewright.instances.documents.plan import Task

__all__ = ["kueue_placement"]

GPU = "nvidia.com/gpu"
BLOCK, RACK = "cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"


def kueue_placement(folder: Path) -> Placement:
    """Read workloads with their TopologyAssignment; bare pods that run are pinned.

    Kueue assigns hosts, no GPUs: they are the first free ones of each host.
    """
    listed = _items(folder / "nodes-pods.json")
    nodes = [one for one in listed if one["kind"] == "Node"]
    free = {
        node["metadata"]["name"]: list(range(int(node["status"]["allocatable"][GPU])))
        for node in nodes
    }

    def take(host: str, number: int) -> list[int]:
        taken, free[host] = free[host][:number], free[host][number:]
        return taken

    jobs: list[dict[str, Any]] = []
    places: dict[str, tuple[Task, ...]] = {}
    for pod in sorted((o for o in listed if o["kind"] == "Pod"), key=lambda o: _name(o)):
        host, group = pod["spec"]["nodeName"], _group(pod["spec"])
        task = {"host": host, "gpus": take(host, group["gpu"])}
        running = {"option": 0, "tasks": [task], "pinned": True}
        jobs.append({"name": _name(pod), "options": [{"groups": [group]}], "running": running})
    for workload in _items(folder / "workloads.json"):
        (pod_set,) = workload["spec"]["podSets"]
        group = _group(pod_set["template"]["spec"]) | {"count": pod_set["count"]}
        request = pod_set.get("topologyRequest", {})
        levels = {BLOCK: "block", RACK: "rack"}
        if "required" in request:
            group["required"] = levels[request["required"]]
        group["preferred"] = [levels[request["preferred"]]] if "preferred" in request else []
        jobs.append({"name": _name(workload), "tenant": "cq", "options": [{"groups": [group]}]})
        admission = workload["status"].get("admission")
        if admission is not None:
            (assigned,) = admission["podSetAssignments"]
            hosts = list(_assigned(assigned["topologyAssignment"]))
            places[_name(workload)] = tuple(
                Task(index=i, host=host, gpus=tuple(take(host, group["gpu"])))
                for i, host in enumerate(hosts)
            )
    labels = [node["metadata"]["labels"] for node in nodes]
    raw = raw_round(
        folder.name,
        levels=["block", "rack"],
        domains=[
            *({"name": b, "level": "block"} for b in dict.fromkeys(one[BLOCK] for one in labels)),
            *(
                {"name": f"{b}-{r}", "level": "rack", "parent": b}
                for b, r in dict.fromkeys((one[BLOCK], one[RACK]) for one in labels)
            ),
        ],
        hosts=[
            {
                "name": _name(node),
                "parent": f"{label[BLOCK]}-{label[RACK]}",
                "gpus": int(node["status"]["allocatable"][GPU]),
                "gpu_model": "H100",
                "cpu": node["status"]["allocatable"]["cpu"],
                "memory": node["status"]["allocatable"]["memory"],
            }
            for node, label in zip(nodes, labels, strict=True)
        ],
        jobs=jobs,
    )
    raw["tenants"] = [{"name": "cq", "quota": {"gpu": _quota(folder)}}]
    return placement_of(raw, places)


def _items(path: Path) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(path.read_text())["items"]
    return items


def _name(one: Mapping[str, Any]) -> str:
    return str(one["metadata"]["name"])


def _group(spec: Mapping[str, Any]) -> dict[str, Any]:
    (container,) = spec["containers"]
    asked = container["resources"]["requests"]
    return {"gpu": int(asked[GPU]), "cpu": asked["cpu"], "memory": asked["memory"]}


def _quota(folder: Path) -> int:
    (queue,) = (one for one in _items(folder / "queues.json") if one["kind"] == "ClusterQueue")
    resources = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    return next(int(one["nominalQuota"]) for one in resources if one["name"] == GPU)


def _assigned(assignment: Mapping[str, Any]) -> Iterator[str]:
    """Yield the host of each pod of a TopologyAssignment (v1beta2) whose only level is the host."""
    for part in assignment["slices"]:
        counts, (values,) = part["podCounts"], part["valuesPerLevel"]
        number = part["domainCount"]
        pods = counts.get("individual") or [counts["universal"]] * number
        if "universal" in values:
            names = [values["universal"]] * number
        else:
            one = values["individual"]
            names = [f"{one.get('prefix', '')}{r}{one.get('suffix', '')}" for r in one["roots"]]
        for name, count in zip(names, pods, strict=True):
            yield from [name] * count
