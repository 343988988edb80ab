"""GPU shares, MIG slices and tenants, drawn after the rest of a generated round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.policy import Tenant
from placewright.instances.documents.quantities import memory_text, whole_units
from placewright.instances.generators.mixes import (
    MIG_PROFILES,
    MIG_SLICE,
    PART_GIB,
    PROFILES,
    Shares,
)
from placewright.topology.units import WHOLE_GPU

GPU_GIB = {"A100": 80, "V100": 32}
MIG_MODEL = "A100"


def with_gpu_memory(cluster: ClusterDocument) -> ClusterDocument:
    """Return the cluster with the memory of its GPUs, so that they can be parted."""
    hosts = tuple(
        host.model_copy(update={"gpu_memory": GPU_GIB[host.gpu_model or ""] * _MIB_PER_GIB})
        for host in cluster.hosts
    )
    return cluster.model_copy(update={"hosts": hosts})


def with_parts(rng: np.random.Generator, jobs: Iterable[Job], parts: Shares) -> Iterator[Job]:
    """Yield the jobs; those of one GPU ask a share of it, or a MIG slice, as drawn.

    What a share asks of the host shrinks with it. Who runs takes no slice, nor does a job that
    cannot use the GPU model that has them; these ask their GPU as before.
    """
    every = list(jobs)
    drawn = rng.random((3, len(every)))
    part, gib, profile = parts.pick(drawn[0]), PART_GIB.pick(drawn[1]), PROFILES.pick(drawn[2])
    rows = zip(every, part.tolist(), gib.tolist(), profile.tolist(), strict=True)
    for job, milli, gib_per_gpu, which in rows:
        group = job.options[0].groups[0]
        if job.options[0].milli_gpu != WHOLE_GPU or milli == WHOLE_GPU:
            yield job
        elif milli != MIG_SLICE:
            asked = {
                "gpu": milli,
                "cpu": group.cpu * milli // WHOLE_GPU,
                "memory": group.memory * milli // WHOLE_GPU,
                "gpu_memory": gib_per_gpu * _MIB_PER_GIB * milli // WHOLE_GPU,
            }
            yield _asking(job, group.model_copy(update=asked))
        elif job.running is None and MIG_MODEL in (group.gpu_models or (MIG_MODEL,)):
            slices = TaskGroup.model_validate(
                {
                    "mig": MIG_PROFILES[which],
                    "cpu": whole_units(group.cpu),
                    "memory": memory_text(group.memory),
                    "gpu_models": [MIG_MODEL],
                }
            )
            yield _asking(job, slices)
        else:
            yield job


def _asking(job: Job, group: TaskGroup) -> Job:
    return job.model_copy(update={"options": (Option(groups=(group,)),)})


def with_tenants(
    rng: np.random.Generator, jobs: Iterable[Job], free_gpus: int, tenants: int
) -> tuple[tuple[Job, ...], tuple[Tenant, ...]]:
    """Return the jobs with a tenant each, and tenants that may hold little more than they do.

    The quota of each is what its running jobs hold and an equal part of what is free: so quotas
    bind before GPUs do where more is asked than is free.
    """
    every = tuple(jobs)
    names = [f"tenant-{t}" for t in range(tenants)]
    drawn = np.floor(rng.random(len(every)) * tenants).astype(np.int64).tolist()
    owned = tuple(
        job.model_copy(update={"tenant": names[t]}) for job, t in zip(every, drawn, strict=True)
    )
    held: Counter[str] = Counter()
    for job in owned:
        if job.running is not None:
            held[job.tenant or ""] += job.options[0].milli_gpu
    part = free_gpus // tenants * WHOLE_GPU
    quotas = {name: {"gpu": whole_units(held[name] + part)} for name in names}
    return owned, tuple(Tenant(name=name, quota=quota) for name, quota in quotas.items())
