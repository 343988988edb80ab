"""Caveats of Kubernetes: rules of pods, nodes, groups and queues that are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes import kueue_records as kr
from placewright.instances.converters.kubernetes.group_queues import QUEUE_KINDS
from placewright.instances.converters.kubernetes.kueue import Queues
from placewright.instances.converters.kubernetes.ledger import LEDGERS
from placewright.instances.converters.kubernetes.records import Object, Pod
from placewright.instances.converters.kubernetes.sources import Kind, Source, name_of
from placewright.instances.converters.ledger import Reading
from placewright.instances.documents.caveats import Caveat, annotation_of

_POD, _NODE = Kind("", "Pod"), Kind("", "Node")


@dataclass(frozen=True, slots=True)
class Caveats:
    """Caveats by the kind of object, its namespace and name."""

    of: Mapping[Kind, Mapping[tuple[str, str], tuple[Caveat, ...]]] = field(default_factory=dict)

    def of_node(self, node: Object) -> dict[str, str]:
        """Return the annotation of a host."""
        return annotation_of(self._find(_NODE, node.key))

    def of_job(
        self,
        pods: Iterable[Pod],
        group: tuple[Kind, Object] | None = None,
        queues: Iterable[tuple[Kind, tuple[str, str]]] = (),
    ) -> dict[str, str]:
        """Return the annotation of a job: what its pods, their group and its queues say."""
        return annotation_of(self._of_job(pods, group, queues))

    def _of_job(
        self,
        pods: Iterable[Pod],
        group: tuple[Kind, Object] | None,
        queues: Iterable[tuple[Kind, tuple[str, str]]],
    ) -> Iterator[Caveat]:
        for pod in pods:
            yield from self._find(_POD, pod.key)
        if group is not None:
            yield from self._find(group[0], group[1].key)
        for kind, key in queues:
            yield from self._find(kind, key)

    def _find(self, kind: Kind, key: tuple[str, str]) -> tuple[Caveat, ...]:
        return self.of.get(kind, {}).get(key, ())


def queues_of_kueue(
    queues: Queues, workload: kr.Workload
) -> Iterator[tuple[Kind, tuple[str, str]]]:
    """Yield the queues, cohorts and flavors that a workload is bound by."""
    if workload.spec.queueName is not None:
        yield kr.LOCAL_QUEUE, (workload.metadata.namespace or "", workload.spec.queueName)
    name = queues.queue_of(workload)
    queue = queues.cluster.get(name or "")
    if queue is None:
        return
    yield kr.CLUSTER_QUEUE, queue.key
    for flavor in queue.flavors:
        yield kr.FLAVOR, ("", flavor.name or "")
    for cohort in queues.cohorts_of(queue):
        yield kr.COHORT, ("", cohort)


def queues_above(
    above: Mapping[str, str | None], queue: str | None
) -> Iterator[tuple[Kind, tuple[str, str]]]:
    """Yield a queue of KAI or Volcano and those that it is in, from the inside out."""
    seen: set[str] = set()
    while queue and queue not in seen:
        seen.add(queue)
        for kind in QUEUE_KINDS:
            yield kind, ("", queue)
        queue = above.get(queue)


def read_caveats(sources: Mapping[Kind, Sequence[Source]], book: Bookkeeping) -> Caveats:
    """Go through all objects of a dump; the bookkeeping has a line about each kind's fields."""
    found: dict[Kind, dict[tuple[str, str], tuple[Caveat, ...]]] = {}
    for kind, ledger in LEDGERS.items():
        if kind not in sources:
            continue
        reading = Reading(ledger)
        found[kind] = {}
        for source in sources[kind]:
            caveats = reading.take(source.raw)
            meta = source.raw.get("metadata")
            if caveats and isinstance(meta, dict):
                found[kind][str(meta.get("namespace") or ""), name_of(source)] = caveats
        book.fields.append(reading.line())
    return Caveats(found)
