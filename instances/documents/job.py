"""Jobs of a round: what each asks for, and where those that run are."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from placewright.instances.documents.annotations import Annotations
from placewright.instances.documents.arrangement import AntiAffinity
from placewright.instances.documents.base import (
    MAX_AMOUNT,
    Amount,
    Document,
    Flag,
    Index,
    Many,
    Name,
    PriorityNumber,
)
from placewright.instances.documents.deadline import Deadline
from placewright.instances.documents.geo import MAX_REGIONS, Read
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Task
from placewright.instances.documents.profile import Profile
from placewright.instances.documents.sensitivity import derive_options

MAX_CAPS = 64


class Running(Document):
    """Where a running job is: the index of its option, and the place of each of its tasks.

    A `pinned` job stays; any other may migrate, or be preempted for a job of strictly higher
    priority. Stopping it costs `migrate_cost` or `preempt_cost` (milli-GPU-seconds); by default its
    milli-GPU times the seconds of work that it loses (`unsaved_s`) plus `restart_s`. The milli-GPU
    of every task that moves or stops come on top. Its last `checkpoint` and when it `started` are
    on the round's clock (None: not known).
    """

    option: Index = 0
    tasks: Many[Task] = Field(min_length=1)
    pinned: Flag = False
    checkpoint: Index | None = None
    started: Index | None = None
    restart_s: Index = 0
    migrate_cost: Amount | None = None
    preempt_cost: Amount | None = None

    def unsaved_s(self, now: int) -> int:
        """Seconds of work that it loses if it stops: since its checkpoint, else since its start.

        0 where neither is known.
        """
        saved = self.started if self.checkpoint is None else self.checkpoint
        return 0 if saved is None else now - saved


class Job(Document):
    """A job offers options and gets at most one; with `running` it holds one already.

    An `opportunistic` job takes what is left: no guarantee of its tenant covers it. Jobs with one
    label of `anti_affinity` keep out of each other's domains. A job counts in each of its `caps`.
    It may preempt jobs of lower precedence, with `preempts` only those that count in one of these
    caps, with `preempts: []` none.
    With a `profile` it can take turns with others on its GPUs; if that has a sensitivity, and the
    job one option, then more options are written out as it is read. `deadline` is for the policy of
    that name: the work that is left and by when it is due. `reads` and `regions` are for `geo` and
    `replicas`: the data that it needs, and the regions in which it may run (None: all).

    `submitted` is when the job was submitted (None: now), and `expected_runtime_s` how long it is
    expected to run once it has started (None: without end). It does not start before `not_before`,
    nor while it is `held`.
    """

    name: Name
    tenant: Name | None = None
    caps: Many[Name] = Field(default=(), max_length=MAX_CAPS)
    priority: PriorityNumber = 0
    preempts: Annotated[Many[Name], Field(max_length=MAX_CAPS)] | None = None
    weight: Annotated[int, Field(strict=True, ge=0, le=10**6)] = 1
    options: Many[Option] = Field(min_length=1, max_length=64)
    running: Running | None = None
    opportunistic: Flag = False
    anti_affinity: AntiAffinity | None = None
    profile: Profile | None = None
    deadline: Deadline | None = None
    reads: Many[Read] = Field(default=(), max_length=64)
    regions: Many[Name] | None = Field(default=None, min_length=1, max_length=MAX_REGIONS)
    submitted: Index | None = None
    expected_runtime_s: Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)] | None = None
    not_before: Index | None = None
    held: Flag = False
    annotations: Annotations = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _write_out_options(cls, raw: Any) -> Any:
        """Replace the one option of a job with a sensitivity by those of `derive_options`."""
        options = raw.get("options") if isinstance(raw, dict) else None
        if not (isinstance(options, list | tuple) and len(options) == 1 and _sensitive(raw)):
            return raw
        try:
            profile = Profile.model_validate(raw["profile"])
            first = Option.model_validate(options[0])
        except ValidationError:
            return raw  # reported with its path once the fields are read
        if profile.sensitivity is None:
            return raw
        return {**raw, "profile": profile, "options": derive_options(first, profile.sensitivity)}

    def value_of(self, option: int) -> int:
        """Value of an option: its own, or GPUs asked (milli-GPU) times weight."""
        chosen = self.options[option]
        return chosen.milli_gpu * self.weight if chosen.value is None else chosen.value


def _sensitive(raw: dict[str, Any]) -> bool:
    """Whether the profile of a raw job may have a sensitivity."""
    profile = raw.get("profile")
    if isinstance(profile, dict):
        return profile.get("sensitivity") is not None
    return isinstance(profile, Profile)
