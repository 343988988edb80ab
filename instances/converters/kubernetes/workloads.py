"""Workloads of Kueue as jobs: what their pod sets ask for, and where admitted ones are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.caveats import Caveats
from placewright.instances.converters.kubernetes.eligibility import Eligibility
from placewright.instances.converters.kubernetes.groups import SLICE_OF
from placewright.instances.converters.kubernetes.jobs import (
    MAX_OPTIONS,
    Ask,
    Head,
    LeftOutError,
)
from placewright.instances.converters.kubernetes.kueue import (
    Flavors,
    Queues,
    assigned,
    tolerations,
)
from placewright.instances.converters.kubernetes.kueue_admission import (
    why_evicted,
    why_not_admitted,
)
from placewright.instances.converters.kubernetes.kueue_records import PodSet, Workload
from placewright.instances.converters.kubernetes.levels import Levels
from placewright.instances.converters.kubernetes.pods import requests, slices
from placewright.instances.converters.kubernetes.records import Meta, Pod, PodStatus
from placewright.instances.converters.kubernetes.source_ids import of_workload
from placewright.instances.converters.support.host_sets import Condition
from placewright.instances.documents.base import MAX_COUNT

POD_SET = "kueue.x-k8s.io/podset"
_OF_OWNERS = {
    "Job": ("job-name", "batch.kubernetes.io/job-name"),
    "JobSet": ("jobset.sigs.k8s.io/jobset-name",),
    "LeaderWorkerSet": ("leaderworkerset.sigs.k8s.io/name",),
    "RayCluster": ("ray.io/cluster",),
}
"""Labels by which a controller names itself in its pods."""


@dataclass(frozen=True, slots=True)
class Workloads:
    """The workloads of a dump, and what they are read against."""

    by_key: Mapping[tuple[str, str], Workload]
    queues: Queues
    levels: Levels
    eligibility: Eligibility
    now: int
    caveats: Caveats
    parents: Mapping[str, str]

    def owners(self) -> dict[str, tuple[str, str]]:
        """Return the workload of each object that owns one, by the names that `gang_of` asks for.

        Of several workloads of one object it is that which is admitted.
        """
        found: dict[str, tuple[str, str]] = {}
        for key, one in sorted(self.by_key.items(), key=lambda item: item[1].stage):
            origin = one.metadata.annotations.get(SLICE_OF)
            names = [] if origin is None else [f"{SLICE_OF}/{key[0]}/{origin}"]
            for owner in one.metadata.ownerReferences:
                names += [owner.uid, f"{owner.kind}/{key[0]}/{owner.name}"]
            found |= dict.fromkeys(names, key)
        for uid in self.parents:
            seen, at = {uid}, uid
            while at not in found and (above := self.parents.get(at)) and above not in seen:
                seen.add(at := above)
            if at in found:
                found[uid] = found[at]
        return found

    def head(self, workload: Workload) -> Head:
        """Return what a workload is, apart from its tasks."""
        requeue = workload.status.requeueState
        at = None if requeue is None else requeue.requeueAt
        name = self.queues.queue_of(workload)
        sets = workload.spec.podSets
        fewer = [one for one in sets if one.minCount is not None and one.minCount < one.count]
        least: int | None = None
        if len(fewer) == 1:  # Kueue lets one pod set have fewer pods
            (one,) = fewer
            least = sum(each.count for each in sets) - one.count + (one.minCount or 0)
        return Head(
            name=workload.name,
            tenant=name if name in self.queues.cluster else None,
            priority=workload.spec.priority,
            submitted=workload.metadata.creationTimestamp,
            runtime=workload.spec.maximumExecutionTimeSeconds,
            held=bool(why := why_not_admitted(self.queues, workload)),
            why_held=why,
            leaves=why_evicted(self.queues, workload),
            not_before=at if at is not None and at > self.now else None,
            least=least,
            shrinks=(fewer[0].name or "") if len(fewer) == 1 else None,
            ids=of_workload(workload, is_placed_by_kueue=self._is_placed_by_kueue(workload)),
        )

    def _is_placed_by_kueue(self, workload: Workload) -> bool:
        """Whether a flavor of a workload has a Topology: Kueue then says on which nodes pods go."""
        return any(
            flavor.spec.topologyName
            for one in workload.spec.podSets
            for flavors in self.queues.choices_of(workload, one)
            for flavor in self.queues.known(flavors)
        )

    def asks(self, workload: Workload, book: Bookkeeping) -> list[tuple[PodSet, list[Ask]]]:
        """Return what a pod of each pod set asks for: with each choice of flavors that it has.

        Raises
        ------
        LeftOutError
            None asks for a GPU.
        """
        sets = [one for one in workload.spec.podSets if one.count]
        if sum(one.count for one in sets) > MAX_COUNT:
            raise LeftOutError(f"has more than {MAX_COUNT:,} pods")
        wanted = [requests(one.template.spec) for one in sets]
        sliced = any(slices(one) for one in wanted)
        if sliced or not any(one.gpus or one.beside for one in wanted):
            raise LeftOutError("asks for slices or shares of GPUs" if sliced else "asks for no GPU")
        found = []
        for one in sets:
            choices = self.queues.choices_of(workload, one)
            if not choices:
                raise LeftOutError(
                    "no flavor of its queue has its taints tolerated and its topology"
                )
            asks = [self._ask(workload, one, flavors, book) for flavors in choices]
            found.append((one, list(dict.fromkeys(asks))))
        return found

    def places(
        self, workload: Workload, sets: list[tuple[PodSet, list[Ask]]]
    ) -> list[tuple[Ask, str]]:
        """Return the nodes that topology-aware scheduling assigned; none if it did not."""
        found = self._nodes_of(workload)
        asks = (ask for _, (ask, *_) in sets)
        return [(ask, host) for ask, hosts in zip(asks, found, strict=False) for host in hosts]

    def _nodes_of(self, workload: Workload) -> list[list[str]]:
        """Return the nodes that the pods of each pod set are assigned to, none if not of all."""
        admission = workload.status.admission
        given = {} if admission is None else {a.name: a for a in admission.podSetAssignments}
        found: list[list[str]] = []
        for pod_set in workload.spec.podSets if given else ():
            one = given.get(pod_set.name)
            if not pod_set.count:
                continue
            if one is None or one.topologyAssignment is None:
                return []
            hosts = assigned(one.topologyAssignment)
            if hosts is None or len(hosts) != (pod_set.count if one.count is None else one.count):
                return []
            found.append(hosts)
        return found

    def stand_ins(self, workload: Workload, members: Sequence[Pod]) -> list[Pod]:
        """Return what stands for the pods of a workload: one of each pod set, as it will be made.

        Where nodes are assigned to them there are as many as nodes.
        """
        sets = [one for one in workload.spec.podSets if one.count]
        made = [_stand_in(workload, one, members, alone=len(sets) == 1) for one in sets]
        nodes = self._nodes_of(workload)
        if not nodes:
            return made
        pairs = zip(made, nodes, strict=True)
        return [_at(pod, i, host) for pod, hosts in pairs for i, host in enumerate(hosts)]

    def _ask(self, workload: Workload, pod_set: PodSet, flavors: Flavors, book: Bookkeeping) -> Ask:
        spec, known = pod_set.template.spec, self.queues.known(flavors)
        wanted = requests(spec)
        conditions = self.eligibility.conditions(spec, wanted, tolerations(known))
        for one in known:
            there = self.eligibility.with_labels(one.spec.nodeLabels)
            conditions = (*conditions, Condition(f"flavor/{one.metadata.name}", there))
        allowed = self.eligibility.all_of(conditions)
        ask = Ask(
            wanted.gpus,
            wanted.cpu,
            wanted.memory,
            tuple(wanted.others.items()),
            allowed,
            part=pod_set.name or "",
            flavors=flavors,
            accelerator=wanted.accelerator,
            conditions=conditions,
        )
        near = pod_set.topologyRequest
        if near is None:
            return ask
        required = self._level(near.required, workload, book)
        preferred = self._level(near.preferred, workload, book)
        level = self._level(near.podSetSliceRequiredTopology, workload, book)
        size = near.podSetSliceSize or 0
        sliced = level is not None and 1 < size <= pod_set.count and pod_set.count % size == 0
        return replace(
            ask,
            required=required,
            preferred=() if preferred is None else (preferred,),
            slices=(size, level) if sliced and level is not None else None,
        )

    def _level(self, key: str, workload: Workload, book: Bookkeeping) -> str | None:
        level = self.levels.named(key) if key else None
        if key and level is None:
            book.cannot_say("topology of a label that is no level", workload.name)
        return level


def of_sets(sets: Sequence[PodSet], members: Sequence[Pod]) -> list[Pod]:
    """Return the pods of each pod set, one set after the other; none if that is not known."""
    found: list[Pod] = []
    for one in sets:
        label = one.name if len(sets) > 1 else None
        own = [pod for pod in members if label in (None, pod.metadata.labels.get(POD_SET))]
        if len(own) != one.count:
            return []
        found += own
    return found


def choices(
    workload: Workload, asks: Sequence[Sequence[Ask]], book: Bookkeeping
) -> list[tuple[Ask, ...]]:
    """Return what pods of each pod set may ask for, all together: the first choice first."""
    found = list(islice(product(*asks), MAX_OPTIONS + 1))
    if len(found) > MAX_OPTIONS:
        book.cannot_say("all choices of flavors of its pod sets", workload.name)
        found.pop()
    return found


def _stand_in(workload: Workload, one: PodSet, members: Sequence[Pod], *, alone: bool) -> Pod:
    """Return a pod of a pod set that waits: one of its pods, or what will be made of its template.

    Controllers give their pods labels of their own.
    """
    own = [pod for pod in members if alone or pod.metadata.labels.get(POD_SET) == one.name]
    meta, owners = workload.metadata, workload.metadata.ownerReferences
    labels = dict(own[0].metadata.labels if own else one.template.metadata.labels)
    for owner in owners:
        for label in _OF_OWNERS.get(owner.kind, ()):
            labels.setdefault(label, owner.name)
    name = f"{meta.name}/{one.name or ''}"
    made = Meta.model_construct(
        name=name, namespace=meta.namespace, labels=labels, ownerReferences=owners
    )
    spec = (own[0].spec if own else one.template.spec).model_copy(update={"nodeName": None})
    return Pod.model_construct(metadata=made, spec=spec, status=PodStatus(), apiVersion="v1")


def _at(pod: Pod, number: int, host: str) -> Pod:
    """Return a pod, one of several, that is bound to a node."""
    meta = pod.metadata.model_copy(update={"name": f"{pod.metadata.name}/{number}"})
    spec = pod.spec.model_copy(update={"nodeName": host})
    return pod.model_copy(update={"metadata": meta, "spec": spec})


def joint(sets: Sequence[tuple[PodSet, list[Ask]]]) -> str | None:
    """Return the level that all pod sets share a domain of, if they are one group of pod sets."""
    near = [pod_set.topologyRequest for pod_set, _ in sets]
    names = {None if one is None else one.podSetGroupName for one in near}
    levels = {ask.required for _, (ask, *_) in sets}
    return levels.pop() if len(names) == len(levels) == 1 and None not in names else None
