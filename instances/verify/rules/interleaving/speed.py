"""The verifier's own speed of a job that is alone on its GPUs.

Formulations have theirs in `instances.derived.speed`; a test compares the two.
"""

from __future__ import annotations

from bisect import bisect_right

from placewright.instances.documents.job import Job
from placewright.topology.units import WHOLE_GPU

UNIT = 10**6
"""The speed at the proportional share, and of a job without a sensitivity."""


def speed_alone(job: Job, option: int) -> int:
    """Return the speed of a job with an option, in millionths of that at its proportional share.

    It is the entry of the largest grid point that asks no more CPU and memory per GPU than any of
    the option's task groups with GPUs has; 0 if every point asks more.
    """
    matrix = job.profile.sensitivity if job.profile is not None else None
    if matrix is None:
        return UNIT
    row, column = len(matrix.cores), len(matrix.memory)
    for group in job.options[option].groups:
        if group.gpu > 0:
            row = min(row, bisect_right(matrix.cores, group.cpu * WHOLE_GPU // group.gpu))
            column = min(column, bisect_right(matrix.memory, group.memory * WHOLE_GPU // group.gpu))
    return matrix.speeds[row - 1][column - 1] if row > 0 and column > 0 else 0
