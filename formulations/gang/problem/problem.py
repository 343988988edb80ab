"""The problem of one gang round as arrays: options, job classes, quotas, the state of hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, gcd

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.priority_classes import PriorityClass
from placewright.formulations.gang.problem.gpu_links import GPU_LINKS, LinkDemands
from placewright.formulations.gang.problem.gpu_parts import GpuPartDemands
from placewright.formulations.gang.problem.jobs import (
    Choice,
    Group,
    JobClass,
    JobPlacement,
    Label,
    Over,
    RunningJob,
    weighted_value,
)
from placewright.formulations.gang.problem.limits import (
    CLASS_VALUES,
    ENTITLED,
    GPUS,
    JOBS,
    OPTION_SUMS,
    PROGRESS,
    SENSE,
    VALUE,
    DisruptionBudget,
    QuotaKey,
    TenantShare,
    account_numbers,
    model_of,
    use_of,
)
from placewright.formulations.gang.problem.shapes import Pool
from placewright.formulations.plan_messages import SHARPNESS, outward
from placewright.instances.documents.round import Round
from placewright.topology import Cluster, State
from placewright.topology.units import UNLIMITED, WHOLE_GPU

# The options of all job classes as arrays.


@dataclass(frozen=True, eq=False, slots=True)
class Options:
    """An entry per job class and choice, in order of the classes; and one per group of each."""

    # job_class, choice (options,): Index of the class, and of the choice in it
    job_class: Ints
    choice: Ints
    # (classes + 1,): The options of class c are `class_start[c]:class_start[c + 1]`
    class_start: Ints
    # value, own_value, progress, milli_gpu (options,): Of one job with the option
    value: Ints
    own_value: Ints
    priority_class: Ints  # (options,): See `Choice.priority_class`
    progress: Ints
    milli_gpu: Ints
    entitled: Bools  # (options,): See `Choice.entitled`
    # (options + 1,): The groups of option i are `group_start[i]:group_start[i + 1]`
    group_start: Ints
    groups: tuple[Group, ...]  # Task groups, option by option
    # group_shape, group_count (groups,): Shape and number of their tasks
    group_shape: Ints
    group_count: Ints

    @property
    def entitled_value(self) -> Ints:
        """What each option adds to the term `entitled`, int64 (options,)."""
        return np.where(self.entitled, self.own_value, 0)

    def amounts(self, term: str) -> Ints:
        """Return what each option adds to a term that is a sum over options, int64 (options,)."""
        if term in CLASS_VALUES:
            mine = self.priority_class == CLASS_VALUES.index(term)
            return np.where(mine, self.own_value, 0)
        return {VALUE: self.value, ENTITLED: self.entitled_value, PROGRESS: self.progress}[term]

    def groups_of(self, options: Ints) -> tuple[Ints, Ints]:
        """Return, per group of some options, its option's position in `options` and its index."""
        number = self.group_start[options + 1] - self.group_start[options]
        which = np.repeat(np.arange(len(options)), number)
        begin = self.group_start[options] - np.cumsum(number) + number
        return which, np.arange(len(which)) + begin[which]

    def sum_over_tasks(self, each: Ints) -> Ints:
        """Sum a number per task of each group, int64 (groups,), over the tasks of each option."""
        return _sums(each * self.group_count, self.group_start)


def list_options(classes: Sequence[JobClass]) -> Options:
    """List the options of job classes."""
    choices = [choice for job_class in classes for choice in job_class.choices]
    groups = tuple([group for choice in choices for group in choice.groups])
    first = _ends([len(job_class.choices) for job_class in classes])
    group_first = _ends([len(choice.groups) for choice in choices])
    job_class = np.repeat(np.arange(len(classes)), np.diff(first))
    return Options(
        job_class=job_class,
        choice=np.arange(len(choices)) - first[job_class],
        class_start=first,
        value=_array([choice.value for choice in choices]),
        own_value=_array([choice.own_value for choice in choices]),
        priority_class=_array([choice.priority_class for choice in choices]),
        progress=_array([choice.progress for choice in choices]),
        milli_gpu=_sums(_array([group.milli_gpu for group in groups]), group_first),
        entitled=np.array([choice.entitled for choice in choices], dtype=np.bool_),
        group_start=group_first,
        groups=groups,
        group_shape=_array([group.shape for group in groups]),
        group_count=_array([group.count for group in groups]),
    )


def _sums(each: Ints, first: Ints) -> Ints:
    """Return the sum of `each` over the consecutive ranges that `first` begins and ends."""
    upto = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(each)])
    sums: Ints = upto[first[1:]] - upto[first[:-1]]
    return sums


def _array(numbers: list[int]) -> Ints:
    return np.array(numbers, dtype=np.int64)


def _ends(sizes: list[int]) -> Ints:
    """Return where ranges of these sizes begin, and the end of the last."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(_array(sizes))])


# The problem of one gang round as arrays: shapes, job classes, quotas and the state of the hosts.
#
# A **shape** is what a task asks of one host: milli-GPU, other resources, allowed GPU models and
# hosts; and its **rank**, the number of distinct precedences of running jobs strictly below its
# own. The **precedence** of a job with an option: whether it is entitled (limits.py), then
# its priority. A **job class** holds the jobs that no constraint or term distinguishes: equal
# options (groups, values), tenant and caps, all pending or all running. Everything downstream
# counts jobs per class. Pinned running jobs are not part of the problem: what they hold is
# missing on their hosts.


@dataclass(frozen=True, eq=False)
class Problem:
    """What a gang formulation sees of a round."""

    round: Round
    cluster: Cluster
    # state, cleared: As the hosts are, and without the running jobs that may move. Reserved GPUs
    # have nothing free.
    state: State
    cleared: State
    classes: tuple[JobClass, ...]  # Pending classes first
    # (shapes,): Milli-GPU of a task: below 1000 a share of one GPU, else whole GPUs
    shape_gpu: Ints
    shape_demand: Ints  # (shapes, resources): Other demands, in the cluster's order of resources
    # (shapes, hosts): Hosts that the shape allows by name and GPU model, and that have what it asks
    # for at all
    shape_allowed: Bools
    # (shapes,): See above; 0 where nothing runs that may move, or nobody may be preempted
    shape_rank: Ints
    over: Over  # Which running jobs tasks of a shape may preempt
    # (shapes,): The GPU model (an index) that the shape allows alone; -1: any or several
    shape_model: Ints
    # GPU memory and MIG slices that tasks ask for; None if none does
    part_demands: GpuPartDemands | None
    # Links between GPUs that tasks ask for; None if none does, and nothing is known of any
    link_demands: LinkDemands | None
    # (hosts,): Equal for hosts of one GPU model that the same shapes allow by name, -1 without GPUs
    host_kind: Ints
    open: Bools  # (hosts,): Hosts where tasks may arrive: healthy, not reserved, not to be vacated
    usable: Bools  # (gpus,): GPUs that are not reserved
    # vacate, pinned_hosts (hosts,): Hosts to be emptied; hosts where a pinned job runs
    vacate: Bools
    pinned_hosts: Bools
    pinned_remaining: int  # Milli-GPU that pinned jobs hold on hosts to be emptied
    reserved_free: Ints  # (hosts,): Milli-GPU of reserved GPUs that pinned jobs leave free
    # dict of job index to RunningJob: The running jobs that may move
    running: dict[int, RunningJob]
    # dict of (account, amount) to int: What jobs of an account, a tenant or a cap, that are not
    # pinned may hold (limits.py)
    quota: dict[QuotaKey, int]
    labels: tuple[Label, ...]  # Anti-affinity between jobs
    # Objective terms in lexicographic order; `share` is written out (limits.py)
    terms: tuple[str, ...]
    # The tenants that count in the term `share`; () without it
    shares: tuple[TenantShare, ...] = ()
    # Highest first, where `value` is written out (jobs.py); else ()
    priority_classes: tuple[PriorityClass, ...] = ()
    class_weights: tuple[int, ...] = ()  # Their weights in `value`, which heuristics maximise
    budget: DisruptionBudget | None = None  # What may be done to running jobs; None: anything
    # What the domains of levels have of resources; the whole cluster's are accounts in `quota`
    pools: tuple[Pool, ...] = ()
    # The highest rank of pinned jobs that start in this round: who is of a level below may stop for
    # them, which no model of this problem can judge
    fixed_rank: int = 0
    # Whether limits are those of later reservations, too, which no victim has to keep
    has_reservations: bool = False

    @cached_property
    def weighted_terms(self) -> tuple[str, ...]:
        """The terms with `value`, the weighted sum, instead of those of the priority classes."""
        return tuple(dict.fromkeys(VALUE if term in CLASS_VALUES else term for term in self.terms))

    @property
    def counts_gpus_alone(self) -> bool:
        """Whether it does not matter which of the GPUs that are free a task has."""
        links = self.link_demands
        return self.part_demands is None and (links is None or not links.required.any())

    @cached_property
    def pinned_link_mbps(self) -> int:
        """What the pinned jobs count in the term `gpu_links`."""
        links, host_of = self.link_demands, self.cluster.host_index
        return sum(
            links.mbps(group.gpu_links, host_of[task.host], task.gpus)
            for job in self.round.jobs
            if links is not None and job.running is not None and job.running.pinned
            for task in job.running.tasks
            for group in [job.options[job.running.option].groups[task.group]]
        )

    def link_mbps(self, job: int) -> int:
        """Return what a running job that may move counts in `gpu_links` where it is."""
        links, running = self.link_demands, self.running[job]
        groups = self.classes[running.job_class].choices[0].groups
        return sum(
            links.mbps(links.asked[groups[group].shape], host, gpus)
            for group, _, host, gpus in (running.places if links is not None else ())
            if links is not None
        )

    def most_link_mbps(self, job: int) -> int:
        """Return the most that a running job that may move could count in `gpu_links`."""
        links, choices = self.link_demands, self.classes[self.running[job].job_class].choices
        if links is None:
            return 0
        best = max(
            sum(group.count * links.most_mbps(group.shape) for group in choice.groups)
            for choice in choices
        )
        return max(best, self.link_mbps(job))

    @property
    def value_terms(self) -> tuple[str, ...]:
        """`value`, or the terms of the priority classes that it stands for."""
        return CLASS_VALUES[: len(self.priority_classes)] or (VALUE,)

    def weighted_value(self, values: Mapping[str, int]) -> int:
        """Return the `value` that heuristics maximise, from the values of all terms."""
        return weighted_value(values, self.class_weights)

    @cached_property
    def options(self) -> Options:
        """The options of all classes."""
        return list_options(self.classes)

    @cached_property
    def num_jobs(self) -> Ints:
        """Number of jobs in each class, int64 (classes,)."""
        return np.array([len(c.jobs) for c in self.classes], dtype=np.int64)

    @cached_property
    def num_pending(self) -> Ints:
        """Number of pending jobs in each class, int64 (classes,); 0 for classes of running jobs."""
        return self.num_jobs * np.array([not c.running for c in self.classes], dtype=np.int64)

    @cached_property
    def num_competing(self) -> Ints:
        """Number of jobs in each class that compete for open hosts, int64 (classes,)."""
        number = self.num_jobs.copy()
        for j in self.not_competing:
            number[self.running[j].job_class] -= 1
        return number

    @cached_property
    def not_competing(self) -> frozenset[int]:
        """Running jobs where no task of theirs might arrive.

        Such a job may stay and uses nothing that others could have, so relaxations leave it out.
        """
        job, _, host, shape = self.running_tasks.T
        odd = ~self.shape_hosts[shape, host]
        if self.link_demands is not None:
            odd |= self.link_demands.required[shape]
        constrained = np.unique(job if self._reserved else job[odd])
        return frozenset(j for j in constrained.tolist() if not self.competes(self.running[j]))

    @cached_property
    def resizes(self) -> bool:
        """Whether a running job may change its option."""
        return any(c.running and len(c.choices) > 1 for c in self.classes)

    def resize_costs(self, running: RunningJob) -> list[int]:
        """Return what each other option costs a running job, without the GPUs that it takes."""
        choices = self.classes[running.job_class].choices[1:]
        return [running.resize_costs[choice.index] for choice in choices]

    def free_gain(self, term: str) -> int:
        """Return what the jobs that do not compete could gain at most if they resize."""
        return sum(
            max(choice.amount(term) for choice in choices) - choices[0].amount(term)
            for job in self.not_competing
            for choices in [self.classes[self.running[job].job_class].choices]
        )

    @cached_property
    def _reserved(self) -> bool:
        return not self.usable.all()

    def competes(self, running: RunningJob) -> bool:
        """Whether the tasks of a running job might arrive on the GPUs where they run."""
        groups = self.classes[running.job_class].choices[0].groups
        links = self.link_demands
        return all(
            self.shape_hosts[groups[g].shape, h]
            and not (self._reserved and self._holds_reserved(h, gpus))
            and (links is None or links.are_joined(groups[g].shape, h, gpus))
            for g, _, h, gpus in running.places
        )

    def _holds_reserved(self, host: int, gpus: tuple[int, ...]) -> bool:
        start = int(self.cluster.gpu_start[host])
        return not all(self.usable[start + gpu] for gpu in gpus)

    @cached_property
    def shape_hosts(self) -> Bools:
        """Hosts where tasks of a shape may arrive, bool (shapes, hosts)."""
        return self.shape_allowed & self.open

    @cached_property
    def limited(self) -> Bools:
        """Whether some host has a limit of a resource, not pools alone, bool (resources,)."""
        limited = self.cluster.capacity < UNLIMITED
        return np.asarray(limited.any(axis=0), dtype=np.bool_)

    def within_asked(self, free: Ints) -> Ints:
        """Return amounts (hosts, resources): of hosts without a limit no more than jobs ask."""
        unlimited = self.cluster.capacity >= UNLIMITED
        if not unlimited.any():
            return free
        asked = np.zeros(free.shape[1], dtype=np.int64)
        for job_class in self.classes:
            of_choices = [
                sum(group.count * self.shape_demand[group.shape] for group in choice.groups)
                for choice in job_class.choices
            ]
            asked += len(job_class.jobs) * np.max(of_choices, axis=0)
        return np.where(unlimited, np.minimum(free, asked), free)

    @cached_property
    def is_share(self) -> Bools:
        """Whether each shape asks for a share of one GPU, bool (shapes,)."""
        return (self.shape_gpu > 0) & (self.shape_gpu < WHOLE_GPU)

    @cached_property
    def running_placements(self) -> tuple[JobPlacement, ...]:
        """The placements of the running jobs that may move, each in place."""
        return tuple(JobPlacement(r.job_class, 0, r.tasks, job) for job, r in self.running.items())

    @cached_property
    def running_placement_of(self) -> dict[int, JobPlacement]:
        """The placement in place of each running job that may move, by job index."""
        return {start.job: start for start in self.running_placements}

    @cached_property
    def running_tasks(self) -> Ints:
        """Job, level, host, shape of each task of running jobs that may move, int64 (tasks, 4)."""
        shapes = [[g.shape for g in c.choices[0].groups] for c in self.classes]
        rows = [
            (job, running.level, host, shapes[running.job_class][group])
            for job, running in self.running.items()
            for group, _, host, _ in running.places
        ]
        return np.array(rows, dtype=np.int64).reshape(-1, 4)

    @cached_property
    def class_of(self) -> list[int]:
        """The class of each job, (jobs,); -1 for pinned ones."""
        found = [-1] * len(self.round.jobs)
        for number, job_class in enumerate(self.classes):
            for job in job_class.jobs:
                found[job] = number
        return found

    def choice_of(self, job: int, option: int | None = None) -> Choice:
        """Return an option of a job that is not pinned, by its index in the round.

        None: that which a running job runs.
        """
        choices = self.classes[self.class_of[job]].choices
        return next(c for c in choices if option is None or c.index == option)

    def milli_held(self, job: int, least: int = 0) -> Counter[int]:
        """Return the milli-GPU that a running job holds by host, `least` or more for each task."""
        groups, held = self.choice_of(job).groups, Counter[int]()
        for group, _, host, _ in self.running[job].places:
            held[host] += max(int(self.shape_gpu[groups[group].shape]), least)
        return held

    @cached_property
    def running_value(self) -> int:
        """Value of all running jobs that may move; the term `value` is relative to it."""
        return sum(len(c.jobs) * c.choices[0].value for c in self.classes if c.running)

    @cached_property
    def quota_keys(self) -> dict[tuple[int, ...], list[QuotaKey]]:
        """The keys of `quota` by the accounts of a class; classes without any are left out."""
        by_account: dict[int, list[QuotaKey]] = {}
        for key in self.quota:
            by_account.setdefault(key[0], []).append(key)
        kinds = {job_class.accounts for job_class in self.classes} if by_account else set()
        keys = {kind: [key for a in kind for key in by_account.get(a, ())] for kind in kinds}
        return {kind: mine for kind, mine in keys.items() if mine}

    @cached_property
    def totals_of_pools(self) -> frozenset[int]:
        """The accounts that pools and hosts imply: who is in the way there, is in one of these."""
        numbers = account_numbers(self.round)
        return frozenset(number for (kind, _), number in numbers.items() if kind == "total")

    def takes_of(self, keys: Iterable[QuotaKey], accounts: tuple[int, ...], choice: Choice) -> bool:
        """Whether a job takes something of one of these quotas and caps."""
        return any(a in accounts and self.demand_of(choice, amount) > 0 for a, amount in keys)

    @cached_property
    def _value_steps(self) -> dict[str, int]:
        """Per term the greatest common divisor of the amounts that are added to it."""
        options, matrices = self.options, self.cluster.gpu_links
        groups = set(options.groups)
        return {
            **{
                term: int(np.gcd.reduce(options.amounts(term), initial=0))
                for term in {VALUE, *self.terms}.intersection(OPTION_SUMS)
            },
            GPU_LINKS: gcd(*(mbps for links in matrices for row in links.mbps for mbps in row)),
            "spread": gcd(*(g.milli_gpu * weight for g in groups for _, weight in g.weights)),
        }

    def round_bound(self, term: str, bound: float) -> float:
        """Round a claimed bound outward to a value that the term can take.

        Solvers stop within tolerances: for a minimum, 7.0000004 does not prove 8.
        """
        step = max(self._value_steps.get(term, 1), 1)
        slack = SHARPNESS * max(1.0, abs(bound))
        if SENSE[term] == "max":
            return float(floor((bound + slack) / step) * step)
        return float(ceil((bound - slack) / step) * step)

    def round_certified(self, term: str, bound: Fraction) -> float:
        """Round an exact bound outward to a value that the term can take."""
        step = max(self._value_steps.get(term, 1), 1)
        sense = SENSE[term]
        return outward((floor if sense == "max" else ceil)(bound / step) * step, sense)

    @cached_property
    def _task_amounts(self) -> dict[int, list[int]]:
        return {}

    def task_amounts(self, amount: int) -> list[int]:
        """Return what tasks of each shape take of an amount (limits.py), whatever jobs do."""
        if amount not in self._task_amounts:
            model = model_of(amount)
            found = np.zeros_like(self.shape_gpu)
            if amount == GPUS:
                found = self.shape_gpu
            elif model is not None:
                found = np.where(self.shape_model == model, self.shape_gpu, 0)
            elif amount != JOBS and use_of(amount) is None:
                found = self.shape_demand[:, amount]
            self._task_amounts[amount] = found.tolist()
        return self._task_amounts[amount]

    def demand_of(self, choice: Choice, amount: int) -> int:
        """Return what a job with an option takes of an amount (limits.py)."""
        each, use = self.task_amounts(amount), use_of(amount)
        own = int(amount == JOBS) if use is None else dict(choice.uses).get(use, 0)
        return own + sum(group.count * each[group.shape] for group in choice.groups)

    def task_amount(self, shape: int, amount: int) -> int:
        """Return what a job of one task, of a shape, takes of an amount (limits.py)."""
        use = use_of(amount)
        used = (int(p.demand[shape]) for p in self.pools if p.use == use)
        own = int(amount == JOBS) if use is None else next(used, 0)
        return own + self.task_amounts(amount)[shape]

    def option_amounts(self, amount: int) -> Ints:
        """Return what a job takes of an amount (limits.py) with each option, int64 (options,)."""
        options, use = self.options, use_of(amount)
        each = np.array(self.task_amounts(amount), dtype=np.int64)[options.group_shape]
        if use is None:
            return options.sum_over_tasks(each) + int(amount == JOBS)
        choices = [choice for c in self.classes for choice in c.choices]
        return np.array([dict(one.uses).get(use, 0) for one in choices], dtype=np.int64)

    def amounts_of(self, choice: Choice) -> dict[int, int]:
        """Return what all tasks of an option take, by resource (-1: milli-GPU)."""
        return {r: self.demand_of(choice, r) for r in range(-1, self.shape_demand.shape[1])}

    def shares_with_jobs(self, numbers: Sequence[int]) -> tuple[TenantShare, ...]:
        """Return `shares` with the most that more jobs, a number per class, could hold."""
        if not self.shares:
            return ()
        more = {
            t.tenant: dict.fromkeys(range(-1, self.shape_demand.shape[1]), 0) for t in self.shares
        }
        for job_class, number in zip(self.classes, numbers, strict=True):
            if number and job_class.tenant in more:
                mine = more[job_class.tenant]
                for r in mine:
                    most = max(self.demand_of(choice, r) for choice in job_class.choices)
                    mine[r] += number * most
        return tuple(t.plus(more[t.tenant]) for t in self.shares)

    def within_quota(
        self, left: Mapping[QuotaKey, int], accounts: tuple[int, ...], choice: Choice
    ) -> bool:
        """Whether one more job fits the rest of its quotas and caps, `left`."""
        keys = self.quota_keys.get(accounts, ())
        return all(self.demand_of(choice, key[1]) <= left[key] for key in keys)

    def charge_quota(
        self, left: dict[QuotaKey, int], accounts: tuple[int, ...], choice: Choice, times: int = 1
    ) -> None:
        """Charge `times` jobs to the rest of their quotas and caps, `left`; -1 releases one."""
        for key in self.quota_keys.get(accounts, ()):
            left[key] -= times * self.demand_of(choice, key[1])
