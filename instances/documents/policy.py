"""Policy of a round: what is decided, by which terms, and what tenants may hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator
from pydantic_core import PydanticKnownError

from placewright.instances.documents.base import (
    MAX_AMOUNT,
    MAX_COUNT,
    Amount,
    Document,
    Flag,
    Index,
    Many,
    Name,
    PriorityNumber,
)
from placewright.instances.documents.cells import OwnedCells
from placewright.instances.documents.cluster import HostName
from placewright.instances.documents.quantities import (
    Amounts,
    Mib,
    MilliCpu,
    MilliGpu,
    MilliGpuTotal,
)
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import GANG, POLICIES, PolicySpec, Priority, term_names, term_of


def _known(name: Any, names: Sequence[str]) -> Any:
    """Return a name if it is a known one; refuse any other as a pydantic `Literal` does."""
    if not isinstance(name, str) or name not in names:
        *others, last = map(repr, names)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    return name


def _enum(names: Sequence[str]) -> WithJsonSchema:
    return WithJsonSchema({"enum": list(names), "type": "string"})


TermName = Annotated[
    str, BeforeValidator(lambda name: _known(name, term_names())), _enum(term_names())
]
FormulationName = Annotated[
    str, BeforeValidator(lambda name: _known(name, tuple(POLICIES))), _enum(tuple(POLICIES))
]
DEFAULT_SPREAD_WEIGHTS = {"rack": 1, "block": 4}


class Preemption(Document):
    """Leave to preempt: whose jobs those of a tenant may, where they are of higher precedence, too.

    `within` speaks of the tenant's own jobs, `reclaim` and `borrow` of what other tenants of
    `cohort` have borrowed: `reclaim` for an entitled job, `borrow` for one that borrows itself, of
    jobs up to priority `borrow_up_to`. `lower` is a lower priority, `any` whatever priority.
    """

    within: Literal["never", "lower"] = "never"
    reclaim: Literal["never", "lower", "any"] = "never"
    borrow: Literal["never", "lower"] = "never"
    borrow_up_to: PriorityNumber | None = None
    cohort: Name | None = None


class Tenant(Document):
    """Who owns jobs, and what they may hold together, by resource.

    `quota` caps it. `guarantee` is what the tenant may always claim: jobs beyond it are borrowed,
    and give way to those that stand on a guarantee; without one all its jobs stand. `weight`
    divides the tenant's dominant share in the term `share`. `cells` are whole domains that the
    tenant may always claim for its jobs that are not opportunistic; these run nowhere else.
    `preemption` says whose jobs its own may preempt (None: all of lower precedence).
    """

    name: Name
    quota: Amounts = Field(default_factory=dict)
    guarantee: Amounts = Field(default_factory=dict)
    weight: Annotated[int, Field(strict=True, ge=1, le=10**6)] = 1
    cells: Many[OwnedCells] = ()
    preemption: Preemption | None = None


class Freeing(Document):
    """What the term `freed` pays for: whole domains of a level that become empty.

    A freed GPU is worth `gpu_worth_s` GPU-seconds of disruption.
    """

    level: Name = "host"
    gpu_worth_s: Annotated[int, Field(strict=True, ge=1, le=10**6)]


class TaskKind(Document):
    """A kind of task that is to be expected, as `TaskGroup` describes one, and how often.

    `weight` compares the kinds of one mix with each other.
    """

    gpu: MilliGpu
    cpu: MilliCpu = 0
    memory: Mib = 0
    gpu_models: Many[Name] | None = Field(default=None, min_length=1)
    weight: Annotated[int, Field(strict=True, ge=1, le=10**6)] = 1


class Aging(Document):
    """How the value of waiting jobs grows with their age.

    The value of a job that has been eligible for `age` seconds counts
    `1 + age / doubles_after_s` times, but no more than `limit` times.
    """

    doubles_after_s: Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)]
    limit: Annotated[int, Field(strict=True, ge=1, le=1000)] = 10

    def aged(self, value: int, age: int) -> int:
        """Return a value at an age in seconds, rounded down."""
        return (
            value
            * min(self.doubles_after_s + age, self.limit * self.doubles_after_s)
            // (self.doubles_after_s)
        )


def _depth(value: Any) -> Any:
    """Refuse what is no depth, as one error and not one for each kind of value."""
    number = isinstance(value, int) and not isinstance(value, bool)
    if value != "all" and not (number and 1 <= value <= MAX_COUNT):
        raise ValueError(f'expected a whole number from 1 to {MAX_COUNT}, or "all"')
    return value


class Backfill(Document):
    """Backfilling: the first `depth` waiting jobs that do not fit now get a reservation.

    Later jobs may start only where that delays no reservation. Depth 1 is EASY backfilling, "all"
    conservative backfilling. The queue is by precedence and submission, or, with `listed`, as the
    round lists its jobs, whatever their precedence: the order of another scheduler.
    """

    depth: Annotated[
        Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT)] | Literal["all"],
        BeforeValidator(_depth),
    ] = 1
    order: Literal["submitted", "listed"] = "submitted"


class DisruptionLimits(Document):
    """A disruption budget: the most that one round may do to running jobs; None: no limit.

    `preempted_jobs` and `preempted_gpus` limit the jobs that are preempted and the GPUs they held,
    `migrated_jobs` the jobs that migrate, `resized_jobs` those that resize. `lost_gpu_s` limits the
    work lost by all of these: GPUs held times the seconds since the last checkpoint, without one
    since the start, and those of a restart. A job that has run for less than `min_run_s` since it
    `started` is not preempted. Jobs on hosts that failed or are to be vacated do not count.
    """

    preempted_jobs: Index | None = None
    preempted_gpus: MilliGpuTotal | None = None
    migrated_jobs: Index | None = None
    resized_jobs: Index | None = None
    lost_gpu_s: Amount | None = None
    min_run_s: Index | None = None


class PolicyLimits(Document):
    """Limits on what the plan of a round may do."""

    disruption: DisruptionLimits | None = None


class Policy(Document):
    """What is decided, and by which objective terms, in lexicographic order.

    Each formulation has terms of its own, and its own default: of `interleaving` they are
    `weighted_throughput`, `disruption`, `spread`, `opened`, of `deadline` `broken`, `admitted`,
    `disruption`, `best_effort`, `early`, `spread`, `opened`, of `geo` `value`, `remote_reads`,
    `disruption`, `spread`, `opened`, of `replicas`, which decides where data lives, `overload`,
    `remote_reads`, `copies`, `imbalance`, `hottest`, and of `stages` `makespan`, `spread`.

    `vacate` lists hosts (or ranges) to empty: nothing arrives there, and the term `remaining`
    counts what stays. `freeing` is what the term `freed` needs. `mix` are the kinds of tasks to
    which free GPUs are useful or stranded, in the term `stranded` (None: the tasks of the round's
    jobs, of a pending one those of its first option).

    `priority`: `strict` decides the main terms (`value`, of `interleaving` `weighted_throughput`,
    of `deadline` `admitted` and `best_effort`) class by class, the highest precedence first; with
    `preemption` priority says only who may preempt whom. `replicas` has `preemption` alone.

    `aging` raises the value of jobs that wait, and `backfill` reserves GPUs for the first of them
    (None: neither). `limits` holds in every plan. With `keep_sizes` all running jobs keep their
    options.
    """

    formulation: FormulationName = "gang"
    terms: Many[TermName] = Field(default=GANG.default, min_length=1)
    priority: Priority = "strict"
    spread_weights: dict[Name, Annotated[int, Field(strict=True, ge=0, le=10**6)]] | None = None
    vacate: Many[HostName] = ()
    freeing: Freeing | None = None
    mix: Many[TaskKind] | None = Field(default=None, min_length=1)
    aging: Aging | None = None
    backfill: Backfill | None = None
    limits: PolicyLimits | None = None
    keep_sizes: Flag = False

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, raw: Any) -> Any:
        chosen = raw.get("formulation") if isinstance(raw, dict) else None
        spec = POLICIES.get(chosen) if isinstance(chosen, str) else None
        if spec is None or spec is GANG:  # the default of the field
            return raw
        return {"terms": spec.default, "priority": spec.priorities[0], **raw}

    @field_validator("terms")
    @classmethod
    def _unique(cls, terms: tuple[TermName, ...]) -> tuple[TermName, ...]:
        if len(set(terms)) != len(terms):
            raise ValueError("expected each objective term once")
        return terms

    @model_validator(mode="after")
    def _legal(self) -> Policy:
        for i, term in enumerate(self.terms):
            legal = tuple(self.spec.terms) if i else self.spec.leading
            if term not in legal:
                first = "" if i or term not in self.spec.terms else "first "
                *others, last = legal
                names = f"{', '.join(others)} or {last}" if others else last
                raise InvalidInputError(
                    f"is not for policy {self.formulation!r}; expected {first}{names}",
                    ("terms", i),
                    term,
                )
        if self.priority not in self.spec.priorities:
            raise InvalidInputError(
                f"is not for policy {self.formulation!r} yet; "
                f"expected {' or '.join(self.spec.priorities)}",
                ("priority",),
                self.priority,
            )
        return self

    @property
    def spec(self) -> PolicySpec:
        """What the package knows of the policy."""
        return POLICIES[self.formulation]

    @property
    def by_class(self) -> tuple[str, ...]:
        """Terms that are decided class by class, if there are several priority classes."""
        if self.priority != "strict":
            return ()
        return tuple(term for term in self.terms if term in self.spec.by_class)

    @property
    def as_listed(self) -> bool:
        """Whether the queue is as the round lists its jobs."""
        return self.backfill is not None and self.backfill.order == "listed"


def headline(terms: Sequence[str]) -> Sequence[str]:
    """Return the headline terms, whose largest gap is the plan's: up to `admitted`, else the first.

    A plan that keeps all promises proves little about those that it gives. A term that stands for
    several priority classes, as `value_1`, `value_2`, ..., counts with all of them.
    """
    lead = next((t for t in terms if term_of(t) == "admitted"), terms[0])
    of_class = lead != term_of(lead)
    leads = [t for t in terms if t == lead or (of_class and term_of(t) == term_of(lead))]
    return terms[: terms.index(leads[-1]) + 1]
