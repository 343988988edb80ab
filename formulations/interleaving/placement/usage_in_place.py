"""Use of hosts by placed job groups, and whether a group with more members fits in its place."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

from placewright.formulations.interleaving.problem.allowed_hosts import HostMasks
from placewright.formulations.interleaving.problem.compile import Interleaving
from placewright.formulations.interleaving.problem.residual_capacity import amounts_held, quota_left
from placewright.formulations.plan_messages import Place
from placewright.instances.checks.round import hosts_by_name
from placewright.instances.derived.pools import pools_of, running_places
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

        Parameters
        ----------
        required
            The level of which all tasks of the option share one domain.
        option
            What it takes.
        places
            Where its tasks are, each of them.
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
