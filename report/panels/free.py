"""What is free: whole hosts and domains of each level, and tasks that there is room for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placewright.explain.fragmentation import Fragmentation, fragmentation_of, is_measured
from placewright.explain.free_domains import free_and_total
from placewright.report.panels.subject import Subject
from placewright.report.table import Cell, Meter, Table, table
from placewright.report.text import NONE, gpus, number, percent
from placewright.rounds.state.changes import apply_plan


def free(subject: Subject) -> Iterator[Table]:
    """Yield free domains by level, and free slots by size where they are measured."""
    yield _domains(subject)
    if is_measured(subject.round):
        yield _slots(subject)


def free_hosts(subject: Subject) -> list[int]:
    """Return how many whole hosts are free before, and after each plan."""
    plans = subject.kept, *subject.plans
    return [free_and_total(subject.round, plan)[0]["host"] for plan in plans]


def _domains(subject: Subject) -> Table:
    counts = [free_and_total(subject.round, plan) for plan in (subject.kept, *subject.plans)]
    cluster, total = subject.cluster, counts[0][1]

    def row(number_: int, level: str) -> tuple[Cell, ...]:
        size = len(cluster.names[number_])
        each = np.bincount(cluster.domain[number_], weights=cluster.gpu_count, minlength=size)
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
        ("level", ">domains", ">GPUs each", ">before", *(f">{name}" for name in subject.names)),
        (row(n, level) for n, level in reversed(list(enumerate(cluster.levels)))),
        "All of their GPUs are free, and healthy, not reserved, not to be vacated.",
    )


def _slots(subject: Subject) -> Table:
    round_, plans = subject.decided
    found = [fragmentation_of(round_)]
    found += [fragmentation_of(apply_plan(round_, plan, restart_s={})) for plan in plans]

    def row(size: int) -> tuple[Cell, ...]:
        tasks = [one.tasks[size] for one in found]
        return (
            number(tasks[0].gpus),
            *(number(task.tasks) for task in tasks),
            *(gpus(task.stranded) for task in tasks),
        )

    names = "before", *subject.names
    return table(
        "Tasks of whole GPUs that there is room for",
        (
            ">GPUs of a task",
            *(f">tasks, {name}" for name in names),
            *(f">stranded, {name}" for name in names),
        ),
        map(row, range(len(found[0].tasks))),
        "; ".join(f"{name}: {_free(one)}" for name, one in zip(names, found, strict=True)),
    )


def _free(one: Fragmentation) -> str:
    useless = NONE if one.useless is None or not one.free else percent(one.useless / one.free)
    return f"{gpus(one.free)} GPUs free, {useless} of use to no waiting job"
