"""The plan section `reservations`: jobs that start in their turn, and reservations of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from placewright.instances.documents.base import Document, Index, Many, Name
from placewright.instances.errors import Path
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding

KIND = "reservations"


class ReservedTasks(Document):
    """How many tasks of a group are to be on a host."""

    group: Index = 0
    host: Name
    tasks: Annotated[int, Field(strict=True, ge=1)]


class ReservedJob(Document):
    """A reservation: a job, when it is to start and to end (None: never), with what, and where.

    `was` is its time in the last round, and `cause` why it is later now.
    """

    job: Name
    option: Index = 0
    at: Index
    end: Index | None = None
    was: Index | None = None
    cause: Literal["arrival", "overrun", "capacity"] | None = None
    tasks: Many[ReservedTasks]


class ReservationSection(Document):
    """The jobs at the head of the queue that start, and the reservations of the others."""

    kind: Literal["reservations"] = "reservations"
    starts: Many[Name] = ()
    jobs: Many[ReservedJob] = ()


def form(_: Reading, entry: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Require the fields of the section."""
    try:
        ReservationSection.model_validate(entry)
    except ValidationError as error:
        first = error.errors()[0]
        yield Finding((*path, *first["loc"]), f"section {KIND!r}: {first['msg']}")
