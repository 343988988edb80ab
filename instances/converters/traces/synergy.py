"""Synergy's sensitivity matrices: jobs drawn from its models become a round on its servers.

They accompany Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters",
OSDI 2022. A model's matrix is its speed by cores (rows) and GB of memory (columns) per GPU,
relative to the share of a server that is proportional to its GPUs. The matrix at one GPU
(`<model>_1`) holds for jobs of any number of GPUs, as in the authors' simulator; others are not
read, and neither are models that are in none of its three kinds of jobs.

Kinds are exact parts of the jobs, and the models of a kind as often as each other, where the
simulator draws kind and model of each job on its own: what 128 such jobs can gain differs by six
per cent from one draw to the next. A seed draws the rest: what is left of each division, which job
has how many GPUs, and their order.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from placewright.instances.converters.support.trace_rounds import (
    Conversion,
    invalid_argument,
    without_summary,
)
from placewright.instances.derived.arrays import load_of
from placewright.instances.derived.phrases import count
from placewright.instances.documents.base import MAX_COUNT
from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.profile import MAX_SPEED, MAX_STAGE, Profile, Sensitivity
from placewright.instances.documents.quantities import memory_text
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import Sharing
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_values
from placewright.instances.speed_models.synergy import CORES, MEMORY_GB, MIB_PER_GB
from placewright.topology.units import MILLION

KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "image": ("alexnet", "mobilenet", "res18", "res50", "shufflenet"),
        "language": ("bert", "gnmt", "lstm", "transformer"),
        "speech": ("deepspeech", "m5"),
    }
)
"""Models by what they learn."""

SPLIT = (20, 70, 10)
"""Parts of the jobs that are of each kind, in the authors' default workload."""

SERVERS = 16
GPUS_PER_SERVER = 8
CORES_PER_GPU = 3
GB_PER_GPU = 62.5
"""A server has 8 GPUs, 24 cores and 500 GB."""

GPU_MODEL = "V100"

_CORE = 1000
_ONE_GPU = "_1"
_MIB = tuple(round(gb * MIB_PER_GB) for gb in MEMORY_GB)
_SHARE_MIB = round(GB_PER_GPU * MIB_PER_GB)


def read_synergy(
    profiles: str | Path,
    *,
    servers: int = SERVERS,
    jobs: int | None = None,
    split: Sequence[int] = SPLIT,
    gpus: Sequence[int] = (1,),
    seed: int = 0,
) -> Conversion:
    """Draw jobs from Synergy's models into a round of policy `interleaving` in which all wait.

    A job's first option is its proportional share, 3 cores and 62.5 GB per GPU; its weight is its
    number of GPUs. It is one task, or one per server if it has more GPUs than a server. Nobody
    shares GPUs, since the matrices do not tell the stages of an iteration.

    Parameters
    ----------
    profiles
        JSON: by model, or under a key `models`, `tput` (speeds, 9 rows of 5) and `iter_time`
        (seconds of an iteration).
    servers
        Hosts of 8 GPUs, 24 cores and 500 GB.
    jobs
        How many are drawn; by default as many as it takes to ask for every GPU.
    split
        Parts of the jobs that are image, language and speech models.
    gpus
        Numbers of GPUs, each as likely; beyond 8 in whole servers.
    seed
        Same seed, same round.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used (with the path in it) or an argument out of its range.
    """
    _check(servers, jobs, split, gpus, seed)
    file = os.fspath(profiles)
    found = load_values(file)
    try:
        known = profiles_of(found)
        drawn = np.random.Generator(np.random.PCG64(seed))
        sizes = _sizes(drawn, servers * GPUS_PER_SERVER, jobs, gpus)
        names = _names(drawn, len(sizes), split, known)
    except InvalidInputError as error:
        raise error if error.path[:1] in {("jobs",), ("split",)} else error.inside(file) from None
    cluster = ClusterDocument(
        name="synergy",
        hosts=(
            HostEntry(
                name=f"server-[0-{servers - 1}]" if servers > 1 else "server-0",
                gpus=GPUS_PER_SERVER,
                gpu_model=GPU_MODEL,
                cpu=GPUS_PER_SERVER * CORES_PER_GPU,
                memory=memory_text(GPUS_PER_SERVER * _SHARE_MIB),
            ),
        ),
    )
    round_ = Round(
        name="synergy",
        cluster=cluster,
        jobs=tuple(
            _job(f"{model}-{i}", known[model], size)
            for i, (model, size) in enumerate(zip(names, sizes, strict=True))
        ),
        sharing=Sharing(resources=("iteration",), most=1),
        policy=Policy(formulation="interleaving"),
    )
    parts = ", ".join(
        f"{sum(name in models for name in names):,} {kind}" for kind, models in KINDS.items()
    )
    summary = (
        f"synergy: {count(len(names), 'job')} ({parts}), all waiting, ask "
        f"{count(sum(sizes), 'GPU')}; "
        f"{count(servers, 'host')}, {servers * GPUS_PER_SERVER:,} GPUs; load {load_of(round_):.3f}"
    )
    return Conversion(round_, summary)


convert_synergy = without_summary(read_synergy)


def _check(
    servers: int, jobs: int | None, split: Sequence[int], gpus: Sequence[int], seed: int
) -> None:
    """Refuse arguments out of their range."""
    if not 1 <= servers <= MAX_COUNT:
        raise invalid_argument("servers", servers, f"expected 1 to {MAX_COUNT}")
    if jobs is not None and not 1 <= jobs <= MAX_COUNT:
        raise invalid_argument("jobs", jobs, f"expected 1 to {MAX_COUNT}")
    if len(split) != len(KINDS) or min(split) < 0 or not sum(split):
        raise invalid_argument(
            "split",
            list(split),
            f"expected {len(KINDS)} parts, at least 0 and not all: {', '.join(KINDS)}",
        )
    for size in gpus:
        whole = size % GPUS_PER_SERVER == 0 and size <= servers * GPUS_PER_SERVER
        if not (1 <= size <= GPUS_PER_SERVER or whole) or size < 1:
            raise invalid_argument(
                "gpus",
                size,
                f"expected 1 to {GPUS_PER_SERVER}, or servers of {GPUS_PER_SERVER} as far as there "
                "are some",
            )
    if not gpus:
        raise invalid_argument("gpus", list(gpus), "expected at least one number of GPUs")
    if seed < 0:
        raise invalid_argument("seed", seed, "expected 0 or more")


def _sizes(
    drawn: np.random.Generator, total: int, jobs: int | None, gpus: Sequence[int]
) -> list[int]:
    """Draw the GPUs of each job; without a number of jobs they ask for all GPUs if they can."""
    if jobs is not None:
        chosen: list[int] = drawn.choice(np.array(gpus), jobs).tolist()
        return chosen
    sizes: list[int] = []
    left = total
    while fitting := [size for size in gpus if size <= left]:
        sizes.append(int(drawn.choice(np.array(fitting))))
        left -= sizes[-1]
    return sizes


def _names(
    drawn: np.random.Generator, jobs: int, split: Sequence[int], known: Mapping[str, Profile]
) -> list[str]:
    """Return the model of each job, in any order; odd jobs go to kinds with most of one left."""
    shares = np.array(split, dtype=np.int64) * jobs
    counts = shares // sum(split)
    most_left = np.argsort(-(shares % sum(split)), kind="stable")
    counts[most_left[: jobs - int(counts.sum())]] += 1
    names: list[str] = []
    for (kind, models), number in zip(KINDS.items(), counts.tolist(), strict=True):
        some = [model for model in models if model in known]
        if number and not some:
            wanted = ", ".join(model + _ONE_GPU for model in models)
            raise InvalidInputError(
                f"has no model of the kind {kind!r}; expected some of {wanted}", show_value=False
            )
        if number:
            each, odd = divmod(number, len(some))
            names += some * each + drawn.permutation(np.array(some))[:odd].tolist()
    drawn.shuffle(names)
    return names


def profiles_of(found: Any) -> dict[str, Profile]:
    """Return the profile at one GPU of each model of `KINDS` that the values of a file have."""
    inside = isinstance(found, dict) and isinstance(found.get("models"), dict)
    path: tuple[str, ...] = ("models",) if inside else ()
    entries = found["models"] if inside else found
    if not isinstance(entries, dict):
        raise InvalidInputError("expected a mapping of models", value=entries)
    wanted = (model for models in KINDS.values() for model in models)
    profiles = {
        model: _profile(entries[model + _ONE_GPU], (*path, model + _ONE_GPU))
        for model in wanted
        if model + _ONE_GPU in entries
    }
    if not profiles:
        raise InvalidInputError("expected models such as alexnet_1", path=path, show_value=False)
    return profiles


def _profile(entry: Any, path: tuple[str | int, ...]) -> Profile:
    """Return the profile of one model: an iteration is one stage, speeds are in millionths."""
    for field in ("iter_time", "tput"):
        if not isinstance(entry, dict) or field not in entry:
            raise InvalidInputError("missing; expected it", path=(*path, field), show_value=False)
    table = entry["tput"]
    speeds = []
    for i, row in enumerate(_list(table, len(CORES), (*path, "tput"))):
        at = (*path, "tput", i)
        cells = enumerate(_list(row, len(_MIB), at))
        speeds.append(tuple(_millionths(cell, 0, MAX_SPEED, (*at, k)) for k, cell in cells))
    return Profile(
        stages=(_millionths(entry["iter_time"], 1, MAX_STAGE, (*path, "iter_time")),),
        sensitivity=Sensitivity(
            cores=CORES, memory=tuple(memory_text(mib) for mib in _MIB), speeds=tuple(speeds)
        ),
    )


def _list(value: Any, length: int, path: tuple[str | int, ...]) -> list[Any]:
    if not isinstance(value, list) or len(value) != length:
        raise InvalidInputError(f"expected a list of {length}", path=path, value=value)
    return value


def _millionths(value: Any, least: int, most: int, path: tuple[str | int, ...]) -> int:
    """Return a number in millionths, rounded, from `least` to `most` of them."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value * MILLION <= most:
        raise InvalidInputError(
            f"expected a number from {least / MILLION:g} to {most / MILLION:g}",
            path=path,
            value=value,
        )
    whole: int = round(value * MILLION)
    return whole


def _job(name: str, profile: Profile, gpus: int) -> Job:
    """Return a job whose one option is the proportional share; the others follow from that."""
    per_task = min(gpus, GPUS_PER_SERVER)
    share = TaskGroup(
        count=gpus // per_task,
        gpu=per_task,
        cpu=per_task * CORES_PER_GPU,
        memory=memory_text(per_task * _SHARE_MIB),
    )
    return Job(
        name=name,
        weight=gpus,
        options=(Option(name="proportional", groups=(share,)),),
        profile=profile,
    )
