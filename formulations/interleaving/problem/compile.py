"""From a checked round to its set-packing problem, with a class per job and option."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import mul
from typing import get_args

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.common.priority_classes import precedence_of
from placewright.formulations.interleaving.problem.capacity import (
    HostMasks,
    OpenHosts,
    ResidualCapacity,
    Row,
    amount_rows,
    block_rows,
    find_open_hosts,
    fits_some_host,
    quota_left,
    quota_rows,
    running_together,
)
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    MAX_MEMBERS,
    Objective,
    PackingProblem,
    Rules,
    add_choice_rows,
    allowed,
    best_offsets,
    contended,
    job_options,
    pad_members,
    periods,
    with_one_option,
)
from placewright.formulations.interleaving.problem.sharing import (
    Priorities,
    buckets_of,
    conflicting_pairs,
    gpu_memory_of_buckets,
    size_in_group,
)
from placewright.formulations.plan_messages import Group
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.speed import speed
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import Sharing
from placewright.topology import Cluster
from placewright.topology.units import MILLION, WHOLE_GPU


def frozen_groups_of(packing: PackingProblem, groups: Iterable[Ints]) -> Ints:
    """Return the groups, of ascending classes, that may not be formed (groups, 4)."""
    found = [pad_members(group[None]) for group in groups if not may_form(packing, group)]
    return np.concatenate([np.zeros((0, MAX_MEMBERS), dtype=np.int64), *found])


def may_form(packing: PackingProblem, group: Ints) -> bool:
    """Whether two or more classes of one bucket may form a group now, int64 (members,)."""
    gpu_memory = int(packing.gpu_memory[packing.bucket[group[0]]])
    if len(group) > packing.max_members or 0 < gpu_memory < packing.memory[group].sum():
        return False
    if np.isin(packing.conflicts, group).all(axis=1).any():
        return False
    return bool(allowed(packing, group[None], periods(packing, group[None]))[0])


def merged_option(jobs: Sequence[Job], sharing: Sharing) -> Option:
    """Return the option of one job that takes what these jobs take together; of one its own.

    They share all their places, so that what each of them uses of pools adds up.
    """
    first = jobs[0]
    if len(jobs) == 1:
        return first.options[first.running.option if first.running is not None else 0]
    uses: Counter[str] = Counter()
    for job in jobs:
        uses.update(job.options[0].uses)
    update = {"groups": merged_task_groups(jobs, sharing), "uses": dict(uses)}
    return first.options[0].model_copy(update=update)


def merged_task_groups(jobs: Sequence[Job], sharing: Sharing) -> tuple[TaskGroup, ...]:
    """Return the task groups of one job that takes what these jobs take together.

    CPU is taken in turns, so that the most that one of them asks is enough; everything else adds
    up. Their first options ask alike tasks; one job is returned as it is.
    """
    if len(jobs) == 1:
        return jobs[0].options[0].groups
    options = [job.options[0].groups for job in jobs]
    groups = []
    for number, first in enumerate(options[0]):
        mine = [task_groups[number] for task_groups in options]
        sizes = (size_in_group(job, group, sharing) for job, group in zip(jobs, mine, strict=True))
        resources: Counter[str] = Counter()
        for group in mine:
            resources.update(group.resources)
        asked = {
            "cpu": max(group.cpu for group in mine),
            "memory": sum(group.memory for group in mine),
            "resources": dict(resources),
            "gpu_memory": sum(sizes),
        }
        groups.append(first.model_copy(update=asked))
    return tuple(groups)


OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
"""Terms that value the sharing of GPUs."""


@dataclass(frozen=True, eq=False)
class Interleaving:
    """A round and its set-packing problem."""

    round: Round
    sharing: Sharing
    cluster: Cluster
    # Indices in the round of the jobs of the packing problem: those that are pending or may move.
    jobs: tuple[int, ...]
    # One class per job, in the order of `jobs`, then one for each other option of a job.
    packing: PackingProblem
    of_class: tuple[int, ...]  # The job of each class, by its index in the round
    # Of each job with several options: equal for jobs that are alike in all but the first.
    class_of_job: Mapping[int, int]
    # The term by which groups are chosen, the first of its kind in the policy; if it has none, what
    # it has by default.
    objective: Objective
    # For each running job who runs on its GPUs, itself too, by indices in the round.
    colocated: Mapping[int, tuple[int, ...]]
    stays: frozenset[int]  # Running jobs that stay as they are, with whom they are
    open_hosts: OpenHosts  # Where tasks may arrive
    priorities: Priorities  # The priority classes by which the objective is written out

    @cached_property
    def frozen_groups(self) -> frozenset[tuple[int, ...]]:
        """Groups that may only stay as they are, by indices of their jobs in the round."""
        rows = self.packing.frozen_groups.tolist()
        return frozenset(tuple(self.jobs[c] for c in row if c != ALONE) for row in rows)


def compile_interleaving(round_: Round, more: Collection[int] = ()) -> Interleaving:
    """Return the problem of a round in which pinned jobs, and `more`, stay as they are.

    Jobs that share GPUs with one that stays stay, too.
    `round_`: a round of policy `interleaving` that `check_round` accepts.
    """
    sharing, terms = round_.sharing, round_.policy.terms
    colocated = running_together(round_)
    fixed = {j for j in colocated if j in more or _pinned(round_.jobs[j])}
    stays = frozenset(one for j in fixed for one in colocated[j])
    cluster = build_cluster(round_.cluster)
    masks = HostMasks(cluster, round_.host_sets)
    open_hosts = find_open_hosts(round_, cluster)
    indices = tuple(j for j in range(len(round_.jobs)) if j not in stays)
    whole = [round_.jobs[j] for j in indices]
    named = [o for o in OBJECTIVES if o in terms]
    objective = min(named, key=terms.index) if named else "weighted_throughput"
    priorities = Priorities.of(round_, objective)
    residual = ResidualCapacity(round_, cluster, colocated, stays, open_hosts)

    def packing_of(jobs: Sequence[Job]) -> PackingProblem:
        """Return the packing problem with these jobs as classes, those of `jobs` first."""
        bucket = np.full(len(jobs), ALONE, dtype=np.int64)
        bucket[: len(whole)] = buckets_of(whole)
        rows = [
            *block_rows(jobs, masks, residual.hosts, residual.gpus, residual.parts),
            *amount_rows(jobs, cluster, residual.hosts, residual.held, bucket),
            *quota_rows(jobs, quota_left(round_, stays)),
            *_savings_row(round_, sharing, colocated, stays, open_hosts, jobs, bucket),
        ]
        # Only a job of higher precedence can stop one that runs.
        highest = max((precedence_of(job) for job in jobs), default=None)
        must = [job.running is not None and precedence_of(job) == highest for job in jobs]
        memory, gpu_memory = gpu_memory_of_buckets(jobs, masks, bucket, sharing)
        stages = [_stages(job, len(sharing.resources)) for job in jobs]
        return PackingProblem(
            rules=Rules(
                objective,
                sharing.spanning,
                sharing.contention,
                sharing.most,
                priorities.weights,
            ),
            stages=np.array(stages, dtype=np.int64).reshape(-1, len(sharing.resources)),
            iteration=_array(_alone(job) for job in jobs),
            slowdown=_array((job.profile and job.profile.slowdown) or 0 for job in jobs),
            speed=_array(speed(job, 0) for job in jobs),
            best=_array(max(speed(job, o) for o in range(len(job.options))) for job in jobs),
            weight=_array(job.weight for job in jobs),
            priority_class=_array(priorities.number_of(job) for job in jobs),
            memory=memory,
            bucket=bucket,
            count=fits_some_host(jobs, masks, open_hosts.hosts).astype(np.int64),
            must_cover=np.array(must, dtype=bool),
            conflicts=conflicting_pairs(whole, sharing),
            gpu_memory=gpu_memory,
            per_group=_per_group(rows, bucket),
            per_member=_per_member(rows, bucket),
            peak=_peak(rows, bucket),
            limit=_array(row.limit for row in rows),
        )

    options = job_options(round_, indices)
    of_class = tuple(j for j, _ in options)
    packing = packing_of([with_one_option(round_.jobs[j], option) for j, option in options])
    class_of_job: Mapping[int, int] = {}
    if of_class != indices:
        split = add_choice_rows(packing, of_class)
        if split is None:
            packing, of_class = packing_of(whole), indices
        else:
            packing, class_of_job = split
    position = {j: i for i, j in enumerate(indices)}
    groups = {mine for mine in colocated.values() if len(mine) > 1 and mine[0] in position}
    classes = (_array(position[j] for j in mine) for mine in sorted(groups))
    packing = replace(packing, frozen_groups=frozen_groups_of(packing, classes))
    return Interleaving(
        round_,
        sharing,
        cluster,
        indices,
        packing,
        of_class,
        class_of_job,
        objective,
        colocated,
        stays,
        open_hosts,
        priorities,
    )


def _savings_row(
    round_: Round,
    sharing: Sharing,
    colocated: Mapping[int, tuple[int, ...]],
    stays: Collection[int],
    open_hosts: OpenHosts,
    jobs: Sequence[Job],
    bucket: Ints,
) -> Iterator[Row]:
    """Yield the row that limits the GPUs that groups save, if they are formed as needed."""
    if not sharing.as_needed:
        return
    asked = sum(job.options[0].milli_gpu for job in round_.jobs)
    lack = asked - WHOLE_GPU * open_hosts.gpus
    largest = max((j.options[0].milli_gpu for j in round_.jobs if j.profile), default=0)
    groups = {mine for mine in colocated.values() if len(mine) > 1}
    saves = {mine: (len(mine) - 1) * round_.jobs[mine[0]].options[0].milli_gpu for mine in groups}
    max_saved = max(sum(saves.values()), lack + largest - WHOLE_GPU if lack > 0 else 0)
    fixed = sum(amount for mine, amount in saves.items() if mine[0] in stays)
    gpus = np.where(bucket == ALONE, 0, _array(job.options[0].milli_gpu for job in jobs))
    yield Row(-gpus, gpus, max_saved - fixed)


def _pinned(job: Job) -> bool:
    return job.running is not None and job.running.pinned


def _stages(job: Job, number: int) -> tuple[int, ...]:
    return (0,) * number if job.profile is None else job.profile.stages


def _alone(job: Job) -> int:
    return 0 if job.profile is None else job.profile.alone


def _array(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _per_group(rows: Sequence[Row], bucket: Ints) -> Ints:
    """Return what a column of each bucket takes at least (rows, buckets)."""
    least = np.full((len(rows), int(bucket.max(initial=ALONE)) + 1), np.iinfo(np.int64).max)
    inside = bucket != ALONE
    for r, row in enumerate(rows):
        np.minimum.at(least[r], bucket[inside], row.shared[inside])
    return least


def _per_member(rows: Sequence[Row], bucket: Ints) -> Ints:
    """Return what each job takes of its own (rows, jobs)."""
    own = [row.own + np.where(bucket == ALONE, row.shared, 0) for row in rows]
    return np.array(own, dtype=np.int64).reshape(len(rows), len(bucket))


def _peak(rows: Sequence[Row], bucket: Ints) -> Ints:
    """Return what each job shares beyond the least of its bucket (rows, jobs)."""
    least = np.pad(_per_group(rows, bucket), ((0, 0), (0, 1)))
    more = [
        np.where(bucket == ALONE, 0, row.shared - least[r, bucket]) for r, row in enumerate(rows)
    ]
    return np.array(more, dtype=np.int64).reshape(len(rows), len(bucket))


# Job groups, of one job or several: offsets of the members' stages, and the group's value.
#
# References
# ----------
# Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM'22, section 4.


def job_groups_of(problem: Interleaving, sets: Iterable[tuple[int, ...]]) -> list[Group]:
    """Return job groups with their best offsets; a job on its own has offset 0.

    `sets`: members of each job group, by their indices in the round.
    """
    by_size: defaultdict[int, list[tuple[int, ...]]] = defaultdict(list)
    for members in sets:
        by_size[len(members)].append(tuple(sorted(members)))
    alone = (Group(members, (0,), 0) for members in by_size.pop(1, ()))
    shared = (_with_offsets(problem, size, sets_) for size, sets_ in sorted(by_size.items()))
    return sorted(chain(alone, *shared), key=lambda job_group: job_group.members)


def _with_offsets(problem: Interleaving, size: int, sets: list[tuple[int, ...]]) -> list[Group]:
    jobs, sharing = problem.round.jobs, problem.sharing
    stages_of = {j: p.stages for members in sets for j in members if (p := jobs[j].profile)}
    stages = np.array([[stages_of[j] for j in members] for members in sets], dtype=np.int64)
    bare, offsets = best_offsets(stages, spanning=sharing.spanning)
    period = contended(bare, sharing.contention[size - 2])
    return [
        Group(members, tuple(mine), length)
        for members, mine, length in zip(sets, offsets.tolist(), period.tolist(), strict=True)
    ]


def group_value(problem: Interleaving, job_group: Group, option: int = 0) -> int:
    """Return what a job group adds to the objective, its priority classes weighted.

    `option`: of a job on its own; in a group all run their first option.
    """
    of_classes = class_values(problem, job_group, option)
    return sum(map(mul, problem.priorities.weights, of_classes))


def class_values(problem: Interleaving, job_group: Group, option: int = 0) -> tuple[int, ...]:
    """Return what a job group adds to each priority class, the highest first; see `group_value`."""
    jobs = [problem.round.jobs[j] for j in job_group.members]
    alone = len(jobs) == 1
    if problem.objective == "efficiency":
        profiles = [job.profile for job in jobs if job.profile is not None]
        period = profiles[0].alone if alone and profiles else job_group.period
        busy = sum(sum(profile.stages) for profile in profiles)
        return (MILLION * busy // (problem.sharing.slots * period) if profiles else 0,)
    total = [0] * len(problem.priorities.weights)
    for job in jobs:
        rate = speed(job, option)
        if not alone and job.profile is not None:
            rate = rate * job.profile.alone // job_group.period
        if problem.priorities.counts(job):
            weight = job.weight if problem.objective == "weighted_throughput" else 1
            total[problem.priorities.number_of(job)] += rate * weight
    return tuple(total)


def kept_values(problem: Interleaving, job_group: Group) -> tuple[int, ...]:
    """Return what jobs that run, and stay as they are, add to each priority class."""
    running = problem.round.jobs[job_group.members[0]].running
    return class_values(problem, job_group, 0 if running is None else running.option)
