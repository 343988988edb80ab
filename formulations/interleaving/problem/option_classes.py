"""Multiple-choice rows: jobs of several options, one class per option.

Only with its first option is a job in groups. Each other option is a class that shares with none
and takes exactly what the option asks, so that rows of CPU, memory and quotas are a multiple-choice
knapsack over all jobs; and there is one row more for each class of jobs,

    sum over the columns of the class of x  <=  jobs of the class

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

from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    Grouping,
    PackingProblem,
)
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round


def job_options(round_: Round, jobs: Sequence[int]) -> list[tuple[int, int]]:
    """Return (job, option) of each class: first options in order, then all others.

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
    """Return a job with this option only."""
    if len(job.options) == 1:
        return job
    return job.model_copy(update={"options": (job.options[option],)})


def add_choice_rows(
    packing: PackingProblem, of_class: Sequence[int]
) -> tuple[PackingProblem, dict[int, int]] | None:
    """Return the problem with a multiple-choice row per class of jobs, and each job's class.

    Jobs of one class are alike in all options but the first, so that it does not matter which of
    them runs one of those.

    Parameters
    ----------
    packing
        Its first classes are the first options of all jobs.
    of_class
        The job of each class.

    Returns
    -------
    tuple or None
        None if there are more than `max_option_job_classes` of them.
    """
    firsts = len(set(of_class))
    other = np.arange(packing.classes) >= firsts
    if packing.rules.objective != "efficiency":
        # Stages do not matter to jobs that do not share GPUs.
        packing = replace(
            packing,
            stages=np.where(other[:, None], 0, packing.stages),
            iteration=np.where(other, 0, packing.iteration),
            slowdown=np.where(other, 0, packing.slowdown),
            memory=np.where(other, 0, packing.memory),
        )
    keys = np.column_stack(
        [
            packing.stages,
            *(packing.iteration, packing.slowdown, packing.best, packing.weight, packing.memory),
            packing.priority_class,
            packing.per_member.T,
        ]
    )[firsts:]
    class_number = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1).tolist()
    options: defaultdict[int, list[int]] = defaultdict(list)
    for j, number in zip(of_class[firsts:], class_number, strict=True):
        options[j].append(number)
    numbers: dict[tuple[int, ...], int] = {}
    job_class = {j: numbers.setdefault(tuple(mine), len(numbers)) for j, mine in options.items()}
    if len(numbers) > parameters.PARAMETERS.max_option_job_classes:
        return None
    rows = np.zeros((len(numbers), packing.classes), dtype=np.int64)
    for c, j in enumerate(of_class):
        if j in job_class:
            rows[job_class[j], c] = 1
    extended = replace(
        packing,
        per_group=np.pad(packing.per_group, ((0, len(numbers)), (0, 0))),
        per_member=np.concatenate([packing.per_member, rows]),
        peak=np.pad(packing.peak, ((0, len(numbers)), (0, 0))),
        limit=np.concatenate([packing.limit, rows[:, :firsts].sum(axis=1)]),
    )
    return extended, job_class


def grouped_jobs(
    grouping: Grouping, of_class: Sequence[int], job_class: Mapping[int, int]
) -> list[tuple[int, ...]]:
    """Return the jobs of each column; of other options any job of the class is taken."""
    firsts = len(set(of_class))
    rows = [[c for c in row if c != ALONE] for row in grouping.members.tolist()]
    used = {of_class[c] for row in rows for c in row if c < firsts}
    left: defaultdict[int, list[int]] = defaultdict(list)
    for j, number in job_class.items():
        if j not in used:
            left[number].append(j)
    return [
        tuple(of_class[c] if c < firsts else left[job_class[of_class[c]]].pop() for c in row)
        for row in rows
    ]
