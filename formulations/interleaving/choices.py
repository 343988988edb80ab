"""Jobs of several options in the grouping problem: a class per way to run one on its own.

Only with its first option is a job in groups. Each other option is a class that shares with nobody
and takes exactly what the option asks, so that rows of CPU, memory and quotas are a multiple-choice
knapsack over all jobs; and one row more for each kind of jobs,

    sum over classes of the kind of x  <=  jobs of the kind

References
----------
Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI'22, the first
of the two programs of Synergy-OPT.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from placewright.formulations.interleaving.grouping.pool import ALONE, Grouping, Ints, Pool
from placewright.instances.job import Job
from placewright.instances.round import Round

MAX_KINDS = 200
"""Most kinds of jobs of several options; beyond, each job counts the least of its options."""


def choices_of(round_: Round, jobs: Sequence[int]) -> list[tuple[int, int]]:
    """Return (job, option) of each class: those of first options in order, then all others.

    A running job keeps its option.
    """
    first = [(j, 0 if (r := round_.jobs[j].running) is None else r.option) for j in jobs]
    others = [
        (j, option)
        for j in jobs
        if round_.jobs[j].running is None
        for option in range(1, len(round_.jobs[j].options))
    ]
    return first + others


def with_one_option(job: Job, option: int) -> Job:
    """Return a job as if it had no other option."""
    if len(job.options) == 1:
        return job
    return job.model_copy(update={"options": (job.options[option],)})


def one_of_each(pool: Pool, of_class: Sequence[int]) -> tuple[Pool, dict[int, int]] | None:
    """Return the pool with a row per kind of jobs of several classes, and the kind of each job.

    Parameters
    ----------
    of_class
        The job of each class.

    Returns
    -------
    tuple or None
        None if there are more than `MAX_KINDS` kinds.
    """
    conflicting = np.zeros(pool.classes, dtype=np.int64)
    members = np.unique(pool.conflicts)
    conflicting[members] = members + 1
    alike = np.column_stack(
        [
            pool.stages,
            *(pool.iteration, pool.slowdown, pool.speed, pool.best, pool.weight, pool.memory),
            *(pool.bucket, pool.must, conflicting),
            pool.per_member.T,
        ]
    )
    like = np.unique(alike, axis=0, return_inverse=True)[1].reshape(-1).tolist()
    classes: defaultdict[int, list[int]] = defaultdict(list)
    for c, j in enumerate(of_class):
        classes[j].append(c)
    numbers: dict[tuple[int, ...], int] = {}
    kind = {
        j: numbers.setdefault(tuple(like[c] for c in mine), len(numbers))
        for j, mine in classes.items()
        if len(mine) > 1
    }
    if len(numbers) > MAX_KINDS:
        return None
    rows = np.zeros((len(numbers), pool.classes), dtype=np.int64)
    limit = np.zeros(len(numbers), dtype=np.int64)
    for j, number in kind.items():
        rows[number, classes[j]] = 1
        limit[number] += 1
    bucket_rows = np.zeros((len(numbers), pool.buckets), dtype=np.int64)
    widened = replace(
        pool,
        per_group=np.concatenate([pool.per_group, bucket_rows]),
        per_member=np.concatenate([pool.per_member, rows]),
        limit=np.concatenate([pool.limit, limit]),
    )
    return widened, kind


def teams_in(
    grouping: Grouping, of_class: Sequence[int], kind: Mapping[int, int]
) -> list[tuple[int, ...]]:
    """Return the jobs of each column; where one was taken twice, another of its kind comes in."""
    spare: defaultdict[int, list[int]] = defaultdict(list)
    for j, number in kind.items():
        spare[number].append(j)
    return list(_teams(grouping.members, of_class, kind, spare))


def _teams(
    members: Ints, of_class: Sequence[int], kind: Mapping[int, int], spare: dict[int, list[int]]
) -> Iterator[tuple[int, ...]]:
    for row in members.tolist():
        jobs = [of_class[c] for c in row if c != ALONE]
        yield tuple(spare[kind[j]].pop() if j in kind else j for j in jobs)
