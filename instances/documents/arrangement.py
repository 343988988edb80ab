"""Where tasks of a job are to each other: slices, spreading, hosts, collectives, anti-affinity."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from placewright.instances.documents.base import MAX_AMOUNT, Count, Document, Name
from placewright.instances.errors import InvalidInputError
from placewright.topology.gpu_links import Joined, LinkKind


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


class HostCount(Document):
    """Tasks are on `min` to `max` hosts (None: on any more), no matter how many on each."""

    min: Count = 1
    max: Count | None = None

    @model_validator(mode="after")
    def _in_order(self) -> HostCount:
        if self.max is not None and self.max < self.min:
            raise InvalidInputError(f"expected at least the min {self.min}", ("max",), self.max)
        return self


class Communication(Document):
    """What the tasks of a group send to each other: a collective, a rate over links, or both.

    The GPUs of the group do a collective of `data_mib` MiB together, in order of rank.

    The rank of a GPU follows from the index of its task, then from its place in the task's list.
    `ring`: each rank sends to the next, the last to the first. `tree`: reduce and broadcast along a
    binary tree; the middle one of a span of ranks is above the middles of the ranks beside it.

    `rate_mbps` is what the group sends over each link that it crosses, in each direction; it counts
    in the term `contention`.
    """

    pattern: Literal["ring", "tree"] = "ring"
    data_mib: Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)] | None = None
    rate_mbps: Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)] | None = None

    @model_validator(mode="after")
    def _something(self) -> Communication:
        if self.data_mib is None and self.rate_mbps is None:
            raise ValueError("expected data_mib, rate_mbps or both")
        return self


class GpuLinkRequest(Document):
    """How the GPUs of a task have to be joined inside their host, and what makes them joined well.

    The links between the GPUs of a task are of the kind `required` or better (of the worst first:
    system, numa, pcie, xgmi, nvlink) and carry `at_least_mbps`: those between any two (`joined:
    all`), or those of some ring or path through all of them.

    The term `gpu_links` counts the bandwidth of the slowest link of the best ring through the GPUs
    of each task (`measure: ring`), or the sum over all pairs of them (`pairs`). Without `required`
    and `at_least_mbps` that is all that is asked: a preference.
    """

    required: LinkKind | None = None
    at_least_mbps: Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)] | None = None
    joined: Joined = "all"
    measure: Literal["ring", "pairs"] = "ring"

    @property
    def is_required(self) -> bool:
        """Whether a task may not have any GPUs of a host."""
        return self.required is not None or self.at_least_mbps is not None


class AntiAffinity(Document):
    """Jobs with one `label` keep out of each other's domains of a level."""

    label: Name
    level: Name
