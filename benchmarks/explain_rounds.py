"""The openb cluster of the benchmark `explain`: racks, tenants, priorities, and jobs that wait.

The trace says none of these. Which job gets which follows from its number alone.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from placewright import Round
from placewright.instances.checks.round import check_round
from placewright.instances.converters import convert_openb
from placewright.instances.documents.cluster import ClusterDocument, DomainEntry, HostEntry
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.policy import Tenant
from placewright.instances.documents.quantities import write_amount
from placewright.instances.documents.round import Reservation
from placewright.topology.units import WHOLE_GPU

__all__ = ["JOBS", "openb_round"]

RUNNING = 0.9
"""Share of the demand that runs."""

RACK, BLOCK = 16, 4
"""Hosts of a rack, which are of one kind, and racks of a block."""

TENANTS = ("search", "vision", "speech", "ads", "infra")
PRIORITIES = (0, 0, 0, 1, 1, 2)
RESERVED = 36
"""Hosts of the model G3 that are reserved: all but three."""

NOW, STEP_S = 1_000_000, 7_919
"""The clock, and the steps of what is random about a job (a prime number)."""


def openb_round(nodes: Path, pods: Path) -> Round:
    """Return openb with 90 % of its demand running, and `JOBS` as all that waits."""
    round_ = convert_openb(nodes, pods, running=RUNNING)
    running = tuple(
        _owned(number, job) for number, job in enumerate(round_.jobs) if job.running is not None
    )
    used = sum(job.options[0].milli_gpu for job in running if job.tenant == "infra")
    quota = {"gpu": write_amount("gpu", used + WHOLE_GPU)}
    g3 = [host.name for host in round_.cluster.hosts if host.gpu_model == "G3"]
    made = round_.model_copy(
        update={
            "now": NOW,
            "cluster": _in_racks(round_.cluster),
            "tenants": tuple(
                Tenant(name=name, quota=quota if name == "infra" else {}) for name in TENANTS
            ),
            "jobs": (*running, *JOBS),
            "reservations": tuple(Reservation(host=name) for name in g3[:RESERVED]),
        }
    )
    check_round(made)
    return made


def _owned(number: int, job: Job) -> Job:
    """Return a running job with a tenant and priority; every other one says how long it runs."""
    drawn = number * STEP_S
    update: dict[str, object] = {
        "tenant": TENANTS[drawn % len(TENANTS)],
        "priority": PRIORITIES[drawn // len(TENANTS) % len(PRIORITIES)],
    }
    if number % 2 and job.running is not None:
        update["expected_runtime_s"] = 60 * (1 + drawn % 5000)
        update["running"] = job.running.model_copy(update={"started": NOW})
    return job.model_copy(update=update)


def _in_racks(cluster: ClusterDocument) -> ClusterDocument:
    """Return a cluster whose hosts of each kind lie in racks, and these in blocks, in order."""
    kinds: defaultdict[tuple[str | None, int | None], list[HostEntry]] = defaultdict(list)
    for host in cluster.hosts:
        kinds[host.gpu_model, host.gpus].append(host)
    hosts: list[HostEntry] = []
    racks: list[DomainEntry] = []
    for entries in kinds.values():
        for k, host in enumerate(entries):
            if k % RACK == 0:
                block = f"b{len(racks) // BLOCK:02d}"
                racks.append(DomainEntry(name=f"r{len(racks):02d}", level="rack", parent=block))
            hosts.append(host.model_copy(update={"parent": racks[-1].name}))
    blocks = dict.fromkeys(rack.parent for rack in racks)
    domains = (*(DomainEntry(name=str(name), level="block") for name in blocks), *racks)
    order = {host.name: k for k, host in enumerate(cluster.hosts)}
    return cluster.model_copy(
        update={
            "levels": ("block", "rack"),
            "domains": domains,
            "hosts": tuple(sorted(hosts, key=lambda host: order[host.name])),
        }
    )


def _job(name: str, tenant: str, priority: int, *groups: TaskGroup) -> Job:
    return Job(name=name, tenant=tenant, priority=priority, options=(Option(groups=groups),))


_HOST = {"gpu": 8, "cpu": 64, "memory": "256Gi"}
JOBS = (
    _job("big-rack", "search", 1, TaskGroup(count=17, required="rack", **_HOST)),
    _job("fat-memory", "search", 1, TaskGroup(gpu=8, cpu=64, memory="800Gi")),
    _job("beyond-quota", "infra", 2, TaskGroup(count=4000, gpu=1, cpu=4, memory="16Gi")),
    _job("over-quota", "infra", 2, TaskGroup(gpu=8, cpu=32, memory="128Gi")),
    _job("g3-four", "vision", 1, TaskGroup(count=4, gpu_models=("G3",), required="block", **_HOST)),
    _job("gang-16", "search", 2, TaskGroup(count=16, gpu_models=("G2",), required="rack", **_HOST)),
    _job("gang-40", "ads", 1, TaskGroup(count=40, **_HOST)),
    _job("v100-pair", "speech", 1, TaskGroup(count=2, gpu_models=("V100M32",), **_HOST)),
    _job(
        "two-groups",
        "vision",
        0,
        TaskGroup(name="workers", count=4, required="rack", **_HOST),
        TaskGroup(name="servers", count=8, gpu=0, cpu=32, memory="64Gi"),
    ),
)
"""What waits: a job for each kind of cause, of one host up to forty."""
