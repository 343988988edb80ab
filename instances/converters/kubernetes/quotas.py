"""Quotas of Kueue's queues, and of those of KAI and Volcano, as tenants and caps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import product
from math import prod
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field

from placewright.instances.converters.kubernetes.groups import KAI, VOLCANO, ClusterQueue, Quota
from placewright.instances.converters.kubernetes.kueue import Queues
from placewright.instances.converters.kubernetes.nodes import DEVICES, Amounts, accelerators_in
from placewright.instances.converters.kubernetes.records import (
    Object,
    OptionalName,
    Quantities,
    Quantity,
    Record,
    quantity,
)
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.caps import Cap, Measure
from placewright.instances.documents.job import MAX_CAPS, Job
from placewright.instances.documents.policy import Tenant

# Quotas of Kueue: what queues may hold of each flavor, alone and with others of their cohort.
#
# Of a flavor's resource a queue or cohort has its own quota and what its children lend it. A child
# counts above only with what it uses beyond the quota that it keeps for itself (`lendingLimit`):
#
#     used(cohort) = sum over children of max(0, used(child) - kept(child))
#     used(root) <= quota(root),  used(other) <= quota + borrowingLimit, if it has one
#
# Each max is a choice, and each choice of queues is a cap: what these use together is at most the
# quota and what they keep.


NOTHING = Decimal(0)
_WITHIN, _EXPOSED = "within/", "exposed/"
"""Caps without a limit by which jobs name whom they may preempt: of their queue, of a cohort."""

_OF_FLAVOR = ("nvidia.com/gpu",)
"""Accelerators whose key has the name of the flavor alone; those of others have their own, too."""

MAX_SETS = 32
"""Sets of queues of a cohort that have a cap of their own."""

_MIB = Decimal(1024) ** 2
_UNITS = {"gpu": Decimal(1000), "cpu": Decimal(1000), "memory": 1 / _MIB}


class Key(NamedTuple):
    """A resource of a flavor; GPUs are `gpu`, those of other vendors of a flavor of their own."""

    flavor: str
    resource: str

    @property
    def name(self) -> str:
        """What options use of it."""
        return f"{self.resource}@{self.flavor}"

    def small(self, amount: Decimal) -> int:
        """Return an amount in the small unit of a round."""
        whole = int(amount * _UNITS.get(self.resource, 1))
        return max(0, min(MAX_AMOUNT, whole))


Members: TypeAlias = frozenset[str]
KeyAmounts: TypeAlias = Mapping[Key, Decimal]


class _Row(NamedTuple):
    """Of some queues: what they keep for themselves, all together."""

    queues: Members
    kept: Decimal


def key_of(flavor: str, name: str) -> Key:
    """Return the key of a resource of a flavor, by the name that Kubernetes has for it."""
    if not accelerators_in([name]):
        return Key(flavor, name)
    return Key(flavor if name in _OF_FLAVOR else f"{flavor}/{name}", "gpu")


def quotas_of(queue: ClusterQueue) -> Iterator[tuple[Key, Quota]]:
    """Yield the quotas of a queue or cohort."""
    for flavor in queue.flavors:
        for one in flavor.resources:
            if flavor.name is not None:
                yield key_of(flavor.name, one.name), one


@dataclass
class KueueQuotas:
    """What queues may hold, as caps.

    `reserved`: by queue, what workloads hold of its quotas that are no running jobs of the round.
    That is used of flavors by a job of its own, so caps of the cohort count flavors. `active`:
    queues with jobs in the round. `most`: what each queue may hold at most. `held`: by queue, what
    all admitted workloads hold. `unsaid`: cohorts with too many sets of queues that keep quota for
    themselves.
    """

    queues: Queues
    reserved: Mapping[str, KeyAmounts]
    active: frozenset[str]
    held: Mapping[str, KeyAmounts]
    most: dict[str, dict[Key, int]] = field(default_factory=dict)
    unsaid: set[str] = field(default_factory=set)
    _limits: dict[tuple[str, Members], dict[Key, int]] = field(default_factory=dict)
    _has: dict[str, dict[Key, Decimal]] = field(default_factory=dict)
    _kept: dict[str, dict[Key, Decimal]] = field(default_factory=lambda: defaultdict(dict))
    _children: dict[str, list[str]] = field(init=False)
    _flavors: dict[tuple[str, str], set[str]] = field(init=False)
    _caps: dict[str, Cap] = field(init=False)
    _of_queue: dict[str, list[str]] = field(init=False)

    def __post_init__(self) -> None:
        cluster, cohorts = self.queues.cluster, self.queues.cohorts
        below = defaultdict[str, list[str]](list)
        for name, queue in sorted(cluster.items()):
            if queue.cohort is not None:
                below[queue.cohort].append(f"queue/{name}")
        for name in sorted({*cohorts, *below}):
            above = self.queues.above(name)
            if above:
                below[above[0]].append(f"cohort/{name}")
        self._children = dict(below)
        self._flavors = defaultdict(set)
        for name, one in (*cluster.items(), *cohorts.items()):
            for key, _ in quotas_of(one):
                self._flavors[self._root(name, one), key.resource].add(key.flavor)
        roots = {self._root(name, queue) for name, queue in cluster.items()}
        for root in sorted(roots):
            self._limit_below(root, frozenset())
        self._write()

    @cached_property
    def _reserved(self) -> set[tuple[str, str]]:
        """The roots of queues of which quota is reserved, each with the resource."""
        cluster = self.queues.cluster
        return {
            (self._root(queue, cluster[queue]), key.resource)
            for queue, amounts in self.reserved.items()
            for key in amounts
            if queue in cluster
        }

    def plain(self, queue: str, key: Key) -> bool:
        """Whether all that a queue may borrow of a resource is of one flavor, and hosts have it."""
        at = self._root(queue, self.queues.cluster[queue]), key.resource
        return key.resource in _UNITS and len(self._flavors[at]) == 1 and at not in self._reserved

    def quota(self, queue: str) -> dict[str, int]:
        """Return the quota of a tenant: GPUs of all flavors, and what is of one flavor."""
        found: dict[str, int] = {}
        for key, most in self.most.get(queue, {}).items():
            if key.resource == "gpu" or self.plain(queue, key):
                found[key.resource] = min(MAX_AMOUNT, found.get(key.resource, 0) + most)
        return found

    def unsaid_of(self, queue: str | None) -> bool:
        """Whether a cohort of a queue is `unsaid`."""
        one = self.queues.cluster.get(queue or "")
        return one is not None and not self.unsaid.isdisjoint(self.queues.cohorts_of(one))

    def with_caps(self, job: Job, capped: Collection[str] = ()) -> Job:
        """Return a job that counts in the caps of its queue, with what it uses of flavors.

        Of what it uses only that is kept which these caps limit, or those of others (`capped`).
        """
        names = self._of_queue.get(job.tenant or "", [])
        job = self._marked(job)
        if not names and not any(option.uses for option in job.options):
            return job
        capped = {*capped, *(name for cap in names for name in self._caps[cap].resources)}
        options = tuple(
            option.model_copy(
                update={"uses": {n: k for n, k in option.uses.items() if n in capped}}
            )
            for option in job.options
        )
        return job.model_copy(update={"caps": (*job.caps, *names), "options": options})

    def _marked(self, job: Job) -> Job:
        """Return a job with caps that say in which cohorts it may be preempted, or preempt.

        A queue takes quota back from those of another cohort only while that has more than its own,
        which no rule of tenants says. Where no cohort is in another, these rules suffice.
        """
        queue = self.queues.cluster.get(job.tenant or "")
        cohorts = [] if queue is None else self.queues.cohorts_of(queue)
        below = self._children.get(cohorts[-1], ()) if cohorts else ()
        if not self.held or not any(node.startswith("cohort/") for node in below):
            return job
        if job.running is None:
            names = [f"{_WITHIN}{job.tenant}", *(f"{_EXPOSED}{cohort}" for cohort in cohorts)]
            preempts = tuple(names) if job.preempts is None else job.preempts
            return job.model_copy(update={"preempts": preempts[:MAX_CAPS]})
        last = next((k for k, one in enumerate(cohorts) if not self._is_over(one)), len(cohorts))
        names = [f"{_WITHIN}{job.tenant}", *(f"{_EXPOSED}{one}" for one in cohorts[: last + 1])]
        return job.model_copy(update={"caps": (*job.caps, *names)})

    def _is_over(self, cohort: str) -> bool:
        """Whether a cohort holds more GPUs of some flavor than it has."""
        node = f"cohort/{cohort}"
        has = self._has.get(node, {})
        return any(self._used(node, key) > has[key] for key in has if key.resource == "gpu")

    def _used(self, node: str, key: Key) -> Decimal:
        kind, _, name = node.partition("/")
        if kind == "queue":
            return self.held.get(name, {}).get(key, NOTHING)
        below = [one for one in self._children.get(name, ()) if one in self._has]
        beyond = (self._used(one, key) - self._kept[one].get(key, NOTHING) for one in below)
        return sum((max(NOTHING, one) for one in beyond), NOTHING)

    def used_by(self, jobs: Iterable[Job]) -> dict[str, Cap]:
        """Return the caps in which some jobs count, or that they name."""
        used = {name for job in jobs for name in (*job.caps, *(job.preempts or ()))}
        marks = sorted(name for name in used if name.startswith((_WITHIN, _EXPOSED)))
        caps = {name: cap for name, cap in self._caps.items() if name in used}
        return caps | {name: Cap() for name in marks}

    def _root(self, name: str, one: ClusterQueue) -> str:
        if name in self.queues.cluster and one is self.queues.cluster[name]:
            if one.cohort is None:
                return f"queue/{name}"
            name = one.cohort
        return f"cohort/{self.queues.root_of(name)}"

    def _quotas(self, node: str) -> dict[Key, Quota]:
        kind, _, name = node.partition("/")
        of = self.queues.cluster if kind == "queue" else self.queues.cohorts
        return dict(quotas_of(of[name])) if name in of else {}

    def _limit_below(self, node: str, above: Members) -> dict[Key, tuple[Decimal, Sequence[_Row]]]:
        """Add the limits at a node and below; return its quotas, and the sets that count there."""
        is_root, inside = not above, above | {node}
        own = self._quotas(node)
        quota = {key: one.nominalQuota or NOTHING for key, one in own.items()}
        parts: dict[Key, list[Sequence[_Row]]] = {}
        if node.startswith("queue/"):
            alone = [_Row(frozenset({node.removeprefix("queue/")}), NOTHING)]
            parts = {key: [alone] for key in own}
        children = self._children.get(node.removeprefix("cohort/"), ()) if not parts else ()
        for child in [one for one in children if one not in inside]:
            limits = self._quotas(child)
            for key, (has, rows) in self._limit_below(child, inside).items():
                lends = limits[key].lendingLimit if key in limits else None
                kept = NOTHING if lends is None else max(NOTHING, has - lends)
                self._kept[child][key] = kept
                quota[key] = quota.get(key, NOTHING) + has - kept
                if kept:
                    rows = [*(r._replace(kept=r.kept + kept) for r in rows), _NO_ROW]
                parts.setdefault(key, []).append(rows)
        found: dict[Key, tuple[Decimal, Sequence[_Row]]] = {}
        self._has[node] = quota
        for key, has in quota.items():
            rows = self._sums(node, parts.get(key, []))
            found[key] = has, rows
            borrows = own[key].borrowingLimit if key in own else None
            if is_root or borrows is not None:
                most = has if is_root else has + (borrows or NOTHING)
                self._limit(node, key, most, rows)
        return found

    def _sums(self, node: str, parts: Sequence[Sequence[_Row]]) -> list[_Row]:
        """Return the sets of queues that may count together at a node."""
        number = prod(map(len, parts))
        if number > MAX_SETS:  # who has no jobs uses none of what others keep
            parts = [rows if self._acts(rows[0]) else rows[-1:] for rows in parts]
            number = prod(map(len, parts))
        if number > MAX_SETS:
            self.unsaid.add(node.removeprefix("cohort/"))
            parts = [[rows[0]] for rows in parts]
        return [
            _Row(
                frozenset[str]().union(*(r.queues for r in rows)),
                sum((r.kept for r in rows), NOTHING),
            )
            for rows in product(*parts)
        ]

    def _acts(self, row: _Row) -> bool:
        return not self.active.isdisjoint(row.queues) or not row.queues.isdisjoint(self.reserved)

    def _limit(self, node: str, key: Key, most: Decimal, rows: Iterable[_Row]) -> None:
        for row in rows:
            if not row.queues:
                continue
            limit = key.small(most + row.kept)
            for queue in row.queues:
                mine = self.most.setdefault(queue, {})
                mine[key] = min(limit, mine.get(key, limit))
            alone = len(row.queues) == 1
            mine = self._limits.setdefault(("" if alone else node, row.queues), {})
            mine[key] = min(limit, mine.get(key, limit))

    def _write(self) -> None:
        """Write the limits as caps; what is of one queue and one flavor is its tenant's quota."""
        self._caps, self._of_queue = {}, {name: [] for name in self.queues.cluster}
        for (node, queues), limits in sorted(self._limits.items(), key=_by_size):
            one = min(queues)
            left = {k: m for k, m in limits.items() if node or not self.plain(one, k)}
            if not left:
                continue
            name = node or f"queue/{one}"
            if name in self._caps:
                name = f"{name}/{'+'.join(sorted(queues))}"[:240]
            while name in self._caps:
                name += "+"
            resources = {k.resource if self.plain(one, k) else k.name: m for k, m in left.items()}
            gpus = resources.pop("gpu", None)
            self._caps[name] = Cap(gpus=None if gpus is None else f"{gpus}m").model_copy(
                update={"resources": resources}
            )
            for queue in queues:
                self._of_queue[queue].append(name)
        for queue, names in self._of_queue.items():
            if len(names) > MAX_CAPS - 1:
                self.unsaid.update(self.queues.cohorts_of(self.queues.cluster[queue]))
                del names[MAX_CAPS - 1 :]


_NO_ROW = _Row(frozenset(), NOTHING)


def _by_size(item: tuple[tuple[str, Members], object]) -> tuple[str, int, list[str]]:
    """Order limits by node, the largest set of queues first."""
    (node, queues), _ = item
    return node, -len(queues), sorted(queues)


def reserved_quota(
    queues: Queues, running: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[Key, Decimal]]:
    """Return what workloads hold of quotas that no running job uses, by queue.

    `running`: by the name of a workload, what its running job uses of flavors.
    """
    found: dict[str, dict[Key, Decimal]] = {}
    for workload in queues.workloads.values():
        admission = workload.status.admission
        if admission is None or workload.has("Finished"):
            continue
        used, whole = running.get(workload.name, {}), defaultdict[Key, Decimal](Decimal)
        for one in admission.podSetAssignments:
            for resource, flavor in one.flavors.items():
                key = key_of(flavor, resource)
                whole[key] += one.resourceUsage.get(resource, NOTHING)
        mine = found.setdefault(admission.clusterQueue or "", {})
        for key, held in whole.items():
            left = held - used.get(key.name, 0) / _UNITS.get(key.resource, Decimal(1))
            mine[key] = mine.get(key, NOTHING) + max(NOTHING, left)
    return {
        queue: some
        for queue, amounts in found.items()
        if (some := {key: held for key, held in amounts.items() if held})
    }


# Queues of KAI and of Volcano: what the pod groups in them may hold.

QUEUE_KINDS = (Kind(KAI, "Queue"), Kind(VOLCANO, "Queue"))
_UNLIMITED = -1
_COUNTED_BY_KAI = ("nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-*", f"{DEVICES}*")
_GPUS_OF_KAI = "nvidia.com/gpu+amd.com/gpu"
"""What KAI counts as GPUs, all together, and how these are called beside others."""

_UNSAID = ("pods", "ephemeral-storage")
"""What Volcano counts of a queue in some of its versions."""

_OF_KAI = {"gpu": Decimal(1), "cpu": Decimal("0.001"), "memory": Decimal(10) ** 6}
"""GPUs, cores and bytes of what KAI counts: GPUs, thousandths of cores, and megabytes."""

_SUFFIXES = {"gpu": "m", "cpu": "m", "memory": "Mi"}
MAX_ABOVE = 50
"""Queues above one another; a job counts in 64 caps at most."""


def _limit(value: Any) -> Decimal | None:
    return None if value is None or value == _UNLIMITED else quantity(value)


_Limit = Annotated[Decimal | None, BeforeValidator(_limit)]


class _Share(Record):
    quota: _Limit = None
    limit: _Limit = None
    overQuotaWeight: Quantity | None = None  # noqa: N815


class _KaiResources(Record):
    gpu: _Share = _Share()
    cpu: _Share = _Share()
    memory: _Share = _Share()


class _Guarantee(Record):
    resource: Quantities = Field(default_factory=dict)


class _QueueSpec(Record):
    """Of KAI (`resources`, `parentQueue`), or of Volcano."""

    resources: _KaiResources = _KaiResources()
    parentQueue: OptionalName = None  # noqa: N815
    capability: Quantities = Field(default_factory=dict)
    deserved: Quantities = Field(default_factory=dict)
    guarantee: _Guarantee = _Guarantee()
    parent: OptionalName = None
    weight: Quantity | None = None


class GroupQueue(Object):
    """A queue of KAI or of Volcano."""

    spec: _QueueSpec = Field(default_factory=_QueueSpec)

    @property
    def above(self) -> str | None:
        """The queue that it is in."""
        return self.spec.parentQueue or self.spec.parent

    def limits(self, asked: Collection[str]) -> dict[str, int]:
        """Return the most that it may hold, with the queues in it, in small units.

        GPUs are `gpu` where the limit is on all accelerators that are asked, else by their name.
        """
        kai, most = self.spec.resources, self.spec.capability
        named = {name: measures_of(name, asked)[0] for name in accelerators_in(most)}
        plain = {
            named.get(name, name): _small(named.get(name, name), amount)
            for name, amount in most.items()
            if name not in _UNSAID and (name not in named or name in asked)
        }
        return plain | self._of_kai(
            asked, gpu=kai.gpu.limit, cpu=kai.cpu.limit, memory=kai.memory.limit
        )

    def firm(self, asked: Collection[str]) -> dict[str, int]:
        """Return what jobs may hold of it that nobody preempts (KAI)."""
        kai = self.spec.resources
        return self._of_kai(asked, gpu=kai.gpu.quota, cpu=kai.cpu.quota, memory=kai.memory.quota)

    @staticmethod
    def _of_kai(asked: Collection[str], **amounts: Decimal | None) -> dict[str, int]:
        """Return amounts as KAI has them in small units; without those that are not limited."""
        counted = next((name for name in asked if _by_kai(name)), None)
        gpus = "" if counted is None else measures_of(counted, asked)[-1]
        names = {"gpu": gpus}
        return {
            names.get(name, name): _small(name, _OF_KAI[name] * amount)
            for name, amount in amounts.items()
            if amount is not None and names.get(name, name)
        }

    def tenant(self, held: Amounts, asked: Collection[str]) -> Tenant:
        """Return its quota, less what others hold of it, and what it may always claim."""
        gpu, spec = self.spec.resources.gpu, self.spec
        limits = {k: n for k, n in _left(self.limits(asked), held).items() if k in _UNITS}
        least = (gpu.quota, _gpus(spec.deserved), _gpus(spec.guarantee.resource))
        sure = next((_small("gpu", one) for one in least if one), None)
        if sure is not None:
            sure = min(sure, limits.get("gpu", sure))
        weight = gpu.overQuotaWeight or spec.weight or Decimal(1)
        return Tenant(
            name=self.metadata.name,
            quota=_written(limits),
            guarantee={} if sure is None else _written({"gpu": sure}),
            weight=max(1, min(10**6, int(weight))),
        )


class GroupQueueCaps:
    """What queues that others are in may hold with these, as caps.

    `held`: what pods without GPUs hold of each queue. `firm`: jobs that nobody preempts, by name:
    KAI gives them no more than the quota of a queue. `asked`: accelerators that pods ask for.
    """

    def __init__(
        self,
        queues: Iterable[GroupQueue],
        held: Mapping[str, Amounts],
        firm: Collection[str],
        asked: Collection[str],
    ) -> None:
        self._asked = asked
        self._by_name = {one.metadata.name: one for one in queues}
        self._firm = firm
        self._held: defaultdict[str, Amounts] = defaultdict(Amounts)
        for name, amounts in held.items():
            for one in self._line(name):
                self._held[one.metadata.name].add(amounts)

    def tenant(self, queue: GroupQueue) -> Tenant:
        """Return the tenant of a queue."""
        return queue.tenant(self._held[queue.metadata.name], self._asked)

    def with_caps(self, jobs: Iterable[Job], of_kueue: KueueQuotas) -> tuple[Job, ...]:
        """Return jobs that count in the caps of the queues above theirs, and in those of Kueue."""
        return tuple(
            of_kueue.with_caps(
                job.model_copy(update={"caps": (*job.caps, *caps)}) if caps else job,
                {name for limits in caps.values() for name in limits},
            )
            for job in jobs
            for caps in [dict(self._caps_of(job))]
        )

    def used_by(self, jobs: Iterable[Job]) -> dict[str, Cap]:
        """Return the caps in which some jobs count."""
        found = {name: limits for job in jobs for name, limits in self._caps_of(job)}
        return {name: _cap(found[name]) for name in sorted(found)}

    def unsaid(self) -> list[str]:
        """Return the queues that are in one which the dump does not have."""
        known = (None, "", "root", *self._by_name)
        return [name for name, one in self._by_name.items() if one.above not in known]

    def _caps_of(self, job: Job) -> Iterator[tuple[str, dict[str, int]]]:
        for queue in self._line(job.tenant):
            limits = _left(queue.limits(self._asked), self._held[queue.metadata.name])
            if queue.metadata.name == job.tenant and not self._holds_others(queue):
                limits = {name: most for name, most in limits.items() if name not in _UNITS}
            if limits:
                yield f"queue/{queue.metadata.name}", limits
        for queue in self._line(job.tenant) if job.name in self._firm else ():
            firm = queue.firm(self._asked)
            if firm:
                yield f"queue/{queue.metadata.name}/non-preemptible", firm

    def _line(self, queue: str | None) -> Iterator[GroupQueue]:
        """Yield a queue and those that it is in, from the inside out."""
        one, seen = self._by_name.get(queue or ""), set[str]()
        while one is not None and len(seen) <= MAX_ABOVE and one.metadata.name not in seen:
            seen.add(one.metadata.name)
            yield one
            one = self._by_name.get(one.above or "")

    def half_said(self) -> list[str]:
        """Return the queues with a limit of what not every Volcano counts."""
        return [
            name
            for name, one in self._by_name.items()
            if not one.spec.capability.keys().isdisjoint(_UNSAID)
        ]

    def _holds_others(self, queue: GroupQueue) -> bool:
        return any(one.above == queue.metadata.name for one in self._by_name.values())


def _gpus(amounts: dict[str, Decimal]) -> Decimal | None:
    found = [amounts[name] for name in accelerators_in(amounts)]
    return sum(found, Decimal(0)) if found else None


def measures_of(name: str, asked: Collection[str]) -> tuple[str, str]:
    """Return as what GPUs count in limits on their name alone, and in those of KAI, if these do.

    That is `gpu` if all that is asked counts so.
    """
    alone = "gpu" if {*asked} <= {name} else f"gpu@{name}"
    kai = "gpu" if all(map(_by_kai, asked)) else f"gpu@{_GPUS_OF_KAI}"
    return alone, kai if _by_kai(name) else alone


def _by_kai(name: str) -> bool:
    return any(fnmatchcase(name, one) for one in _COUNTED_BY_KAI)


def _small(name: str, amount: Decimal) -> int:
    unit = _UNITS.get(name.partition("@")[0], 1 if "/" in name else _UNITS["memory"])
    return min(MAX_AMOUNT, int(amount * unit))


def _left(limits: Mapping[str, int], held: Amounts) -> dict[str, int]:
    """Return limits without what is held."""
    taken = {**held.others, "cpu": held.cpu, "memory": held.memory}
    return {name: max(0, limit - taken.get(name, 0)) for name, limit in limits.items()}


def _written(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{amount}{_SUFFIXES[name]}" for name, amount in amounts.items()}


def _cap(limits: Mapping[str, int]) -> Cap:
    measures = (Measure("gpus") if name == "gpu" else Measure("resources", name) for name in limits)
    return Cap.of(dict(zip(measures, limits.values(), strict=True)))
