"""Jobs of a round, out of gangs: what their tasks ask for, and where those that run are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from placewright.instances.converters.kubernetes.accelerators import accelerators_in
from placewright.instances.converters.kubernetes.eligibility import Eligibility
from placewright.instances.converters.kubernetes.kueue_quotas import key_of
from placewright.instances.converters.kubernetes.levels import Levels
from placewright.instances.converters.kubernetes.nodes import Amounts
from placewright.instances.converters.kubernetes.records import Node, Pod
from placewright.instances.converters.kubernetes.source_ids import of_groups
from placewright.instances.converters.support.host_sets import Condition
from placewright.instances.documents.annotations import MAX_TEXT
from placewright.instances.documents.arrangement import AntiAffinity, Apart, Slices
from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT
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


class LeftOutError(Exception):
    """Why something is not in the round; `more` is what is special to it."""

    def __init__(self, why: str, more: str = "") -> None:
        super().__init__(why)
        self.more = more


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

        `pods` are those of the tasks; none if the dump does not say.

        Raises
        ------
        LeftOutError
            A node is not in the dump, or has too few GPUs.
        """
        wanted: dict[str, Amounts] = {}
        for ask, host in placed:
            if host not in self.nodes:
                raise LeftOutError("runs on a node that is not in the round")
            if not self.eligibility.is_of(host, ask.amounts):
                raise LeftOutError("holds GPUs of another resource than those of its node")
            wanted.setdefault(host, Amounts()).add(ask.amounts)
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

        Parameters
        ----------
        others
            What tasks may ask for instead, all of them together.

        Raises
        ------
        LeftOutError
            No node may have a task of it, or it has fewer pods than it needs.
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

    def add_reserved(self, queue: str, uses: Mapping[str, int], host: str) -> None:
        """Add what holds quota of a queue for workloads that are no running jobs: nothing else."""
        self._add_pinned(f"quota-held:{queue}", TaskGroup(gpu=0), host, [], tenant=queue, uses=uses)

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
        self.jobs.append(
            Job(
                name=name,
                tenant=head.tenant,
                priority=head.priority,
                options=tuple(options),
                running=running,
                submitted=head.submitted,
                expected_runtime_s=head.runtime or None,
                preempts=head.preempts,
                anti_affinity=head.anti_affinity,
                held=head.held and running is None,
                not_before=None if running is not None else head.not_before,
                annotations={**head.ids, **ids, **why},
            )
        )

    def _option(
        self, head: Head, asks: Sequence[Ask], counts: Sequence[int], sized: bool = False
    ) -> Option:
        if len(asks) > MAX_GROUPS or max(counts) > MAX_COUNT:
            raise LeftOutError("has more pods, or more kinds of them, than a round can say")
        if any(ask.gpus * 1000 > MAX_GPU for ask in asks):
            raise LeftOutError(TOO_MUCH)
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
    return replace(
        ask, allowed=everywhere, required=None, preferred=None, slices=None, conditions=()
    )
