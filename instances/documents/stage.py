"""Stages: jobs that wait for others and run for a known time, and the plan section `schedule`.

References
----------
Mao et al., "Learning scheduling algorithms for data processing clusters", SIGCOMM'19 (stages of
tasks in a DAG). Hu et al., "Characterization of large language model development in the
datacenter", NSDI'24 (Acme: metrics on CPUs after the GPU part). Hartmann and Briskorn, "An updated
survey of variants and extensions of the resource-constrained project scheduling problem", EJOR 297,
2022 (precedence, modes, renewable resources).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from placewright.instances.documents.base import (
    MANY,
    ONE,
    Count,
    Document,
    Flag,
    Index,
    Many,
    Moment,
    Name,
)

MAX_TASK_S = 10**8
MAX_AFTER = 10_000

Seconds = Annotated[int, Field(strict=True, ge=1, le=MAX_TASK_S)]
SecondsOfOptions = Annotated[Many[Seconds], Field(min_length=1, max_length=64)]


def _one_or_many(value: Any) -> str:
    """Return which of the two a value is meant to be, as `form_errors` leaves it out of paths."""
    return MANY if isinstance(value, list | tuple) else ONE


class Stage(Document):
    """How long each task of a job runs, and the jobs that have to be done before it begins.

    `task_s` is one number, or one for each option of the job. The tasks of a `gang` run all at
    once; those of any other job any number at a time. A job that runs ends `task_s` after it
    started (where that is not known: after now), but not before the next second; of a job that is
    no gang, what runs is a job of its own.
    """

    task_s: Annotated[
        Annotated[Seconds, Tag(ONE)] | Annotated[SecondsOfOptions, Tag(MANY)],
        Discriminator(_one_or_many),
    ]
    after: Many[Name] = Field(default=(), max_length=MAX_AFTER)
    gang: Flag = True

    def seconds(self, option: int) -> int:
        """Return how long a task runs with an option."""
        return self.task_s if isinstance(self.task_s, int) else self.task_s[option]


class Scheduled(Document):
    """When a job runs: seconds on the round's clock, and the most `tasks` of it side by side.

    `waves` has, for a job that is no gang, how many of its tasks begin when; none for a gang, all
    of whose tasks begin at `start`.
    """

    job: Name
    option: Index
    start: Moment
    end: Moment
    tasks: Count
    waves: Many[tuple[Moment, Count]] = ()


class ScheduleSection(Document):
    """What the policy `stages` adds to a plan: when each job with a stage runs."""

    kind: Literal["schedule"] = "schedule"
    jobs: Many[Scheduled]
