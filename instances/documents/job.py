"""Jobs of a round: their options, task groups, and where those that run are."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, model_validator

from placewright.instances.derived.sensitivity import written_out
from placewright.instances.documents.arrangement import AntiAffinity, Apart, Communication, Slices
from placewright.instances.documents.base import (
    MAX_AMOUNT,
    Amount,
    Count,
    Document,
    Flag,
    Index,
    Many,
    Mib,
    MilliCpu,
    MilliGpu,
    Name,
    Resources,
)
from placewright.instances.documents.cluster import HostName
from placewright.instances.documents.deadline import Deadline
from placewright.instances.documents.geo import MAX_REGIONS, Read
from placewright.instances.documents.gpu_parts import group_schema, with_milli_gpu
from placewright.instances.documents.plan import Task
from placewright.instances.documents.profile import Profile


class TaskGroup(Document):
    """`count` identical tasks, placed all or none.

    Each task asks `gpu` milli-GPU (a share of one GPU up to 1000, else whole GPUs of one host),
    `cpu` millicores, `memory` MiB and named `resources` of one host. `gpu_models` lists the allowed
    models and `hosts` the allowed hosts, by name or range (None: any). All tasks share one domain
    of the level `required`; the term `spread` counts the levels in `preferred` (None: every level
    with a spread weight). Within that `slices` keep some tasks together, and `apart` keeps tasks
    from each other.

    `gpu_memory` is what a task uses of the memory of each of its GPUs, in MiB: shares of a GPU add
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
    required: Name | None = None
    preferred: Many[Name] | None = None
    slices: Slices | None = None
    apart: Apart | None = None
    communication: Communication | None = None
    gpu_memory: Mib = 0
    mig: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _sharing(cls, raw: Any) -> Any:
        return with_milli_gpu(raw)

    @property
    def milli_gpu(self) -> int:
        """GPUs of the whole group, in milli-GPU."""
        return self.count * self.gpu


class Option(Document):
    """One way to run a job: task groups, and what running them is worth.

    `value` defaults to the GPUs asked (milli-GPU) times the job's weight. `progress` is what the
    term of that name counts, in any unit that all jobs of the round share. All tasks of all groups
    share one domain of the level `required`.
    """

    name: Name = "default"
    groups: Many[TaskGroup] = Field(min_length=1, max_length=64)
    value: Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)] | None = None
    progress: Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)] = 0
    required: Name | None = None

    @property
    def milli_gpu(self) -> int:
        """GPUs of all groups, in milli-GPU."""
        return sum(group.milli_gpu for group in self.groups)


class Running(Document):
    """Where a running job is: the index of its option, and the place of each of its tasks.

    A `pinned` job stays; any other may migrate, or be preempted for a job of strictly higher
    priority. Stopping it costs `migrate_cost` or `preempt_cost` (milli-GPU-seconds); by default its
    milli-GPU times the seconds since its last `checkpoint` (on the round's clock; None: no work is
    lost) plus `restart_s`. The milli-GPU of every task that moves or stops come on top.
    """

    option: Index = 0
    tasks: Many[Task] = Field(min_length=1)
    pinned: Flag = False
    checkpoint: Index | None = None
    restart_s: Index = 0
    migrate_cost: Amount | None = None
    preempt_cost: Amount | None = None


class Job(Document):
    """A job offers options and gets at most one; with `running` it holds one already.

    An `opportunistic` job takes what is left: no guarantee of its tenant covers it. Jobs with one
    label of `anti_affinity` keep out of each other's domains. With a `profile` a job can take turns
    with others on its GPUs; if that has a sensitivity, and the job one option, then more options
    are written out as it is read. `deadline` is for the policy of that name: the work that is left
    and by when it is due. `reads` and `regions` are for `geo` and `replicas`: the data that it
    needs, and the regions in which it may run (None: all).
    """

    name: Name
    tenant: Name | None = None
    priority: Annotated[int, Field(strict=True, ge=-(10**9), le=10**9)] = 0
    weight: Annotated[int, Field(strict=True, ge=0, le=10**6)] = 1
    options: Many[Option] = Field(min_length=1, max_length=64)
    running: Running | None = None
    opportunistic: Flag = False
    anti_affinity: AntiAffinity | None = None
    profile: Profile | None = None
    deadline: Deadline | None = None
    reads: Many[Read] = Field(default=(), max_length=64)
    regions: Many[Name] | None = Field(default=None, min_length=1, max_length=MAX_REGIONS)

    @model_validator(mode="before")
    @classmethod
    def _written_out(cls, raw: Any) -> Any:
        options = raw.get("options") if isinstance(raw, dict) else None
        if not (isinstance(options, list | tuple) and len(options) == 1 and _sensitive(raw)):
            return raw
        try:
            profile = Profile.model_validate(raw["profile"])
            first = Option.model_validate(options[0])
        except ValidationError:
            return raw  # told by its path once the fields are read
        if profile.sensitivity is None:
            return raw
        return {**raw, "profile": profile, "options": written_out(first, profile.sensitivity)}

    def value_of(self, option: int) -> int:
        """Value of an option: its own, or GPUs asked (milli-GPU) times weight."""
        chosen = self.options[option]
        return chosen.milli_gpu * self.weight if chosen.value is None else chosen.value


def _sensitive(raw: dict[str, Any]) -> bool:
    """Whether the profile of a raw job says anything of a sensitivity."""
    profile = raw.get("profile")
    if isinstance(profile, dict):
        return profile.get("sensitivity") is not None
    return isinstance(profile, Profile)
