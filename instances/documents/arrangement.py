"""Topology constraints on the tasks of a job: slices, spreading, collectives, anti-affinity."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from placewright.instances.documents.base import MAX_AMOUNT, Count, Document, Name


class Slices(Document):
    """Tasks 0 to `size` - 1 of a group are its first slice, and so on.

    The tasks of a slice share one domain of the level `required`.
    """

    size: Count
    required: Name


class Apart(Document):
    """At most `most` tasks of a group are in one domain of a level."""

    level: Name
    most: Count = 1


class Communication(Document):
    """A collective of `data_mib` MiB that the GPUs of a group do together, in order of rank.

    The rank of a GPU follows from the index of its task, then from its place in the task's list.
    `ring`: each rank sends to the next, the last to the first. `tree`: reduce and broadcast along a
    binary tree; the middle one of a span of ranks is above the middles of the ranks beside it.
    """

    pattern: Literal["ring", "tree"] = "ring"
    data_mib: Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)]


class AntiAffinity(Document):
    """Jobs with one `label` keep out of each other's domains of a level."""

    label: Name
    level: Name
