"""What hosts and pools have left in one state, and what fits there: first fit and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.policy import TaskKind
from placewright.instances.documents.pools import Pool
from placewright.instances.verify.reading import (
    HostFacts,
    Reading,
    demand,
    reserved_places,
    unavailable_hosts,
)
from placewright.instances.verify.rules.gang.limits import PoolDomain, Pools, Taken
from placewright.topology.units import WHOLE_GPU

# What pools have left in one state, and how many tasks may take from them there.


_ANY = np.iinfo(np.int64).max
"""Room for more tasks than there are."""


class PoolsLeft:
    """What each domain of each pool has left, first all that it has.

    Parameters
    ----------
    hosts
        All hosts, in the order of arrays by host.

    Attributes
    ----------
    pools : sequence of Pool
    of_host : sequence of int64 (hosts,)
        By pool the domain of each host, as an index in `names`.
    names : sequence of mapping of str to int
        By pool its domains; the whole cluster is None.
    left : sequence of int64 (domains,)
        By pool what each domain has left.
    limit : sequence of int64 (domains,)
        By pool what may be held of each domain.
    """

    def __init__(self, reading: Reading, hosts: Sequence[HostFacts]) -> None:
        self.pools: Sequence[Pool] = reading.round.cluster.pools
        self.of_host: list[Ints] = []
        self.names: list[dict[str | None, int]] = []
        self._facts = Pools(reading)
        for pool in self.pools:
            position = None if pool.level is None else reading.cluster.levels[pool.level]
            known: dict[str | None, int] = {}
            of_host = [
                known.setdefault(None if position is None else host.domains[position], len(known))
                for host in hosts
            ]
            self.of_host.append(np.array(of_host, dtype=np.int64))
            self.names.append(known)
        self.limit: list[Ints] = self._of_each(self._facts.capacity)
        self.left = [limit.copy() for limit in self.limit]

    def __bool__(self) -> bool:
        """Whether there are pools."""
        return bool(self.pools)

    def copy(self) -> PoolsLeft:
        """Return as much left, of its own."""
        other = copy(self)
        other.left = [left.copy() for left in self.left]
        return other

    def beside(self, held: Taken) -> None:
        """Leave of each domain what jobs that hold so much of it may still take."""
        self.limit = self._of_each(self._facts.limit)
        self.left = [limit.copy() for limit in self.limit]
        self.less(held)

    def less(self, taken: Taken) -> None:
        """Leave so much less of each domain."""
        for left, amounts in zip(self.left, self._of_each(lambda where: taken[where]), strict=True):
            left -= amounts

    def keep_least(self, other: PoolsLeft) -> None:
        """Leave only what another state has left, too."""
        self.left = [np.minimum(*pair) for pair in zip(self.left, other.left, strict=True)]

    def room(self, number: int, group: TaskGroup, option: Option) -> Ints:
        """Return how many tasks of a group may take from each domain of a pool, (domains,)."""
        pool, left = self.pools[number], self.left[number]
        if pool.per == "job":
            return np.where(left >= option.uses.get(pool.resource, 0), _ANY, 0)
        each = group.resources.get(pool.resource, 0)
        return left.clip(min=0) // each if each else np.full_like(left, _ANY)

    def clip(self, tasks: Ints, group: TaskGroup, option: Option) -> Ints:
        """Return numbers of tasks by host, (hosts,), lessened until no pool has too little.

        Hosts that come first keep more.
        """
        for number in self.asked(option):
            room, of_host = self.room(number, group, option), self.of_host[number]
            order = np.argsort(of_host, kind="stable")
            sums = np.cumsum(tasks[order])
            first = np.searchsorted(of_host[order], np.arange(len(room)))
            before_domain = np.concatenate(([0], sums))[first]
            before = np.empty_like(tasks)
            before[order] = sums - tasks[order] - before_domain[of_host[order]]
            tasks = np.clip(room[of_host] - before, 0, tasks)
        return tasks

    def take(self, number_on: Ints, group: TaskGroup) -> None:
        """Take what tasks of a group ask, of which there are so many on each host, (hosts,)."""
        for number, pool in enumerate(self.pools):
            if pool.per == "task" and (each := group.resources.get(pool.resource, 0)):
                np.subtract.at(self.left[number], self.of_host[number], number_on * each)

    def asked(self, option: Option) -> Iterator[int]:
        """Yield the pools of which an option takes something."""
        for number, pool in enumerate(self.pools):
            if asked(pool, option):
                yield number

    def _of_each(self, amount: Callable[[PoolDomain], int]) -> list[Ints]:
        """Return an amount of each domain, by pool."""
        return [
            np.array([amount((number, name)) for name in known], dtype=np.int64)
            for number, known in enumerate(self.names)
        ]


def asked(pool: Pool, option: Option) -> int:
    """Return what an option takes of a pool if it is all in one domain."""
    if pool.per == "job":
        return option.uses.get(pool.resource, 0)
    return sum(group.count * group.resources.get(pool.resource, 0) for group in option.groups)


# What hosts have left in one state, and what fits there: first fit and counts, of plain options.
#
# A first fit may miss places, but what it finds are some; counts are necessary. Slices, failure
# domains, numbers of hosts, labels, MIG and GPU memory are not looked at; pools are.


_MOST_DOMAINS = 64
"""Domains of a joint level that are tried."""


def is_plain(option: Option) -> bool:
    """Whether an option asks for nothing that is not looked at here."""
    return option.hosts is None and not any(
        one.slices
        or one.apart
        or one.num_hosts
        or one.mig
        or one.gpu_memory
        or (one.gpu_links is not None and one.gpu_links.is_required)
        for one in option.groups
    )


class FreeHosts:
    """What hosts have left, first all that they have.

    Attributes
    ----------
    gpus : int64 (hosts, most GPUs of one)
        Free milli-GPU, 0 where there is none.
    left : int64 (hosts, resources)
        What else is free.
    open : bool (hosts,)
        Whether tasks may arrive.
    pools : PoolsLeft
        What pools have left.
    """

    def __init__(self, reading: Reading) -> None:
        hosts: list[HostFacts] = list(reading.cluster.hosts.values())
        self.index = {host.name: i for i, host in enumerate(hosts)}
        self._levels = reading.cluster.levels
        self._of_host: dict[str, tuple[Ints, dict[str, int]]] = {}
        self._named = reading.named
        self._masks: dict[Hashable, Bools] = {}
        self._hosts = hosts
        number = np.array([host.hardware.gpus for host in hosts], dtype=np.int64)
        exists = np.arange(max(int(number.max(initial=0)), 1)) < number[:, None]
        self.gpus = np.where(exists, WHOLE_GPU, 0)
        names = dict.fromkeys(name for host in hosts for name in host.hardware.capacity)
        self._resources = {name: r for r, name in enumerate(names)}
        self.left = np.array(
            [[host.hardware.capacity.get(name, 0) for name in names] for host in hosts],
            dtype=np.int64,
        ).reshape(len(hosts), len(names))
        self.open = np.ones(len(hosts), dtype=np.bool_)
        self._rooms: dict[Hashable, Ints] = {}
        self.pools = PoolsLeft(reading, hosts)

    def copy(self) -> FreeHosts:
        """Return a state of its own with as much left."""
        other = copy(self)
        other.gpus, other.open, other.left = self.gpus.copy(), self.open.copy(), self.left.copy()
        other._rooms, other.pools = {}, self.pools.copy()
        return other

    def close(self, reading: Reading) -> None:
        """Let nothing arrive where nothing may."""
        self._rooms.clear()
        gone = reading.vacated | unavailable_hosts(reading)
        for i, host in enumerate(self._hosts):
            self.open[i] = host.healthy and host.name not in gone
        hosts, gpus = reserved_places(reading.round)
        self.open[[self.index[name] for name in hosts]] = False
        for name, some in gpus.items():
            self.gpus[self.index[name], list(some)] = 0

    def take(self, tasks: Iterable[tuple[Task, TaskGroup]], *, whole_slices: bool = True) -> None:
        """Take what tasks hold: of a GPU with MIG slices all, as nothing else is beside them."""
        self._rooms.clear()
        at: list[int] = []
        asked: list[int] = []
        gpus: list[tuple[int, int, int]] = []
        known: dict[int, int] = {}
        asks: list[Ints] = []
        for task, group in tasks:
            host = self.index[task.host]
            if id(group) not in known:
                known[id(group)] = len(asks)
                asks.append(self.asks(group))
            at.append(host)
            asked.append(known[id(group)])
            taken = WHOLE_GPU if group.mig and whole_slices else min(group.gpu, WHOLE_GPU)
            # What is not there other rules report.
            there = self._hosts[host].hardware.gpus
            gpus += [(host, gpu, taken) for gpu in task.gpus if gpu < there]
        if at:
            np.subtract.at(self.left, at, np.array(asks)[asked])
        if gpus:
            host_of, gpu_of, amounts = np.array(gpus, dtype=np.int64).T
            np.subtract.at(self.gpus, (host_of, gpu_of), amounts)

    def keep_least(self, other: FreeHosts) -> None:
        """Leave only what is free in another state, too."""
        self._rooms.clear()
        np.minimum(self.gpus, other.gpus, out=self.gpus)
        np.minimum(self.left, other.left, out=self.left)
        self.pools.keep_least(other.pools)

    def fits(self, option: Option) -> bool:
        """Whether a first fit places all groups of an option."""
        if option.required is None:
            return self._fit_within(option, self.open)
        of_host, names = self.domains(option.required)
        enough = np.ones(len(names), dtype=np.bool_)
        for group in option.groups:
            fitting = np.minimum(self.fitting(group), group.count)
            enough &= np.bincount(of_host, weights=fitting, minlength=len(names)) >= group.count
        return any(
            self._fit_within(option, self.open & (of_host == domain))
            for domain in np.flatnonzero(enough)[:_MOST_DOMAINS].tolist()
        )

    def lacks(self, option: Option) -> bool:
        """Whether some group of an option has too few places, even alone, or a pool too little."""
        return any(
            self.places(group, option.required) < group.count
            for group in option.groups
            if not (group.mig or group.gpu_memory)
        ) or any(self.lacks_of(option, number) for number in self.pools.asked(option))

    def lacks_of(self, option: Option, number: int) -> bool:
        """Whether a pool has too little for an option, even beside no other pool."""
        pool, left = self.pools.pools[number], self.pools.left[number].clip(min=0)
        if pool.per == "task" and asked(pool, option) > int(left.sum()):
            return True
        return any(
            self._places_in_pool(option, group, number) < group.count
            for group in option.groups
            if not (group.mig or group.gpu_memory)
        )

    def _places_in_pool(self, option: Option, group: TaskGroup, number: int) -> int:
        """Return how many tasks of a group fit hosts, where one pool has something left.

        Of a group that has to be in one domain of a level, that is the domain with most places.
        """
        fitting = np.minimum(self.fitting(group), group.count)
        room, of_pool = self.pools.room(number, group, option), self.pools.of_host[number]
        levels = [name for name in (option.required, group.required) if name is not None]
        of_host, num_domains = np.zeros_like(of_pool), 1
        if group.count > 1 and levels:
            of_host, names = self.domains(max(levels, key=lambda name: self._levels[name]))
            num_domains = len(names)
        both = of_host * len(room) + of_pool
        held = np.bincount(both, weights=fitting, minlength=num_domains * len(room))
        places = np.minimum(held.reshape(num_domains, len(room)), room).sum(axis=1)
        return min(int(places.max(initial=0)), group.count)

    def places(self, group: TaskGroup, joint: str | None, domain: str | None = None) -> int:
        """Return how many tasks of a group fit one domain, the given or the best one."""
        fitting = np.minimum(self.fitting(group), group.count)
        levels = [name for name in (joint, group.required) if name is not None]
        if group.count == 1 or not levels:
            return min(int(fitting.sum()), group.count)
        of_host, names = self.domains(max(levels, key=lambda name: self._levels[name]))
        held = np.bincount(of_host, weights=fitting, minlength=len(names))
        if domain is None:
            return min(int(held.max(initial=0)), group.count)
        return min(int(held[names[domain]]), group.count) if domain in names else 0

    def free(self, group: TaskGroup, resource: str, hosts: Bools) -> int:
        """Return what hosts have left of a resource for a group; of GPUs whole ones, if it asks."""
        if resource != "gpu":
            column = self.left[hosts, self._resources[resource]]
            return int(column.clip(min=0).sum())
        gpus = self.gpus[hosts].clip(min=0)
        return int(gpus[gpus == WHOLE_GPU].sum() if group.gpu >= WHOLE_GPU else gpus.sum())

    def largest_gpu(self, host: int) -> int:
        """Return the free milli-GPU of the GPU of a host that has most."""
        return int(self.gpus[host].max(initial=0))

    def has(self, resource: str) -> bool:
        """Whether some host has a resource at all."""
        return resource == "gpu" or resource in self._resources

    def usable(self, gpus: Ints, kind: TaskType) -> int:
        """Return how much of some free milli-GPU (hosts, GPUs) a task type can use."""
        if not kind.gpu or any(name not in self._resources for name, _ in kind.wanted):
            return 0
        large = gpus >= min(kind.gpu, WHOLE_GPU)
        fits = large.sum(axis=1) >= -(-kind.gpu // WHOLE_GPU)
        for name, amount in kind.wanted:
            fits &= self.left[:, self._resources[name]] >= amount
        if kind.models is not None:
            fits &= np.array([host.hardware.gpu_model in kind.models for host in self._hosts])
        return int(gpus[fits][large[fits]].sum())

    def inside(self, level: str, domain: str) -> Bools:
        """Return which hosts are in a domain, none if there is no such level or domain."""
        if level not in self._levels:
            return np.zeros_like(self.open)
        of_host, names = self.domains(level)
        there: Bools = of_host == names.get(domain, -1)
        return there

    def allowed(self, group: TaskGroup) -> Bools:
        """Return the open hosts of the models and names that a group allows."""
        if any(amount for name, amount in demand(group) if name not in self._resources):
            return np.zeros_like(self.open)
        key = group.gpu_models, self._named.key(group)
        if key not in self._masks:
            self._masks[key] = self._mask(group)
        return self.open & self._masks[key]

    def _mask(self, group: TaskGroup) -> Bools:
        mask = np.ones_like(self.open)
        if group.gpu_models is not None:
            models = set(group.gpu_models)
            mask &= np.array([host.hardware.gpu_model in models for host in self._hosts])
        return mask & self._named.mask(group)

    def fitting(self, group: TaskGroup, free: Ints | None = None, gpus: Ints | None = None) -> Ints:
        """Return how many tasks of a group each host takes, of all that is left or of a part."""
        if free is not None and gpus is not None:
            return np.where(self.allowed(group), self._room(group, free, gpus), 0)
        key = group.gpu, demand(group), group.count if group.gpu == 0 else 1
        if key not in self._rooms:
            self._rooms[key] = self._room(group, self.left, self.gpus)
        return np.where(self.allowed(group), self._rooms[key], 0)

    def _room(self, group: TaskGroup, free: Ints, gpus: Ints) -> Ints:
        """Return how many tasks of a group each host has room for, whether it is allowed or not."""
        room: Ints
        if group.gpu >= WHOLE_GPU:
            room = (gpus >= WHOLE_GPU).sum(axis=1) // (group.gpu // WHOLE_GPU)
        elif group.gpu:
            room = (gpus.clip(min=0) // group.gpu).sum(axis=1)
        else:
            room = np.full(len(gpus), group.count)
        asks = self.asks(group)
        for r in np.flatnonzero(asks).tolist():
            room = np.minimum(room, free[:, r].clip(min=0) // asks[r])
        return room

    def domains(self, level: str) -> tuple[Ints, dict[str, int]]:
        """Return the number of the domain of each host at a level, and their numbers by name."""
        if level not in self._of_host:
            at = self._levels[level]
            known: dict[str, int] = {}
            of_host = [known.setdefault(host.domains[at], len(known)) for host in self._hosts]
            self._of_host[level] = np.array(of_host, dtype=np.int64), known
        return self._of_host[level]

    def _fit_within(self, option: Option, hosts: Bools) -> bool:
        free, gpus, pools = self.left.copy(), self.gpus.copy(), self.pools.copy()
        for group in sorted(option.groups, key=lambda g: -g.gpu):
            fitting = np.where(hosts, np.minimum(self.fitting(group, free, gpus), group.count), 0)
            within = [np.ones_like(hosts)]
            if group.required is not None and group.count > 1:
                of_host, names = self.domains(group.required)
                held = np.bincount(of_host, weights=fitting, minlength=len(names))
                most = np.argsort(-held, kind="stable")[: _MOST_DOMAINS if pools else 1].tolist()
                within = [of_host == domain for domain in most if held[domain] >= group.count]
            inside = (pools.clip(np.where(one, fitting, 0), group, option) for one in within)
            found = next((one for one in inside if one.sum() >= group.count), None)
            if found is None:
                return False
            fitting = found
            before = np.cumsum(fitting) - fitting
            number_on = np.clip(group.count - before, 0, fitting)
            free -= number_on[:, None] * self.asks(group)
            pools.take(number_on, group)
            _occupy(gpus, number_on, group)
        return True

    def asks(self, group: TaskGroup) -> Ints:
        """Return what a task of a group asks besides GPUs, of what some host has (resources,)."""
        asks = np.zeros(len(self._resources), dtype=np.int64)
        for name, amount in demand(group):
            if name in self._resources:
                asks[self._resources[name]] = amount
        return asks


def _occupy(gpus: Ints, number: Ints, group: TaskGroup) -> None:
    """Take the GPUs of the given number of tasks on each host: the first GPUs that fit."""
    for host in np.flatnonzero(number).tolist() if group.gpu else ():
        for _ in range(int(number[host])):
            each = min(group.gpu, WHOLE_GPU)
            chosen = np.flatnonzero(gpus[host] >= each)[: max(group.gpu // WHOLE_GPU, 1)]
            gpus[host, chosen] -= each


# The term `stranded`: free GPUs that the tasks to be expected cannot use.
#
# Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
# Gradient Descent", USENIX ATC 2023, section 4; here with memory and other resources besides CPU.


class TaskType(NamedTuple):
    """A task type of the mix: milli-GPU, other resources by name, GPU models (None: any)."""

    gpu: int
    wanted: tuple[tuple[str, int], ...]
    models: frozenset[str] | None


def stranded(reading: Reading) -> int:
    """Free milli-GPU that task types cannot use, weighted by their frequency.

    Sum over the hosts where tasks may arrive and over the kinds of the mix of the kind's weight
    times: the free milli-GPU of the host's GPUs that each have less free than a task of the kind
    takes of one, if the host has room for such a task; all free milli-GPU of the host, if it has
    not, or if the kind takes no GPU. Reserved GPUs have nothing free, and what is free of a GPU
    with MIG slices is of use to no kind.
    """
    state = FreeHosts(reading)
    tasks = list(reading.placed_tasks())
    state.take(((placed.task, placed.group) for placed in tasks), whole_slices=False)
    state.close(reading)
    gpus = np.where(state.open[:, None], state.gpus.clip(min=0), 0)
    usable = gpus.copy()
    for placed in tasks if reading.sliced else ():
        if placed.group.mig is not None:
            there = [gpu for gpu in placed.task.gpus if gpu < placed.host.hardware.gpus]
            usable[state.index[placed.host.name], there] = 0
    every, kinds = int(gpus.sum()), _task_types(reading)
    return sum(weight * (every - state.usable(usable, kind)) for kind, weight in kinds.items())


def _task_types(reading: Reading) -> Counter[TaskType]:
    """Weights of the task types of the mix; without any those of all jobs, except MIG slices."""
    kinds: Counter[TaskType] = Counter()
    for kind, weight in _mix(reading):
        wanted = demand(kind) if isinstance(kind, TaskGroup) else _demand(kind)
        models = None if kind.gpu_models is None else frozenset(kind.gpu_models)
        kinds[TaskType(kind.gpu, tuple(w for w in wanted if w[1]), models)] += weight
    return kinds


def _demand(kind: TaskKind) -> tuple[tuple[str, int], ...]:
    return ("cpu", kind.cpu), ("memory", kind.memory)


def _mix(reading: Reading) -> Iterator[tuple[TaskKind | TaskGroup, int]]:
    if reading.round.policy.mix is not None:
        yield from ((kind, kind.weight) for kind in reading.round.policy.mix)
        return
    for job in reading.round.jobs:
        option = job.options[0 if job.running is None else job.running.option]
        yield from ((group, group.count) for group in option.groups if group.mig is None)
