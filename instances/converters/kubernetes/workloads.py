"""Workloads of Kueue as jobs: what their pod sets ask for, and where admitted ones are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.caveats import Caveats, queues_of_kueue
from placewright.instances.converters.kubernetes.eligibility import Eligibility
from placewright.instances.converters.kubernetes.groups import SLICE_OF
from placewright.instances.converters.kubernetes.jobs import (
    MAX_OPTIONS,
    Ask,
    Head,
    LeftOutError,
    Maker,
)
from placewright.instances.converters.kubernetes.kueue import (
    KIND,
    Flavors,
    Queues,
    assigned,
    tolerations,
)
from placewright.instances.converters.kubernetes.kueue_admission import (
    told,
    why_evicted,
    why_not_admitted,
)
from placewright.instances.converters.kubernetes.kueue_records import WORKLOAD, PodSet, Workload
from placewright.instances.converters.kubernetes.levels import Levels
from placewright.instances.converters.kubernetes.pods import requests, slices
from placewright.instances.converters.kubernetes.records import Pod
from placewright.instances.converters.kubernetes.source_ids import also, of_workload
from placewright.instances.converters.support.host_sets import Condition
from placewright.instances.documents.base import MAX_COUNT

POD_SET = "kueue.x-k8s.io/podset"


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
        if not any(one.gpus for one in wanted):
            sliced = any(slices(one) for one in wanted)
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
        admission = workload.status.admission
        given = {} if admission is None else {a.name: a for a in admission.podSetAssignments}
        placed: list[tuple[Ask, str]] = []
        for pod_set, (ask, *_) in sets:
            one = given.get(pod_set.name)
            if one is None or one.topologyAssignment is None:
                return []
            hosts = assigned(one.topologyAssignment)
            if hosts is None or len(hosts) != (pod_set.count if one.count is None else one.count):
                return []
            placed += [(ask, host) for host in hosts]
        return placed

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


def add_workload(
    workload: Workload,
    workloads: Workloads,
    maker: Maker,
    book: Bookkeeping,
    members: Sequence[Pod],
    *,
    movable: bool,
) -> None:
    """Add the job of a workload: running where it was assigned, or pending.

    `members` are its pods, as far as there are any yet.

    Raises
    ------
    LeftOutError
        It is finished, asks for no GPU, or does not fit where it was assigned.
    """
    if workload.has("Finished"):
        raise LeftOutError("has finished")
    sets = workloads.asks(workload, book)
    head = replace(workloads.head(workload), required=_joint(sets))
    caveats = workloads.caveats.of_job(
        members,
        (WORKLOAD, workload),
        queues_of_kueue(workloads.queues, workload),
        told(workloads.queues, workload),
    )
    head = replace(head, ids={**head.ids, **caveats, **also(members, head.ids)})
    placed = workloads.places(workload, sets)
    if placed:
        since = [c.lastTransitionTime for c in workload.status.conditions if c.type == "Admitted"]
        maker.run(head, placed, (), since=next(iter(since), None), movable=movable)
    else:
        asks = [ask for pod_set, (ask, *_) in sets for _ in range(pod_set.count)]
        pods = _of_sets([pod_set for pod_set, _ in sets], members)
        maker.wait(head, asks, pods, _others(workload, [asks for _, asks in sets], book))
        if workload.status.admission is not None and not head.held:
            book.cannot_say("that a workload is admitted whose pods have no nodes", workload.name)
    book.take(KIND)


def _of_sets(sets: Sequence[PodSet], members: Sequence[Pod]) -> list[Pod]:
    """Return the pods of each pod set, one set after the other; none if that is not known."""
    found: list[Pod] = []
    for one in sets:
        label = one.name if len(sets) > 1 else None
        own = [pod for pod in members if label in (None, pod.metadata.labels.get(POD_SET))]
        if len(own) != one.count:
            return []
        found += own
    return found


def _others(
    workload: Workload, choices: Sequence[Sequence[Ask]], book: Bookkeeping
) -> list[dict[Ask, Ask]]:
    """Return what pods may ask for instead of the first choice of each pod set, all together."""
    first = [asks[0] for asks in choices]
    found = list(islice(product(*choices), 1, MAX_OPTIONS + 1))
    if len(found) == MAX_OPTIONS:
        book.cannot_say("all choices of flavors of its pod sets", workload.name)
        found.pop()
    return [dict(zip(first, other, strict=True)) for other in found]


def _joint(sets: Sequence[tuple[PodSet, list[Ask]]]) -> str | None:
    """Return the level that all pod sets share a domain of, if they are one group of pod sets."""
    near = [pod_set.topologyRequest for pod_set, _ in sets]
    names = {None if one is None else one.podSetGroupName for one in near}
    levels = {ask.required for _, (ask, *_) in sets}
    return levels.pop() if len(names) == len(levels) == 1 and None not in names else None
