"""The objective terms of jobs and hosts, recomputed from round and plan."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from math import comb
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.policy import TaskKind
from placewright.instances.verify.reading import Placed, Reading, demand
from placewright.instances.verify.rules.gang.waiting import Entitlement, start_value
from placewright.topology.units import HOST_LEVEL, WHOLE_GPU

# The term `contention`: by how much the groups that cross links exceed their bandwidth.
#
# A group crosses the link of a domain if it has a task inside and one outside. Links between
# outermost domains do not count where the cluster has a WAN, nor do those of hosts with NICs.


Link: TypeAlias = tuple[int, str]
"""The level of a domain, by its position, and the domain's name."""


def contention(reading: Reading) -> int:
    """Return Mbit/s beyond the bandwidth of links, less those of the kept jobs alone."""
    return _excess(reading, reading.placed) - _excess(reading, reading.kept)


def _excess(reading: Reading, jobs: Iterable[Placed]) -> int:
    """Return the load of some jobs beyond the bandwidth, summed over all links."""
    load: defaultdict[Link, int] = defaultdict(int)
    for placed in jobs:
        for number, group in enumerate(placed.option.groups):
            rate = group.communication.rate_mbps if group.communication is not None else None
            if rate:
                for link in _crossed(reading, placed, number):
                    load[link] += rate
    width = {
        reading.cluster.levels[level]: entry.bandwidth_mbps
        for level, entry in reading.round.cluster.links.items()
    }
    return sum(max(0, mbps - width[level]) for (level, _), mbps in load.items())


def _crossed(reading: Reading, placed: Placed, number: int) -> set[Link]:
    """Return the links that a group of a job crosses."""
    hosts = [task.host for task in placed.tasks if task.task.group == number]
    crossed: set[Link] = set()
    for level in reading.round.cluster.links:
        position = reading.cluster.levels[level]
        if position == 0 and reading.round.cluster.wan:
            continue
        names = {host.domains[position] for host in hosts}
        if len(names) < 2:
            continue
        if level == HOST_LEVEL:
            names -= {host.name for host in hosts if host.wiring and host.wiring.nic_rails}
        crossed |= {(position, name) for name in names}
    return crossed


# The term `stranded`: free GPUs that the tasks to be expected cannot use.
#
# Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
# Gradient Descent", USENIX ATC 2023, section 4; here with memory and other resources besides CPU.


class TaskType(NamedTuple):
    """A task type of the mix: milli-GPU, other resources by name, GPU models (None: any)."""

    gpu: int
    wanted: tuple[tuple[str, int], ...]
    models: frozenset[str] | None


class FreeHosts(NamedTuple):
    """The hosts where tasks may arrive, after the round.

    `models` are their GPU models, `left` what each has left of a resource, `gpus` what each of its
    GPUs has left in milli-GPU (hosts, GPUs); `cut` says which of these hold MIG slices.
    """

    models: NDArray[np.str_]
    left: dict[str, Ints]
    gpus: Ints
    cut: NDArray[np.bool_]


def stranded(reading: Reading) -> int:
    """Free milli-GPU that task types cannot use, weighted by their frequency.

    Sum over the hosts where tasks may arrive and over the kinds of the mix of the kind's weight
    times: the free milli-GPU of the host's GPUs that each have less free than a task of the kind
    takes of one, if the host has room for such a task; all free milli-GPU of the host, if it has
    not, or if the kind takes no GPU. Reserved GPUs have nothing free, and what is free of a GPU
    with MIG slices is of use to no kind.
    """
    free = _free(reading)
    kinds = _task_types(reading)
    every = int(free.gpus.sum())
    return sum(weight * (every - _usable(free, kind)) for kind, weight in kinds.items())


def _usable(free: FreeHosts, kind: TaskType) -> int:
    """Free milli-GPU that a task type can use, on all hosts."""
    if not kind.gpu:
        return 0
    large = (free.gpus >= min(kind.gpu, WHOLE_GPU)) & ~free.cut
    fits = large.sum(axis=1) >= -(-kind.gpu // WHOLE_GPU)
    for name, amount in kind.wanted:
        fits &= free.left.get(name, np.zeros(len(fits), dtype=np.int64)) >= amount
    if kind.models is not None:
        fits &= np.isin(free.models, list(kind.models))
    return int(free.gpus[fits][large[fits]].sum())


def _task_types(reading: Reading) -> Counter[TaskType]:
    """Weights of the task types of the mix."""
    kinds: Counter[TaskType] = Counter()
    for kind, weight in _mix(reading):
        wanted = demand(kind) if isinstance(kind, TaskGroup) else _demand(kind)
        models = None if kind.gpu_models is None else frozenset(kind.gpu_models)
        kinds[TaskType(kind.gpu, tuple(w for w in wanted if w[1]), models)] += weight
    return kinds


def _demand(kind: TaskKind) -> tuple[tuple[str, int], ...]:
    return ("cpu", kind.cpu), ("memory", kind.memory)


def _mix(reading: Reading) -> Iterator[tuple[TaskKind | TaskGroup, int]]:
    """Yield the task types of the policy; without any those of all jobs, except for MIG slices."""
    if reading.round.policy.mix is not None:
        yield from ((kind, kind.weight) for kind in reading.round.policy.mix)
        return
    for job in reading.round.jobs:
        option = job.options[0 if job.running is None else job.running.option]
        yield from ((group, group.count) for group in option.groups if group.mig is None)


def _free(reading: Reading) -> FreeHosts:
    """Return what the tasks of the plan leave on the hosts where tasks may arrive."""
    hosts = reading.cluster.hosts
    at = {name: i for i, name in enumerate(hosts)}
    names = sorted({name for host in hosts.values() for name in host.hardware.capacity})
    left = np.array(
        [[host.hardware.capacity.get(name, 0) for name in names] for host in hosts.values()],
        dtype=np.int64,
    ).reshape(len(hosts), len(names))
    counts = np.array([host.hardware.gpus for host in hosts.values()], dtype=np.int64)
    most = int(counts.max(initial=0))
    gpus = np.where(np.arange(most) < counts[:, None], WHOLE_GPU, 0)
    tasks = list(reading.placed_tasks())
    # Equal tasks mostly share their group.
    groups = {id(task.group): task.group for task in tasks}
    row = {key: i for i, key in enumerate(groups)}
    asked = [dict(demand(group)) for group in groups.values()]
    table = np.array(
        [[wanted.get(name, 0) for name in names] for wanted in asked], dtype=np.int64
    ).reshape(len(asked), len(names))
    mine = np.array([at[task.host.name] for task in tasks], dtype=np.int64)
    np.subtract.at(left, mine, table[[row[id(task.group)] for task in tasks]])
    number = np.array([len(task.task.gpus) for task in tasks], dtype=np.int64)
    host = np.repeat(mine, number)
    gpu = np.array(list(chain.from_iterable(t.task.gpus for t in tasks)), dtype=np.int64)
    milli = np.repeat(np.array([t.milli_per_gpu for t in tasks], dtype=np.int64), number)
    known = gpu < counts[host]
    np.subtract.at(gpus, (host[known], gpu[known]), milli[known])
    slices = np.repeat(np.array([t.group.mig is not None for t in tasks], dtype=np.bool_), number)
    cut = np.zeros(gpus.shape, dtype=np.bool_)
    cut[host[known & slices], gpu[known & slices]] = True
    closed = set(reading.vacated)
    for entry in reading.round.reservations:
        for name in expand(entry.host):
            if entry.gpus is None:
                closed.add(name)
            else:
                gpus[at[name], list(entry.gpus)] = 0
    open_ = [i for i, (name, one) in enumerate(hosts.items()) if one.healthy and name not in closed]
    models = np.array([host.hardware.gpu_model or "" for host in hosts.values()], dtype=np.str_)
    return FreeHosts(
        models[open_],
        {name: left[open_, r] for r, name in enumerate(names)},
        np.maximum(gpus[open_], 0),
        cut[open_],
    )


# A job that is kept counts in `remaining` only, and in the terms of promises and of jobs that take
# turns; `freed`, `opened` and `leftover` look at the hosts that it holds.


def worths(reading: Reading) -> Iterator[tuple[Job, int, int]]:
    """Yield the started jobs with option and value, and the preempted ones, less theirs."""
    for placed in reading.started:
        yield placed.job, placed.chosen, start_value(reading.round, placed.job, placed.chosen)
    for victim in reading.preempted:
        option = reading.running[victim.job.name].option
        yield victim.job, option, -victim.job.value_of(option)


def progress(reading: Reading) -> int:
    """Sum of the started jobs' progress, less that of the preempted jobs."""
    gained = sum(placed.option.progress for placed in reading.started)
    return gained - sum(
        reading.option_run(victim.job.name).progress for victim in reading.preempted
    )


def entitled(reading: Reading) -> int:
    """`value` of the options alone that are covered by the guarantees of tenants."""
    of = Entitlement(reading.round).of
    return sum(worth for job, option, worth in worths(reading) if of(job, option).entitled)


def disruption(reading: Reading) -> int:
    """Stop costs of migrated and preempted jobs, and milli-GPU of their tasks that move or stop.

    Notes
    -----
    A stop costs what the round says, or the job's milli-GPU times the seconds of work that it loses
    plus those of its restart.
    """
    total = 0
    for placed in reading.migrated:
        cost = reading.running[placed.job.name].migrate_cost
        total += lost_work(reading, placed.job.name) if cost is None else cost
        total += sum(arrival.group.gpu for arrival in placed.arrivals)
    for victim in reading.preempted:
        cost = reading.running[victim.job.name].preempt_cost
        total += lost_work(reading, victim.job.name) if cost is None else cost
        total += reading.option_run(victim.job.name).milli_gpu
    return total


def remaining(reading: Reading) -> int:
    """Milli-GPU of the tasks that are on hosts to vacate after the round."""
    return sum(
        placed.group.gpu for placed in reading.placed_tasks() if placed.host.name in reading.vacated
    )


def freed(reading: Reading) -> int:
    """Worth of the domains that become empty, less that of those filled, less `disruption`.

    Notes
    -----
    A domain is worth its GPUs in milli-GPU times `gpu_worth_s`; without `freeing` none is.
    """
    total = -disruption(reading)
    freeing = reading.round.policy.freeing
    if freeing is None:
        return total
    hosts, position = reading.cluster.hosts, reading.cluster.levels[freeing.level]
    before = {hosts[name].domains[position] for name in reading.busy()}
    after = {placed.host.domains[position] for placed in reading.placed_tasks()}
    for host in hosts.values():
        domain = host.domains[position]
        emptied = (domain in before) - (domain in after)
        total += emptied * host.hardware.gpus * WHOLE_GPU * freeing.gpu_worth_s
    return total


def spread(reading: Reading) -> int:
    """Milli-GPU times level weight times domains beyond the first, over groups and their levels."""
    weights = reading.round.spread_weights()
    total = 0
    for placed in reading.placed_anew:
        hosts: defaultdict[int, list[tuple[str, ...]]] = defaultdict(list)
        for task in placed.tasks:
            hosts[task.task.group].append(task.host.domains)
        for number, paths in hosts.items():
            if len(paths) == 1:
                continue
            group = placed.option.groups[number]
            wanted = weights if group.preferred is None else set(group.preferred) & set(weights)
            for level in wanted:
                position = reading.cluster.levels[level]
                extra = len({domains[position] for domains in paths}) - 1
                total += group.milli_gpu * weights[level] * extra
    return total


def proximity(reading: Reading) -> int:
    """Height of the lowest common ancestor, summed over each job's unordered pairs of tasks.

    0 on one host, 1 in one domain of the innermost level, and so on; without a common domain one
    more than there are levels above the host.

    Notes
    -----
    A pair's height is the number of levels, the host's included, at which its domains differ.
    """
    total = 0
    for placed in reading.placed_anew:
        tasks = len(placed.tasks)
        if tasks < 2:
            continue
        paths = [placed_task.host.domains for placed_task in placed.tasks]
        for domains in zip(*paths, strict=True):
            total += comb(tasks, 2) - sum(comb(n, 2) for n in Counter(domains).values())
    return total


def opened(reading: Reading) -> int:
    """Hosts without a running task before the round on which a task arrives."""
    return len({arrival.host.name for arrival in reading.arrivals()} - reading.busy())


def leftover(reading: Reading) -> int:
    """Milli-GPU free after the round on the hosts on which a task arrives."""
    hosts = {arrival.host.name: arrival.host for arrival in reading.arrivals()}
    used = sum(placed.group.gpu for placed in reading.placed_tasks() if placed.host.name in hosts)
    return sum(host.hardware.gpus * WHOLE_GPU for host in hosts.values()) - used


def lost_work(reading: Reading, job: str) -> int:
    """Return the work that a running job loses if it stops, in milli-GPU-seconds.

    It is what it did since its checkpoint, without one since it started, and nothing where neither
    is known; and its restart.
    """
    running, lost = reading.running[job], 0
    if running.checkpoint is not None:
        lost = reading.round.now - running.checkpoint
    elif running.started is not None:
        lost = reading.round.now - running.started
    return reading.option_run(job).milli_gpu * (lost + running.restart_s)


PLACEMENT_TERMS: Mapping[str, Callable[[Reading], int]] = {
    "disruption": disruption,
    "spread": spread,
    "proximity": proximity,
    "opened": opened,
}
"""Terms that every policy has which places jobs."""
