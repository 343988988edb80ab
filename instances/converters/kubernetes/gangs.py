"""Pods as jobs: those of a gang together, what is bound where it is, and the rest waiting."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes import eligibility as pods
from placewright.instances.converters.kubernetes import groups as kr
from placewright.instances.converters.kubernetes.dump import (
    PODS,
    Dump,
    queues_above,
    queues_of_kueue,
)
from placewright.instances.converters.kubernetes.eligibility import State
from placewright.instances.converters.kubernetes.groups import (
    KAI,
    KIND,
    Gang,
    PodGroup,
    PodSet,
    Workload,
    also,
    gang_of,
    of_gang,
    other_names,
    stays,
    title_of,
)
from placewright.instances.converters.kubernetes.jobs import (
    POD_SET,
    Ask,
    Head,
    Maker,
    Workloads,
    choices,
    joint,
    of_sets,
)
from placewright.instances.converters.kubernetes.kueue import KIND as WORKLOADS
from placewright.instances.converters.kubernetes.kueue import NO_QUEUE, Flavors
from placewright.instances.converters.kubernetes.ledger import (
    NO_CLASS,
    NO_GROUP,
    ONE_BY_ONE,
    TOPOLOGY_LEVEL,
)
from placewright.instances.converters.kubernetes.namespaces import NamespaceQuotas
from placewright.instances.converters.kubernetes.neighbours import Neighbours
from placewright.instances.converters.kubernetes.nodes import Amounts, beside_in
from placewright.instances.converters.kubernetes.records import Object, Pod
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.converters.ledger import Rule
from placewright.instances.converters.support.live import LeftOutError, is_name
from placewright.instances.documents.caveats import Caveat, annotation_of, caveats_of
from placewright.instances.documents.source_keys import WAITING_PART

_T = TypeVar("_T")
_VENDOR = re.compile(r"[^/]*/.*([gnxtdvm]pu|gcu|mlu|dcu|accel|ascend|gaudi|neuron)", re.IGNORECASE)
"""What names of resources have in them that may be GPUs."""

_SAME_DEVICES = Rule("same-devices", "that Neuron cores are of the devices beside is not read")
_OF_NEURON = re.compile("aws.amazon.com/neuron")
_CLAIMS = "asks by resource claims (DRA)"
_GROUPS = {kr.KUEUE, *(kind.group for kind in kr.GROUP_KINDS)}
_QUEUE_LABELS = (
    "kai.scheduler/queue",
    "runai/queue",
    "volcano.sh/queue-name",
    "scheduling.volcano.sh/queue-name",
)
_USUAL_QUEUE = "default"
"""Of Volcano's groups that name none."""

_SHARES = "asks for slices or shares of GPUs"


def gangs_of(dump: Dump, workloads: Workloads, book: Bookkeeping) -> dict[Gang, list[Pod]]:
    """Return the pods that are bound or wait, by gang; others are left out.

    A group whose pods are scheduled one by one is none: each is alone.
    """
    owners = workloads.owners()
    found: dict[Gang, list[Pod]] = {}
    used: set[Gang] = set()
    for pod in dump.pods:
        state = pods.state_of(pod)
        gang = gang_of(pod, owners)
        used.add(gang)
        if state in (State.ENDED, State.DELETED):
            book.leave(PODS, state.value, pod.name)
            book.also[pod.name] = _known_as(pod)
            continue
        group = dump.groups.get(gang)
        if group is not None and group.alone:
            gang = Gang("Pod", pod.metadata.namespace or "", pod.metadata.name)
        found.setdefault(gang, []).append(pod)
    for gang, group in dump.groups.items():
        if gang in used:
            book.take(KIND)
        else:
            book.leave(KIND, "has no pods", group.name)
    return found


def _known_as(pod: Pod) -> tuple[str, ...]:
    """Return the other names of a pod that is left out."""
    return (pod.metadata.uid, title_of(gang_of(pod, {}), pod), *other_names([pod]))


@dataclass(slots=True)
class PodJobs:
    """Makes the jobs of gangs, and notes what other pods hold.

    `asked`: what each pod asks for, by its key. `background`: what bound pods that are in no job
    hold of each node. `closed`: nodes with bound pods that ask for GPUs and are left out: nothing
    may arrive there. `in_queues`: what bound pods that ask for no GPU hold of each queue of KAI or
    Volcano. `firm`: jobs that KAI does not preempt. `unmade`: those whose pods are to be made.
    """

    dump: Dump
    workloads: Workloads
    maker: Maker
    book: Bookkeeping
    movable: bool
    asked: Mapping[tuple[str, str], Amounts]
    spaces: NamespaceQuotas
    background: defaultdict[str, Amounts] = field(default_factory=lambda: defaultdict(Amounts))
    closed: set[str] = field(default_factory=set)
    in_queues: defaultdict[str, Amounts] = field(default_factory=lambda: defaultdict(Amounts))
    firm: set[str] = field(default_factory=set)
    unmade: set[str] = field(default_factory=set)
    _above: dict[str, str | None] = field(init=False)
    neighbours: Neighbours = field(init=False)

    def __post_init__(self) -> None:
        self._above = {one.metadata.name: one.above for one in self.dump.group_queues}

    def know(self, gangs: Iterable[Sequence[Pod]], others: Iterable[Sequence[Pod]]) -> None:
        """Learn which pods are together, before any of them is added.

        `gangs`: pods of the dump. `others`: pods that stand for those of workloads.
        """
        together: dict[tuple[str, str], Sequence[Pod]] = {}
        found = [*gangs, *others]
        for members in found:
            waiting = [pod for pod in members if pod.spec.nodeName is None]
            together |= dict.fromkeys((pod.key for pod in waiting), waiting)
        self.neighbours = Neighbours(
            self.dump.nodes,
            self.maker.levels,
            (pod for members in found for pod in members),
            together,
            self.dump.queues.namespaces,
            movable=self.movable,
        )

    def leave(self, members: Sequence[Pod], why: str, more: str = "") -> None:
        """Leave pods out; what bound ones hold of their nodes is taken off these."""
        for pod in members:
            host = pod.spec.nodeName
            self.book.also[pod.name] = _known_as(pod)
            if host is not None and host not in self.dump.nodes:
                self.book.leave(PODS, "runs on a node that is not in the round", pod.name)
                continue
            self.book.leave(PODS, why, pod.name)
            if more:
                self.book.why[pod.name] = more
            if host is not None:
                asked = self.asked[pod.key]
                self.background[host].add(asked)
                if asked.gpus or pod.unreadable or why == _CLAIMS:
                    self.closed.add(host)

    def add(self, gang: Gang, members: Sequence[Pod]) -> None:
        """Add the jobs of a gang."""
        unreadable = next((pod.unreadable for pod in members if pod.unreadable), "")
        if unreadable:
            self.leave(members, unreadable)
            return
        wanted = {pod.key: self.asked[pod.key] for pod in members}
        sliced = any(map(pods.slices, wanted.values()))
        if sliced or not any(one.gpus or one.beside for one in wanted.values()):
            for pod in members:
                self.leave([pod], self._why_no_gpu(pod, wanted[pod.key]))
                queue = _queue(self.dump.groups.get(gang), pod)
                if queue is not None and pod.spec.nodeName is not None:
                    self.in_queues[queue].add(wanted[pod.key])
            return
        before = len(self.maker.jobs)
        self._add(gang, members, wanted)
        made = self.maker.jobs[before:]
        if made and self._stays(gang, members, made[0].priority):
            self.firm |= {job.name for job in made}

    def _stays(self, gang: Gang, members: Sequence[Pod], priority: int) -> bool:
        """Whether KAI does not preempt a gang, as its group says, or labels of pods without one."""
        group, labels = self.dump.groups.get(gang), members[0].metadata.labels
        if group is None and _QUEUE_LABELS[0] in labels:
            return stays(labels.get("kai.scheduler/preemptibility", ""), priority)
        return gang.by == KAI and group is not None and stays(group.spec.preemptibility, priority)

    def _add(
        self, gang: Gang, members: Sequence[Pod], wanted: Mapping[tuple[str, str], Amounts]
    ) -> None:
        group = self.dump.groups.get(gang)
        head = self._with_caveats(self._head(gang, group, members), gang, group, members)
        flavors = self._flavors(gang)
        asks = {pod.key: self._ask(pod, wanted[pod.key], group, flavors) for pod in members}
        bound = [pod for pod in members if pod.spec.nodeName is not None]
        waiting = [pod for pod in members if pod.spec.nodeName is None]
        if bound:
            movable = self.movable and not self._stays(gang, members, head.priority)
            self._run(head, bound, asks, movable=movable)
        if not waiting:
            return
        if bound:
            self.book.cannot_say("that some pods of a gang run and others wait", head.name)
            least = None if head.least is None else max(1, head.least - len(bound))
            if head.least is not None and head.least <= len(bound):
                for pod in waiting:  # what the gang needs runs
                    self._wait(replace(head, name=pod.name, least=None), [pod], asks)
                return
            head = replace(head, name=f"{head.name}{WAITING_PART}", least=least)
        self._wait(head, waiting, asks)

    def _run(
        self,
        head: Head,
        bound: Sequence[Pod],
        asks: dict[tuple[str, str], Ask],
        *,
        movable: bool,
    ) -> None:
        movable = movable and all(pods.movable(pod) for pod in bound)
        wanted = [asks[pod.key] for pod in bound]
        if movable:
            wanted = self.neighbours.keep_clear(bound, wanted)
        placed = [(ask, pod.spec.nodeName or "") for ask, pod in zip(wanted, bound, strict=True)]
        starts = [at for pod in bound if (at := pods.started(pod)) is not None]
        try:
            self.maker.run(
                head,
                placed,
                bound,
                since=max(starts, default=None),
                movable=movable,
            )
        except LeftOutError as error:
            self.leave(bound, str(error))
        else:
            self.book.take(PODS, len(bound))

    def _wait(self, head: Head, waiting: Sequence[Pod], asks: dict[tuple[str, str], Ask]) -> None:
        gated = any(pods.gated(pod) for pod in waiting)
        if gated:
            why = head.why_held or "a scheduling gate of its pods is not ours"
            head = replace(head, held=True, why_held=why)
        head, wanted = self.neighbours.apply(head, waiting, [asks[pod.key] for pod in waiting])
        try:
            self.maker.wait(head, wanted, waiting)
        except LeftOutError as error:
            self.leave(waiting, str(error), error.more)
        else:
            self.book.take(PODS, len(waiting))

    def add_workload(
        self, workload: Workload, members: Sequence[Pod], stand_ins: Sequence[Pod]
    ) -> None:
        """Add the job of a workload: running where it was assigned, or pending.

        `members` are its pods, as far as there are any yet; what stands for all of them, so that
        other pods exclude it from nodes, is as `Workloads.stand_ins` has it. Raises `LeftOutError`:
        it asks for no GPU, or does not fit where it was assigned.
        """
        sets = self.workloads.asks(workload, self.book)
        head = replace(self.workloads.head(workload), required=joint(sets))
        queues, space = self.workloads.queues, workload.metadata.namespace or ""
        caveats = self.dump.caveats.of_job(
            members,
            (kr.WORKLOAD, workload),
            queues_of_kueue(queues, workload),
            (
                *self.workloads.told(workload),
                *self.spaces.rules(space, made=bool(members)),
                *(() if members else self.dump.caveats.of_namespace(space)),
            ),
        )
        head = replace(head, ids={**head.ids, **caveats, **also(members, head.ids)})
        placed = self.workloads.places(workload, sets)
        if placed:
            known = [
                c.lastTransitionTime for c in workload.status.conditions if c.type == "Admitted"
            ]
            asks = [ask for ask, _ in placed]
            if self.movable:
                asks = self.neighbours.keep_clear(stand_ins, asks)
            placed = [(ask, host) for ask, (_, host) in zip(asks, placed, strict=True)]
            since = next(iter(known), None)
            self.maker.run(head, placed, (), since=since, movable=self.movable)
        else:
            before = len(self.maker.jobs)
            self._wait_for(workload, head, sets, members, stand_ins)
            if not members:
                self.unmade |= {job.name for job in self.maker.jobs[before:]}
            if workload.status.admission is not None and not head.held:
                self.book.cannot_say(
                    "that a workload is admitted whose pods have no nodes", workload.name
                )
        self.book.take(WORKLOADS)

    def _wait_for(
        self,
        workload: Workload,
        head: Head,
        sets: Sequence[tuple[PodSet, list[Ask]]],
        members: Sequence[Pod],
        stand_ins: Sequence[Pod],
    ) -> None:
        """Add a pending job; what other pods forbid holds for each choice of its flavors."""
        counts = [pod_set.count for pod_set, _ in sets]
        alike = _repeated(stand_ins, counts)
        found: list[list[Ask]] = []
        rules: list[Caveat] = []
        ruled = head
        for chosen in choices(workload, [asks for _, asks in sets], self.book):
            ruled, asks = self.neighbours.apply(head, alike, _repeated(chosen, counts))
            rules += caveats_of(ruled.ids)
            found.append(asks)
        first, *others = found
        self.maker.wait(
            replace(ruled, ids={**ruled.ids, **annotation_of(rules)}),
            first,
            of_sets([pod_set for pod_set, _ in sets], members),
            [dict(zip(first, other, strict=True)) for other in others],
        )

    def _head(self, gang: Gang, group: PodGroup | None, members: Sequence[Pod]) -> Head:
        workload = self._workload(gang)
        if workload is not None:
            return replace(self.workloads.head(workload), required=None)
        title = title_of(gang, members[0])
        ids = of_gang(Gang(gang.by, gang.namespace, title.rpartition("/")[2]), group, members)
        created = [pod.metadata.creationTimestamp for pod in members]
        limits = [pod.spec.activeDeadlineSeconds for pod in members]
        least: int | None = None
        required: str | None = None
        own = None if group is None else group.priority
        if group is not None:
            least = min(group.least, len(members)) if group.least > 10**4 else group.least
            required = self._level(group.required, group)
            if group.spec.subGroups:
                self.book.cannot_say("groups within a pod group", group.name)
        usual = _USUAL_QUEUE if gang.by == kr.VOLCANO and _USUAL_QUEUE in self._above else None
        queue = _queue(group, members[0]) or usual
        gone = queue is not None and bool(self._above) and queue not in self._above
        return Head(
            name=title,
            tenant=queue,
            held=gone,
            why_held=f"there is no queue {queue}" if gone else "",
            priority=own if own is not None else max(pod.spec.priority for pod in members),
            submitted=min((at for at in created if at is not None), default=None),
            runtime=max((s for s in limits if s is not None), default=None)
            if None not in limits
            else None,
            preempts=() if _preempts_nobody(group, members) else None,
            required=required,
            least=least,
            ids=ids,
        )

    def _workload(self, gang: Gang) -> Workload | None:
        """Return the workload that makes a gang, None if none does."""
        known = gang.by == kr.KUEUE
        return self.workloads.by_key.get((gang.namespace, gang.name)) if known else None

    def _with_caveats(
        self, head: Head, gang: Gang, group: PodGroup | None, members: Sequence[Pod]
    ) -> Head:
        """Return a head whose annotations say what is told of its pods, group and queues."""
        workload = self._workload(gang)
        more: Iterable[Caveat] = ()
        if workload is not None:
            made: tuple[Kind, Object] | None = (kr.WORKLOAD, workload)
            queues = list(queues_of_kueue(self.workloads.queues, workload))
            more = self.workloads.told(workload)
        else:
            made = None if group is None else (Kind(gang.by, "PodGroup"), group)
            queues = list(queues_above(self._above, head.tenant))
            more = self._told(head, gang, group, members)
        names = {name for pod in members for name in beside_in(self.asked[pod.key].others)}
        same = [_SAME_DEVICES.caveat()] if any(map(_OF_NEURON.match, names)) else []
        full = self.spaces.rules(gang.namespace, made=True)
        told_of = self.dump.caveats.of_job(members, made, queues, (*more, *same, *full))
        caveats = told_of | also(members, head.ids)
        return replace(head, ids={**head.ids, **caveats}) if caveats else head

    def _told(
        self, head: Head, gang: Gang, group: PodGroup | None, members: Sequence[Pod]
    ) -> Iterator[Caveat]:
        """Yield what the dump does not say of a gang that no workload makes."""
        waiting = [pod for pod in members if pod.spec.nodeName is None]
        if gang.by not in _GROUPS and len(waiting) > 1 and not any(map(pods.ours, waiting)):
            yield ONE_BY_ONE.caveat()
        if gang.by in _GROUPS and group is None:
            yield NO_GROUP.caveat()
        if head.tenant is not None and not self._above:
            yield NO_QUEUE
        if group is not None and group.spec.priorityClassName and group.priority is None:
            yield NO_CLASS.caveat()
        named = self.workloads.levels.named
        if group is not None and any(named(key) is None for key in group.required):
            yield TOPOLOGY_LEVEL.caveat()

    def _flavors(self, gang: Gang) -> Mapping[str, Flavors]:
        """Return the flavors that the pods of a workload were admitted with, by pod set."""
        workload = self._workload(gang)
        admission = None if workload is None else workload.status.admission
        given = () if admission is None else admission.podSetAssignments
        return {one.name or "": tuple(sorted(one.flavors.items())) for one in given}

    def _ask(
        self,
        pod: Pod,
        wanted: Amounts,
        group: PodGroup | None,
        flavors: Mapping[str, Flavors],
    ) -> Ask:
        preferred: tuple[str, ...] | None = None
        if group is not None and group.preferred:
            level = self._level((group.preferred,), group)
            preferred = () if level is None else (level,)
        eligibility = self.workloads.eligibility
        conditions = eligibility.conditions(pod.spec, wanted)
        if group is not None and group.required:
            conditions = (*conditions, *eligibility.in_domains(group.required))
        own = pod.metadata.labels.get(POD_SET) if len(flavors) > 1 else next(iter(flavors), "")
        return Ask(
            wanted.gpus,
            wanted.cpu,
            wanted.memory,
            tuple(wanted.others.items()),
            eligibility.all_of(conditions),
            preferred=preferred,
            flavors=flavors.get(own or "", ()),
            accelerator=wanted.accelerator,
            conditions=conditions,
        )

    def _level(self, keys: Sequence[str], group: PodGroup) -> str | None:
        """Return the innermost level of some label keys."""
        levels = self.workloads.levels
        known = [level for key in keys if (level := levels.named(key)) is not None]
        if len(known) < len(keys):
            self.book.cannot_say("topology of a label that is no level", group.name)
        order = (*levels.names, "host")
        return max(known, key=order.index, default=None)

    def _why_no_gpu(self, pod: Pod, wanted: Amounts) -> str:
        if pods.slices(wanted) or pods.shares_gpus(pod):
            return _SHARES
        named = sorted(name for name, n in wanted.others.items() if n and _VENDOR.match(name))
        if named and not pod.spec.resourceClaims:
            return f"asks for no GPU that is known, but {named[0]} (see --accelerator)"
        return _CLAIMS if pod.spec.resourceClaims else "asks for no GPU"


def _repeated(items: Iterable[_T], counts: Sequence[int]) -> list[_T]:
    return [one for one, count in zip(items, counts, strict=True) for _ in range(count)]


def _preempts_nobody(group: PodGroup | None, members: Sequence[Pod]) -> bool:
    """Whether the pods of a gang, or their group, say that they preempt nobody."""
    of_group = group is not None and group.spec.preemptionPolicy == "Never"
    return of_group or all(pod.spec.preemptionPolicy == "Never" for pod in members)


def _queue(group: PodGroup | None, pod: Pod) -> str | None:
    """Return the queue of a gang: what its group says, or a label or annotation of a pod."""
    if group is not None and group.spec.queue is not None:
        return group.spec.queue
    said = {**pod.metadata.annotations, **pod.metadata.labels}
    found = (said.get(key) for key in _QUEUE_LABELS)
    return next((name for name in found if is_name(name)), None)
