"""A job comes to where another one runs, which moves on to where others are worth less.

Waiting jobs may lack GPUs of one model, while such as are worth less run on another: whoever may
have both moves over.
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.gang.heuristics.ejection import Bools, Shifts
from placewright.formulations.gang.heuristics.movable_jobs import Floats, Mover
from placewright.formulations.gang.problem.jobs import ANY_JOB, JobPlacement


def relay(shifts: Shifts, start: JobPlacement, most: float) -> list[JobPlacement] | None:
    """Start a job of one task where one that runs moves on, and return who stops for that.

    They are worth less than `most`. None if there is no way; then all is as it was.
    """
    shape = shifts.shape_of(start)
    may, of_shape = shifts.may_come(shape), shifts.movers.of_shape
    ways = []
    of_rank: dict[int, Floats] = {}
    for other in np.flatnonzero(of_shape[:, may].any(axis=1)).tolist():
        if shifts.size(other) == shifts.size(shape):
            rank = int(shifts.problem.shape_rank[other])
            if rank not in of_rank:
                of_rank[rank] = shifts.least_lost(shifts.size(other), rank)
            least = of_rank[rank][shifts.may_come(other) & ~may]
            ways.append((float(least.min(initial=np.inf)), other))
    for lost, other in sorted(ways):
        mover = _mover(shifts, other, may) if lost < most else None
        if mover is None:
            continue
        moves = shifts.take_off(mover.number)
        host = moves.tasks[0].host
        if shifts.holds(shape, host, 1):
            shifts.put(start, host)
            stopped = shifts.displace(moves, most)
            if stopped is not None:
                return stopped
        shifts.back()
    return None


def _mover(shifts: Shifts, shape: int, may: Bools) -> Mover | None:
    """Return a running job of a shape on a host that `may` be used (hosts,)."""
    for host in np.flatnonzero(may & (shifts.movers.of_shape[shape] > 0)).tolist():
        for mover in shifts.movers.on(host):
            if mover.shape == shape and mover.job != ANY_JOB:
                return mover
    return None
