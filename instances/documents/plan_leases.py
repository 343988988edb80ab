"""The plan section `leases`: promises that are given, broken and refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from placewright.instances.documents.base import Document, Index, Many, Moment, Name
from placewright.instances.documents.deadline import Due
from placewright.instances.documents.leases import MAX_LENGTH

Interval = tuple[Index, Index]
"""The leases from the first number to the second, without that one."""


class Promised(Document):
    """A job that has a promise after the round: the leases in which it runs, and when it is done.

    `finish` is in seconds on the round's clock. It runs in the current lease if that is among its
    own, and not otherwise.
    """

    job: Name
    option: Index
    promise: Due
    finish: Moment
    leases: Many[Interval] = Field(min_length=1)


class Broken(Document):
    """A promise made earlier that the plan does not keep, whole or by its time."""

    job: Name
    promise: Due


class Offer(Document):
    """The earliest finish that could be promised to a refused job, beside all that is promised."""

    option: Index
    at: Moment
    leases: Many[Interval] = Field(min_length=1)


class Refused(Document):
    """A job that asked for a promise and has none after the round."""

    job: Name
    offer: Offer | None = None


class LeaseSection(Document):
    """What the policy `deadline` adds to a plan. `length` are the seconds of a lease."""

    kind: Literal["leases"] = "leases"
    length: Annotated[int, Field(strict=True, ge=1, le=MAX_LENGTH)]
    jobs: Many[Promised]
    broken: Many[Broken]
    refused: Many[Refused]


def promises_in(sections: Iterable[Mapping[str, Any]]) -> dict[str, Due]:
    """Return what the sections of a valid plan promise each job, by name."""
    return {
        entry["job"]: Due.model_validate(entry["promise"])
        for section in sections
        if section["kind"] == "leases"
        for entry in section["jobs"]
    }
