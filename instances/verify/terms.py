"""The objective terms, recomputed from round and plan.

Kept jobs count in none of them, since their decision is not free; only `leftover` and `opened`
look at what they hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from math import comb
from typing import Literal, NamedTuple

from placewright.instances.documents import WHOLE_GPU
from placewright.instances.verify.reading import Reading


class Term(NamedTuple):
    """Whether larger or smaller is better, and the function that recomputes the term."""

    sense: Literal["max", "min"]
    recompute: Callable[[Reading], int]


def value(reading: Reading) -> int:
    """Sum of the chosen options' values."""
    return sum(placed.job.value_of(placed.chosen) for placed in reading.started)


def spread(reading: Reading) -> int:
    """Milli-GPU times level weight times domains beyond the first, over groups and their levels."""
    weights = reading.round.spread_weights()
    total = 0
    for placed in reading.started:
        hosts: defaultdict[int, list[tuple[str, ...]]] = defaultdict(list)
        for _, task, _, host in placed.tasks:
            hosts[task.group].append(host.domains)
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
    for placed in reading.started:
        tasks = len(placed.tasks)
        if tasks < 2:
            continue
        paths = [placed_task.host.domains for placed_task in placed.tasks]
        for domains in zip(*paths, strict=True):
            total += comb(tasks, 2) - sum(comb(n, 2) for n in Counter(domains).values())
    return total


def opened(reading: Reading) -> int:
    """Hosts without a running task in the round that receive a task of a started job."""
    busy = {
        task.host
        for job in reading.round.jobs
        if job.running is not None
        for task in job.running.tasks
    }
    return len({placed.host.name for placed in reading.started_tasks()} - busy)


def leftover(reading: Reading) -> int:
    """Milli-GPU still free on the hosts that receive a task of a started job."""
    hosts = {placed.host.name: placed.host for placed in reading.started_tasks()}
    used = sum(placed.group.gpu for placed in reading.placed_tasks() if placed.host.name in hosts)
    return sum(host.hardware.gpus * WHOLE_GPU for host in hosts.values()) - used


TERMS: Mapping[str, Term] = {
    "value": Term("max", value),
    "spread": Term("min", spread),
    "proximity": Term("min", proximity),
    "opened": Term("min", opened),
    "leftover": Term("min", leftover),
}
