"""The objective terms of jobs and hosts, recomputed from round and plan."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from math import comb
from typing import TypeAlias

from placewright.instances.documents.job import Job
from placewright.instances.verify.reading import Placed, Reading
from placewright.instances.verify.rules.gang.places import are_joined
from placewright.instances.verify.rules.gang.waiting import Entitlement, start_value
from placewright.topology import GpuLinks
from placewright.topology.units import HOST_LEVEL, WHOLE_GPU

# The term `contention`: by how much the groups that cross links exceed their bandwidth.
#
# A group crosses the link of a domain if it has a task inside and one outside. Links between
# outermost domains do not count where the cluster has a WAN, nor do those of hosts with NICs.


Link: TypeAlias = tuple[str, str]
"""The level of a domain, and the domain's name."""


def contention(reading: Reading) -> int:
    """Return Mbit/s beyond the bandwidth of links, less those of the kept jobs alone.

    The load of a domain's link is the sum of `communication.rate_mbps` over the groups, of all jobs
    that run after the round, with a task in the domain and one outside.
    """
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
    total = 0
    for link, mbps in load.items():
        bandwidth = reading.cluster.uplink(*link)
        total += 0 if bandwidth is None else max(0, mbps - bandwidth)
    return total


def _crossed(reading: Reading, placed: Placed, number: int) -> set[Link]:
    """Return the links that a group of a job crosses."""
    hosts = [task.host for task in placed.tasks if task.task.group == number]
    crossed: set[Link] = set()
    for level, position in reading.cluster.levels.items():
        if position == 0 and reading.round.cluster.wan:
            continue
        names = {host.domains[position] for host in hosts}
        if len(names) < 2:
            continue
        if level == HOST_LEVEL:
            names -= {host.name for host in hosts if host.wiring and host.wiring.nic_rails}
        crossed |= {(level, name) for name in names}
    return crossed


# The term `gpu_links`: how well the GPUs of tasks are joined inside their hosts.


def gpu_links(reading: Reading) -> int:
    """Mbit/s of the tasks that ask for links, of all jobs that run after the round.

    Of a task that is the slowest link of the best ring through its GPUs, or the sum of all links
    between them, as its group measures it; 0 for a link that nobody knows.
    """
    total = 0
    known: dict[tuple[int, str, tuple[int, ...]], int] = {}
    for placed in reading.placed_tasks():
        asked, links = placed.group.gpu_links, placed.host.gpu_links
        if asked is not None and links is not None:
            key = id(links), asked.measure, tuple(sorted(set(placed.task.gpus)))
            if len(key[2]) < 2 or key[2][-1] >= links.gpus:
                continue
            if key not in known:
                known[key] = _joined_mbps(links, asked.measure, key[2])
            total += known[key]
    return total


def _joined_mbps(links: GpuLinks, measure: str, gpus: tuple[int, ...]) -> int:
    widths = {(a, b): links.mbps[a][b] for a in gpus for b in gpus if a != b}
    if measure == "pairs":
        return sum(widths.values()) // 2
    if links.is_uniform:
        return max(widths.values())
    # The widest threshold at which the remaining links still hold a ring.
    for width in sorted(set(widths.values()), reverse=True):
        joined = {frozenset(pair) for pair, mbps in widths.items() if mbps >= width}
        if width and are_joined(gpus, joined, "ring"):
            return width
    return 0


# A job that is kept counts in `remaining` and `gpu_links` only, and in the terms of promises and
# of jobs that take turns; `freed`, `opened` and `leftover` look at the hosts that it holds.


def worths(reading: Reading) -> Iterator[tuple[Job, int, int]]:
    """Yield the started jobs with option and value, and the preempted ones, less theirs.

    A resized job gains its new option, and loses the one that it ran.
    """
    for placed in reading.started:
        yield placed.job, placed.chosen, start_value(reading.round, placed.job, placed.chosen)
    for victim in reading.preempted:
        option = reading.running[victim.job.name].option
        yield victim.job, option, -victim.job.value_of(option)
    for placed in reading.migrated:
        if placed.resizes:
            option = reading.running[placed.job.name].option
            yield placed.job, placed.chosen, placed.job.value_of(placed.chosen)
            yield placed.job, option, -placed.job.value_of(option)


def progress(reading: Reading) -> int:
    """Sum of the started jobs' progress, less that of the preempted jobs.

    A resized job gains its new option's, times its `resize_factor` in thousandths, rounded down,
    and loses that of the option that it ran.
    """
    gained = sum(placed.option.progress for placed in reading.started)
    for placed in reading.migrated:
        if placed.resizes:
            name = placed.job.name
            gained += placed.option.progress * reading.running[name].resize_factor // 1000
            gained -= reading.option_run(name).progress
    return gained - sum(
        reading.option_run(victim.job.name).progress for victim in reading.preempted
    )


def entitled(reading: Reading) -> int:
    """`value` of the options alone that are covered by the guarantees of tenants."""
    of = Entitlement(reading.round).of
    return sum(worth for job, option, worth in worths(reading) if of(job, option).entitled)


def disruption(reading: Reading) -> int:
    """Stop costs of migrated and preempted jobs, and milli-GPU of their tasks that move or stop.

    Of a resized job what its new option costs, and the milli-GPU of its tasks but for the whole
    GPUs that it held already.

    Notes
    -----
    A stop costs what the round says, or the job's milli-GPU times the seconds of work that it loses
    plus those of its restart; and a new option as much as a migration, if the round says nothing.
    """
    total = 0
    for placed in reading.migrated:
        running = reading.running[placed.job.name]
        cost = running.migrate_cost
        if placed.resizes and running.resize_costs is not None:
            cost = running.resize_costs[placed.chosen]
        total += lost_work(reading, placed.job.name) if cost is None else cost
        total += sum(arrival.group.gpu for arrival in placed.arrivals)
        if placed.resizes:
            total -= WHOLE_GPU * _whole_gpus_kept(reading, placed)
    for victim in reading.preempted:
        cost = reading.running[victim.job.name].preempt_cost
        total += lost_work(reading, victim.job.name) if cost is None else cost
        total += reading.option_run(victim.job.name).milli_gpu
    return total


def _whole_gpus_kept(reading: Reading, placed: Placed) -> int:
    """Return how many GPUs a resized job had whole before, and has whole after the round."""
    groups = reading.option_run(placed.job.name).groups
    before = {
        (task.host, gpu)
        for task in reading.running[placed.job.name].tasks
        for gpu in task.gpus
        if groups[task.group].gpu >= WHOLE_GPU
    }
    after = {
        (task.host.name, gpu)
        for task in placed.tasks
        for gpu in task.task.gpus
        if task.group.gpu >= WHOLE_GPU
    }
    return len(before & after)


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
    """Milli-GPU times level weight times domains beyond the first, over groups and their levels.

    Of started and migrated jobs; levels are those that a group prefers, or all that have a weight:
    by default 1 for `rack` and 4 for `block`.
    """
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

    Where the cluster has a graph of switches it is the number of these on a shortest way.

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
        fabric, levels = reading.cluster.fabric, list(zip(*paths, strict=True))
        if fabric is not None:
            leaves, levels = Counter(levels[-2]), levels[-1:]
            total += sum(
                leaves[a] * leaves[b] * fabric.hops(a, b) for a, b in combinations(leaves, 2)
            )
        for domains in levels:
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
