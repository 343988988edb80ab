"""Remote reads that no plan can save, and plans without any others.

What a job reads and its region cannot hold it reads from afar, if it runs there: so much at least
as where that is least. No plan reads less than all jobs together do so; in one that reads no more,
each of them runs where it is least, beside all of its data that can be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from placewright.formulations.common.wan.arrays import Bools, Ints
from placewright.formulations.replicas.problem.job_classes import Pool
from placewright.formulations.replicas.problem.problem import Problem


def unavoidable(pool: Pool) -> int:
    """Return GiB that are read from afar, or not at all, in every plan."""
    return int(_of_jobs(pool).min(axis=1).sum())


def among(pool: Pool, held: Mapping[str, int]) -> Pool:
    """Return a pool of the plans whose terms are no more than what is held."""
    pool = replace(pool, overload=min(pool.overload, held.get("overload", pool.overload)))
    afar = _of_jobs(pool)
    least = afar.min(axis=1)
    if held.get("remote_reads", np.inf) > least.sum():
        return pool
    there = np.zeros(pool.homes.shape[:2], dtype=np.bool_)
    np.logical_or.at(there, pool.job_class, afar[:, :-1] == least[:, None])
    near = pool.near | pool.possible[pool.read_dataset]
    return replace(pool, homes=pool.homes & there[:, :, None], near=near).with_room()


def frugal_homes(problem: Problem) -> tuple[Bools, int]:
    """Return where workloads read the least from afar (workloads, regions), and GiB of all so."""
    absent = np.logical_not(problem.may_hold[problem.read_group])
    lives = np.logical_or.reduce(problem.may, axis=2)
    afar = _afar(lives, problem.read_workload, problem.read_gib, absent)
    least = afar.min(axis=1)
    return lives & (afar[:, :-1] == least[:, None]), int(problem.count @ least)


def only_ways(problem: Problem) -> Bools:
    """Return replicas (groups, regions) that some job must be beside to read no more than it must.

    There is one region only where it can.
    """
    least, _ = frugal_homes(problem)
    alone = (least.sum(axis=1) == 1)[problem.read_workload]
    region = least.argmax(axis=1)[problem.read_workload]
    found = np.zeros_like(problem.may_hold)
    found[problem.read_group[alone], region[alone]] = True
    return found & problem.may_hold


def _of_jobs(pool: Pool) -> Ints:
    lives = np.logical_or.reduce(pool.homes, axis=2)[pool.job_class]
    absent = np.logical_not(pool.possible[pool.wan.read_dataset])
    return _afar(lives, pool.wan.read_job, pool.wan.read_gib, absent)


def _afar(lives: Bools, reader: Ints, gib: Ints, absent: Bools) -> Ints:
    """Return GiB that readers read from afar in regions, then nowhere (readers, regions + 1).

    Parameters
    ----------
    lives
        (readers, regions): where they may run.
    reader, gib, absent
        (reads,), (reads,) and (reads, regions): what is read, and where it cannot be.
    """
    afar = np.zeros((len(lives), lives.shape[1] + 1), dtype=np.int64)
    np.add.at(afar, reader, gib[:, None] * np.pad(absent, ((0, 0), (0, 1)), constant_values=True))
    # Whoever cannot run somewhere reads no less there than nowhere.
    afar[:, :-1] = np.where(lives, afar[:, :-1], afar[:, -1:])
    return afar
