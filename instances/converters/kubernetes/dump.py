"""All objects of a dump that are read, and how many there are of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes import kueue, nodes
from placewright.instances.converters.kubernetes import kueue_records as kr
from placewright.instances.converters.kubernetes.accelerators import count_beside
from placewright.instances.converters.kubernetes.caveats import Caveats, read_caveats
from placewright.instances.converters.kubernetes.devices import with_devices
from placewright.instances.converters.kubernetes.group_queues import QUEUE_KINDS, GroupQueue
from placewright.instances.converters.kubernetes.groups import GROUP_KINDS, Gang, PodGroup
from placewright.instances.converters.kubernetes.groups import KIND as GROUPS
from placewright.instances.converters.kubernetes.hyper_nodes import (
    HYPER_NODE,
    HyperNode,
    with_tiers,
)
from placewright.instances.converters.kubernetes.ledger import LEDGERS
from placewright.instances.converters.kubernetes.policies import with_priorities
from placewright.instances.converters.kubernetes.records import Node, Object, Pod
from placewright.instances.converters.kubernetes.sources import (
    NODE,
    POD,
    Kind,
    Source,
    name_of,
    read_all,
)

PODS = "pods"
_TOPOLOGIES = (kr.TOPOLOGY, Kind("kai.scheduler", "Topology"))
READ_KINDS = frozenset(LEDGERS)
_LEAVES = (POD, NODE, kr.WORKLOAD)


@dataclass(frozen=True, slots=True)
class Dump:
    """The objects of a dump, sorted by name; `nodes` are those that become hosts."""

    nodes: Mapping[str, Node]
    pods: Sequence[Pod]
    groups: Mapping[Gang, PodGroup]
    workloads: Mapping[tuple[str, str], kr.Workload]
    queues: kueue.Queues
    group_queues: Sequence[GroupQueue]
    topologies: Sequence[kr.Topology]
    tiers: Sequence[str]
    caveats: Caveats
    parents: Mapping[str, str]
    taken: int = 0

    @property
    def now(self) -> int:
        """When it was taken, or the latest moment that an object speaks of, as having been."""
        return max(self.taken, *self._moments())

    def _moments(self) -> Iterator[int]:
        yield 0
        conditions = chain(
            (c for node in self.nodes.values() for c in node.status.conditions),
            (c for pod in self.pods for c in pod.status.conditions),
            (c for workload in self.workloads.values() for c in workload.status.conditions),
        )
        for condition in conditions:
            yield condition.lastTransitionTime or 0
        for one in chain(self.nodes.values(), self.pods, self.workloads.values()):
            yield one.metadata.creationTimestamp or 0
        for pod in self.pods:
            yield pod.status.startTime or 0


def read_dump(sources: Mapping[Kind, Sequence[Source]], book: Bookkeeping) -> Dump:
    """Read the objects of some files; those of kinds that are not read are counted.

    Raises
    ------
    InvalidInputError
        An object has a value that Kubernetes would not have.
    """
    sources = with_devices(sources, book)
    caveats = read_caveats(sources, book)
    sources = with_priorities(sources, book)
    for kind in sorted(sources):
        if kind not in READ_KINDS:
            name = f"{kind.name} of {kind.group}" if kind.group else kind.name
            for source in sources[kind]:
                book.leave("other objects", f"{name} is not read", name_of(source))
    queues = read_all(kr.ClusterQueue, sources.get(kr.CLUSTER_QUEUE, ()), book, "cluster queues")
    local = read_all(kr.LocalQueue, sources.get(kr.LOCAL_QUEUE, ()), book, "local queues")
    flavors = read_all(kr.ResourceFlavor, sources.get(kr.FLAVOR, ()), book, "flavors")
    cohorts = read_all(kr.ClusterQueue, sources.get(kr.COHORT, ()), book, "cohorts")
    spaces = read_all(Object, sources.get(kr.NAMESPACE, ()), book, "namespaces")
    workloads = kueue.as_growth(
        read_all(kr.Workload, sources.get(kr.WORKLOAD, ()), book, kueue.KIND)
    )
    topologies = [
        one
        for kind in _TOPOLOGIES
        for one in read_all(kr.Topology, sources.get(kind, ()), book, "topologies")
    ]
    groups = {
        Gang(kind.group, *group.key): group
        for kind in GROUP_KINDS
        for group in read_all(PodGroup, sources.get(kind, ()), book, GROUPS)
    }
    listed = read_all(Node, sources.get(NODE, ()), book, nodes.KIND)
    count_beside(map(nodes.resources_of, listed))
    kept = nodes.take_nodes(listed, book)
    hyper_nodes = read_all(HyperNode, sources.get(HYPER_NODE, ()), book, "hypernodes")
    labelled, tiers = with_tiers(kept, hyper_nodes, book)
    return Dump(
        nodes=labelled,
        tiers=tiers,
        pods=read_all(Pod, sources.get(POD, ()), book, PODS),
        groups=groups,
        workloads={one.key: one for one in workloads},
        queues=kueue.Queues(
            {one.metadata.name: one for one in queues},
            {one.key: one for one in local},
            {one.metadata.name: one for one in flavors},
            {one.metadata.name: one for one in cohorts},
            {one.metadata.name: one.metadata.labels for one in spaces},
            {one.key: one for one in workloads},
        ),
        group_queues=[
            one
            for kind in QUEUE_KINDS
            for one in read_all(GroupQueue, sources.get(kind, ()), book, "queues")
        ],
        topologies=topologies,
        caveats=caveats,
        parents=dict(_parents(sources)),
    )


def _parents(sources: Mapping[Kind, Sequence[Source]]) -> Iterator[tuple[str, str]]:
    """Yield the uids of objects and of their controllers, as of Jobs that a JobSet has made."""
    for source in chain.from_iterable(of for kind, of in sources.items() if kind not in _LEAVES):
        meta = source.raw.get("metadata")
        owners = meta.get("ownerReferences") if isinstance(meta, dict) else None
        for one in owners if isinstance(owners, list) else ():
            if isinstance(one, dict) and one.get("controller") is True:
                yield str(source.raw["metadata"].get("uid")), str(one.get("uid"))
