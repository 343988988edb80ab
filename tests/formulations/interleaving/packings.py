"""Packing problems, and the optimum of small ones by trying every partition."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    PackingProblem,
    Rules,
)

PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "traces" / "muri"
TRACES = PUBLISHED if PUBLISHED.is_dir() else Path(__file__).parents[2] / "data" / "muri"
"""The whole traces, or a hundred jobs of each."""

OBJECTIVES = ("throughput", "weighted_throughput", "efficiency")
MURI_CONTENTION = (1_310_345, 1_477_833, 1_349_754)
"""1.33, 1.5 and 1.37, each / 1.015, in millionths."""


def packing_of(rules: Rules, jobs: int, **given) -> PackingProblem:
    """Return a packing problem of one class per job; what is not given does not limit anything."""
    one = np.ones(jobs, dtype=np.int64)
    rows = len(given.get("limit", ()))
    buckets = len(given.get("gpu_memory", (0,)))
    default = {
        "stages": np.ones((jobs, 3), dtype=np.int64),
        "iteration": 3 * one,
        "slowdown": 0 * one,
        "speed": 10**6 * one,
        "best": 10**6 * one,
        "weight": one,
        "priority_class": 0 * one,
        "memory": 0 * one,
        "bucket": 0 * one,
        "count": one,
        "must_cover": np.zeros(jobs, dtype=np.bool_),
        "conflicts": np.zeros((0, 2)),
        "gpu_memory": [0],
        "per_group": np.zeros((rows, buckets)),
        "per_member": np.zeros((rows, jobs)),
        "limit": [],
        "frozen_groups": np.zeros((0, 4)),
    }
    arrays = {}
    for name, value in (default | given).items():
        dtype = np.bool_ if name == "must_cover" else np.int64
        arrays[name] = np.asarray(value, dtype=dtype)
    return PackingProblem(rules, **arrays)


def random_packing(
    seed: int, jobs: int, objective: str, *, job_types: int | None = None
) -> PackingProblem:
    """Return a problem of some types of jobs in up to two buckets, each rule now and then."""
    rng = np.random.default_rng(seed)
    spanning = bool(rng.integers(2))
    resources = 3 if spanning else int(rng.integers(2, 6))
    job_types = int(rng.integers((jobs + 1) // 2, jobs + 1)) if job_types is None else job_types
    job_type = rng.integers(job_types, size=jobs)
    # Mostly one long stage each, so that many can take turns.
    stages = rng.integers(0, 8, (job_types, resources))
    stages[np.arange(job_types), rng.integers(resources, size=job_types)] += rng.integers(
        8, 40, job_types
    )
    iteration = np.maximum(stages.sum(axis=1) * rng.integers(700, 1300, job_types) // 1000, 1)
    slowdown = np.where(rng.random(job_types) < 0.2, rng.integers(1000, 3000, job_types), 0)
    speed = rng.choice([10**6, 700_000], jobs)
    bucket = (rng.random(job_types) < 0.2).astype(np.int64)
    lonely = rng.random(job_types) < 0.08
    stages[lonely & (rng.random(job_types) < 0.5)] = 0
    bucket[lonely] = ALONE
    gpus = np.array([1, 2])
    per_group = np.array([gpus, [0, 0], -gpus])
    asked = np.where(bucket[job_type] == ALONE, 1, gpus[bucket[job_type]])
    own = np.where(bucket[job_type] == ALONE, 1, 0)
    tenant = (rng.random(jobs) < 0.5) * asked
    saved = np.where(bucket[job_type] == ALONE, 0, asked)
    # GPUs, what one tenant asks, and what groups save.
    limits = [rng.integers(1, jobs // 2 + 2), rng.integers(1, 2 * jobs), rng.integers(0, jobs)]
    pairs = rng.integers(jobs, size=(int(rng.integers(3)), 2))
    most = int(rng.choice([1, 2, 3, 4, 4, 4, 4, 4, 4]))
    colocated = np.flatnonzero(bucket[job_type] == 0)[: int(rng.integers(2, 4))]
    frozen = [*colocated, *[ALONE] * (4 - len(colocated))]
    runs = 1 < len(colocated) <= min(most, resources) and rng.random() < 0.3
    return packing_of(
        Rules(
            objective,  # type: ignore[arg-type]
            spanning,
            MURI_CONTENTION if rng.random() < 0.4 else (10**6,) * 3,
            most,
        ),
        jobs,
        stages=stages[job_type],
        iteration=iteration[job_type],
        slowdown=slowdown[job_type],
        speed=speed,
        best=speed + rng.choice([0, 0, 0, 500_000], jobs),
        weight=rng.choice([0, 1, 1, 3], jobs),
        memory=rng.choice([10, 20], job_types)[job_type],
        bucket=bucket[job_type],
        must_cover=rng.random(jobs) < 0.1,
        conflicts=pairs[pairs[:, 0] != pairs[:, 1]],
        gpu_memory=rng.choice([0, 45], 2),
        per_group=per_group,
        per_member=np.array([own, tenant, saved]),
        frozen_groups=[frozen] if runs else np.zeros((0, 4)),
        limit=np.where(rng.random(3) < [1.0, 0.5, 0.5], limits, 10**6),
    )


def muri_packing(seed: int, jobs: int, trace: str, objective: str = "throughput") -> PackingProblem:
    """Return jobs drawn from a trace, on a quarter of the GPUs that they ask, hosts of 8."""
    with (TRACES / f"{trace}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rng = np.random.default_rng(seed)
    chosen = [rows[i] for i in rng.choice(len(rows), jobs, replace=jobs > len(rows))]
    asked = np.array([int(row["num_gpu"]) for row in chosen])
    sizes = np.unique(asked)
    slots = -(-int(asked.sum()) // 4)
    hosts = [8] * (slots // 8) + [slots % 8]
    shapes = np.unique(np.minimum(sizes, 8))
    times = ("iteration_time", "resource_time_0", "resource_time_1", "resource_time_2")
    measured = np.array([[int(float(row[t]) * 1000) for t in times] for row in chosen])
    return packing_of(
        Rules(objective, spanning=True, contention=MURI_CONTENTION),  # type: ignore[arg-type]
        jobs,
        stages=measured[:, 1:],
        iteration=measured[:, 0],
        weight=1 + asked,
        bucket=np.searchsorted(sizes, asked),
        gpu_memory=0 * sizes,
        per_group=[[-(-g // 8) * (min(g, 8) // s) for g in sizes] for s in shapes],
        per_member=np.zeros((len(shapes), jobs)),
        limit=[sum(host // s for host in hosts) for s in shapes],
    )


def period(stages: Sequence[Sequence[int]], spanning: bool) -> int:
    """Return the shortest period of a group, by trying all offsets."""
    slots = 4 if spanning else len(stages[0])
    best = None
    for offsets in permutations(range(slots), len(stages)):
        single, pair = [0] * slots, [0] * slots
        for job, offset in zip(stages, offsets, strict=True):
            if spanning:
                begins = -offset % 4
                pair[begins] = job[0]
                single[begins - 2] = max(single[begins - 2], job[1])
                single[begins - 1] = max(single[begins - 1], job[2])
            else:
                for slot in range(slots):
                    single[slot] = max(single[slot], job[(slot + offset) % slots])
        length = sum(single)
        if spanning:
            joint = [max(pair[s], single[s] + single[s - 3]) for s in range(4)]
            length = max(joint[0] + joint[2], joint[1] + joint[3])
        best = length if best is None else min(best, length)
    assert best is not None
    return best


def optimum(packing: PackingProblem) -> int | None:
    """Return the largest value of any choice of columns; None if there is no choice.

    For problems of one job per class.
    """
    rules, jobs = packing.rules, packing.classes
    conflicts = {frozenset(pair) for pair in packing.conflicts.tolist()}
    frozen = [tuple(j for j in group if j != ALONE) for group in packing.frozen_groups.tolist()]

    @cache
    def value_of(group: tuple[int, ...]) -> int | None:
        weights = (
            packing.weight if rules.objective == "weighted_throughput" else packing.weight * 0 + 1
        )
        slots = 4 if rules.spanning else packing.stages.shape[1]
        total = sum(int(packing.stages[j].sum()) for j in group)
        if len(group) == 1:
            j = group[0]
            if rules.objective == "efficiency":
                return 10**6 * total // (slots * int(packing.iteration[j]))
            return int(packing.best[j]) * int(weights[j])
        bucket = int(packing.bucket[group[0]])
        if len(group) > min(rules.max_members, slots) or bucket == ALONE:
            return None
        if any(packing.bucket[j] != bucket for j in group):
            return None
        may_form = group in frozen
        if not may_form and any(pair <= set(group) for pair in conflicts):
            return None
        gpu_memory = int(packing.gpu_memory[bucket])
        if not may_form and gpu_memory and sum(int(packing.memory[j]) for j in group) > gpu_memory:
            return None
        bare = period([packing.stages[j].tolist() for j in group], rules.spanning)
        length = -(-bare * rules.contention[len(group) - 2] // 10**6)
        if not may_form and length > sum(int(packing.iteration[j]) for j in group):
            return None
        for j in group:
            cap = int(packing.slowdown[j])
            if not may_form and cap and length * 1000 > cap * int(packing.iteration[j]):
                return None
        if rules.objective == "efficiency":
            return 10**6 * total // (slots * length)
        moved = (int(packing.speed[j]) * int(packing.iteration[j]) // length for j in group)
        return sum(m * int(weights[j]) for m, j in zip(moved, group, strict=True))

    def keeps_rows(groups: list[tuple[int, ...]]) -> bool:
        used = np.zeros(len(packing.limit), dtype=np.int64)
        for group in groups:
            used += packing.per_member[:, list(group)].sum(axis=1)
            if packing.bucket[group[0]] != ALONE:
                used += packing.per_group[:, packing.bucket[group[0]]]
        return bool((used <= packing.limit).all())

    def choices(job: int, groups: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
        if job == jobs:
            yield groups
            return
        if not packing.must_cover[job]:
            yield from choices(job + 1, groups)
        yield from choices(job + 1, [*groups, (job,)])
        for at, group in enumerate(groups):
            if len(group) < rules.max_members:
                yield from choices(job + 1, [*groups[:at], (*group, job), *groups[at + 1 :]])

    best = None
    for groups in choices(0, []):
        values = [value_of(group) for group in groups]
        if None in values or not keeps_rows(groups):
            continue
        value = sum(v for v in values if v is not None)
        best = value if best is None else max(best, value)
    return best


def kept_by(packing: PackingProblem, columns: Ints) -> bool:
    """Return whether each job is used once at most, all that must be are, and rows hold."""
    members = columns[columns != ALONE]
    used = np.bincount(members, minlength=packing.classes)
    rows = packing.usage(columns).sum(axis=0)
    covered = (used == packing.count)[packing.must_cover].all()
    return bool((used <= packing.count).all() and covered and (rows <= packing.limit).all())
