"""What is read of nodes and pods: values of Kubernetes objects as types that pydantic reads.

A quantity is a number or a text with a suffix (`500m`, `2Ti`, `100k`, `1e3`). Null stands for what
is not given, wherever that may be left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator
from pydantic_core import CoreSchema, core_schema

from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT, NAME

MAX_NAME = 253
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]{1,24}(?:\.[0-9]{0,24})?|\.[0-9]{1,24}))"
    r"(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,2}))?"
)
_SCALES: dict[str, Decimal] = {
    **{suffix: Decimal(1000) ** i for i, suffix in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{
        suffix: Decimal(1024) ** i
        for i, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
    },
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
}
_MOST = Decimal(2) ** 70
"""Of any quantity in its own unit: about 10^21, which is a zettabyte."""

_QUANTITIES = 'a quantity of Kubernetes, such as 8, "500m" or "64Gi"'


class Record(BaseModel):
    """An object or a part of one; fields that are not read are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def quantity(value: Any) -> Decimal:
    """Return a quantity of Kubernetes in units: cores, bytes, pieces.

    Raises `ValueError`: it is no quantity, is negative, or too large to be one.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"expected {_QUANTITIES}")  # noqa: TRY004
    if isinstance(value, int) and abs(value) > _MOST:
        raise ValueError(f"expected {_QUANTITIES}")
    return _amount(str(value))


@lru_cache(maxsize=4096)
def _amount(text: str) -> Decimal:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"expected {_QUANTITIES}")
    amount = Decimal(match[1]) * _SCALES[match[2] or ""] * Decimal(10) ** int(match[3] or 0)
    if not 0 <= amount <= _MOST:
        raise ValueError(f"expected {_QUANTITIES}, from 0 to {_MOST}")
    return amount


@dataclass(frozen=True, slots=True, eq=False)
class _Tested:
    """A type that pydantic tests without Python, as there are a hundred labels of a node."""

    schema: CoreSchema

    def __get_pydantic_core_schema__(self, _type: Any, _handler: Any) -> CoreSchema:
        return self.schema


def _or_else(expected: str, schema: CoreSchema) -> CoreSchema:
    """Return a schema that says what it expects as `ValueError` of a function would."""
    context: dict[str, str | int | float] = {"error": expected}
    return core_schema.custom_error_schema(schema, "value_error", custom_error_context=context)


def _text(expected: str, pattern: str | None = None) -> _Tested:
    """Return what reads a text; null is an empty one."""
    empty = core_schema.no_info_plain_validator_function(lambda _null: "")
    choices: list[CoreSchema | tuple[CoreSchema, str]] = [
        core_schema.str_schema(strict=True, pattern=pattern),
        core_schema.chain_schema([core_schema.none_schema(), empty]),
    ]
    return _Tested(_or_else(expected, core_schema.union_schema(choices, mode="left_to_right")))


_NAME = core_schema.chain_schema(
    [
        _or_else(
            f"expected a name of 1 to {MAX_NAME} characters",
            core_schema.str_schema(strict=True, min_length=1, max_length=MAX_NAME),
        ),
        _or_else(
            "expected only letters, digits and any of . _ : / @ | + = -",
            core_schema.str_schema(pattern=NAME),
        ),
    ]
)


def _whole(most: int, default: int | None, expected: str = "") -> BeforeValidator:
    """Return what reads a whole number from 0 on; null is the default, if there is one."""

    def read(value: Any) -> int:
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise ValueError(expected or f"expected a whole number from 0 to {most}")
        return value

    return BeforeValidator(read)


def _priority(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**31:
        raise ValueError("expected a whole number of 32 bits")
    return max(-(10**9), min(10**9, value))


def _moment(value: Any) -> int | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        at = None if moment is None else (moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        seconds = -1 if at is None else int(at.timestamp())
    except (ValueError, OverflowError):
        seconds = -1
    if seconds < 0:
        raise ValueError('expected a time from 1970 on, such as "2026-01-31T12:00:00Z"')
    return seconds


def _flag(value: Any) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ValueError("expected true or false")  # noqa: TRY004
    return value


def _active(value: Any) -> bool:
    return True if value is None else _flag(value)


def _list(value: Any) -> Any:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise ValueError("expected a list")  # noqa: TRY004
    return value


def _mapping(value: Any) -> Any:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("expected an object")  # noqa: TRY004
    return value


PortNumber = Annotated[int, _whole(2**16 - 1, 0, "expected the number of a port, below 65536")]
Quantity = Annotated[Decimal, PlainValidator(quantity)]
Text = Annotated[str, _text("expected a text")]
"""A text; empty if not given."""

NameText = Annotated[str, _Tested(_NAME)]
OptionalName = Annotated[
    NameText | None, BeforeValidator(lambda value: None if value == "" else value)
]
CountOrOne = Annotated[int, _whole(MAX_COUNT, 1)]
Seconds = Annotated[int, _whole(MAX_AMOUNT, None)]
PriorityNumber = Annotated[int, BeforeValidator(_priority)]
"""A priority; those of the system, above 10^9, are 10^9."""

Moment = Annotated[int | None, BeforeValidator(_moment)]
"""A time as seconds since 1970."""

Truth = Annotated[bool, BeforeValidator(_flag)]
TruthByDefault = Annotated[bool, BeforeValidator(_active)]
AsList = BeforeValidator(_list)
AsMapping = BeforeValidator(_mapping)
Texts = Annotated[dict[str, Text], AsMapping]
"""Texts by key, such as annotations and selectors, which may hold anything."""

LabelText = Annotated[
    str,
    _text(
        "expected a label: at most 63 letters, digits and any of . _ -", "^[A-Za-z0-9._-]{0,63}$"
    ),
]
Labels = Annotated[dict[NameText, LabelText], AsMapping]
"""Labels of an object, of which names are made."""

Quantities = Annotated[dict[NameText, Quantity], AsMapping]


# What is read of nodes and pods.


class Owner(Record):
    """A controller or owner of an object."""

    apiVersion: Text = ""  # noqa: N815
    kind: Text = ""
    name: Text = ""
    uid: Text = ""
    controller: Truth = False


class Meta(Record):
    """Metadata of an object."""

    name: NameText
    namespace: OptionalName = None
    uid: Text = ""
    labels: Labels = Field(default_factory=dict)
    annotations: Texts = Field(default_factory=dict)
    ownerReferences: Annotated[tuple[Owner, ...], AsList] = ()  # noqa: N815
    creationTimestamp: Moment = None  # noqa: N815
    deletionTimestamp: Moment = None  # noqa: N815


class Object(Record):
    """Any object."""

    apiVersion: Text = ""  # noqa: N815
    metadata: Meta

    @property
    def name(self) -> str:
        """Name, with the namespace if it is in one."""
        meta = self.metadata
        return meta.name if meta.namespace is None else f"{meta.namespace}/{meta.name}"

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.namespace or "", self.metadata.name


class Condition(Record):
    """A condition of an object's status."""

    type: Text = ""
    status: Text = ""
    lastTransitionTime: Moment = None  # noqa: N815


Conditions = Annotated[tuple[Condition, ...], AsList]


class Taint(Record):
    """What keeps pods off a node that do not tolerate it."""

    key: Text = ""
    value: Text = ""
    effect: Text = ""


class Toleration(Taint):
    """What a pod tolerates: without an effect every one, with no key every taint."""

    operator: Text = ""


class NodeSpec(Record):
    """What is wanted of a node."""

    unschedulable: Truth = False
    taints: Annotated[tuple[Taint, ...], AsList] = ()


class NodeStatus(Record):
    """What a node has, and how it is."""

    capacity: Quantities = Field(default_factory=dict)
    allocatable: Quantities = Field(default_factory=dict)
    conditions: Conditions = ()


class Node(Object):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Resources(Record):
    """What a container asks for."""

    requests: Quantities = Field(default_factory=dict)
    limits: Quantities = Field(default_factory=dict)

    @property
    def asked(self) -> dict[str, Decimal]:
        """Requests, and limits of what is not requested."""
        return {**self.limits, **self.requests}


class Port(Record):
    """A port of a container; `hostPort` is that of the node which it takes, 0: none."""

    hostPort: PortNumber = 0  # noqa: N815
    containerPort: PortNumber = 0  # noqa: N815
    protocol: LabelText = ""


class Container(Record):
    """A container of a pod; an init container that is always restarted runs on beside others."""

    name: Text = ""
    resources: Resources = Resources()
    ports: Annotated[tuple[Port, ...], AsList] = ()
    restartPolicy: Text = ""  # noqa: N815


class Expression(Record):
    """A test of a label, or of a field of a node."""

    key: Text = ""
    operator: Text = ""
    values: Annotated[tuple[Text, ...], AsList] = ()


class SelectorTerm(Record):
    """Tests that all have to pass."""

    matchExpressions: Annotated[tuple[Expression, ...], AsList] = ()  # noqa: N815
    matchFields: Annotated[tuple[Expression, ...], AsList] = ()  # noqa: N815


class NodeSelector(Record):
    """Terms of which one has to match."""

    nodeSelectorTerms: Annotated[tuple[SelectorTerm, ...], AsList] = ()  # noqa: N815


class NodeAffinity(Record):
    """Which nodes a pod may go to."""

    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None  # noqa: N815


class LabelSelector(Record):
    """Labels that something has to have; an empty one selects all."""

    matchLabels: Texts = Field(default_factory=dict)  # noqa: N815
    matchExpressions: Annotated[tuple[Expression, ...], AsList] = ()  # noqa: N815


class PodTerm(Record):
    """Pods that matter to another one, in a domain of a label key."""

    topologyKey: Text = ""  # noqa: N815
    labelSelector: LabelSelector | None = None  # noqa: N815
    namespaces: Annotated[tuple[Text, ...], AsList] = ()
    namespaceSelector: LabelSelector | None = None  # noqa: N815
    matchLabelKeys: Annotated[tuple[Text, ...], AsList] = ()  # noqa: N815
    mismatchLabelKeys: Annotated[tuple[Text, ...], AsList] = ()  # noqa: N815


class Spread(PodTerm):
    """How evenly pods are over the domains of a label key."""

    maxSkew: CountOrOne = 1  # noqa: N815
    minDomains: CountOrOne = 1  # noqa: N815
    whenUnsatisfiable: Text = ""  # noqa: N815
    nodeAffinityPolicy: Text = ""  # noqa: N815
    nodeTaintsPolicy: Text = ""  # noqa: N815


class PodAffinity(Record):
    """Pods that have to be, or may not be, in the domain of a pod."""

    requiredDuringSchedulingIgnoredDuringExecution: Annotated[  # noqa: N815
        tuple[PodTerm, ...], AsList
    ] = ()


class Affinity(Record):
    """Which nodes a pod may go to, and that other pods matter."""

    nodeAffinity: NodeAffinity | None = None  # noqa: N815
    podAffinity: PodAffinity | None = None  # noqa: N815
    podAntiAffinity: PodAffinity | None = None  # noqa: N815


class Gate(Record):
    """What keeps a pod from being scheduled until it is removed."""

    name: Text = ""


class SchedulingGroup(Record):
    """The group of pods that a pod is in (from 1.36 on)."""

    podGroupName: OptionalName = None  # noqa: N815


class Volume(Record):
    """A volume of a pod."""

    persistentVolumeClaim: object = None  # noqa: N815


class PodSpec(Record):
    """What a pod asks for, and where it is."""

    containers: Annotated[tuple[Container, ...], AsList] = ()
    initContainers: Annotated[tuple[Container, ...], AsList] = ()  # noqa: N815
    resources: Resources | None = None
    overhead: Quantities = Field(default_factory=dict)
    nodeName: OptionalName = None  # noqa: N815
    nodeSelector: Texts = Field(default_factory=dict)  # noqa: N815
    affinity: Affinity | None = None
    tolerations: Annotated[tuple[Toleration, ...], AsList] = ()
    priority: PriorityNumber = 0
    priorityClassName: Text = ""  # noqa: N815
    schedulingGates: Annotated[tuple[Gate, ...], AsList] = ()  # noqa: N815
    schedulingGroup: SchedulingGroup | None = None  # noqa: N815
    topologySpreadConstraints: Annotated[tuple[Spread, ...], AsList] = ()  # noqa: N815
    resourceClaims: Annotated[tuple[object, ...], AsList] = ()  # noqa: N815
    volumes: Annotated[tuple[Volume, ...], AsList] = ()
    hostNetwork: Truth = False  # noqa: N815
    runtimeClassName: Text = ""  # noqa: N815
    activeDeadlineSeconds: Seconds | None = None  # noqa: N815
    preemptionPolicy: Text = ""  # noqa: N815


class ContainerStatus(Record):
    """How a container is, and what it was given: more than it asks while it shrinks."""

    name: Text = ""
    allocatedResources: Quantities = Field(default_factory=dict)  # noqa: N815
    resources: Resources | None = None


class PodStatus(Record):
    """How a pod is."""

    containerStatuses: Annotated[tuple[ContainerStatus, ...], AsList] = ()  # noqa: N815
    phase: Text = ""
    startTime: Moment = None  # noqa: N815
    conditions: Conditions = ()


class Pod(Object):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    unreadable: Text = ""
