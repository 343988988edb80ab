"""The Round document: cluster, jobs pending and running, tenants, policy, at one instant."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from placewright.instances.cluster import ClusterDocument, HostName
from placewright.instances.documents import (
    API_VERSION,
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
from placewright.instances.plan import Task
from placewright.instances.sections import refuse_unused_sections

TermName = Literal[
    "value", "disruption", "remaining", "freed", "spread", "proximity", "opened", "leftover"
]
DEFAULT_TERMS: tuple[TermName, ...] = ("value", "disruption", "spread", "opened")
DEFAULT_SPREAD_WEIGHTS = {"rack": 1, "block": 4}


class TaskGroup(Document):
    """`count` identical tasks, placed all or none.

    Each task asks `gpu` milli-GPU (a share of one GPU up to 1000, else whole GPUs of one host),
    `cpu` millicores, `memory` MiB and named `resources` of one host. `gpu_models` lists the allowed
    models (None: any). All tasks share one domain of the level `required`; the term `spread` counts
    the levels in `preferred` (None: every level with a spread weight).
    """

    name: Name = "tasks"
    count: Count = 1
    gpu: MilliGpu
    cpu: MilliCpu = 0
    memory: Mib = 0
    resources: Resources = Field(default_factory=dict)
    gpu_models: Many[Name] | None = Field(default=None, min_length=1)
    required: Name | None = None
    preferred: Many[Name] | None = None

    @property
    def milli_gpu(self) -> int:
        """GPUs of the whole group, in milli-GPU."""
        return self.count * self.gpu


class Option(Document):
    """One way to run a job: task groups, and what running them is worth.

    `value` defaults to the GPUs asked (milli-GPU) times the job's weight.
    """

    name: Name = "default"
    groups: Many[TaskGroup] = Field(min_length=1, max_length=64)
    value: Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)] | None = None

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
    """A job offers options and gets at most one; with `running` it holds one already."""

    name: Name
    tenant: Name | None = None
    priority: Annotated[int, Field(strict=True, ge=-(10**9), le=10**9)] = 0
    weight: Annotated[int, Field(strict=True, ge=0, le=10**6)] = 1
    options: Many[Option] = Field(min_length=1, max_length=64)
    running: Running | None = None

    def value_of(self, option: int) -> int:
        """Value of an option: its own, or GPUs asked (milli-GPU) times weight."""
        chosen = self.options[option]
        return chosen.milli_gpu * self.weight if chosen.value is None else chosen.value


class Tenant(Document):
    """Who owns jobs; `quota` caps what they hold together, per resource (`gpu` in milli-GPU)."""

    name: Name
    quota: dict[Name, Amount] = Field(default_factory=dict)


class Freeing(Document):
    """What the term `freed` pays for: whole domains of a level that become empty.

    A freed GPU is worth `gpu_worth_s` GPU-seconds of disruption.
    """

    level: Name = "host"
    gpu_worth_s: Annotated[int, Field(strict=True, ge=1, le=10**6)]


class Policy(Document):
    """What is decided, and by which objective terms, in lexicographic order.

    `vacate` lists hosts (or ranges) to empty: nothing arrives there, and the term `remaining`
    counts what stays. `freeing` is what the term `freed` needs.
    """

    formulation: Literal["gang"] = "gang"
    terms: Many[TermName] = Field(default=DEFAULT_TERMS, min_length=1)
    spread_weights: dict[Name, Annotated[int, Field(strict=True, ge=0, le=10**6)]] | None = None
    vacate: Many[HostName] = ()
    freeing: Freeing | None = None

    @field_validator("terms")
    @classmethod
    def _unique(cls, terms: tuple[TermName, ...]) -> tuple[TermName, ...]:
        if len(set(terms)) != len(terms):
            raise ValueError("expected each objective term once")
        return terms


class Reservation(Document):
    """Hosts (a name or range), or some of their GPUs, that nothing may arrive on in this round."""

    host: HostName
    gpus: Many[Index] | None = Field(default=None, min_length=1)


class RoundLimits(Document):
    """When to stop: after seconds, at a relative gap of the first term, or by work done."""

    time_s: Annotated[float, Field(strict=True, ge=0, le=86_400, allow_inf_nan=False)] = 60.0
    gap: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)] = 1e-4
    seed: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] = 0
    deterministic: Flag = False
    memory_mib: Annotated[int, Field(strict=True, ge=64, le=MAX_AMOUNT)] | None = None


class Round(Document):
    """One scheduling round. `now` is in seconds on the caller's clock."""

    apiVersion: Literal["placewright/v1alpha1"] = API_VERSION  # noqa: N815
    kind: Literal["Round"] = "Round"
    name: Name = "round"
    now: Index = 0
    cluster: ClusterDocument
    jobs: Many[Job] = ()
    tenants: Many[Tenant] = ()
    reservations: Many[Reservation] = ()
    policy: Policy = Policy()
    limits: RoundLimits = RoundLimits()

    @model_validator(mode="before")
    @classmethod
    def _sections(cls, raw: Any) -> Any:
        return refuse_unused_sections(raw)

    def spread_weights(self) -> dict[str, int]:
        """Weight of each level in the term `spread`; the defaults apply to levels that exist."""
        if self.policy.spread_weights is not None:
            return dict(self.policy.spread_weights)
        return {k: w for k, w in DEFAULT_SPREAD_WEIGHTS.items() if k in self.cluster.levels}
