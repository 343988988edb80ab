"""Queues of KAI and of Volcano: what the pod groups in them may hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from placewright.instances.converters.kubernetes.accelerators import DEVICES, accelerators_in
from placewright.instances.converters.kubernetes.accessor import (
    OptionalName,
    Quantities,
    Quantity,
    Record,
    quantity,
)
from placewright.instances.converters.kubernetes.groups import KAI, VOLCANO
from placewright.instances.converters.kubernetes.kueue_quotas import KueueQuotas
from placewright.instances.converters.kubernetes.nodes import Amounts
from placewright.instances.converters.kubernetes.records import Object
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.caps import Cap, Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import Tenant

QUEUE_KINDS = (Kind(KAI, "Queue"), Kind(VOLCANO, "Queue"))
_UNLIMITED = -1
_UNITS = {"gpu": Decimal(1000), "cpu": Decimal(1000), "memory": 1 / Decimal(1024) ** 2}
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

    Parameters
    ----------
    held
        What pods without GPUs hold of each queue.
    firm
        Jobs that nobody preempts, by name: KAI gives them no more than the quota of a queue.
    asked
        Accelerators that pods ask for.
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
