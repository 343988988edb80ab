"""Caveats of Kubernetes: rules of pods, nodes, groups and queues that are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes import kueue_records as kr
from placewright.instances.converters.kubernetes.further_ledgers import (
    BUDGET,
    JOB_SET,
    LEADER_WORKER_SET,
)
from placewright.instances.converters.kubernetes.group_queues import QUEUE_KINDS
from placewright.instances.converters.kubernetes.kueue import Queues
from placewright.instances.converters.kubernetes.ledger import LEDGERS
from placewright.instances.converters.kubernetes.policies import Budget, caveats_of_budgets
from placewright.instances.converters.kubernetes.records import Object, Pod
from placewright.instances.converters.kubernetes.sources import (
    NODE,
    POD,
    Kind,
    Source,
    name_of,
    read_all,
)
from placewright.instances.converters.ledger import Reading, Rule
from placewright.instances.documents.caveats import Caveat, annotation_of

_EXCLUSIVE = Rule("exclusive-topology", "that nobody else may be in its domain is not read")
_GPU_TYPE = Rule("gpu-type", "which GPUs its annotations name is not read")
_POOL = Rule("node-pool", "the node pool of its scheduler is not read")
_NOTES = {
    "alpha.jobset.sigs.k8s.io/exclusive-topology": _EXCLUSIVE,
    "leaderworkerset.sigs.k8s.io/exclusive-topology": _EXCLUSIVE,
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology": _EXCLUSIVE,
    "nvidia.com/use-gputype": _GPU_TYPE,
    "nvidia.com/nouse-gputype": _GPU_TYPE,
    "nvidia.com/use-gpuuuid": _GPU_TYPE,
    "nvidia.com/nouse-gpuuuid": _GPU_TYPE,
    "volcano.sh/numa-topology-policy": Rule("numa-topology", "NUMA nodes are not read"),
    "kai.scheduler/node-pool": _POOL,
    "runai/node-pool": _POOL,
}
"""Rules that annotations and labels of pods stand for."""

_LABELS = {
    JOB_SET: "jobset.sigs.k8s.io/jobset-name",
    LEADER_WORKER_SET: "leaderworkerset.sigs.k8s.io/name",
}


@dataclass(frozen=True, slots=True)
class Caveats:
    """Caveats by the kind of object, its namespace and name; and budgets, which select pods."""

    of: Mapping[Kind, Mapping[tuple[str, str], tuple[Caveat, ...]]] = field(default_factory=dict)
    budgets: Sequence[Budget] = ()

    def of_node(self, node: Object) -> dict[str, str]:
        """Return the annotation of a host."""
        return annotation_of(self._find(NODE, node.key))

    def of_job(
        self,
        pods: Sequence[Pod],
        group: tuple[Kind, Object] | None = None,
        queues: Iterable[tuple[Kind, tuple[str, str]]] = (),
        more: Iterable[Caveat] = (),
    ) -> dict[str, str]:
        """Return the annotation of a job: what its pods, group and queues say, and more."""
        return annotation_of((*more, *self._of_job(pods, group, queues)))

    def _of_job(
        self,
        pods: Sequence[Pod],
        group: tuple[Kind, Object] | None,
        queues: Iterable[tuple[Kind, tuple[str, str]]],
    ) -> Iterator[Caveat]:
        for pod in pods:
            yield from self._find(POD, pod.key)
            yield from _noted(pod)
        if group is not None:
            yield from self._find(group[0], group[1].key)
        for one in (*pods, *(() if group is None else group[1:])):
            for kind, name in _controllers(one):
                yield from self._find(kind, (one.metadata.namespace or "", name))
        yield from caveats_of_budgets(self.budgets, pods)
        for kind, key in queues:
            yield from self._find(kind, key)

    def _find(self, kind: Kind, key: tuple[str, str]) -> tuple[Caveat, ...]:
        return self.of.get(kind, {}).get(key, ())


def _noted(pod: Pod) -> Iterator[Caveat]:
    """Yield rules that a pod has by annotations or labels, but for those its spec says, too."""
    spec, meta = pod.spec, pod.metadata
    near = spec.affinity is not None and (
        spec.affinity.podAffinity or spec.affinity.podAntiAffinity
    )
    for key in {**meta.labels, **meta.annotations}:
        rule = _NOTES.get(key)
        if rule is not None and not (rule is _EXCLUSIVE and (near or spec.nodeSelector)):
            yield rule.caveat()


def _controllers(one: Object) -> Iterator[tuple[Kind, str]]:
    """Yield kinds and names of what made an object, as owners and labels say."""
    for owner in one.metadata.ownerReferences:
        yield Kind(owner.apiVersion.rpartition("/")[0], owner.kind), owner.name
    for kind, label in _LABELS.items():
        if label in one.metadata.labels:
            yield kind, one.metadata.labels[label]


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
    budgets = read_all(Budget, sources.get(BUDGET, ()), book, "disruption budgets")
    return Caveats(found, budgets)
