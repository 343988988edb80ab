"""Queues of KAI and of Volcano: what the pod groups in them may hold."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from placewright.instances.converters.kubernetes.accessor import (
    OptionalName,
    Quantities,
    Quantity,
    Record,
    quantity,
)
from placewright.instances.converters.kubernetes.groups import KAI, VOLCANO
from placewright.instances.converters.kubernetes.nodes import GPU_RESOURCES
from placewright.instances.converters.kubernetes.records import Object
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.policy import Tenant

QUEUE_KINDS = (Kind(KAI, "Queue"), Kind(VOLCANO, "Queue"))
_UNLIMITED = -1


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
    def tenant(self) -> Tenant:
        """Its quota: the most it may hold; its guarantee: what it may always claim."""
        gpu, spec = self.spec.resources.gpu, self.spec
        most = gpu.limit if gpu.limit is not None else _gpus(spec.capability)
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


def unsaid(queues: Iterable[GroupQueue]) -> list[str]:
    """Return the queues that are in another: a round has no tree of them."""
    return [one.metadata.name for one in queues if one.above not in (None, "", "root")]


def _gpus(amounts: dict[str, Decimal]) -> Decimal | None:
    found = [amounts[name] for name in GPU_RESOURCES if name in amounts]
    return sum(found, Decimal(0)) if found else None


def _milli(gpus: Decimal) -> str:
    return f"{min(MAX_AMOUNT, int(gpus * 1000))}m"
