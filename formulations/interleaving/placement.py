"""Where running groups are, what they take of hosts, and which new groups keep their places."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from placewright.formulations.gang.problem.limits import NOTHING, Disruption, DisruptionBudget, Stop
from placewright.formulations.interleaving.problem.capacity import (
    HostMasks,
    amounts_held,
    quota_left,
)
from placewright.formulations.interleaving.problem.compile import Interleaving, merged_option
from placewright.formulations.plan_messages import Candidate, Group, Place
from placewright.instances.checks.round import hosts_by_name
from placewright.instances.derived.arrays import pools_of, running_places
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.topology import Cluster


def running_of(job: Job) -> Running:
    """Return the running section of a job that runs."""
    if job.running is None:
        raise AssertionError(f"job {job.name} does not run; expected one that does")
    return job.running


def places_of(problem: Interleaving, job: int) -> tuple[Place, ...]:
    """Return the task places of a running job."""
    index = problem.cluster.host_index
    tasks = running_of(problem.round.jobs[job]).tasks
    return tuple((t.group, t.index, index[t.host], tuple(t.gpus)) for t in tasks)


def within_quotas(
    problem: Interleaving,
    starts: Mapping[int, tuple[int, tuple[Place, ...]]],
    preempted: Collection[int],
) -> bool:
    """Whether no quota or cap holds more than it may, or than it held before, after a plan."""
    left = quota_left(problem.round, ())
    for j, job in enumerate(problem.round.jobs) if left else ():
        option = starts[j][0] if j in starts else None
        if job.running is not None:
            option = None if j in preempted else job.running.option
        if option is None:
            continue
        for key, amount in amounts_held(job, option, left).items():
            left[key] -= amount
    return all(amount >= 0 for amount in left.values())


class HostUsage:
    """Use of hosts, and of pools around them, by placed job groups, GPUs aside."""

    def __init__(self, problem: Interleaving) -> None:
        self._cluster, self._opened = problem.cluster, problem.open_hosts
        by_name = hosts_by_name(problem.round.cluster)
        self._hosts = [by_name[name] for name in problem.cluster.hosts]
        self._usage: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._pools = _Pools(problem)
        self._masks = HostMasks(problem.cluster, problem.round.host_sets)

    def add(self, option: Option, places: Sequence[Place], times: int = 1) -> None:
        """Add the use of an option in its places; with -1 remove it."""
        for host, name, amount in _amounts(option.groups, places):
            self._usage[host, name] += times * amount
        self._pools.add(option, places, times)

    def admits(self, required: str | None, option: Option, places: Sequence[Place]) -> bool:
        """Whether an option may arrive, and fits, in places whose GPUs it may have.

        A running job may be where its option would not let it arrive.
        `required`: the level of which all tasks of the option share one domain. `option`: what it
        takes. `places`: where its tasks are, each of them.
        """
        groups = option.groups
        if not _satisfies_topology(self._cluster, required, option, places):
            return False
        for number, _, host, gpus in places:
            group, has = groups[number], self._hosts[host].gpu_memory
            if group.gpu_memory and (has is None or group.gpu_memory > has):
                return False
            name = self._cluster.hosts[host]
            if not (self._masks.of(group)[host] and all(self._opened(name, gpu) for gpu in gpus)):
                return False
        more: defaultdict[tuple[int, str], int] = defaultdict(int)
        for host, name, amount in _amounts(groups, places):
            more[host, name] += amount
        return self._pools.admit(option, places) and all(
            self._usage[host, name] + amount <= self._hosts[host].capacity.get(name, 0)
            for (host, name), amount in more.items()
        )


class _Pools:
    """Use of pool domains by placed job groups, beside what they may hold."""

    def __init__(self, problem: Interleaving) -> None:
        self._pools = pools_of(problem.round, problem.cluster)
        running = running_places(problem.round.jobs if self._pools else (), problem.cluster)
        self._left = [pool.limit(running) for pool in self._pools]

    def add(self, option: Option, places: Sequence[Place], times: int) -> None:
        """Charge an option in its places; with -1 release it."""
        for pool, left in zip(self._pools, self._left, strict=True):
            for d, amount in pool.taken(option, [(g, host) for g, _, host, _ in places]).items():
                left[d] -= times * amount

    def admit(self, option: Option, places: Sequence[Place]) -> bool:
        """Whether all pools have what an option takes in some places."""
        return all(
            left[d] >= amount
            for pool, left in zip(self._pools, self._left, strict=True)
            for d, amount in pool.taken(option, [(g, host) for g, _, host, _ in places]).items()
        )


def _satisfies_topology(
    cluster: Cluster,
    required: str | None,
    option: Option,
    places: Sequence[Place],
) -> bool:
    """Whether places satisfy the topology constraints of an arriving option.

    Per option, group and slice the tasks share a domain, groups keep their tasks `apart`, and all
    are on as many hosts as they may be.
    """
    groups = option.groups
    for k, asked in (*enumerate(group.num_hosts for group in groups), (None, option.hosts)):
        number = len({host for g, _, host, _ in places if k in (None, g)})
        if asked is not None and not asked.min <= number <= (asked.max or number):
            return False
    shared: dict[Hashable, int] = {}
    tasks_in_domain: Counter[tuple[int, int]] = Counter()
    for number, index, host, _ in places:
        group, slices = groups[number], groups[number].slices
        joint: list[tuple[Hashable, str | None]] = [((), required), (number, group.required)]
        if slices is not None:
            joint.append(((number, index // slices.size), slices.required))
        for key, level in joint:
            if level is not None:
                domain = _domain(cluster, level, host)
                if shared.setdefault(key, domain) != domain:
                    return False
        if group.apart is not None:
            part = number, _domain(cluster, group.apart.level, host)
            tasks_in_domain[part] += 1
            if tasks_in_domain[part] > group.apart.most:
                return False
    return True


def _domain(cluster: Cluster, level: str, host: int) -> int:
    return int(cluster.domain[cluster.level_index(level), host])


def _amounts(
    groups: Sequence[TaskGroup], places: Sequence[Place]
) -> Iterator[tuple[int, str, int]]:
    for number, _, host, _ in places:
        group = groups[number]
        for name, amount in (("cpu", group.cpu), ("memory", group.memory)):
            if amount:
                yield host, name, amount
        for name, amount in group.resources.items():
            if amount:
                yield host, name, amount


def keep_places(problem: Interleaving, job_groups: Sequence[Group]) -> list[int | None]:
    """Return for each job group its anchor, a running member whose place it keeps; or None.

    Where most would be lost by moving comes first. A job group that others join stays only where
    they may arrive, and where all its members fit beside those who stay elsewhere.
    """
    anchors: list[int | None] = [None] * len(job_groups)
    kept: set[int] = set()
    for _, group_number, running_job in sorted(_claims(problem, job_groups)):
        place = problem.colocated[running_job][0]
        if anchors[group_number] is None and place not in kept:
            anchors[group_number] = running_job
            kept.add(place)
    usage = HostUsage(problem)
    for j in problem.stays:
        if problem.colocated[j][0] == j:
            usage.add(_option(problem, problem.colocated[j]), places_of(problem, j))
    for number, member in enumerate(anchors):
        if member is not None:
            in_place = members_in_place(problem, job_groups[number], member)
            usage.add(_option(problem, in_place), places_of(problem, member))
    for number, member in enumerate(anchors):
        if member is None or set(job_groups[number].members) <= set(problem.colocated[member]):
            continue
        places = places_of(problem, member)
        usage.add(
            _option(problem, members_in_place(problem, job_groups[number], member)), places, -1
        )
        after = _option(problem, job_groups[number].members)
        required = problem.round.jobs[member].options[0].required
        if usage.admits(required, after, places):
            usage.add(after, places)
        else:
            anchors[number] = None
    return anchors


def members_in_place(problem: Interleaving, job_group: Group, member: int) -> tuple[int, ...]:
    """Return the members of a job group that run where this one does."""
    in_place = problem.colocated[member]
    return tuple(j for j in job_group.members if j in in_place)


def stop_cost(problem: Interleaving, job: Job, given: int | None) -> int:
    """Return the milli-GPU-seconds lost by stopping a running job; `given` overrides them."""
    if given is not None:
        return given
    running = running_of(job)
    lost_s = running.unsaved_s(problem.round.now) + running.restart_s
    return job.options[running.option].milli_gpu * lost_s


def _claims(problem: Interleaving, job_groups: Sequence[Group]) -> Iterator[tuple[int, int, int]]:
    """Yield the negative loss of a job group by leaving a place, the group, a member there."""
    for number, job_group in enumerate(job_groups):
        cost: defaultdict[int, int] = defaultdict(int)
        for j in job_group.members:
            if j in problem.colocated:
                job = problem.round.jobs[j]
                moved = job.options[running_of(job).option].milli_gpu
                lost = stop_cost(problem, job, running_of(job).migrate_cost)
                cost[problem.colocated[j][0]] += moved + lost
        for place, lost in cost.items():
            first = next(j for j in job_group.members if j in problem.colocated[place])
            yield -lost, number, first


def _option(problem: Interleaving, members: Sequence[int]) -> Option:
    return merged_option([problem.round.jobs[j] for j in members], problem.sharing)


# Disruption budget of job groups: what a group counts with when it stops or moves as one gang.
#
# Members that run elsewhere migrate wherever their group goes; those in the group's place stop or
# migrate with it.


def budget_of_groups(
    problem: Interleaving, job_groups: Sequence[Group], anchors: Sequence[int | None]
) -> DisruptionBudget | None:
    """Return what the members that have to move leave of the budget, with groups in place of jobs.

    None without a budget.
    """
    budget = DisruptionBudget.of(problem.round)
    if budget is None:
        return None
    stops: dict[int, Stop] = {}
    for number, (job_group, anchor) in enumerate(zip(job_groups, anchors, strict=True)):
        mine = [] if anchor is None else members_in_place(problem, job_group, anchor)
        counted = [budget.stops[j] for j in mine if j in budget.stops]
        if counted:
            stops[number] = Stop(
                _total(stop.preempted for stop in counted),
                _total(stop.migrated for stop in counted),
                any(stop.protected for stop in counted),
            )
    moving = [j for mine in moving_members(problem, job_groups, anchors).values() for j in mine]
    return replace(budget.after(budget.used((), moving)), stops=stops)


def moving_members(
    problem: Interleaving, job_groups: Sequence[Group], anchors: Sequence[int | None]
) -> Mapping[int, list[int]]:
    """Return, by group, the running members that are not in its place, of groups that have some."""
    found: dict[int, list[int]] = {}
    for number, (job_group, anchor) in enumerate(zip(job_groups, anchors, strict=True)):
        here = () if anchor is None else members_in_place(problem, job_group, anchor)
        mine = [j for j in job_group.members if j in problem.colocated and j not in here]
        if mine:
            found[number] = mine
    return found


def is_within_budget(problem: Interleaving, plan: Candidate) -> bool:
    """Whether a plan of the round is within its disruption budget, if it has one."""
    budget = DisruptionBudget.of(problem.round)
    moved = [j for j in plan.starts if problem.round.jobs[j].running is not None]
    return budget is None or budget.allows(plan.preempted, moved)


def groups_beyond_budget(
    problem: Interleaving, job_groups: Sequence[Group], anchors: Sequence[int | None]
) -> set[int]:
    """Return the groups, those with most members to move first, that the budget does not allow."""
    budget = DisruptionBudget.of(problem.round)
    if budget is None:
        return set()
    moving = moving_members(problem, job_groups, anchors)
    left = {j for mine in moving.values() for j in mine}
    beyond: set[int] = set()
    for number, mine in sorted(moving.items(), key=lambda item: (-len(item[1]), item[0])):
        if budget.allows((), left):
            break
        beyond.add(number)
        left.difference_update(mine)
    return beyond


def _total(uses: Iterable[Disruption]) -> Disruption:
    total = NOTHING
    for use in uses:
        total = total.plus(use)
    return total
