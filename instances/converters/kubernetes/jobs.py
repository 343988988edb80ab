"""Jobs of a round, of gangs and workloads: what tasks ask for, and where those that run are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.dump import Caveats
from placewright.instances.converters.kubernetes.eligibility import Eligibility, requests, slices
from placewright.instances.converters.kubernetes.groups import (
    SLICE_OF,
    PodSet,
    Workload,
    of_groups,
    of_workload,
)
from placewright.instances.converters.kubernetes.kueue import (
    Flavors,
    Queues,
    assigned,
    told,
    tolerations,
    why_evicted,
    why_not_admitted,
)
from placewright.instances.converters.kubernetes.ledger import (
    RUNTIME,
    SUBGROUP_TOPOLOGY,
    TOPOLOGY_LEVEL,
)
from placewright.instances.converters.kubernetes.namespaces import QUOTA_HELD
from placewright.instances.converters.kubernetes.nodes import Amounts, Levels, accelerators_in
from placewright.instances.converters.kubernetes.quotas import key_of
from placewright.instances.converters.kubernetes.records import Meta, Node, Pod, PodStatus
from placewright.instances.converters.support.live import Condition, LeftOutError
from placewright.instances.documents.annotations import MAX_TEXT
from placewright.instances.documents.arrangement import AntiAffinity, Apart, Slices
from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT
from placewright.instances.documents.caveats import Caveat
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.quantities import MAX_GPU
from placewright.instances.documents.source_keys import HELD, LEAVES
from placewright.topology.units import HOST_LEVEL

MAX_OPTIONS = 64
MAX_GROUPS = 64
MAX_NAME = 253
MAX_PART = 200
MAX_OPTION = 10**15
"""Of a resource, all that an option may ask for in its small unit."""

NO_USES: Mapping[str, int] = MappingProxyType({})
TOO_MUCH = "asks for more than a round can say"


@dataclass(frozen=True, slots=True)
class Ask:
    """What one task asks for; equal ones form a task group.

    Attributes
    ----------
    gpus, cpu, memory : int
        GPUs, millicores and MiB.
    others : tuple of (str, int)
        Other resources: extended ones, and those that a node may run out of.
    allowed : frozenset of str
        Nodes that it may go to.
    required : str or None
        Level of which all tasks of the group share a domain.
    preferred : tuple of str or None
        Levels that the term `spread` counts; None: all of them.
    slices : tuple of (int, str) or None
        Size of slices, and the level of which each has one domain.
    apart : Apart or None
        How many tasks of the group may be in one domain of a level.
    part, accelerator : str
        Tell groups apart that ask the same: their name, and the resource that their GPUs are of.
    flavors : tuple of (str, str)
        Resources of which a quota has flavors, each with its own (Kueue).
    conditions : tuple of Condition
        What the allowed nodes meet.
    """

    gpus: int
    cpu: int
    memory: int
    others: tuple[tuple[str, int], ...]
    allowed: frozenset[str]
    required: str | None = None
    preferred: tuple[str, ...] | None = None
    slices: tuple[int, str] | None = None
    apart: Apart | None = None
    part: str = ""
    flavors: tuple[tuple[str, str], ...] = ()
    accelerator: str = ""
    conditions: tuple[Condition, ...] = field(default=(), compare=False)

    @property
    def amounts(self) -> Amounts:
        """What it asks for."""
        return Amounts(self.gpus, self.cpu, self.memory, dict(self.others), self.accelerator)

    def uses(self) -> Iterator[tuple[str, int]]:
        """Yield what a task uses of flavors."""
        has = {"cpu": self.cpu, "memory": self.memory, "pods": 1, **dict(self.others)}
        for resource, flavor in self.flavors:
            mine = 1000 * self.gpus if resource == self.accelerator else has.get(resource, 0)
            yield key_of(flavor, resource).name, mine


@dataclass(frozen=True, slots=True)
class Head:
    """What a job is, apart from its tasks."""

    name: str
    tenant: str | None = None
    priority: int = 0
    submitted: int | None = None
    runtime: int | None = None
    held: bool = False
    why_held: str = ""
    leaves: str = ""
    not_before: int | None = None
    preempts: tuple[str, ...] | None = None
    required: str | None = None
    anti_affinity: AntiAffinity | None = None
    least: int | None = None
    shrinks: str | None = None
    ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Maker:
    """Makes jobs, and notes what they hold, and what tasks ask for that wait.

    `counted` says by accelerator as what else options use it.
    """

    nodes: Mapping[str, Node]
    levels: Levels
    eligibility: Eligibility
    counted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    free: dict[str, list[int]] = field(init=False)
    held: defaultdict[str, Amounts] = field(default_factory=lambda: defaultdict(Amounts))
    names: set[str] = field(default_factory=set)
    jobs: list[Job] = field(default_factory=list)
    asked: list[Amounts] = field(default_factory=list)
    made: dict[tuple[object, ...], Option] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free = {name: list(range(n)) for name, n in self.eligibility.gpus.items()}

    @property
    def extended(self) -> frozenset[str]:
        """Extended resources that some job asks for."""
        options = (option for job in self.jobs for option in job.options)
        return frozenset(key for o in options for group in o.groups for key in group.resources)

    def run(
        self,
        head: Head,
        placed: Sequence[tuple[Ask, str]],
        pods: Sequence[Pod],
        *,
        since: int | None,
        movable: bool,
    ) -> None:
        """Add a running job: what each task asks for, and its node. GPUs are the first free ones.

        `pods` are those of the tasks; none if the dump does not say. Raises `LeftOutError`: a node
        is not in the dump, or has too few GPUs.
        """
        wanted: dict[str, Amounts] = {}
        for ask, host in placed:
            if host not in self.nodes:
                raise LeftOutError("runs on a node that is not in the round")
            asked = ask.amounts
            if not self.eligibility.is_of(host, asked):
                raise LeftOutError("holds GPUs of another resource than those of its node")
            if host in wanted:
                wanted[host].add(asked)
            else:
                wanted[host] = asked
        for host, amounts in wanted.items():
            if amounts.gpus > len(self.free[host]):
                raise LeftOutError("runs on a node with fewer GPUs than its pods hold")
            if self.held[host].plus(amounts).most > MAX_AMOUNT:
                raise LeftOutError(TOO_MUCH)
        free = movable and not head.leaves and self._lawful(head, placed)
        groups: dict[Ask, list[int]] = {}
        for at, (ask, _) in enumerate(placed):
            groups.setdefault(
                ask if free else _anywhere(ask, self.eligibility.everywhere), []
            ).append(at)
        counts = [len(members) for members in groups.values()]
        option = self._option(head if free else Head(head.name), list(groups), counts)
        tasks = []
        for g, (ask, members) in enumerate(groups.items()):
            for i, at in enumerate(members):
                host = placed[at][1]
                taken = self.free[host][: ask.gpus]
                self.free[host] = self.free[host][ask.gpus :]
                tasks.append(Task(group=g, index=i, host=host, gpus=tuple(taken)))
        running = Running(tasks=tuple(tasks), pinned=not free, started=since)
        self._add(head, [option], running, _ids(groups, pods))
        for host, amounts in wanted.items():
            self.held[host].add(amounts)

    def wait(
        self,
        head: Head,
        asks: Sequence[Ask],
        pods: Sequence[Pod],
        others: Sequence[Mapping[Ask, Ask]] = (),
    ) -> None:
        """Add a pending job: what each task asks for, and its pods if the dump says.

        `others`: what tasks may ask for instead, all of them together. Raises `LeftOutError`: no
        node may have a task of it, or it has fewer pods than it needs.
        """
        groups: dict[Ask, list[int]] = {}
        for at, ask in enumerate(asks):
            groups.setdefault(ask, []).append(at)
        choices = [list(groups), *([other[ask] for ask in groups] for other in others)]
        able = [
            chosen
            for chosen in choices
            if all(self.eligibility.able(ask.allowed, ask.gpus) for ask in chosen)
        ]
        for ask in groups if not able else ():
            if not self.eligibility.able(ask.allowed, ask.gpus):
                raise LeftOutError("may go to no node of the round", _unmet(ask))
        self.asked += [ask.amounts for ask in groups]
        number, least = len(asks), len(asks) if head.least is None else head.least
        counts = [len(members) for members in groups.values()]
        shrinking = [g for g, ask in enumerate(groups) if ask.part == head.shrinks]
        shrinks = 0 if len(groups) == 1 else next(iter(shrinking), None)
        if shrinks is None or any(ask.slices for ask in groups):
            least = max(least, number)
        if number < least:
            raise LeftOutError("its gang has fewer pods than it needs", f"{number:,} of {least:,}")
        sizes = [number, *range(number - 1, max(1, least) - 1, -1)]
        most = MAX_OPTIONS // len(able)
        if len(sizes) > most:
            sizes = [*sizes[: most - 1], sizes[-1]]
        options = [
            self._option(head, chosen, _shrunk(counts, shrinks, number - size), len(sizes) > 1)
            for size in sizes
            for chosen in able
        ]
        if len(able) > 1:
            options = [_flavored(option, able[k % len(able)]) for k, option in enumerate(options)]
        self._add(head, options, None, _ids(groups, pods))

    def add_away(self, host: str, count: int) -> None:
        """Add what holds the last GPUs of a node that are free, since they are away."""
        taken = self.free[host][-count:] if count else []
        if taken:
            self._add_pinned(f"gpu-away:{host}", TaskGroup(gpu=len(taken)), host, taken)

    def add_beside(self, host: str, held: Amounts) -> None:
        """Add what pods that are in no job hold of a node beside GPUs, as far as one can say it."""
        mine = self.held[host]
        held = Amounts(
            cpu=min(held.cpu, MAX_AMOUNT - mine.cpu),
            memory=min(held.memory, MAX_AMOUNT - mine.memory),
            others={k: min(n, MAX_AMOUNT - mine.others.get(k, 0)) for k, n in held.others.items()},
        )
        group = TaskGroup(
            gpu=0,
            cpu=f"{held.cpu}m",
            memory=f"{held.memory}Mi",
            resources={key: n for key, n in held.others.items() if n and key in self.extended},
        )
        self._add_pinned(f"pods-beside:{host}", group, host, [])
        self.held[host].add(held)

    def add_reserved(
        self, name: str, uses: Mapping[str, int], host: str, tenant: str | None
    ) -> None:
        """Add what holds quota for what is no running job: nothing else."""
        self._add_pinned(f"{QUOTA_HELD}{name}", TaskGroup(gpu=0), host, [], tenant, uses)

    def _add_pinned(
        self,
        name: str,
        group: TaskGroup,
        host: str,
        gpus: Sequence[int],
        tenant: str | None = None,
        uses: Mapping[str, int] = NO_USES,
    ) -> None:
        task = Task(group=0, index=0, host=host, gpus=tuple(gpus))
        running = Running(tasks=(task,), pinned=True)
        option = Option(groups=(group,)).model_copy(update={"uses": dict(uses)})
        self._add(Head(name, tenant), [option], running, {})

    def _add(
        self,
        head: Head,
        options: Sequence[Option],
        running: Running | None,
        ids: Mapping[str, str],
    ) -> None:
        name, number = head.name[:MAX_NAME], 1
        while name in self.names:
            number += 1
            name = f"{head.name[: MAX_NAME - 12]}:{number}"
        self.names.add(name)
        key, said = (HELD, head.why_held) if running is None else (LEAVES, head.leaves)
        why = {key: said[:MAX_TEXT]} if said and (head.held or running is not None) else {}
        values: dict[str, Any] = {
            "name": name,
            "tenant": head.tenant,
            "priority": head.priority,
            "options": tuple(options),
            "running": running,
            "submitted": head.submitted,
            "expected_runtime_s": head.runtime or None,
            "preempts": head.preempts,
            "anti_affinity": head.anti_affinity,
            "held": head.held and running is None,
            "not_before": None if running is not None else head.not_before,
            "annotations": {**head.ids, **ids, **why},
        }
        try:
            self.jobs.append(Job.model_validate(values))
        except ValidationError:
            Job(**values)  # slower, and names what is wrong
            raise

    def _option(
        self, head: Head, asks: Sequence[Ask], counts: Sequence[int], sized: bool = False
    ) -> Option:
        if len(asks) > MAX_GROUPS or max(counts) > MAX_COUNT:
            raise LeftOutError("has more pods, or more kinds of them, than a round can say")
        if any(ask.gpus * 1000 > MAX_GPU for ask in asks):
            raise LeftOutError(TOO_MUCH)
        key = head.required, sized, tuple(counts), tuple((ask, ask.conditions) for ask in asks)
        if key not in self.made:
            self.made[key] = self._new_option(head, asks, counts, sized=sized)
        return self.made[key]

    def _new_option(
        self, head: Head, asks: Sequence[Ask], counts: Sequence[int], *, sized: bool
    ) -> Option:
        names = [ask.part[:MAX_PART] or "tasks" for ask in asks]
        if len(asks) > 1:
            names = [f"{name}-{g}" for g, name in enumerate(names)]
        uses: defaultdict[str, int] = defaultdict(int)
        for ask, count in zip(asks, counts, strict=True):
            counted = dict.fromkeys(self.counted.get(ask.accelerator, ()), 1000 * ask.gpus)
            for key, amount in (*ask.uses(), *counted.items()):
                uses[key] = min(MAX_AMOUNT, uses[key] + count * amount)
        beside = sum(ask.amounts.beside * count for ask, count in zip(asks, counts, strict=True))
        gpus = sum(ask.gpus * count for ask, count in zip(asks, counts, strict=True))
        made = Option(
            name=f"pods-{sum(counts)}" if sized else "default",
            required=head.required,
            value=min(MAX_AMOUNT, 1000 * (gpus + beside)) if beside else None,
            groups=tuple(map(self._group, names, asks, counts)),
        ).model_copy(update={"uses": dict(uses)})
        resources = {"gpu", "cpu", "memory", *(key for g in made.groups for key in g.resources)}
        if any(made.amount_of(resource) > MAX_OPTION for resource in resources):
            raise LeftOutError(TOO_MUCH)
        return made

    def _group(self, name: str, ask: Ask, count: int) -> TaskGroup:
        return TaskGroup(
            name=name,
            count=count,
            gpu=ask.gpus,
            cpu=f"{ask.cpu}m",
            memory=f"{ask.memory}Mi",
            resources={key: n for key, n in self.eligibility.others(ask.others) if n},
            **self.eligibility.as_document(ask.conditions, ask.allowed, ask.gpus),
            required=ask.required,
            preferred=ask.preferred,
            apart=ask.apart,
            slices=None
            if ask.slices is None
            else Slices(size=ask.slices[0], required=ask.slices[1]),
        )

    def _lawful(self, head: Head, placed: Sequence[tuple[Ask, str]]) -> bool:
        """Whether tasks are where they would have to be if they were placed now."""
        if not all(host in ask.allowed for ask, host in placed):
            return False
        if any(ask.slices for ask, _ in placed):
            return False  # the dump does not say which tasks form a slice
        if head.required is not None and not self._together((h for _, h in placed), head.required):
            return False
        groups: defaultdict[Ask, list[str]] = defaultdict(list)
        for ask, host in placed:
            groups[ask].append(host)
        return all(
            ask.required is None or self._together(hosts, ask.required)
            for ask, hosts in groups.items()
        )

    def _together(self, hosts: Iterable[str], level: str) -> bool:
        return len({self._domain(host, level) for host in hosts}) == 1

    def _domain(self, host: str, level: str) -> str:
        if level == HOST_LEVEL:
            return host
        return self.levels.domain_of(host, level)


def _shrunk(counts: Sequence[int], at: int | None, by: int) -> list[int]:
    """Return counts of which one is less by a number."""
    return [count - by * (g == at) for g, count in enumerate(counts)]


def _flavored(option: Option, asks: Sequence[Ask]) -> Option:
    """Return an option called by its flavors, those of GPUs if there are some."""
    flavors = [pair for ask in asks for pair in ask.flavors]
    gpus = [flavor for resource, flavor in flavors if accelerators_in([resource])]
    names = dict.fromkeys(gpus or [flavor for _, flavor in flavors])
    own = () if option.name == "default" else (option.name,)
    return option.model_copy(update={"name": "-".join((*own, *names))[:MAX_NAME]})


def _ids(groups: Mapping[Ask, Sequence[int]], pods: Sequence[Pod]) -> dict[str, str]:
    """Return what task groups are in the source, of tasks by their index."""
    members = [[pods[at] for at in tasks] if pods else [] for tasks in groups.values()]
    return of_groups(members, [ask.part for ask in groups])


def _unmet(ask: Ask) -> str:
    """Return what no node meets, or not with all the rest."""
    conditions = [one for one in ask.conditions if not one.hosts] or ask.conditions
    return ", ".join(one.name for one in conditions)


def _anywhere(ask: Ask, everywhere: frozenset[str]) -> Ask:
    """Return what a pinned task asks for: it is where it is."""
    if ask.allowed is everywhere and (ask.required, ask.preferred, ask.slices) == (None,) * 3:
        return ask
    return replace(
        ask, allowed=everywhere, required=None, preferred=None, slices=None, conditions=()
    )


# Workloads of Kueue as jobs: what their pod sets ask for, and where admitted ones are.

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

    def told(self, workload: Workload) -> Iterator[Caveat]:
        """Yield what is not read of the admission of a workload, and of how near its pods are."""
        yield from told(self.queues, workload)
        if any(one.template.spec.runtimeClassName for one in workload.spec.podSets):
            yield RUNTIME.caveat()
        near = [(one.topologyRequest, one.count) for one in workload.spec.podSets if one.count]
        groups = {(wanted.podSetGroupName, wanted.required) for wanted, _ in near if wanted}
        named = [w.podSetGroupName for w, _ in near if w and w.required and w.podSetGroupName]
        if len({*named}) < len(named) and (len(groups) > 1 or len(named) < len(near)):
            yield SUBGROUP_TOPOLOGY.caveat()
        for wanted, count in near:
            keys = set[str]() if wanted is None else wanted.keys - {wanted.preferred}
            if any(self.levels.named(key) is None for key in keys):
                yield TOPOLOGY_LEVEL.caveat()
            size = 0 if wanted is None else wanted.podSetSliceSize or 0
            if wanted and wanted.podSetSliceRequiredTopology and (size < 1 or count % size):
                yield SUBGROUP_TOPOLOGY.caveat()

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

        Raises `LeftOutError`: None asks for a GPU.
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
            if one.spec.topologyName:
                there = there - self.eligibility.cordoned
                keys = self.queues.topologies.get(one.spec.topologyName, ())
                conditions = (*conditions, *self.eligibility.in_domains(keys))
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
