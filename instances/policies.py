"""Policies: the terms, sections and fields of each, and what the layers of the package do for it.

A policy is one `PolicySpec` in `POLICIES`. Every layer (checks of references, rules of the
verifier, deciders, views) keeps a `PolicyRegistry` and looks its part up by the policy's name;
nothing else compares names of policies. This module imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Generic, Literal, TypeAlias, TypeVar

Part = TypeVar("Part")
Sense: TypeAlias = Literal["max", "min"]
Priority: TypeAlias = Literal["strict", "preemption"]

COMMON_REASONS = (
    "never_fits",
    "quota",
    "hosts_away",
    "capacity",
    "displaced_by_priority",
    "not_chosen",
)
"""Reasons for which a pending job waits whenever a policy places jobs."""


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """What the package needs to know of a policy before it decides a round.

    Parameters
    ----------
    name
        The value of `policy.formulation` in a Round document.
    title
        A few words for people.
    terms
        Objective terms that are legal, each with its sense.
    leading
        Those that may be the first term.
    default
        The terms of a round that names none, in lexicographic order.
    sections
        Sections of a Round that its rounds may carry.
    fields
        Fields that only some policies read, as `owner.field` with the owner `jobs`, `tenants`,
        `cluster` or `policy`, or `field` alone for one of the Round.
    plan_sections
        Kinds of the sections that its plans may have beside those of any policy.
    required_sections
        Those of them that a plan always has.
    reasons
        Reasons for which its plans let pending jobs wait.
    priorities
        What its rounds may say of priority, the default first; see docs/formulations/priority.md.
    by_class
        Terms that strict priority decides class by class.
    places_jobs
        Whether its plans start, move and stop jobs, rather than leave all of them as they are.
    resizes
        Whether running jobs may change their options.
    by_region
        Whether it decides regions side by side, which an executor may do.
    """

    name: str
    title: str
    terms: Mapping[str, Sense]
    leading: tuple[str, ...]
    default: tuple[str, ...]
    sections: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    plan_sections: tuple[str, ...] = ()
    required_sections: tuple[str, ...] = ()
    reasons: tuple[str, ...] = field(default=COMMON_REASONS)
    priorities: tuple[Priority, ...] = ("preemption",)
    by_class: tuple[str, ...] = ()
    places_jobs: bool = True
    by_region: bool = False
    resizes: bool = False


_PLACES: Mapping[str, Sense] = {
    "disruption": "min",
    "spread": "min",
    "proximity": "min",
    "opened": "min",
}
_RATES: Mapping[str, Sense] = {
    "throughput": "max",
    "weighted_throughput": "max",
    "efficiency": "max",
}

_GANG: Mapping[str, Sense] = {
    "value": "max",
    "progress": "max",
    "disruption": "min",
    "remaining": "min",
    "freed": "max",
    "spread": "min",
    "proximity": "min",
    "opened": "min",
    "leftover": "min",
    "entitled": "max",
    "share": "max",
    "stranded": "min",
    "bottleneck": "min",
    "contention": "min",
    "gpu_links": "max",
}

GANG = PolicySpec(
    name="gang",
    title="gang scheduling",
    terms=_GANG,
    leading=tuple(_GANG),
    default=("value", "disruption", "spread", "opened"),
    fields=(
        "caps",
        "jobs.caps",
        "jobs.preempts",
        "cluster.pools",
        "cluster.fabric",
        "tenants.guarantee",
        "tenants.cells",
        "tenants.preemption",
        "bindings",
        "maintenance",
        "policy.vacate",
        "policy.freeing",
        "policy.mix",
        "policy.aging",
        "policy.backfill",
        "policy.keep_sizes",
        "policy.limits",
        "jobs.submitted",
        "jobs.expected_runtime_s",
        "jobs.not_before",
        "jobs.held",
    ),
    priorities=("strict", "preemption"),
    resizes=True,
    by_class=("value",),
    plan_sections=("reservations",),
    reasons=(
        *COMMON_REASONS,
        *("held", "not_before", "reserved", "held_for_reservation"),
        *("held_for_maintenance", "disruption_limit"),
    ),
)
INTERLEAVING = PolicySpec(
    name="interleaving",
    title="jobs that take turns on GPUs",
    terms={**_RATES, **_PLACES},
    leading=(*_RATES, "disruption"),
    default=("weighted_throughput", "disruption", "spread", "opened"),
    sections=("sharing",),
    fields=("caps", "jobs.caps", "cluster.pools", "jobs.profile", "policy.limits"),
    priorities=("strict", "preemption"),
    by_class=("weighted_throughput",),
    plan_sections=("groups",),
)
DEADLINE = PolicySpec(
    name="deadline",
    title="promises to finish in time",
    terms={
        "broken": "min",
        "admitted": "max",
        "best_effort": "max",
        "early": "max",
        **_PLACES,
    },
    leading=("broken",),
    default=("broken", "admitted", "disruption", "best_effort", "early", "spread", "opened"),
    sections=("leases",),
    fields=("caps", "jobs.caps", "jobs.deadline", "policy.limits"),
    priorities=("strict", "preemption"),
    by_class=("admitted", "best_effort"),
    plan_sections=("leases",),
    required_sections=("leases",),
    reasons=(*COMMON_REASONS, "promised_later", "refused", "not_before"),
)
GEO = PolicySpec(
    name="geo",
    title="jobs in regions that hold data",
    terms={
        "value": "max",
        "remote_reads": "min",
        "egress_cost": "min",
        "gpu_cost": "min",
        **_PLACES,
    },
    leading=("value",),
    default=("value", "remote_reads", "disruption", "spread", "opened"),
    sections=("geo",),
    fields=("caps", "jobs.caps", "jobs.reads", "jobs.regions", "policy.limits"),
    plan_sections=("reads", "replicas", "flows"),
    required_sections=("reads",),
    reasons=(*COMMON_REASONS, "data", "no_region"),
    priorities=("strict", "preemption"),
    by_class=("value",),
    by_region=True,
)
REPLICAS = PolicySpec(
    name="replicas",
    title="replicas of data in regions",
    terms={
        "overload": "min",
        "remote_reads": "min",
        "copies": "min",
        "imbalance": "min",
        "hottest": "min",
    },
    leading=("overload",),
    default=("overload", "remote_reads", "copies", "imbalance", "hottest"),
    sections=("geo",),
    fields=("jobs.reads", "jobs.regions"),
    plan_sections=("replicas", "flows"),
    required_sections=("replicas",),
    reasons=("no_region", "not_asked"),
    places_jobs=False,
)
STAGES = PolicySpec(
    name="stages",
    title="jobs that wait for others",
    terms={"makespan": "min", "completion": "min", "spread": "min"},
    leading=("makespan", "completion"),
    default=("makespan", "spread"),
    fields=("cluster.pools", "jobs.stage"),
    plan_sections=("schedule",),
    required_sections=("schedule",),
    reasons=("later",),
)
POLICIES: dict[str, PolicySpec] = {
    spec.name: spec for spec in (GANG, INTERLEAVING, DEADLINE, GEO, REPLICAS, STAGES)
}
"""Every policy, by its name."""


def term_names() -> tuple[str, ...]:
    """Return the names of all objective terms, each once."""
    return tuple(dict.fromkeys(term for spec in POLICIES.values() for term in spec.terms))


def term_of(name: str) -> str:
    """Return the term of a policy that a name is part of: of `value_2` it is `value`.

    The sum of all shares that come after the compared ones, `share_all`, is part of `share`.
    """
    stem, _, part = name.rpartition("_")
    return stem if part.isdecimal() or part == "all" else name


def sense_of(name: str) -> Sense:
    """Return whether more of a term, or of a part of one, is better.

    Raises
    ------
    KeyError
        If no policy has the term.
    """
    term = term_of(name)
    for spec in POLICIES.values():
        if term in spec.terms:
            return spec.terms[term]
    raise KeyError(name)


class PolicyRegistry(Generic[Part]):
    """The parts that one layer has for policies, by name; each is imported when first looked up.

    Parameters
    ----------
    parts
        Where the part of each policy is defined, as `module:name`.
    """

    def __init__(self, parts: Mapping[str, str]) -> None:
        self._parts: dict[str, Part | str] = dict(parts)

    def register(self, policy: str, part: Part | str) -> None:
        """Add the part of a policy, or where it is defined."""
        self._parts[policy] = part

    def remove(self, policy: str) -> None:
        """Forget the part of a policy."""
        del self._parts[policy]

    def __contains__(self, policy: str) -> bool:
        return policy in self._parts

    def __getitem__(self, policy: str) -> Part:
        part = self._parts[policy]
        if isinstance(part, str):
            module, _, name = part.partition(":")
            part = self._parts[policy] = getattr(import_module(module), name)
        return part
