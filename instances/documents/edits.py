"""The Edits document: what is changed in a round, one edit after the other.

The question "what if" asks a round with edits, and a correction that lets a job start is a list of
them. `instances/edits` applies them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from placewright.instances.documents.arrangement import (
    AntiAffinity,
    Apart,
    GpuLinkRequest,
    HostCount,
    Slices,
)
from placewright.instances.documents.base import (
    API_VERSION,
    MAX_AMOUNT,
    MAX_COUNT,
    Amount,
    Count,
    Document,
    Flag,
    Index,
    Many,
    Name,
)
from placewright.instances.documents.caps import Cap
from placewright.instances.documents.cluster import DomainEntry, HostEntry, HostName, LinkMatrix
from placewright.instances.documents.deadline import MAX_DUE, Due
from placewright.instances.documents.geo import MAX_REGIONS
from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import DisruptionLimits
from placewright.instances.documents.quantities import Amounts, Mib, MilliCpu, MilliGpu, Resources
from placewright.instances.errors import InvalidInputError

LimitName = Literal["preempted_jobs", "preempted_gpus", "migrated_jobs", "lost_gpu_s", "min_run_s"]
Asked = Literal[
    "required",
    "joint_required",
    "slices",
    "apart",
    "gpu_links",
    "num_hosts",
    "anti_affinity",
    "gpu_models",
    "hosts",
    "host_sets",
    "due",
    "regions",
    "not_before",
    "expected_runtime_s",
    "slowdown",
    "load",
    "conflicts",
]
"""What a job may ask or not: a field of the job, its options, its task groups, its deadline or
profile; `conflicts` are those of the round that name it."""

Seconds = Annotated[int, Field(strict=True, ge=-MAX_AMOUNT, le=MAX_AMOUNT)]
Runtime = Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)]
Hosts = Annotated[Many[HostName], Field(min_length=1)]
Names = Annotated[Many[Name], Field(min_length=1)]


class AddEdit(Document):
    """New domains and hosts: those given, or `count` copies of what a domain or host has.

    A copy of the domain or host `like` is below the same parent. Its name and those of what is in
    it begin with `new1-`, those of a second copy with `new2-`. All hosts of copies are healthy, in
    the host sets of those that they are copies of, and have no annotations. Hosts that are given
    are in `host_sets`.
    """

    like: Name | None = None
    count: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    domains: Many[DomainEntry] = ()
    hosts: Many[HostEntry] = ()
    host_sets: Many[Name] = ()

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = bool(self.domains or self.hosts)
        if given == (self.like is not None):
            what = "given beside hosts; expected one of the two" if given else "missing"
            raise InvalidInputError(
                f"{what}; expected what to copy, or hosts or domains",
                path=("like",),
                value=self.like,
                show_value=given,
            )
        if self.host_sets and not self.hosts:
            raise InvalidInputError(
                "given without hosts; expected hosts that are to be in these sets", ("host_sets",)
            )
        return self


class GpuLinksEdit(Document):
    """Other links between the GPUs of hosts: a link matrix, by name or as it is."""

    hosts: Hosts
    to: Name | LinkMatrix


class QuotaEdit(Document):
    """A tenant's quota: set `to` amounts, `more` or `less` by amounts, or `without` resources.

    `in_regions` are the GPUs that it may hold in regions, under policy `geo`.
    """

    to: Amounts = Field(default_factory=dict)
    more: Amounts = Field(default_factory=dict)
    less: Amounts = Field(default_factory=dict)
    without: Many[Name] = ()
    in_regions: dict[Name, MilliGpu] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        _refuse_repeated((*self.to, *self.more, *self.less, *self.without), "resource")
        return self


class CapEdit(Document):
    """A cap: set limits `to` others, `more` or `less` by amounts, or `without` some of them.

    In `without` they are named `gpus`, `gpus@MODEL`, `jobs`, or by the resource.
    """

    to: Cap = Cap.model_construct()
    more: Cap = Cap.model_construct()
    less: Cap = Cap.model_construct()
    without: Many[Name] = ()

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        named = (m.key for cap in (self.to, self.more, self.less) for m in cap.limits)
        _refuse_repeated((*named, *self.without), "limit")
        return self


class PoolEdit(Document):
    """A pool of a resource: set `to` an amount, `more` or `less` by one.

    `level` is that of the pool, none if the whole cluster shares it. Each of its domains changes,
    or only those given.
    """

    level: Name | None = None
    domains: Many[Name] = ()
    to: Amount | None = None
    more: Amount | None = None
    less: Amount | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(one is not None for one in (self.to, self.more, self.less)) != 1:
            raise InvalidInputError("expected exactly one of to, more and less")
        if self.domains and self.level is None:
            raise InvalidInputError(
                "given without a level; expected the level of these domains", ("domains",)
            )
        _refuse_repeated(self.domains, "domain")
        return self


class LimitsEdit(Document):
    """Limits of the disruption budget: set `to` new ones, or `without` some."""

    to: DisruptionLimits = DisruptionLimits.model_construct()
    without: Many[LimitName] = ()


class JobEdit(Document):
    """What one job asks from now on; what is not named stays.

    `priority`, `weight`, `held`, `not_before`, `expected_runtime_s` and `anti_affinity` are fields
    of the job. `due` takes the place of all its due times, and `due_later_s` moves each of them.
    `regions` are all in which it may run and `add_regions` further ones; with `remote` it may (or
    may not) read any of its data in another region.

    `only` leaves it one of its options, by index. All other fields are of its options and
    task groups, all of them or those chosen by `option` and `group`: `joint_required` is the level
    `required` of options, and `num_hosts` their `hosts` if no `group` is chosen, one number or
    both. `add_gpu_models` allows further models, and `drop_host_sets` names host sets in which its
    hosts need not be. Of `gpu_links` those fields change that are given; tasks that by `gpu` have
    fewer than two GPUs ask for no links. `without` names what the job no longer asks.
    """

    priority: Annotated[int, Field(strict=True, ge=-(10**9), le=10**9)] | None = None
    weight: Annotated[int, Field(strict=True, ge=0, le=10**6)] | None = None
    held: Flag | None = None
    not_before: Index | None = None
    expected_runtime_s: Runtime | None = None
    anti_affinity: AntiAffinity | None = None
    due: Annotated[Many[Due], Field(min_length=1, max_length=MAX_DUE)] | None = None
    due_later_s: Seconds | None = None
    regions: Annotated[Many[Name], Field(min_length=1, max_length=MAX_REGIONS)] | None = None
    add_regions: Annotated[Many[Name], Field(max_length=MAX_REGIONS)] = ()
    remote: Flag | None = None
    only: Index | None = None
    option: Index | None = None
    group: Index | None = None
    count: Count | None = None
    gpu: MilliGpu | None = None
    cpu: MilliCpu | None = None
    memory: Mib | None = None
    gpu_memory: Mib | None = None
    resources: Resources = Field(default_factory=dict)
    gpu_models: Names | None = None
    add_gpu_models: Many[Name] = ()
    hosts: Hosts | None = None
    host_sets: Names | None = None
    drop_host_sets: Many[Name] = ()
    required: Name | None = None
    joint_required: Name | None = None
    slices: Slices | None = None
    apart: Apart | None = None
    gpu_links: GpuLinkRequest | None = None
    num_hosts: HostCount | None = None
    without: Many[Asked] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.model_fields_set - {"option", "group"}:
            raise InvalidInputError("empty; expected what changes")
        _refuse_repeated(self.without, "field")
        for name in self.without:
            if getattr(self, name, None) is not None:
                raise InvalidInputError(
                    "given although the job is to be without it; expected one of the two", (name,)
                )
        for one, other in (
            ("regions", "add_regions"),
            ("gpu_models", "add_gpu_models"),
            ("host_sets", "drop_host_sets"),
        ):
            if getattr(self, one) is not None and getattr(self, other):
                raise InvalidInputError(f"given beside {one}; expected one of the two", (other,))
        return self


class ReplicateEdit(Document):
    """New replicas of a dataset, as if they had been copied there already."""

    dataset: Name
    regions: Annotated[Many[Name], Field(min_length=1, max_length=MAX_REGIONS)]


class Edit(Document):
    """One change of a round: exactly one of these fields.

    Hosts, by name or range: `drain` empties them and keeps arrivals off, `fail` makes them
    unhealthy, and who runs there is pending again, `restore` makes them healthy and no longer
    drained, `release` takes away the reservations on them. `add` adds hosts, and the domains that
    they are in. `gpu_links` joins the GPUs of hosts in another way.

    `quota`, by tenant, `cap`, by name, and `limits` change what is allowed, `pool`, by resource,
    what hosts share. `job`, by name, changes
    what jobs ask. `remove` takes jobs away as if they had never been, `end` those that run as if
    they had ended, and `submit` adds pending ones. `replicate` puts data into further regions.

    `at` sets the clock, in seconds, and `advance_s` moves it: jobs whose expected end has come are
    gone, and those with deadlines have done work.
    """

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    drain: Hosts | None = None
    fail: Hosts | None = None
    restore: Hosts | None = None
    release: Hosts | None = None
    add: AddEdit | None = None
    gpu_links: GpuLinksEdit | None = None
    quota: Annotated[dict[Name, QuotaEdit], Field(min_length=1)] | None = None
    cap: Annotated[dict[Name, CapEdit], Field(min_length=1)] | None = None
    pool: Annotated[dict[Name, PoolEdit], Field(min_length=1)] | None = None
    limits: LimitsEdit | None = None
    job: Annotated[dict[Name, JobEdit], Field(min_length=1)] | None = None
    remove: Names | None = None
    end: Names | None = None
    submit: Annotated[Many[Job], Field(min_length=1, max_length=MAX_COUNT)] | None = None
    replicate: ReplicateEdit | None = None
    at: Index | None = None
    advance_s: Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            what = f"{' and '.join(given)} in one edit" if given else "empty"
            raise InvalidInputError(f"{what}; expected exactly one change")
        return self

    @property
    def verb(self) -> str:
        """Name of the field that is given."""
        return next(n for n in type(self).model_fields if getattr(self, n) is not None)

    @property
    def value(self) -> Any:
        """What is given."""
        return getattr(self, self.verb)


class Edits(Document):
    """Edits of a round, made in this order."""

    apiVersion: Literal["placewright/v1alpha2"] = API_VERSION  # noqa: N815
    kind: Literal["Edits"] = "Edits"
    edits: Many[Edit] = ()


def _refuse_repeated(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInputError(f"{what} {name!r} given twice; expected each once")
        seen.add(name)
