"""Two-step ejection across GPU models: a pending job displaces jobs on a model it cannot use.

A running job that may use both models moves there and displaces jobs worth less; the pending one
takes its place.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Bools, Floats
from placewright.formulations.gang.heuristics.ejection import EjectionMoves
from placewright.formulations.gang.heuristics.movable_jobs import MovableJob
from placewright.formulations.gang.problem.jobs import ANY_JOB, JobPlacement


def eject_across_models(
    moves: EjectionMoves, start: JobPlacement, most: float
) -> list[JobPlacement] | None:
    """Insert a one-task job where a running one moves away; return the jobs that stop for that.

    They are worth less than `most`. None if there is no such move; then nothing has changed.
    """
    shape = moves.shape_of(start)
    eligible, of_shape = moves.eligible_hosts(shape), moves.movable.gpus_of_shape
    options = []
    of_rank: dict[int, Floats] = {}
    for other in np.flatnonzero(of_shape[:, eligible].any(axis=1)).tolist():
        if moves.gpus_of(other) == moves.gpus_of(shape):
            rank = int(moves.problem.shape_rank[other])
            if rank not in of_rank:
                of_rank[rank] = moves.least_loss(moves.gpus_of(other), rank)
            least = of_rank[rank][moves.eligible_hosts(other) & ~eligible]
            options.append((float(least.min(initial=np.inf)), other))
    for lost, other in sorted(options):
        mover = _mover(moves, other, eligible) if lost < most else None
        if mover is None:
            continue
        moving = moves.remove(mover.number)
        host = moving.tasks[0].host
        if moves.fits(shape, host, 1):
            moves.insert(start, host)
            stopped = moves.displace(moving, most)
            if stopped is not None:
                return stopped
        moves.rollback()
    return None


def _mover(moves: EjectionMoves, shape: int, eligible: Bools) -> MovableJob | None:
    """Return a running movable job of a shape on one of the eligible hosts, `eligible` (hosts,)."""
    for host in np.flatnonzero(eligible & (moves.movable.gpus_of_shape[shape] > 0)).tolist():
        for mover in moves.movable.on_host(host):
            if mover.shape == shape and mover.job != ANY_JOB:
                return mover
    return None
