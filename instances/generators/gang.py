"""Seeded clusters and rounds for benchmarks and tests, the same on every machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from placewright.array_types import Ints
from placewright.instances.derived.arrays import load_of
from placewright.instances.documents.cluster import ClusterDocument, DomainEntry, HostEntry
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.policy import Policy, Tenant
from placewright.instances.documents.quantities import memory_text, whole_units
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.topology.units import WHOLE_GPU

# The generator's mixes: what runs, what is free and what is asked, as tables of shares.
#
# All shares are per mille, so that a draw is an integer comparison and the same on every machine.


MixName = Literal["easy", "hard", "tight", "shared"]
PER_MILLE = 1000


@dataclass(frozen=True, slots=True)
class Shares:
    """Values and how often each is drawn, in per mille; the shares sum to 1000."""

    values: tuple[int, ...]
    per_mille: tuple[int, ...]

    def pick(self, uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Turn uniform draws from [0, 1) into values, one by one."""
        limits = np.cumsum(self.per_mille)
        drawn = np.floor(uniform * PER_MILLE).astype(np.int64)
        return np.array(self.values, dtype=np.int64)[np.searchsorted(limits, drawn, side="right")]


@dataclass(frozen=True, slots=True)
class Mix:
    """One mix. Cores and GiB are per GPU; `models` draws an index, `ANY_MODEL` for any.

    `full` and `empty` are the shares of hosts without and with nothing but free GPUs. `parts` draws
    the milli-GPU that jobs of one GPU ask, `MIG_SLICE` for a slice; None: all ask whole GPUs.
    """

    full: int
    empty: int
    models: Shares
    single_cores: Shares
    single_gib: Shares
    gang_cores: Shares
    gang_gib: Shares
    parts: Shares | None = None


ANY_MODEL = -1
SIZES = Shares(
    (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512),
    (700, 100, 70, 60, 25, 5, 14, 4, 10, 2, 5, 3, 2),
)
WEIGHTS = Shares((1, 2, 4, 8), (400, 300, 200, 100))
RUNNING_SIZES = (1, 2, 4, 8)
RUNNING_CORES = Shares((4, 8, 12), (350, 450, 200))
RUNNING_GIB = Shares((32, 64, 128), (350, 450, 200))
SINCE_CHECKPOINT_S = Shares((60, 300, 600, 900, 1200, 1800), (150, 200, 200, 200, 150, 100))
MIG_SLICE = 0
MIG_PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb")
PROFILES = Shares((0, 1, 2), (500, 300, 200))
"""Indices in `MIG_PROFILES`."""
PART_GIB = Shares((16, 32, 64), (400, 400, 200))
"""GPU memory of a share of a GPU, per GPU."""
RESTART_S = Shares((30, 60, 120, 300), (300, 400, 200, 100))

_MOSTLY_ANY = Shares((ANY_MODEL, 0, 1), (300, 500, 200))
_EASY_CORES = Shares((4, 8, 12, 16), (300, 400, 200, 100))
_EASY_GIB = Shares((32, 64, 128, 192), (300, 400, 200, 100))
_HARD_CORES = Shares((4, 8, 12, 16), (150, 300, 300, 250))
_HARD_GIB = Shares((32, 64, 128, 192), (150, 300, 300, 250))

MIXES: dict[MixName, Mix] = {
    "easy": Mix(
        full=350,
        empty=300,
        models=_MOSTLY_ANY,
        single_cores=_EASY_CORES,
        single_gib=_EASY_GIB,
        gang_cores=_EASY_CORES,
        gang_gib=_EASY_GIB,
    ),
    "hard": Mix(
        full=250,
        empty=120,
        models=_MOSTLY_ANY,
        single_cores=_HARD_CORES,
        single_gib=_HARD_GIB,
        gang_cores=_HARD_CORES,
        gang_gib=_HARD_GIB,
    ),
    "tight": Mix(
        full=350,
        empty=300,
        models=Shares((0, 1), (600, 400)),
        single_cores=Shares((4, 8, 16, 24, 32), (250, 150, 200, 200, 200)),
        single_gib=Shares((32, 64, 128, 256, 384), (250, 150, 200, 200, 200)),
        gang_cores=_EASY_CORES,
        gang_gib=_EASY_GIB,
    ),
    "shared": Mix(
        full=250,
        empty=120,
        models=_MOSTLY_ANY,
        single_cores=_EASY_CORES,
        single_gib=_EASY_GIB,
        gang_cores=_EASY_CORES,
        gang_gib=_EASY_GIB,
        parts=Shares((1000, 500, 250, MIG_SLICE), (350, 250, 250, 150)),
    ),
}


# GPU shares, MIG slices and tenants, drawn after the rest of a generated round.


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


# Every random choice is a `Generator(PCG64(seed)).random` draw compared with a table of `mixes`, in
# this order, each vectorised over hosts or jobs in file order:
#
# 1. per host: is it full, empty or partly free; how many GPUs are free if partly; 2. running
# jobs, step by step: per host that still has GPUs to fill, the size, cores, memory of one; 3. per
# pending job: size, GPU model, weight, cores, memory; 4. per running job: seconds since its last
# checkpoint, seconds that a restart takes; 5. in a mix with parts of GPUs, per job: what it asks
# of one GPU, GPU memory, the MIG profile; 6. per job: its tenant, if there are any.
#
# A new draw goes to the end, or the digests of every known round change.


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
            f"expected a multiple of {HOST_GPUS} from {HOST_GPUS} to {MAX_GPUS}", ("gpus",), gpus
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
        raise InvalidInputError(f"expected one of {', '.join(MIXES)}", ("mix",), mix)
    if not 0 <= jobs <= MAX_JOBS:
        raise InvalidInputError(f"expected 0 to {MAX_JOBS}", ("jobs",), jobs)
    for name, value in (("seed", seed), ("tenants", tenants)):
        if value < 0:
            raise InvalidInputError("expected 0 or more", (name,), value)
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
