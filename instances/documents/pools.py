"""Pools: what the hosts of a domain, or of the whole cluster, share of a resource."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from placewright.instances.documents.base import Amount, Document, Name
from placewright.instances.documents.quantities import CORE_RESOURCES


def _shared(resource: str) -> str:
    if resource in CORE_RESOURCES:
        raise ValueError("is a resource of hosts; expected one that hosts share")
    return resource


class Pool(Document):
    """What each domain of a level has of a resource; without a level, what the whole cluster has.

    `per: task`: tasks ask for it in `resources`, and take it from every pool of that name around
    their host; from the host, too, if the host lists the resource. `per: job`: options ask for it
    in `uses`, and take it once from each domain in which they have a task, however many. `domains`
    gives what single domains have instead of `capacity`.
    """

    resource: Annotated[Name, AfterValidator(_shared)]
    level: Name | None = None
    capacity: Amount
    domains: dict[Name, Amount] = Field(default_factory=dict)
    per: Literal["task", "job"] = "task"
