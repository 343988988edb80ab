"""Handmade dumps of Kubernetes, and the captured ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placewright.instances.converters import LiveConversion, read_kubernetes
from placewright.instances.derived.names import AllowedHosts

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "tests" / "data" / "kubernetes"
CAPTURED = ROOT.parent / "shared" / "data" / "live" / "kubernetes" / "captured"
needs_captures = pytest.mark.skipif(not CAPTURED.is_dir(), reason="captured dumps are not here")
GPU = "nvidia.com/gpu"
RACK = "cloud.google.com/gce-topology-subblock"


def node(name: str, *, gpus: int = 8, labels: dict[str, str] | None = None, **spec: Any) -> Any:
    amounts = {"cpu": "64", "memory": "512Gi"} | ({GPU: str(gpus)} if gpus else {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": amounts},
    }


def pod(name: str, gpus: int = 1, *, host: str | None = None, meta: Any = None, **spec: Any) -> Any:
    asked = {"cpu": "4", "memory": "16Gi"} | ({GPU: gpus} if gpus else {})
    spec = {"containers": [{"resources": {"requests": asked}}], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", **(meta or {})},
        "spec": spec | ({"nodeName": host} if host else {}),
        "status": {"phase": "Running" if host else "Pending"},
    }


def convert(folder: Path, *items: Any, **options: Any) -> LiveConversion:
    """Write objects as kubectl does, and read them."""
    file = folder / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return read_kubernetes([file], **options)


def left_out(made: LiveConversion) -> dict[str, list[str]]:
    return {why: names for (_, why), names in made.book.left_out.items()}


def allowed_hosts(made: LiveConversion, name: str) -> set[str] | None:
    """Return the hosts of the first task group of a job, None for all."""
    (group,) = (job.options[0].groups[0] for job in made.round.jobs if job.name == name)
    allowed = AllowedHosts(made.round.host_sets).of(group)
    return None if allowed is None else set(allowed)
