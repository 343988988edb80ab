"""What is free: whole hosts and domains of each level, and tasks that there is room for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placewright.array_types import Ints
from placewright.report.facts.conditions import Condition
from placewright.report.facts.holders import FREE
from placewright.report.panels.subject import Subject
from placewright.report.table import Cell, Meter, Table, table
from placewright.report.text import number


def free(subject: Subject) -> Iterator[Table]:
    """Yield free domains by level, and the room for tasks by size."""
    yield _domains(subject)
    if subject.cluster.num_gpus:
        yield _room(subject)


def _domains(subject: Subject) -> Table:
    cluster, counts = subject.cluster, subject.free
    total = counts[0][1]

    def row(depth: int, level: str) -> tuple[Cell, ...]:
        size = len(cluster.names[depth])
        each = np.bincount(cluster.domain[depth], weights=cluster.gpu_count, minlength=size)
        each = each[each > 0]
        least, most = (int(each.min()), int(each.max())) if each.size else (0, 0)
        of = max(1, total[level])
        return (
            level,
            number(total[level]),
            number(most) if least == most else f"{least:,} to {most:,}",
            *(Meter(number(one[level]), one[level] / of) for one, _ in counts),
        )

    return table(
        "Whole domains that are free",
        ("level", ">there are", ">GPUs each", ">before", *(f">{name}" for name in subject.names)),
        (row(depth, level) for depth, level in reversed(list(enumerate(cluster.levels)))),
        "All of their GPUs are free, and healthy, not reserved, not to be vacated.",
    )


def _room(subject: Subject) -> Table:
    """Return how many tasks of 1, 2, 4, ... whole GPUs of one host there is room for."""
    whole = [_whole(subject, holders) for holders in subject.holders.states]
    most = int(subject.cluster.gpu_count.max(initial=0))

    def row(size: int) -> tuple[Cell, ...]:
        tasks = [int((hosts // size).sum()) for hosts in whole]
        left = [int(hosts.sum()) - size * n for hosts, n in zip(whole, tasks, strict=True)]
        return (number(size), *map(number, tasks), *map(number, left))

    names = "before", *subject.names
    return table(
        "Room for tasks on one host",
        (">GPUs", *(f">tasks, {n}" for n in names), *(f">stranded, {n}" for n in names)),
        (row(1 << power) for power in range(most.bit_length())),
        "Stranded are whole free GPUs that no such task can have.",
    )


def _whole(subject: Subject, holders: Ints) -> Ints:
    """Return the whole GPUs of each host that are free and may be used (hosts,)."""
    cluster, (_, condition) = subject.cluster, subject.conditions
    free = (holders == FREE) & (condition == Condition.AVAILABLE)
    hosts = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
    return np.bincount(hosts[free], minlength=cluster.num_hosts)
