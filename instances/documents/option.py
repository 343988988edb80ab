"""Options of a job: the task groups of each, and what running them is worth."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from placewright.instances.documents.arrangement import (
    Apart,
    Communication,
    GpuLinkRequest,
    HostCount,
    Slices,
)
from placewright.instances.documents.base import (
    MAX_AMOUNT,
    Count,
    Document,
    Many,
    Name,
)
from placewright.instances.documents.cluster import HostName
from placewright.instances.documents.gpu_parts import group_schema, with_gpu_of_profile
from placewright.instances.documents.quantities import Mib, MilliCpu, MilliGpu, Resources, Uses

MAX_SETS_OF_GROUP = 64


class TaskGroup(Document):
    """`count` identical tasks, placed all or none.

    Each task asks `gpu` (a share of one GPU, or whole GPUs of one host), `cpu`, `memory` and named
    `resources` of one host: `quantities` in a file, milli-GPU, millicores and MiB in memory.
    `gpu_models` lists the allowed models and `hosts` the allowed hosts, by name or range (None:
    any); `host_sets` names sets of the round, in all of which a host has to be, too. All tasks
    share one domain of the level `required`; the term `spread` counts the levels in `preferred`
    (None: every level with a spread weight). Within that `slices` keep some tasks together,
    `apart` keeps tasks from each other, and `num_hosts` says on how many hosts they are.
    `gpu_links` says how the GPUs of a task are joined.

    `gpu_memory` is what a task uses of the memory of each of its GPUs: shares of a GPU add
    up to at most what it has, and whole GPUs have at least as much. In place of `gpu`, `mig` names
    the profile of one MIG slice per task, which is 1000 * (its compute slices) / 7 milli-GPU.
    """

    model_config = ConfigDict(json_schema_extra=group_schema)

    name: Name = "tasks"
    count: Count = 1
    gpu: MilliGpu
    cpu: MilliCpu = 0
    memory: Mib = 0
    resources: Resources = Field(default_factory=dict)
    gpu_models: Many[Name] | None = Field(default=None, min_length=1)
    hosts: Many[HostName] | None = Field(default=None, min_length=1)
    host_sets: Many[Name] = Field(default=(), max_length=MAX_SETS_OF_GROUP)
    required: Name | None = None
    preferred: Many[Name] | None = None
    slices: Slices | None = None
    apart: Apart | None = None
    num_hosts: HostCount | None = None
    communication: Communication | None = None
    gpu_links: GpuLinkRequest | None = None
    gpu_memory: Mib = 0
    mig: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _sharing(cls, raw: Any) -> Any:
        return with_gpu_of_profile(raw)

    @property
    def milli_gpu(self) -> int:
        """GPUs of the whole group, in milli-GPU."""
        return self.count * self.gpu


class Option(Document):
    """One way to run a job: task groups, and what running them is worth.

    `value` defaults to the GPUs asked (milli-GPU) times the job's weight. `progress` is what the
    term of that name counts, in any unit that all jobs of the round share. All tasks of all groups
    share one domain of the level `required`, and are together on so many `hosts`. `uses` is what
    the job takes of pools with `per: job` in each domain in which it has a task, or counts in caps,
    of resources with `@` in their name.
    """

    name: Name = "default"
    groups: Many[TaskGroup] = Field(min_length=1, max_length=64)
    value: Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)] | None = None
    progress: Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)] = 0
    required: Name | None = None
    hosts: HostCount | None = None
    uses: Uses = Field(default_factory=dict)

    @property
    def milli_gpu(self) -> int:
        """GPUs of all groups, in milli-GPU."""
        return sum(group.milli_gpu for group in self.groups)

    def amount_of(self, resource: str) -> int:
        """Return what the job asks or uses of a resource that quotas name, in its small unit."""
        if resource == "gpu":
            return self.milli_gpu
        named = {"cpu", "memory"}
        return self.uses.get(resource, 0) + sum(
            group.count
            * (getattr(group, resource) if resource in named else group.resources.get(resource, 0))
            for group in self.groups
        )
