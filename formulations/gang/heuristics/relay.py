"""Two-step ejection across GPU models: a running job moves, and a waiting one takes its place.

Waiting jobs may lack GPUs of one model while jobs worth less run on another. A running job that may
use both moves there, and a waiting one takes its place.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Bools, Floats
from placewright.formulations.gang.heuristics.ejection import EjectionMoves
from placewright.formulations.gang.heuristics.movable_jobs import MovableJob
from placewright.formulations.gang.problem.jobs import ANY_JOB, JobPlacement


def relay(moves: EjectionMoves, start: JobPlacement, most: float) -> list[JobPlacement] | None:
    """Insert a one-task job where a running one moves away; return the jobs that stop for that.

    They are worth less than `most`. None if there is no such move; then nothing has changed.
    """
    shape = moves.shape_of(start)
    may, of_shape = moves.eligible_hosts(shape), moves.movable.gpus_of_shape
    ways = []
    of_rank: dict[int, Floats] = {}
    for other in np.flatnonzero(of_shape[:, may].any(axis=1)).tolist():
        if moves.gpus_of(other) == moves.gpus_of(shape):
            rank = int(moves.problem.shape_rank[other])
            if rank not in of_rank:
                of_rank[rank] = moves.least_loss(moves.gpus_of(other), rank)
            least = of_rank[rank][moves.eligible_hosts(other) & ~may]
            ways.append((float(least.min(initial=np.inf)), other))
    for lost, other in sorted(ways):
        mover = _mover(moves, other, may) if lost < most else None
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


def _mover(moves: EjectionMoves, shape: int, may: Bools) -> MovableJob | None:
    """Return a running movable job of a shape on one of the eligible hosts, `may` (hosts,)."""
    for host in np.flatnonzero(may & (moves.movable.gpus_of_shape[shape] > 0)).tolist():
        for mover in moves.movable.on_host(host):
            if mover.shape == shape and mover.job != ANY_JOB:
                return mover
    return None
