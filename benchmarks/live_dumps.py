"""Dumps of large clusters as kubectl and squeue print them, drawn from a seed.

Nodes have 8 GPUs, in racks of 8 and blocks of 32 racks. Three tasks of four run; the others wait.
Of those that wait every second belongs to a gang of 8, and every fourth asks for one of 40 kinds
of nodes by label or feature.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

__all__ = ["write_kubernetes", "write_slurm"]

GPU = "nvidia.com/gpu"
GPUS, RACK, BLOCK = 8, 8, 256
KINDS = 40
GANG = 8
SIZES = (1, 1, 1, 2, 2, 4, 8)
BEGAN = 1_790_000_000
NOISE = [{"name": f"VARIABLE_{i}", "value": "x" * 40} for i in range(20)]


def write_kubernetes(nodes: int, pods: int, folder: Path) -> None:
    """Write nodes and pods, each in a file of its own."""
    rng = Random(0)
    running, waiting = _tasks(nodes, pods, rng)
    made = [
        _pod(f"run-{i}", gpus, node=f"node-{host:05}") for i, (host, gpus) in enumerate(running)
    ]
    for i, gpus in enumerate(waiting):
        group = f"gang-{i // GANG}" if i // GANG % 2 else None
        made.append(
            _pod(
                f"wait-{i}",
                waiting[i // GANG * GANG] if group else gpus,
                group=group,
                kind=i // GANG % KINDS if i // GANG % 4 == 0 else None,
            )
        )
    _write(folder / "nodes.json", [_node(i) for i in range(nodes)])
    _write(folder / "pods.json", made)


def write_slurm(nodes: int, jobs: int, folder: Path) -> None:
    """Write jobs, nodes and topology, in dialect v0.0.44."""
    rng = Random(0)
    running, waiting = _tasks(nodes, jobs, rng)
    made = [_running(i + 1, host, gpus) for i, (host, gpus) in enumerate(running)]
    for i, gpus in enumerate(waiting):
        number = len(made) + 1
        made.append(_waiting(number, gpus, 1 if i % 2 else GANG, i % KINDS if i % 4 == 0 else None))
    hosts = [
        {
            "name": f"n{i:05}",
            "gres": f"gpu:h100:{GPUS}",
            "cpus": 96,
            "real_memory": 1_000_000,
            "threads": 1,
            "specialized_memory": 0,
            "active_features": [f"kind{i % KINDS}"],
            "partitions": ["gpu"],
            "state": ["IDLE"],
        }
        for i in range(nodes)
    ]
    (folder / "jobs.json").write_text(json.dumps({"jobs": made}, indent=1))
    (folder / "nodes.json").write_text(json.dumps({"nodes": hosts}, indent=1))
    racks = [f"n[{i:05}-{min(i + RACK, nodes) - 1:05}]" for i in range(0, nodes, RACK)]
    lines = [f"SwitchName=leaf{i} Level=0 Nodes={rack}" for i, rack in enumerate(racks)]
    lines.append(
        f"SwitchName=core Level=1 Nodes=n[00000-{nodes - 1:05}] Switches=leaf[0-{len(racks) - 1}]"
    )
    (folder / "topology.txt").write_text("\n".join(lines) + "\n")


def _tasks(nodes: int, tasks: int, rng: Random) -> tuple[list[tuple[int, int]], list[int]]:
    """Draw node and GPUs of tasks that run, as far as there is room, and GPUs of the others."""
    free = [GPUS] * nodes
    running = []
    for _ in range(tasks * 3 // 4):
        host, gpus = rng.randrange(nodes), rng.choice(SIZES)
        if free[host] >= gpus:
            free[host] -= gpus
            running.append((host, gpus))
    return running, [rng.choice(SIZES) for _ in range(tasks - len(running))]


def _write(file: Path, items: list[Any]) -> None:
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=4))


def _node(i: int) -> dict[str, Any]:
    name = f"node-{i:05}"
    amounts = {"cpu": "96", "memory": "1Ti", "pods": "110", GPU: str(GPUS)}
    labels = {
        "kubernetes.io/hostname": name,
        "cloud.google.com/gce-topology-block": f"block-{i // BLOCK}",
        "cloud.google.com/gce-topology-subblock": f"rack-{i // RACK}",
        "example.com/kind": f"kind{i % KINDS}",
        f"{GPU}.product": "NVIDIA-H100-80GB-HBM3",
        **{f"feature.node.kubernetes.io/flag-{n}": "true" for n in range(40)},
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"n{i}", "labels": labels},
        "spec": {},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": [f"registry.example.com/image-{n}:1"]} for n in range(30)],
        },
    }


def _pod(
    name: str,
    gpus: int,
    *,
    node: str | None = None,
    group: str | None = None,
    kind: int | None = None,
) -> dict[str, Any]:
    asked = {"cpu": str(4 * gpus), "memory": f"{32 * gpus}Gi", GPU: str(gpus)}
    spec: dict[str, Any] = {
        "containers": [
            {
                "name": "main",
                "image": "registry.example.com/train:1",
                "env": NOISE,
                "resources": {"requests": asked, "limits": asked},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "restartPolicy": "Never",
        "priority": 0,
    }
    if node is not None:
        spec["nodeName"] = node
    if kind is not None:
        spec["nodeSelector"] = {"example.com/kind": f"kind{kind}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "research",
            "uid": name,
            "labels": {"scheduling.x-k8s.io/pod-group": group} if group else {},
        },
        "spec": spec,
        "status": {"phase": "Pending" if node is None else "Running"},
    }


def _job(number: int, state: str, gpus: int, hosts: int) -> dict[str, Any]:
    return {
        "account": f"account{number % 20}",
        "job_id": number,
        "job_state": [state],
        "state_reason": "None" if state == "RUNNING" else "Resources",
        "partition": "gpu",
        "qos": "normal",
        "requeue": True,
        "submit_time": _number(BEGAN + number),
        "time_limit": _number(600),
        "node_count": _number(hosts),
        "tasks": _number(hosts),
        "cpus": _number(4 * gpus * hosts),
        "memory_per_node": _number(32_768 * gpus),
        "tres_per_node": f"gres/gpu:{gpus}",
        "tres_req_str": f"cpu={4 * gpus * hosts},node={hosts},gres/gpu={gpus * hosts}",
        "priority": _number(1000),
        "name": f"job-{number}",
        "user_name": f"user{number % 100}",
        "flags": ["EXACT_TASK_COUNT_REQUESTED", "USING_DEFAULT_QOS", "PARTITION_ASSIGNED"],
        "command": "/home/user/train.sh" + "x" * 100,
        "current_working_directory": "/home/user/" + "x" * 100,
        "standard_output": "/home/user/slurm-%j.out" + "x" * 100,
        "tres_alloc_str": "",
    }


def _running(number: int, host: int, gpus: int) -> dict[str, Any]:
    name = f"n{host:05}"
    cores = [{"index": i, "status": ["ALLOCATED"]} for i in range(4 * gpus)]
    allocation = {
        "index": 0,
        "name": name,
        "cpus": {"count": 4 * gpus, "used": 0},
        "memory": {"used": 0, "allocated": 32_768 * gpus},
        "sockets": [{"index": 0, "cores": cores}],
    }
    return {
        **_job(number, "RUNNING", gpus, 1),
        "nodes": name,
        "start_time": _number(BEGAN + number + 60),
        "gres_detail": [f"gpu:h100:{gpus}"],
        "job_resources": {"nodes": {"count": 1, "list": name, "allocation": [allocation]}},
    }


def _waiting(number: int, gpus: int, hosts: int, kind: int | None) -> dict[str, Any]:
    return {
        **_job(number, "PENDING", gpus, hosts),
        "nodes": "",
        "features": "" if kind is None else f"kind{kind}",
        "job_resources": None,
    }


def _number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}
