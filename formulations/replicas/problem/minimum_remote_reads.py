"""Lower bound on remote reads, and the homes and replicas that attain it.

What a job reads and its region cannot hold is read remotely. Each job reads at least as much as in
the region where that is least; no plan reads less than the sum over jobs, and in a plan that
attains it each job runs in such a region, beside all of its data that can be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.replicas.problem.job_classes import AggregateProblem
from placewright.formulations.replicas.problem.problem import Problem


def least_remote_reads(aggregate: AggregateProblem) -> int:
    """Return a lower bound on the GiB that are read remotely, or by jobs without a home."""
    return int(_remote_gib_of_jobs(aggregate).min(axis=1).sum())


def restrict_to_values(aggregate: AggregateProblem, held: Mapping[str, int]) -> AggregateProblem:
    """Return the aggregate problem of plans whose terms are at most the given values."""
    aggregate = replace(
        aggregate, overload=min(aggregate.overload, held.get("overload", aggregate.overload))
    )
    remote = _remote_gib_of_jobs(aggregate)
    least = remote.min(axis=1)
    if held.get("remote_reads", np.inf) > least.sum():
        return aggregate
    there = np.zeros(aggregate.homes.shape[:2], dtype=np.bool_)
    np.logical_or.at(there, aggregate.job_class, remote[:, :-1] == least[:, None])
    near = aggregate.local_only | aggregate.possible[aggregate.read_dataset]
    return replace(
        aggregate, homes=aggregate.homes & there[:, :, None], local_only=near
    ).with_feasible_homes()


def homes_of_least_remote_reads(problem: Problem) -> tuple[Bools, int]:
    """Return where job classes read least remotely (job classes, regions), and the GiB of all."""
    absent = np.logical_not(problem.may_hold[problem.read_dataset_class])
    lives = np.logical_or.reduce(problem.allowed_homes, axis=2)
    remote = _remote_gib(lives, problem.read_class, problem.read_gib, absent)
    least = remote.min(axis=1)
    return lives & (remote[:, :-1] == least[:, None]), int(problem.count @ least)


def forced_replicas(problem: Problem) -> Bools:
    """Return the replicas (dataset classes, regions) without which some job reads more remotely.

    Those of classes with a single region of least remote reads.
    """
    least, _ = homes_of_least_remote_reads(problem)
    alone = (least.sum(axis=1) == 1)[problem.read_class]
    region = least.argmax(axis=1)[problem.read_class]
    found = np.zeros_like(problem.may_hold)
    found[problem.read_dataset_class[alone], region[alone]] = True
    return found & problem.may_hold


def _remote_gib_of_jobs(aggregate: AggregateProblem) -> Ints:
    lives = np.logical_or.reduce(aggregate.homes, axis=2)[aggregate.job_class]
    absent = np.logical_not(aggregate.possible[aggregate.wan.read_dataset])
    return _remote_gib(lives, aggregate.wan.read_job, aggregate.wan.read_gib, absent)


def _remote_gib(lives: Bools, reader: Ints, gib: Ints, absent: Bools) -> Ints:
    """Return GiB read remotely by region, then without a home (readers, regions + 1).

    Parameters
    ----------
    lives
        (readers, regions): where they may run.
    reader, gib, absent
        (reads,), (reads,) and (reads, regions): what is read, and where it cannot be.
    """
    remote = np.zeros((len(lives), lives.shape[1] + 1), dtype=np.int64)
    np.add.at(remote, reader, gib[:, None] * np.pad(absent, ((0, 0), (0, 1)), constant_values=True))
    # Whoever cannot run somewhere reads no less there than nowhere.
    remote[:, :-1] = np.where(lives, remote[:, :-1], remote[:, -1:])
    return remote
