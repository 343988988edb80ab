"""Queues of KAI and of Volcano: what the pod groups in them may hold."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from placewright.instances.converters.kubernetes.accelerators import accelerators_in
from placewright.instances.converters.kubernetes.accessor import (
    OptionalName,
    Quantities,
    Quantity,
    Record,
    quantity,
)
from placewright.instances.converters.kubernetes.groups import KAI, VOLCANO
from placewright.instances.converters.kubernetes.records import Object
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.caps import Cap
from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import Tenant

QUEUE_KINDS = (Kind(KAI, "Queue"), Kind(VOLCANO, "Queue"))
_UNLIMITED = -1
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

    @property
    def limit(self) -> Decimal | None:
        """The most GPUs that it may hold, with the queues in it."""
        most = self.spec.resources.gpu.limit
        return most if most is not None else _gpus(self.spec.capability)

    @property
    def tenant(self) -> Tenant:
        """Its quota: the most it may hold; its guarantee: what it may always claim."""
        gpu, spec, most = self.spec.resources.gpu, self.spec, self.limit
        least = (gpu.quota, _gpus(spec.deserved), _gpus(spec.guarantee.resource))
        sure = next((one for one in least if one), None)
        if sure is not None and most is not None:
            sure = min(sure, most)
        weight = gpu.overQuotaWeight or spec.weight or Decimal(1)
        return Tenant(
            name=self.metadata.name,
            quota={} if most is None else {"gpu": _milli(most)},
            guarantee={} if sure is None else {"gpu": _milli(sure)},
            weight=max(1, min(10**6, int(weight))),
        )


class GroupQueueCaps:
    """What queues that others are in may hold with these, as caps."""

    def __init__(self, queues: Iterable[GroupQueue]) -> None:
        self._by_name = {one.metadata.name: one for one in queues}

    def with_caps(self, jobs: Iterable[Job]) -> tuple[Job, ...]:
        """Return jobs that count in the caps of the queues above theirs."""
        return tuple(
            job.model_copy(update={"caps": (*job.caps, *names)}) if names else job
            for job in jobs
            for names in [tuple(f"queue/{name}" for name in self._limited(job.tenant))]
        )

    def used_by(self, jobs: Iterable[Job]) -> dict[str, Cap]:
        """Return the caps in which some jobs count."""
        used = {name for job in jobs for name in self._limited(job.tenant)}
        limits = {name: self._by_name[name].limit for name in sorted(used)}
        return {
            f"queue/{name}": Cap(gpus=_milli(limit))
            for name, limit in limits.items()
            if limit is not None
        }

    def unsaid(self) -> list[str]:
        """Return the queues that are in one which the dump does not have."""
        known = (None, "", "root", *self._by_name)
        return [name for name, one in self._by_name.items() if one.above not in known]

    def _limited(self, queue: str | None) -> list[str]:
        """Return the queues above one that have a limit of their own, the nearest first."""
        own = one = self._by_name.get(queue or "")
        found: list[str] = []
        seen = 0
        while one is not None and seen < MAX_ABOVE:
            one, seen = self._by_name.get(one.above or ""), seen + 1
            if one is own:
                break
            if one is not None and one.limit is not None and one.metadata.name not in found:
                found.append(one.metadata.name)
        # Jobs of a queue that others are in count beside those of the others.
        if own is not None and own.limit is not None and self._holds_others(own):
            found.insert(0, own.metadata.name)
        return found

    def _holds_others(self, queue: GroupQueue) -> bool:
        return any(one.above == queue.metadata.name for one in self._by_name.values())


def _gpus(amounts: dict[str, Decimal]) -> Decimal | None:
    found = [amounts[name] for name in accelerators_in(amounts)]
    return sum(found, Decimal(0)) if found else None


def _milli(gpus: Decimal) -> str:
    return f"{min(MAX_AMOUNT, int(gpus * 1000))}m"
