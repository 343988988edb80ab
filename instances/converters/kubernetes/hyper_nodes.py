"""Volcano's HyperNodes as labels of nodes: one for each tier, with the HyperNode that it is in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.accessor import (
    AsList,
    CountOrOne,
    OptionalName,
    Record,
    Text,
    Texts,
)
from placewright.instances.converters.kubernetes.eligibility import has_labels, holds
from placewright.instances.converters.kubernetes.groups import TIER
from placewright.instances.converters.kubernetes.records import Expression, Node, Object
from placewright.instances.converters.kubernetes.sources import Kind

HYPER_NODE = Kind("topology.volcano.sh", "HyperNode")


class _Name(Record):
    name: OptionalName = None


class _Labels(Record):
    matchLabels: Texts = Field(default_factory=dict)  # noqa: N815
    matchExpressions: Annotated[tuple[Expression, ...], AsList] = ()  # noqa: N815


class _Selector(Record):
    exactMatch: _Name | None = None  # noqa: N815
    labelMatch: _Labels | None = None  # noqa: N815
    regexMatch: object = None  # noqa: N815


class _Member(Record):
    type: Text = ""
    selector: _Selector = _Selector()


class _Spec(Record):
    tier: CountOrOne = 1
    members: Annotated[tuple[_Member, ...], AsList] = ()


class HyperNode(Object):
    """A domain of nodes, or of HyperNodes of lower tiers."""

    spec: _Spec = Field(default_factory=_Spec)


def with_tiers(
    nodes: Mapping[str, Node], found: Sequence[HyperNode], book: Bookkeeping
) -> tuple[dict[str, Node], tuple[str, ...]]:
    """Return the nodes with a label for each tier, and the keys of these, outermost first.

    Members by regular expression are not read: those of strangers may take for ever.
    """
    inside: defaultdict[str, dict[str, str]] = defaultdict(dict)
    by_name = {one.metadata.name: one for one in found}
    for one in found:
        if any(member.selector.regexMatch is not None for member in one.spec.members):
            book.cannot_say("members of a HyperNode by regular expression", one.metadata.name)
        for name in _nodes(one, by_name, nodes):
            inside[name].setdefault(f"{TIER}{one.spec.tier}", one.metadata.name)
    made = {}
    for name, node in nodes.items():
        labels = {**node.metadata.labels, **inside.get(name, {})}
        meta = node.metadata.model_copy(update={"labels": labels})
        made[name] = node.model_copy(update={"metadata": meta})
    tiers = sorted({one.spec.tier for one in found}, reverse=True)
    return made, tuple(f"{TIER}{tier}" for tier in tiers)


def _nodes(
    top: HyperNode, by_name: Mapping[str, HyperNode], nodes: Mapping[str, Node]
) -> Iterator[str]:
    """Yield the nodes in a HyperNode, and in those that it has as members."""
    seen, waiting = {top.metadata.name}, [top]
    while waiting:
        for member in waiting.pop().spec.members:
            exact, labels = member.selector.exactMatch, member.selector.labelMatch
            name = None if exact is None else exact.name
            if member.type == "HyperNode":
                child = by_name.get(name or "")
                if child is not None and child.metadata.name not in seen:
                    seen.add(child.metadata.name)
                    waiting.append(child)
            elif name is not None:
                yield from (name,) if name in nodes else ()
            elif labels is not None:
                yield from (n for n, node in nodes.items() if _matches(node, labels))


def _matches(node: Node, labels: _Labels) -> bool:
    own = node.metadata.labels
    return has_labels(node, labels.matchLabels) and all(
        holds(test, own) for test in labels.matchExpressions
    )
