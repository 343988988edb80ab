"""Array jobs of Slurm: the tasks of one that is not split yet, and how many may run at once."""

from __future__ import annotations

import re
from collections.abc import Mapping

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.requests import LeftOutError
from placewright.instances.documents.job import Job
from placewright.instances.documents.source_keys import SLURM_JOB

MAX_TASKS = 1000
MAX_ALL = 100_000
BEYOND = "held by the limit of its array, %{}: it starts when others of it have ended"
_PIECE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")


def split(
    job: Job, record: SlurmJob, active: Mapping[int | None, int], room: int, book: Bookkeeping
) -> list[Job]:
    """Return a pending job alone, or a job for each task of an array that may start now.

    Parameters
    ----------
    job
        The job of one task.
    record
        What Slurm says of it: `array_task_string` are its tasks, `2-5%2` four of which two run.
    active
        Running tasks by array.
    room
        The most tasks that there may be.
    book
        Where tasks beyond the limit of an array are noted.

    Raises
    ------
    LeftOutError
        Its tasks cannot be read, are too many, or none may start.
    """
    text, _, limit = record.array_task_string.partition("%")
    if not text:
        return [job]
    numbers: list[int] = []
    for piece in text.strip("[]").split(","):
        match = _PIECE.fullmatch(piece)
        if match is None:
            raise LeftOutError("array of which the dump does not name all tasks")
        first, last = int(match[1]), int(match[2] or match[1])
        step = int(match[3] or 1) or 1
        if len(range(first, last + 1, step)) + len(numbers) > MAX_TASKS:
            raise LeftOutError(f"array of more than {MAX_TASKS:,} tasks")
        numbers += range(first, last + 1, step)
    if limit.isascii() and limit.isdigit():
        may = max(0, int(limit[:9]) - active.get(record.array_job_id, 0))
        if not may:
            raise LeftOutError("held by the limit of its array")
        beyond = [f"{job.name}_{number}" for number in numbers[may:]]
        book.why |= dict.fromkeys(beyond, BEYOND.format(limit))
        book.also |= dict.fromkeys(beyond, record.other_names)
        if may < len(numbers):
            book.cannot_say("tasks of an array beyond its limit, which start later", job.name)
        numbers = numbers[:may]
    if len(numbers) > room:
        raise LeftOutError(f"array beyond the first {MAX_ALL:,} tasks of all arrays")
    names = [f"{job.name}_{number}" for number in numbers]
    return [
        job.model_copy(update={"name": name, "annotations": {**job.annotations, SLURM_JOB: name}})
        for name in names
    ]
