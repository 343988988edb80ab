"""From a checked round to its set-packing problem, with a class per job and option."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.common.priority_classes import precedence_of
from placewright.formulations.interleaving.problem.allowed_hosts import HostMasks
from placewright.formulations.interleaving.problem.capacity_rows import (
    Row,
    amount_rows,
    block_rows,
    fits_some_host,
    quota_rows,
)
from placewright.formulations.interleaving.problem.compatibility import (
    buckets_of,
    gpu_memory_of_buckets,
)
from placewright.formulations.interleaving.problem.conflicts import conflicting_pairs
from placewright.formulations.interleaving.problem.frozen_groups import frozen_groups_of
from placewright.formulations.interleaving.problem.option_classes import (
    add_choice_rows,
    job_options,
    with_one_option,
)
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    Objective,
    PackingProblem,
    Rules,
)
from placewright.formulations.interleaving.problem.priorities import Priorities
from placewright.formulations.interleaving.problem.residual_capacity import (
    OpenHosts,
    ResidualCapacity,
    find_open_hosts,
    quota_left,
    running_together,
)
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.speed import speed
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import Sharing
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
"""Terms that value the sharing of GPUs."""


@dataclass(frozen=True, eq=False)
class Interleaving:
    """A round and its set-packing problem.

    Attributes
    ----------
    jobs : tuple of int
        Indices in the round of the jobs of the packing problem: those that are pending or may move.
    packing : PackingProblem
        One class per job, in the order of `jobs`, then one for each other option of a job.
    of_class : tuple of int
        The job of each class, by its index in the round.
    class_of_job : dict of int to int
        Of each job with several options: equal for jobs that are alike in all but the first.
    objective
        The term by which groups are chosen, the first of its kind in the policy; if it has none,
        what it has by default.
    colocated : dict of int to tuple of int
        For each running job who runs on its GPUs, itself too, by indices in the round.
    stays : frozenset of int
        Running jobs that stay as they are, with whom they are.
    open_hosts : OpenHosts
        Where tasks may arrive.
    priorities : Priorities
        The priority classes by which the objective is written out.
    """

    round: Round
    sharing: Sharing
    cluster: Cluster
    jobs: tuple[int, ...]
    packing: PackingProblem
    of_class: tuple[int, ...]
    class_of_job: Mapping[int, int]
    objective: Objective
    colocated: Mapping[int, tuple[int, ...]]
    stays: frozenset[int]
    open_hosts: OpenHosts
    priorities: Priorities

    @cached_property
    def frozen_groups(self) -> frozenset[tuple[int, ...]]:
        """Groups that may only stay as they are, by indices of their jobs in the round."""
        rows = self.packing.frozen_groups.tolist()
        return frozenset(tuple(self.jobs[c] for c in row if c != ALONE) for row in rows)


def compile_interleaving(round_: Round, more: Collection[int] = ()) -> Interleaving:
    """Return the problem of a round in which pinned jobs, and `more`, stay as they are.

    Jobs that share GPUs with one that stays stay, too.

    Parameters
    ----------
    round_
        A round of policy `interleaving` that `check_round` accepts.
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
