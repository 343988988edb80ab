"""Priority classes give pods their priority; disruption budgets say what may not be stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.accessor import (
    CountOrOne,
    PriorityNumber,
    Record,
    Text,
    Truth,
)
from placewright.instances.converters.kubernetes.eligibility import selects
from placewright.instances.converters.kubernetes.further_ledgers import PRIORITY_CLASS, QUEUE_CLASS
from placewright.instances.converters.kubernetes.groups import GROUP_KINDS
from placewright.instances.converters.kubernetes.kueue_records import WORKLOAD
from placewright.instances.converters.kubernetes.records import LabelSelector, Object, Pod
from placewright.instances.converters.kubernetes.sources import POD, Kind, Source, read_all
from placewright.instances.documents.caveats import Caveat

_CLASS_LABEL = "kueue.x-k8s.io/priority-class"


class PriorityClass(Object):
    """A class by whose name pods have a priority."""

    value: PriorityNumber = 0
    globalDefault: Truth = False  # noqa: N815
    preemptionPolicy: Text = ""  # noqa: N815


class _BudgetSpec(Record):
    selector: LabelSelector | None = None


class _BudgetStatus(Record):
    disruptionsAllowed: CountOrOne = 0  # noqa: N815


class Budget(Object):
    """How many of some pods may be stopped now (PodDisruptionBudget)."""

    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()

    def broken_by(self, pods: Sequence[Pod]) -> bool:
        """Whether these pods may not all be stopped."""
        selector = self.spec.selector
        hit = [
            pod
            for pod in pods
            if selector is not None
            and pod.spec.nodeName is not None
            and pod.metadata.namespace == self.metadata.namespace
            and selects(selector, pod.metadata.labels)
        ]
        return len(hit) > self.status.disruptionsAllowed


def caveats_of_budgets(budgets: Sequence[Budget], pods: Sequence[Pod]) -> Iterator[Caveat]:
    """Yield what budgets say of a job, whose pods are stopped together if it moves or stops."""
    broken = [one.metadata.name for one in budgets if one.broken_by(pods)]
    if broken:
        text = f"that a disruption budget ({broken[0][:100]}) keeps it running is not read"
        yield Caveat(rule="disruption-budget", text=text)


def with_priorities(
    sources: Mapping[Kind, Sequence[Source]], book: Bookkeeping
) -> Mapping[Kind, Sequence[Source]]:
    """Return sources whose pods, groups and workloads have the priority of the class they name.

    What says its priority keeps it; pods and workloads without a class have the default's.
    """
    classes, own = (
        {one.name: one for one in read_all(PriorityClass, sources.get(kind, ()), book, what)}
        for kind, what in (
            (PRIORITY_CLASS, "priority classes"),
            (QUEUE_CLASS, "priority classes of Kueue"),
        )
    )
    if not classes and not own:
        return sources
    default = next((one for one in classes.values() if one.globalDefault), None)
    found = dict(sources)
    for kind in (POD, WORKLOAD, *GROUP_KINDS):
        usual = None if kind in GROUP_KINDS else default
        found[kind] = [
            _prioritized(one, own if _is_own(one.raw.get("spec")) else classes, usual)
            for one in sources.get(kind, ())
        ]
    if own:
        found[POD] = [_queued(one, own) for one in found[POD]]
    return found


def _prioritized(
    source: Source, classes: Mapping[str, PriorityClass], default: PriorityClass | None
) -> Source:
    spec = source.raw.get("spec")
    if not isinstance(spec, dict) or spec.get("priority") is not None:
        return source
    name = spec.get("priorityClassName") or _reference(spec).get("name")
    found = classes.get(name) if isinstance(name, str) and name else default
    if found is None:
        return source
    policy = spec.get("preemptionPolicy") or found.preemptionPolicy
    given = {**spec, "priority": found.value, "preemptionPolicy": policy}
    return source._replace(raw={**source.raw, "spec": given})


def _queued(source: Source, own: Mapping[str, PriorityClass]) -> Source:
    """Return a pod with the priority of the class of Kueue that its label names."""
    meta, spec = source.raw.get("metadata"), source.raw.get("spec")
    labels = meta.get("labels") if isinstance(meta, dict) else None
    name = labels.get(_CLASS_LABEL) if isinstance(labels, dict) else None
    if not isinstance(name, str) or name not in own or not isinstance(spec, dict):
        return source
    given = {**spec, "priority": own[name].value}
    return source._replace(raw={**source.raw, "spec": given})


def _is_own(spec: Any) -> bool:
    """Whether the class of a workload is one of Kueue's."""
    source = spec.get("priorityClassSource") if isinstance(spec, dict) else None
    return (
        source == "kueue.x-k8s.io/workloadpriorityclass"
        or _reference(spec).get("kind") == QUEUE_CLASS.name
    )


def _reference(spec: Any) -> Mapping[str, Any]:
    found = spec.get("priorityClassRef") if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else {}
