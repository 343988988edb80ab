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
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from placewright.formulations.interleaving.set_packing.problem import ALONE, Grouping, Pool
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round

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
    """Return the pool with a row per kind of jobs of several options, and the kind of each job.

    Jobs of one kind are alike in all options but the first, so that it does not matter which of
    them runs one of those.

    Parameters
    ----------
    pool
        Its first classes are the first options of all jobs.
    of_class
        The job of each class.

    Returns
    -------
    tuple or None
        None if there are more than `MAX_KINDS` kinds.
    """
    firsts = len(set(of_class))
    other = np.arange(pool.classes) >= firsts
    if pool.rules.objective != "efficiency":
        # What one iteration does is of no account where nobody shares.
        pool = replace(
            pool,
            stages=np.where(other[:, None], 0, pool.stages),
            iteration=np.where(other, 0, pool.iteration),
            slowdown=np.where(other, 0, pool.slowdown),
            memory=np.where(other, 0, pool.memory),
        )
    alike = np.column_stack(
        [
            pool.stages,
            *(pool.iteration, pool.slowdown, pool.best, pool.weight, pool.memory),
            pool.per_member.T,
        ]
    )[firsts:]
    like = np.unique(alike, axis=0, return_inverse=True)[1].reshape(-1).tolist()
    options: defaultdict[int, list[int]] = defaultdict(list)
    for j, number in zip(of_class[firsts:], like, strict=True):
        options[j].append(number)
    numbers: dict[tuple[int, ...], int] = {}
    kind = {j: numbers.setdefault(tuple(mine), len(numbers)) for j, mine in options.items()}
    if len(numbers) > MAX_KINDS:
        return None
    rows = np.zeros((len(numbers), pool.classes), dtype=np.int64)
    for c, j in enumerate(of_class):
        if j in kind:
            rows[kind[j], c] = 1
    widened = replace(
        pool,
        per_group=np.pad(pool.per_group, ((0, len(numbers)), (0, 0))),
        per_member=np.concatenate([pool.per_member, rows]),
        peak=np.pad(pool.peak, ((0, len(numbers)), (0, 0))),
        limit=np.concatenate([pool.limit, rows[:, :firsts].sum(axis=1)]),
    )
    return widened, kind


def teams_in(
    grouping: Grouping, of_class: Sequence[int], kind: Mapping[int, int]
) -> list[tuple[int, ...]]:
    """Return the jobs of each column; with another than its first option any job of a kind runs."""
    firsts = len(set(of_class))
    rows = [[c for c in row if c != ALONE] for row in grouping.members.tolist()]
    used = {of_class[c] for row in rows for c in row if c < firsts}
    left: defaultdict[int, list[int]] = defaultdict(list)
    for j, number in kind.items():
        if j not in used:
            left[number].append(j)
    return [
        tuple(of_class[c] if c < firsts else left[kind[of_class[c]]].pop() for c in row)
        for row in rows
    ]
