"""The speed of a job with an option, from its sensitivity to CPU and memory."""

from __future__ import annotations

from placewright.instances.documents.job import Job
from placewright.instances.documents.sensitivity import UNIT, speed_at


def speed(job: Job, option: int) -> int:
    """Return how fast a job is alone with an option, in millionths of its proportional share.

    See `speed_at`; a job without a sensitivity has speed `UNIT` with every option.
    """
    matrix = None if job.profile is None else job.profile.sensitivity
    return UNIT if matrix is None else speed_at(matrix, job.options[option])
