"""Jobs as the gang formulation sees them: groups, choices, classes, precedence, leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.priority_classes import (
    Precedence,
    PriorityClass,
    classes_by_precedence,
    lexicographic_weights,
)
from placewright.formulations.gang.problem.limits import (
    CLASS_VALUES,
    ENTITLED,
    PROGRESS,
    VALUE,
    BorrowingOptions,
    borrowing_options,
)
from placewright.formulations.plan_messages import Place, Slots
from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import Preemption
from placewright.instances.documents.round import Round

# Jobs as the gang formulation sees them: groups, choices, classes; running and placed jobs.


NO_LEVEL = -1


NO_LABEL = -1


NO_SLOTS: Mapping[int, Slots] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TaskSlices:
    """Tasks of a group go in slices of `size`, each inside one domain of a level (an index)."""

    size: int
    level: int


@dataclass(frozen=True, slots=True)
class DomainLimit:
    """At most `max_tasks` tasks of a group in one domain of a level (an index): failure domains."""

    level: int
    max_tasks: int


@dataclass(frozen=True, slots=True)
class HostRange:
    """Tasks are on `least` to `most` hosts."""

    least: int
    most: int

    def includes(self, number: int) -> bool:
        """Whether tasks may be on so many hosts."""
        return self.least <= number <= self.most


@dataclass(frozen=True, slots=True)
class Traffic:
    """The collective of all GPUs of a group; `timed` if the term `bottleneck` counts its time."""

    pattern: Literal["ring", "tree"]
    data_mib: int
    timed: bool


@dataclass(frozen=True, slots=True)
class Group:
    """A task group: `count` tasks of one shape."""

    shape: int  # Index of the shape of its tasks
    count: int
    milli_gpu: int  # Of all its tasks
    required: int  # Level (an index) of which one domain must hold all tasks; `NO_LEVEL` if none
    # tuple of (level, spread weight): Levels whose domains count for the term `spread`, outermost
    # first
    weights: tuple[tuple[int, int], ...]
    # slices, domain_limit, num_hosts, traffic: Further rules on where its tasks are; None if there
    # are none
    slices: TaskSlices | None = None
    domain_limit: DomainLimit | None = None
    num_hosts: HostRange | None = None
    traffic: Traffic | None = None
    # What it sends over a link that it crosses; 0 unless the term `contention` counts it
    rate_mbps: int = 0
    # tuple of (resource, amount): What its job uses of pools in each domain, by name, if it is the
    # job's only group
    uses: tuple[tuple[str, int], ...] = ()

    @property
    def depends_on_levels(self) -> bool:
        """Whether the place of one task matters to where the others may or should go."""
        return self.count > 1 and (
            self.required != NO_LEVEL
            or bool(self.weights)
            or self.is_arranged
            or self.counts_all_levels
        )

    @property
    def counts_all_levels(self) -> bool:
        """Whether a term counts the links that it crosses, at any level."""
        return self.timed or self.rate_mbps > 0

    @property
    def timed(self) -> bool:
        """Whether the time of its collective counts."""
        return self.traffic is not None and self.traffic.timed

    @property
    def is_ordered(self) -> bool:
        """Whether the index that a task has in the group matters."""
        return self.slices is not None or self.traffic is not None

    @property
    def is_arranged(self) -> bool:
        """Whether more than a required level relates the places of its tasks."""
        return (self.slices, self.domain_limit, self.num_hosts) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of a job class: its groups, its worth, and its index in the jobs' options."""

    index: int  # Position among the options of the job document
    # value, progress: What a job with this option adds to the terms of these names. Under strict
    # priority `value` is weighted by the priority class.
    value: int
    groups: tuple[Group, ...]
    progress: int = 0
    # Whether the tenant's guarantee covers a job with this option, or the tenant has none
    entitled: bool = True
    # Level (an index) of which one domain must hold all groups; `NO_LEVEL` if none
    joint_level: int = NO_LEVEL
    # On how many hosts all groups are together, if there are several
    num_hosts: HostRange | None = None
    # Anti-affinity label (an index into `Problem.labels`): the job stays out of domains where
    # another job with the label has a task. `NO_LABEL` if none.
    label: int = NO_LABEL
    # tuple of (resource, amount): What the job takes of pools that are counted per job; resources
    # as `use_numbers` has them
    uses: tuple[tuple[int, int], ...] = ()
    pools: tuple[int, ...] = ()  # Accounts of the pools that it takes from (limits.py)
    # Whether some of them are of a level: not all domains may have room for it
    pooled: bool = False
    # priority_class, weight: Index of its priority class, highest first, and the weight of that
    # class in `value`
    priority_class: int = 0
    weight: int = 1

    @property
    def own_value(self) -> int:
        """What the option adds to the term of its priority class: its value, not weighted."""
        return self.value // self.weight

    def amount(self, term: str) -> int:
        """Return what the option adds to a term that is a sum over options."""
        if term in CLASS_VALUES:
            return self.own_value if CLASS_VALUES.index(term) == self.priority_class else 0
        return {VALUE: self.value, ENTITLED: self.entitled_value, PROGRESS: self.progress}[term]

    @property
    def entitled_value(self) -> int:
        """What the option adds to the term `entitled`."""
        return self.own_value if self.entitled else 0

    @property
    def num_tasks(self) -> int:
        """Tasks of all groups."""
        return sum(group.count for group in self.groups)

    @property
    def is_single_task(self) -> bool:
        """Whether the option is one task that may be on any host where it fits."""
        return len(self.groups) == 1 and self.groups[0].count == 1 and not self.is_tied

    @property
    def is_tied(self) -> bool:
        """Whether more than levels of single groups restricts its tasks (gang_tree.py)."""
        return (
            self.joint_level != NO_LEVEL
            or self.num_hosts is not None
            or self.label != NO_LABEL
            or any(group.is_arranged for group in self.groups)
        )


@dataclass(frozen=True, slots=True)
class Label:
    """Anti-affinity: jobs with the label share no domain of a level."""

    level: int  # Index of the level
    # mapping of job index to set of domains: Where each running job with the label has tasks;
    # pinned jobs are included
    running_domains: Mapping[int, frozenset[int]]


@dataclass(frozen=True, slots=True)
class JobClass:
    """Interchangeable jobs (indices in `round.jobs`, highest priority first).

    The first choice of a class of running jobs is the option with which they run; with any other
    they resize. `accounts` are the quotas, caps and pools in which they count (limits.py).
    """

    jobs: tuple[int, ...]
    tenant: int
    choices: tuple[Choice, ...]
    running: bool = False
    accounts: tuple[int, ...] = ()

    def choice_of(self, option: int) -> int:
        """Return which choice an option is, by its index in the document."""
        return next(o for o, choice in enumerate(self.choices) if choice.index == option)


class RunningJob(NamedTuple):
    """A running job that may move."""

    job_class: int
    # Index of its precedence among the distinct ones of such jobs, lowest first: a job of level k
    # may be preempted for tasks of a rank above k
    level: int
    places: tuple[Place, ...]  # tuple of (group, index, host, GPUs): Where each task runs
    tasks: tuple[TaskPlacement, ...]  # The same, one per task
    # migrate_cost, preempt_cost: Milli-GPU-seconds, without what the tasks that move cost
    migrate_cost: int
    preempt_cost: int
    slots: Slots = ()  # Start of each task's MIG slice; () if the job has none
    kind: int = 0  # What rules of preemption look at in it
    # (options,): Milli-GPU-seconds of going on with each option of its document
    resize_costs: tuple[int, ...] = ()


ANY_JOB = -1
"""Instead of a job's index: any waiting job of the class."""

NOWHERE = -1
"""Instead of a host: on none."""


@dataclass(frozen=True, slots=True)
class TaskPlacement:
    """`count` tasks of group `group` on `host`."""

    group: int
    host: int
    count: int
    # For shares the GPU of each task; for whole GPUs empty until they are assigned
    gpus: tuple[int, ...]
    # Whether it is a task of a running job that keeps its GPUs; then `gpus` has them
    stays: bool = False
    slot: int | None = None  # Start of the MIG slice of a task that stays


class JobPlacement(NamedTuple):
    """A job that holds GPUs: its class, option and tasks; `job` is given for a running job."""

    job_class: int
    choice: int
    tasks: Sequence[TaskPlacement]
    job: int = ANY_JOB

    @property
    def in_place(self) -> bool:
        """Whether it is a running job of which no task moves."""
        return self.job != ANY_JOB and all(put.stays for put in self.tasks)


# Leave to preempt: which running jobs a job may preempt, by precedence and the rules of a round.
#
# Running jobs are told apart by **kind**: tenant, precedence and caps. What a job may preempt is a
# set of kinds; sets have numbers, by which shapes differ.


NOBODY = 0
"""The number of the empty set of kinds."""


class Kind(NamedTuple):
    """What rules look at in a job."""

    tenant: str | None
    entitled: bool
    priority: int
    caps: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Over:
    """Whether tasks may preempt running jobs, by their shapes."""

    # rank, leave (shapes,): Rank, and number of the set of kinds that a shape may preempt
    rank: Ints
    leave: Ints
    # bool (sets, kinds) or None: Which kinds are in which sets; None if precedence alone decides
    sets: Bools | None

    def __call__(self, shape: int | Ints, victim: RunningJob) -> Bools:
        """Return whether tasks of a shape, or of each of several, may preempt a running job."""
        above: Bools = np.asarray(self.rank[shape] > victim.level)
        return above if self.sets is None else above & self.sets[self.leave[shape], victim.kind]

    def covers(self, kind: int, other: int) -> bool:
        """Whether all that may preempt a kind may preempt another kind, too."""
        return self.sets is None or not (self.sets[:, kind] & ~self.sets[:, other]).any()


class Leave:
    """The sets of kinds that jobs may preempt, numbered as they are met.

    `ruled`: whether the round says more than precedence does; if not, every number is `NOBODY`.
    `key` is equal for rounds whose jobs have the same sets.
    """

    def __init__(self, round_: Round, borrowed: BorrowingOptions) -> None:
        self._rules = {t.name: t.preemption for t in round_.tenants if t.preemption is not None}
        self.ruled = bool(self._rules) or any(job.preempts is not None for job in round_.jobs)
        kinds = dict.fromkeys(
            self._kind(job, job.running.option not in borrowed.get(i, ()))
            for i, job in enumerate(round_.jobs if self.ruled else ())
            if job.running is not None and not job.running.pinned
        )
        self._kinds = {kind: number for number, kind in enumerate(kinds)}
        self._sets: dict[tuple[bool, ...], int] = {(False,) * len(kinds): NOBODY}
        self._known: dict[tuple[Kind, frozenset[str] | None], int] = {}
        self.key = (self.ruled, tuple(sorted(self._rules.items())), tuple(kinds))

    def number(self, job: Job, *, entitled: bool) -> int:
        """Return the number of the set of kinds that a job may preempt."""
        if not self.ruled:
            return NOBODY
        named = None if job.preempts is None else frozenset(job.preempts)
        key = Kind(job.tenant, entitled, job.priority), named
        if key not in self._known:
            found = tuple(self._allows(*key, kind) for kind in self._kinds)
            self._known[key] = self._sets.setdefault(found, len(self._sets))
        return self._known[key]

    def kind(self, job: Job, *, entitled: bool) -> int:
        """Return the number of the kind of a running job that may move."""
        return self._kinds[self._kind(job, entitled)] if self.ruled else 0

    def has(self, number: int, kind: int) -> bool:
        """Whether a kind is in the set of a number."""
        return list(self._sets)[number][kind]

    def matrix(self) -> Bools | None:
        """Return which kinds are in which sets, bool (sets, kinds); None if precedence decides."""
        return np.array(list(self._sets), dtype=np.bool_) if self.ruled else None

    def _kind(self, job: Job, entitled: bool) -> Kind:
        return Kind(job.tenant, entitled, job.priority, frozenset(job.caps))

    def _allows(self, mine: Kind, named: frozenset[str] | None, theirs: Kind) -> bool:
        if (mine.entitled, mine.priority) <= (theirs.entitled, theirs.priority):
            return False
        if named is not None and named.isdisjoint(theirs.caps):
            return False
        rule = self._rules.get(mine.tenant or "")
        if rule is None:
            return True
        lower = theirs.priority < mine.priority
        if mine.tenant == theirs.tenant:
            return lower and rule.within == "lower"
        if theirs.entitled or not _one_cohort(rule, self._rules.get(theirs.tenant or "")):
            return False
        if mine.entitled:
            return rule.reclaim == "any" or (lower and rule.reclaim == "lower")
        within = rule.borrow_up_to is None or theirs.priority <= rule.borrow_up_to
        return lower and within and rule.borrow == "lower"


def _one_cohort(rule: Preemption, other: Preemption | None) -> bool:
    return other is not None and rule.cohort is not None and rule.cohort == other.cohort


# Strict priority: the priority classes of a round of gangs, by which `value` is written out.
#
# A class holds the jobs of one precedence: whether the tenant's cells are for them, whether they
# are entitled, then their priority.


def priority_classes(
    round_: Round, borrowed: BorrowingOptions | None = None
) -> tuple[PriorityClass, ...]:
    """Return the classes of a round, highest first; () where `value` stays one term."""
    if VALUE not in round_.policy.by_class:
        return ()
    given = borrowing_options(round_) if borrowed is None else borrowed
    owners = {tenant.name for tenant in round_.tenants if tenant.cells}

    def precedence(j: int, option: int) -> Precedence:
        return _precedence(round_.jobs[j], option in given.get(j, ()), owners)

    jobs = enumerate(round_.jobs)
    return classes_by_precedence(jobs, Job.value_of, precedence, offered=round_.offered)


def _precedence(job: Job, borrows: bool, owners: set[str]) -> Precedence:
    cells = job.tenant in owners and not job.opportunistic
    return Precedence(cells, not borrows, job.priority)


def classes_of_jobs(
    classes: Sequence[PriorityClass],
    job_classes: Sequence[JobClass],
    jobs: Sequence[Job],
    owners: set[str],
) -> list[list[int]]:
    """Return the priority class of each choice of each job class.

    Jobs that cells leave out of a residual round are of no class; no option of theirs fits.
    """
    index = {level: k for k, one in enumerate(classes) for level in one.precedences}
    return [
        [
            index.get(_precedence(jobs[job_class.jobs[0]], not choice.entitled, owners), 0)
            for choice in job_class.choices
        ]
        for job_class in job_classes
    ]


def class_weights(
    classes: Sequence[PriorityClass], job_classes: Sequence[JobClass], of: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """Return weights with which a sum over classes is nearly lexicographic.

    `of` has the priority class of each choice of each job class.
    """
    densities: dict[int, list[float]] = {}
    for job_class, numbers in zip(job_classes, of, strict=True):
        for choice, k in zip(job_class.choices, numbers, strict=True):
            milli = sum(group.milli_gpu for group in choice.groups)
            if milli and choice.value:
                densities.setdefault(k, []).append(choice.value / milli)
    return lexicographic_weights(classes, densities)


def weighted_value(values: Mapping[str, int], weights: Sequence[int]) -> int:
    """Return the weighted sum of the classes' values, or `value` itself without classes."""
    if not weights:
        return values[VALUE]
    return sum(w * values[term] for w, term in zip(weights, CLASS_VALUES, strict=False))
