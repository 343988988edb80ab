"""Jobs of a round: what each asks for, and where those that run are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Annotated, Any, Literal, Self, TypedDict, Unpack

from pydantic import BaseModel, Field, ValidationError, model_validator

from placewright.instances.documents.annotations import Annotations
from placewright.instances.documents.arrangement import AntiAffinity, GpuLinkRequest
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
from placewright.instances.documents.deadline import Deadline, Due
from placewright.instances.documents.form_errors import invalid_input
from placewright.instances.documents.geo import MAX_REGIONS, Read
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Decision, Task
from placewright.instances.documents.profile import Profile
from placewright.instances.documents.quantities import read_amount, write_amount
from placewright.instances.documents.sensitivity import derive_options
from placewright.instances.documents.stage import Stage
from placewright.instances.errors import InvalidInputError, Path
from placewright.topology.gpu_links import LinkKind
from placewright.topology.units import WHOLE_GPU

MAX_CAPS = 64
MAX_OPTIONS = 64
Values = Mapping[str, Any]
"""A document as plain values, as a file has them."""


class Running(Document):
    """Where a running job is: the index of its option, and the place of each of its tasks.

    A `pinned` job stays; any other may migrate, or be preempted for a job of strictly higher
    priority. Stopping it costs `migrate_cost` or `preempt_cost` (milli-GPU-seconds); by default its
    milli-GPU times the seconds of work that it loses (`unsaved_s`) plus `restart_s`. The milli-GPU
    of every task that moves or stops come on top. Its last `checkpoint` and when it `started` are
    on the round's clock (None: not known).

    A job with several options may resize: go on with another of them. With `pin: size` it keeps the
    option that it runs. With `pin: place` it stays where it is: it neither migrates nor is
    preempted, and if it resizes there is no host on which it has more milli-GPU than before, or
    none on which it has less. `pin: both` is another word for `pinned`. `resize_costs` has what
    going on with each option costs (milli-GPU-seconds; by default what a migration does), the GPUs
    that it takes come on top; and `resize_factor` how many thousandths of the `progress` of an
    option count once the job has restarted for it.
    """

    option: Index = 0
    tasks: Many[Task] = Field(min_length=1)
    pinned: Flag = False
    checkpoint: Index | None = None
    started: Index | None = None
    restart_s: Index = 0
    migrate_cost: Amount | None = None
    preempt_cost: Amount | None = None
    pin: Literal["place", "size", "both"] | None = None
    resize_costs: Many[Amount] | None = Field(default=None, max_length=MAX_OPTIONS)
    resize_factor: Annotated[int, Field(strict=True, ge=0, le=1000)] = 1000

    @model_validator(mode="before")
    @classmethod
    def _pinned(cls, raw: Any) -> Any:
        """Let `pin: both` be `pinned`."""
        if isinstance(raw, dict) and raw.get("pin") == "both":
            return {**raw, "pinned": True}
        return raw

    def unsaved_s(self, now: int) -> int:
        """Seconds of work that it loses if it stops: since its checkpoint, else since its start.

        0 where neither is known.
        """
        saved = self.started if self.checkpoint is None else self.checkpoint
        return 0 if saved is None else now - saved


class JobFields(TypedDict, total=False):
    """Fields of a job, as arguments of `Job`, but for those that are written out there."""

    tenant: str | None
    caps: Sequence[str]
    priority: int
    preempts: Sequence[str] | None
    weight: int
    running: Running | Values | None
    opportunistic: bool
    anti_affinity: AntiAffinity | Values | None
    profile: Profile | Values | None
    deadline: Deadline | Values | None
    stage: Stage | Values | None
    reads: Sequence[Read | Values]
    regions: Sequence[str] | None
    submitted: int | None
    expected_runtime_s: int | None
    not_before: int | None
    held: bool
    annotations: Mapping[str, str]


class Job(Document):
    """A job offers options and gets at most one; with `running` it holds one already.

    An `opportunistic` job takes what is left: no guarantee of its tenant covers it. Jobs with one
    label of `anti_affinity` keep out of each other's domains. A job counts in each of its `caps`.
    It may preempt jobs of lower precedence, with `preempts` only those that count in one of these
    caps, with `preempts: []` none.
    With a `profile` it can take turns with others on its GPUs; if that has a sensitivity, and the
    job one option, then more options are written out as it is read. `deadline` is for the policy of
    that name: the work that is left and by when it is due. `stage` is for `stages`: how long tasks
    run, and which jobs come before. `reads` and `regions` are for `geo` and `replicas`: the data
    that it needs, and the regions in which it may run (None: all).

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
    options: Many[Option] = Field(min_length=1, max_length=MAX_OPTIONS)
    running: Running | None = None
    opportunistic: Flag = False
    anti_affinity: AntiAffinity | None = None
    profile: Profile | None = None
    deadline: Deadline | None = None
    stage: Stage | None = None
    reads: Many[Read] = Field(default=(), max_length=64)
    regions: Many[Name] | None = Field(default=None, min_length=1, max_length=MAX_REGIONS)
    submitted: Index | None = None
    expected_runtime_s: Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)] | None = None
    not_before: Index | None = None
    held: Flag = False
    annotations: Annotations = Field(default_factory=dict)

    def __init__(
        self,
        name: str,
        *,
        gpus: float | str | None = None,
        tasks: int = 1,
        gpu_models: str | Sequence[str] | None = None,
        cpu: float | str | None = None,
        memory: str | None = None,
        within: str | None = None,
        prefer: str | Sequence[str] | None = None,
        gpu_links: LinkKind | GpuLinkRequest | Values | None = None,
        options: Sequence[Option | Values] | None = None,
        **fields: Unpack[JobFields],
    ) -> None:
        """Make a job of equal tasks, or of `options`.

        What a job asks for is said once, for all of it: `gpus`, `cpu` and `memory` are divided over
        its tasks. A job of several sizes, of unlike tasks or with more to ask for has `options`
        instead. Files have options only.

        Parameters
        ----------
        name
            By which plans and changes speak of it.
        gpus
            GPUs of the whole job: 16 with 2 tasks are 8 for each. A job of one task may ask for a
            share of one GPU, 0.25 or "250m"; all others get whole GPUs, each task as many.
        tasks
            How many there are. The GPUs of a task are on one host; all tasks start together.
        gpu_models
            The GPU model, or those that will do; None: any.
        cpu
            Cores of the whole job, 96 or "1500m"; None: none.
        memory
            Host memory of the whole job, with its unit: "512Gi"; None: none.
        within
            The level of which one domain has to hold all tasks: "rack", "host"; None: any place.
        prefer
            The level, or levels, of which as few domains as possible should be used: what the term
            `spread` counts. None: each level that has a weight there.
        gpu_links
            What joins the GPUs of each task to each other: the worst kind of link that will do,
            "nvlink", or a `GpuLinkRequest`.
        options
            One or more ways to run the job, of which it gets one.
        **fields
            All other fields of the document, as named there: `tenant`, `priority`, `weight` ...

        Raises
        ------
        InvalidInputError
            It names the argument, its value and what was expected.

        Examples
        --------
        >>> job = Job("train", gpus=16, tasks=2, within="rack")
        >>> [(group.count, group.gpu) for group in job.options[0].groups]  # milli-GPU
        [(2, 8000)]
        """
        asked = {
            "count": tasks if tasks != 1 else None,
            "gpu": gpus,
            "cpu": cpu,
            "memory": memory,
            "gpu_models": _several(gpu_models),
            "required": within,
            "preferred": _several(prefer),
            "gpu_links": {"required": gpu_links} if isinstance(gpu_links, str) else gpu_links,
        }
        group = {field: value for field, value in asked.items() if value is not None}
        _check_arguments(group, fields, options)
        values: dict[str, Any] = {"name": name, "options": options, **fields}
        if options is None:
            divided = {field: _of_a_task(field, value, tasks) for field, value in group.items()}
            values["options"] = [{"groups": [divided]}]
        try:
            BaseModel.__init__(self, **values)
        except ValidationError as error:
            refused = invalid_input(error, Job, values)
            raise (refused if options is not None else refused.moved(_argument)) from None

    # Documents are read without it, so that they have no arguments such as `gpus`.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

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

    def with_promise(self, promise: Due | None) -> Self:
        """Return the job with what it is promised, None for no promise."""
        deadline = self.deadline
        if deadline is None or deadline.promise == promise:
            return self
        update = {"deadline": deadline.model_copy(update={"promise": promise})}
        return self.model_copy(update=update)

    def placed(self, decision: Decision) -> Self:
        """Return the job as it is where a plan has been carried out: it runs there, or is pending.

        A job that ran already keeps its times and costs; those of any other are not known.
        """
        known, place = self.running, {"option": decision.option, "tasks": decision.tasks}
        if decision.option is None:
            known = None
        elif known is None:
            known = Running.model_validate(place)
        else:
            known = known.model_copy(update=place)
        return self.model_copy(update={"running": known})

    def offered(self, *, resizes: bool) -> tuple[int, ...]:
        """Return the options that it may have where jobs resize, first the one that it runs."""
        running, every = self.running, range(len(self.options))
        if running is None:
            return tuple(every)
        if not resizes or running.pinned or running.pin == "size":
            return (running.option,)
        return (running.option, *(o for o in every if o != running.option))

    def progress_of(self, option: int) -> int:
        """Progress of an option; one for which the job has to restart counts in part."""
        progress, running = self.options[option].progress, self.running
        if running is None or option == running.option:
            return progress
        return progress * running.resize_factor // 1000

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


# Arguments of `Job`: the fields of a task group that they become.
_NAMES = {"gpu": "gpus", "count": "tasks", "required": "within", "preferred": "prefer"}
_DIVIDED = {"gpu": "whole GPUs", "cpu": "whole thousandths of a core", "memory": "whole MiB"}
"""What is divided over the tasks, and what each has to get."""

_BEFORE_GROUP = 4
"""Parts of a path that lead to the one task group: options[0].groups[0]."""


def _several(names: str | Sequence[str] | None) -> Sequence[str] | None:
    return (names,) if isinstance(names, str) else names


def _argument(path: Path) -> Path:
    """Return the argument of `Job` that a path leads to: of a field of its task group, or as is."""
    if len(path) <= _BEFORE_GROUP or path[0] != "options":
        return path
    field = str(path[_BEFORE_GROUP])
    return _NAMES.get(field, field), *path[_BEFORE_GROUP + 1 :]


def _check_arguments(group: Values, fields: Values, options: object) -> None:
    """Refuse unknown arguments, what is given beside options, and neither GPUs nor options."""
    for name in fields:
        if name not in JobFields.__annotations__:
            known = sorted({*signature(Job).parameters} - {"name"})
            raise InvalidInputError(
                f"unknown argument; expected one of {', '.join(known)}",
                (name,),
                fields[name],
                unknown=(name, known),
            )
    if options is None and "gpu" not in group:
        raise InvalidInputError("missing; expected GPUs of the whole job, or options", ("gpus",))
    for field, value in group.items() if options is not None else ():
        raise InvalidInputError(
            "given beside options; expected one of the two", (_NAMES.get(field, field),), value
        )


def _of_a_task(field: str, value: Any, tasks: Any) -> Any:
    """Return what each task gets of an argument: a part of what is divided, all of the rest."""
    if field not in _DIVIDED or not isinstance(tasks, int) or tasks <= 1:
        return value
    try:
        part, rest = divmod(read_amount(field, value), tasks)
    except ValueError as error:
        raise InvalidInputError(str(error), (_NAMES.get(field, field),), value) from None
    if rest or (field == "gpu" and part % WHOLE_GPU):
        problem = f"divided over {tasks} tasks; expected {_DIVIDED[field]} for each"
        raise InvalidInputError(problem, (_NAMES.get(field, field),), value)
    return write_amount(field, part)
