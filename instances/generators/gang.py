"""Seeded clusters and rounds for benchmarks and tests, the same on every machine.

Every random choice is a `Generator(PCG64(seed)).random` draw compared with a table of `mixes`, in
this order, each vectorised over hosts or jobs in file order:

1. per host: is it full, empty or partly free; how many GPUs are free if partly;
2. running jobs, step by step: per host that still has GPUs to fill, the size, cores, memory of one;
3. per pending job: size, GPU model, weight, cores, memory;
4. per running job: seconds since its last checkpoint, seconds that a restart takes;
5. in a mix with parts of GPUs, per job: what it asks of one GPU, GPU memory, the MIG profile;
6. per job: its tenant, if there are any.

A new draw goes to the end, or the digests of every known round change.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from placewright.array_types import Ints
from placewright.instances.derived.demand import load_of
from placewright.instances.documents.cluster import ClusterDocument, DomainEntry, HostEntry
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.policy import Policy, Tenant
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.mixes import (
    ANY_MODEL,
    MIXES,
    PER_MILLE,
    RESTART_S,
    RUNNING_CORES,
    RUNNING_GIB,
    RUNNING_SIZES,
    SINCE_CHECKPOINT_S,
    SIZES,
    WEIGHTS,
    Mix,
    MixName,
)
from placewright.instances.generators.tenants_and_shares import (
    with_gpu_memory,
    with_parts,
    with_tenants,
)

__all__ = ["generate_cluster", "generate_round", "load_of"]

HOST_GPUS = 8
HOST_CORES = 96
HOST_GIB = 1024
NOW = 86_400
GPU_MODELS = ("A100", "V100")
SMALL_GPUS = 512
CAPPED_BELOW_GPUS = 1000
MAX_GPUS = 1_600_000
MAX_JOBS = 1_000_000

_BLOCKS_PER_DATACENTER = 32
_FEW_BLOCKS = 4
_MILLI = 1000
_MIB_PER_GIB = 1024


def generate_cluster(gpus: int, *, seed: int = 0) -> ClusterDocument:  # noqa: ARG001
    """Make a cluster of hosts with 8 GPUs, 96 cores and 1,024 GiB.

    8 hosts a rack, 16 racks a block, 32 blocks a datacenter; up to 512 GPUs 4 hosts a rack and 4
    racks a block. Block i has the second GPU model when i mod 5 >= 3; with fewer than four blocks
    the rule applies to racks, so with fewer than four racks only the first model exists.

    Parameters
    ----------
    gpus
        A multiple of 8.
    seed
        Taken for symmetry with `generate_round`: nothing in the layout is random.

    Raises
    ------
    InvalidInputError
        If `gpus` is not a multiple of 8 from 8 to `MAX_GPUS`.
    """
    if not HOST_GPUS <= gpus <= MAX_GPUS or gpus % HOST_GPUS:
        raise InvalidInputError(
            f"expected a multiple of {HOST_GPUS} from {HOST_GPUS} to {MAX_GPUS}",
            path=("gpus",),
            value=gpus,
        )
    hosts = gpus // HOST_GPUS
    hosts_per_rack, racks_per_block = _rack_shape(gpus)
    racks = -(-hosts // hosts_per_rack)
    blocks = -(-racks // racks_per_block)
    datacenters = -(-blocks // _BLOCKS_PER_DATACENTER)

    domains = [DomainEntry(name=f"d{d}", level="datacenter") for d in range(datacenters)]
    domains += [
        DomainEntry(name=f"b{b}", level="block", parent=f"d{b // _BLOCKS_PER_DATACENTER}")
        for b in range(blocks)
    ]
    entries = []
    for rack in range(racks):
        block = rack // racks_per_block
        name = _rack_name(rack, racks_per_block)
        domains.append(DomainEntry(name=name, level="rack", parent=f"b{block}"))
        last = min(hosts_per_rack, hosts - rack * hosts_per_rack) - 1
        entries.append(
            HostEntry(
                name=f"{name}-h[0-{last}]" if last else f"{name}-h0",
                parent=name,
                gpus=HOST_GPUS,
                gpu_model=GPU_MODELS[(rack if blocks < _FEW_BLOCKS else block) % 5 >= 3],
                cpu=HOST_CORES,
                memory=f"{HOST_GIB}Gi",
            )
        )
    return ClusterDocument(
        name=f"generated-{gpus}",
        levels=("datacenter", "block", "rack"),
        domains=tuple(domains),
        hosts=tuple(entries),
    )


def generate_round(
    gpus: int, jobs: int, *, mix: MixName = "easy", seed: int = 0, tenants: int = 0
) -> Round:
    """Make a round of a mix: a partly used cluster and pending jobs.

    A job above 8 GPUs asks whole hosts inside one datacenter, preferring one rack, then one block,
    all of one model; if it takes any model it offers an option per model. Weights w are also
    priorities log2(w). Below 1,000 GPUs a size is capped at a quarter of the cluster, and a capped
    size above 8 is rounded down to whole hosts. Where only the first GPU model exists, all jobs
    that name a model name that one. The time is `NOW`. Running jobs have priority 0 and weight 1,
    and none is pinned. The policy has `priority: preemption`.

    In the mix `shared` GPUs have memory, and jobs of one GPU may ask a share of it instead, or a
    MIG slice. With tenants every job has one, and the quota of each binds where more is asked than
    is free.

    Parameters
    ----------
    gpus
        GPUs of the cluster, a multiple of 8.
    jobs
        Pending jobs; running ones come on top.
    mix
        Which table of `mixes`.
    seed
        At least 0; the same arguments give the same round.
    tenants
        Tenants among whom jobs are dealt; 0: jobs have none, and there are no quotas.

    Raises
    ------
    InvalidInputError
        If an argument is out of its range or the mix is unknown.
    """
    if mix not in MIXES:
        raise InvalidInputError(f"expected one of {', '.join(MIXES)}", path=("mix",), value=mix)
    if not 0 <= jobs <= MAX_JOBS:
        raise InvalidInputError(f"expected 0 to {MAX_JOBS}", path=("jobs",), value=jobs)
    for name, value in (("seed", seed), ("tenants", tenants)):
        if value < 0:
            raise InvalidInputError("expected 0 or more", path=(name,), value=value)
    cluster = generate_cluster(gpus)
    models = len({entry.gpu_model for entry in cluster.hosts})
    rng = np.random.Generator(np.random.PCG64(seed))
    parts = MIXES[mix].parts
    placed = _running_work(rng, gpus, MIXES[mix])
    pending = list(_pending_jobs(rng, gpus, jobs, MIXES[mix], models))
    every = (*_running_jobs(rng, gpus, placed), *pending)
    if parts is not None:
        cluster, every = with_gpu_memory(cluster), tuple(with_parts(rng, every, parts))
    owners: tuple[Tenant, ...] = ()
    name = f"{mix}-{gpus}-{jobs}-{seed}"
    if tenants:
        name = f"{name}-{tenants}-tenants"
        every, owners = with_tenants(rng, every, gpus - int(placed[2].sum()), tenants)
    policy = Policy(priority="preemption")
    return Round(name=name, now=NOW, cluster=cluster, jobs=every, tenants=owners, policy=policy)


def _rack_shape(gpus: int) -> tuple[int, int]:
    """Return hosts per rack and racks per block."""
    return (4, 4) if gpus <= SMALL_GPUS else (8, 16)


def _rack_name(rack: int, racks_per_block: int) -> str:
    return f"b{rack // racks_per_block}-r{rack % racks_per_block}"


def _running_work(rng: np.random.Generator, gpus: int, mix: Mix) -> Ints:
    """Fill hosts from GPU 0 up: a column per job, ordered by host, then by first GPU.

    The rows are host, first GPU, GPUs, cores, GiB.
    """
    hosts = gpus // HOST_GPUS
    state = np.floor(rng.random(hosts) * PER_MILLE)
    some_free = 1 + np.floor(rng.random(hosts) * (HOST_GPUS - 1)).astype(np.int64)
    to_fill = HOST_GPUS - np.where(
        state < mix.full, 0, np.where(state < mix.full + mix.empty, HOST_GPUS, some_free)
    )

    # Cores and memory need no cap: 8 GPUs with 12 cores and 128 GiB each are exactly a host.
    filled = np.zeros(hosts, dtype=np.int64)
    steps = [np.zeros((5, 0), dtype=np.int64)]
    while (hosts_left := np.flatnonzero(filled < to_fill)).size:
        left = to_fill[hosts_left] - filled[hosts_left]
        fitting = np.searchsorted(RUNNING_SIZES, left, side="right")
        picked = np.floor(rng.random(left.size) * fitting).astype(np.int64)
        size = np.array(RUNNING_SIZES)[picked]
        cores = RUNNING_CORES.pick(rng.random(left.size))
        gib = RUNNING_GIB.pick(rng.random(left.size))
        steps.append(np.stack([hosts_left, filled[hosts_left], size, size * cores, size * gib]))
        filled[hosts_left] += size
    placed = np.concatenate(steps, axis=1)
    return placed[:, np.lexsort((placed[1], placed[0]))]


def _running_jobs(rng: np.random.Generator, gpus: int, placed: Ints) -> Iterator[Job]:
    """Yield a running job for each column of `placed`."""
    jobs: int = placed.shape[1]
    checkpoint = NOW - SINCE_CHECKPOINT_S.pick(rng.random(jobs))
    restart_s = RESTART_S.pick(rng.random(jobs))
    rows = np.vstack([placed, checkpoint, restart_s]).T.tolist()
    hosts_per_rack, racks_per_block = _rack_shape(gpus)
    for i, (host, first, size, cores, gib, checkpoint_i, restart_i) in enumerate(rows):
        rack, slot = divmod(host, hosts_per_rack)
        task = Task(
            host=f"{_rack_name(rack, racks_per_block)}-h{slot}",
            gpus=tuple(range(first, first + size)),
        )
        yield Job(
            name=f"run-{i}",
            options=_options(size, cores, gib, None),
            running=Running(tasks=(task,), checkpoint=checkpoint_i, restart_s=restart_i),
        )


def _pending_jobs(
    rng: np.random.Generator, gpus: int, jobs: int, mix: Mix, models: int
) -> Iterator[Job]:
    """Yield pending jobs in the order of their draws."""
    size = SIZES.pick(rng.random(jobs))
    if gpus < CAPPED_BELOW_GPUS:
        size = np.minimum(size, gpus // 4)
        size = np.where(size > HOST_GPUS, size - size % HOST_GPUS, size)
    model = np.minimum(mix.models.pick(rng.random(jobs)), models - 1)
    weight = WEIGHTS.pick(rng.random(jobs))
    cores_draw, gib_draw = rng.random(jobs), rng.random(jobs)

    gang = size > HOST_GPUS
    per_task = np.minimum(size, HOST_GPUS)
    cores = np.where(gang, mix.gang_cores.pick(cores_draw), mix.single_cores.pick(cores_draw))
    gib = np.where(gang, mix.gang_gib.pick(gib_draw), mix.single_gib.pick(gib_draw))
    cores = np.minimum(cores * per_task, HOST_CORES)
    gib = np.minimum(gib * per_task, HOST_GIB)

    rows = np.stack([size, cores, gib, model, weight], axis=1).tolist()
    for i, (size_i, cores_i, gib_i, model_i, weight_i) in enumerate(rows):
        if model_i != ANY_MODEL:
            names: tuple[str | None, ...] = (GPU_MODELS[model_i],)
        elif size_i > HOST_GPUS:
            names = GPU_MODELS[:models]
        else:
            names = (None,)
        yield Job(
            name=f"job-{i}",
            priority=weight_i.bit_length() - 1,
            weight=weight_i,
            options=_options(size_i, cores_i, gib_i, *names),
        )


@lru_cache(maxsize=4096)
def _options(size: int, cores: int, gib: int, *models: str | None) -> tuple[Option, ...]:
    """Return one option per model (None: any); equal jobs share them, which saves memory."""
    gang = size > HOST_GPUS
    return tuple(
        Option(
            name=model or "default",
            groups=(
                TaskGroup(
                    count=size // HOST_GPUS if gang else 1,
                    gpu=min(size, HOST_GPUS),
                    cpu=cores,
                    memory=f"{gib}Gi",
                    gpu_models=(model,) if model else None,
                    required="datacenter" if gang else None,
                    preferred=("rack", "block") if gang else None,
                ),
            ),
        )
        for model in models
    )
