"""What limits hold: caps, pools, quotas, uplinks, and what is free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from placewright.array_types import Ints
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Plan
from placewright.report.facts.jobs import FREE, Condition
from placewright.report.facts.usage import (
    GPU,
    ModelUsage,
    PoolUsage,
    TenantUsage,
    UplinkUsage,
    cells_of,
    fullest,
    gpu_usage,
    pool_usage,
    shares_of,
    tenant_usage,
    uplink_usage,
)
from placewright.report.panels.subject import Subject
from placewright.report.table import MAX_ROWS, Cell, Meter, Table, table
from placewright.report.text import NONE, gpus, megabits, number, percent, resource_text
from placewright.topology.units import WHOLE_GPU

# Caps: what the jobs that count in each hold together, before and after.


_Used = defaultdict[str, defaultdict[Measure, int]]


def caps(subject: Subject) -> Iterator[Table]:
    """Yield the limits of all caps, the fullest after the first plan first."""
    if not subject.round.caps:
        return
    before = _used(subject, _running(subject))
    after = [_used(subject, _placed(subject, plan)) for plan in subject.plans]

    def row(name: str, measure: Measure, most: int) -> tuple[Cell, ...]:
        return (
            name,
            measure.text(before[name][measure]),
            *(
                _meter(measure.text(used[name][measure]), _part(used[name][measure], most))
                for used in after
            ),
            measure.text(most),
        )

    limits = [
        (name, measure, most)
        for name, cap in subject.round.caps.items()
        for measure, most in cap.limits.items()
    ]
    limits.sort(key=lambda one: -after[0][one[0]][one[1]] / max(one[2], 1))
    yield table(
        "Caps, fullest first",
        ("cap", ">before", *(f">{name}" for name in subject.names), ">limit"),
        (row(*one) for one in limits),
    )


def _running(subject: Subject) -> Iterator[tuple[str, Option]]:
    for job in subject.round.jobs:
        if job.running is not None:
            yield job.name, job.options[job.running.option]


def _placed(subject: Subject, plan: Plan) -> Iterator[tuple[str, Option]]:
    for decision in plan.decisions:
        if decision.option is not None:
            yield decision.job, subject.jobs[decision.job].options[decision.option]


def _used(subject: Subject, held: Iterator[tuple[str, Option]]) -> _Used:
    """Return what jobs count in each cap, by what it limits."""
    used: _Used = defaultdict(lambda: defaultdict(int))
    for job, option in held:
        for name in subject.jobs[job].caps:
            for measure in subject.round.caps[name].limits:
                used[name][measure] += measure.asked_by(option)
    return used


def _part(used: int, most: int) -> float:
    return used / most if most else 1.0


def _meter(amount: str, share: float) -> Meter:
    """Return an amount beside its share of a limit that the less is left of the tighter it is."""
    return Meter(f"{amount}, {percent(share)}", min(1.0, share), tight=True)


# What is free: whole hosts and domains of each level, and tasks that there is room for.


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


# Pools: what jobs take of each domain of what hosts share, before and after.


def pools(subject: Subject) -> Iterator[Table]:
    """Yield the domains of all pools, the fullest after the first plan first."""
    first, *others = (pool_usage(subject.round, subject.cluster, plan) for plan in subject.plans)
    if not first:
        return
    of_others = [{(one.resource, one.where): one for one in usages} for usages in others]

    def row(usage: PoolUsage) -> tuple[Cell, ...]:
        same = [usage, *(found[usage.resource, usage.where] for found in of_others)]
        return (
            usage.resource,
            usage.where,
            resource_text(usage.resource, usage.before),
            *(_meter(resource_text(one.resource, one.after), one.share) for one in same),
            resource_text(usage.resource, usage.capacity),
        )

    shown = fullest(first, MAX_ROWS)
    made = table(
        "Pools, fullest first",
        ("resource", "where", ">before", *(f">{name}" for name in subject.names), ">capacity"),
        map(row, shown),
    )
    yield replace(made, more=len(first) - len(shown))


# Uplinks: what jobs send over the links of domains, before and after.


def uplinks(subject: Subject) -> Iterator[Table]:
    """Yield the links over which jobs send, the fullest after the first plan first."""
    first, *others = (uplink_usage(subject.round, subject.cluster, plan) for plan in subject.plans)
    if not first:
        return
    of_others = [{one.where: one for one in usages} for usages in others]

    def row(usage: UplinkUsage) -> tuple[Cell, ...]:
        idle = replace(usage, after=0)
        same = [usage, *(found.get(usage.where, idle) for found in of_others)]
        return (
            usage.where,
            megabits(usage.before),
            *(_meter(megabits(one.after), one.share) for one in same),
            megabits(usage.bandwidth),
        )

    made = table(
        "Uplinks, fullest first",
        ("where", ">before", *(f">{name}" for name in subject.names), ">bandwidth"),
        map(row, first[:MAX_ROWS]),
    )
    yield replace(made, more=max(0, len(first) - MAX_ROWS))


# GPUs in use by model, and what tenants hold of their quotas, before and after.


def usage(subject: Subject) -> Iterator[Table]:
    """Yield the tables of GPU models and of tenants."""
    found = [gpu_usage(subject.round, plan, subject.cluster) for plan in subject.plans]
    if found[0]:
        yield table(
            "GPUs in use",
            ("model", ">GPUs", ">before", *(f">{name}" for name in subject.names)),
            (_model(rows) for rows in zip(*found, strict=True)),
        )
    held = [tenant_usage(subject.round, plan, subject.cluster) for plan in subject.plans]
    if held[0]:
        yield _tenants(subject, held)
    for name, plan in zip(subject.names, subject.plans, strict=True):
        of_plan = "" if len(subject.plans) == 1 else f", {name}"
        if shares := shares_of(plan):
            yield table(f"Dominant shares{of_plan}", ("tenant", ">share by weight", "of"), shares)
        if cells := cells_of(plan):
            columns = "tenant", "cell", "where", "jobs"
            yield table(f"Cells in use{of_plan}", columns, cells)


def _model(rows: tuple[ModelUsage, ...]) -> tuple[Cell, ...]:
    first = rows[0]
    whole = max(1, first.gpus * WHOLE_GPU)
    return (
        first.model,
        number(first.gpus),
        Meter(gpus(first.before), first.before / whole),
        *(Meter(f"{gpus(r.after)}, {percent(r.after / whole)}", r.after / whole) for r in rows),
    )


def _tenants(subject: Subject, held: list[list[TenantUsage]]) -> Table:
    others = [{(row.tenant, row.resource): row for row in rows} for rows in held[1:]]
    named = any(row.resource != GPU for row in held[0])

    def row(first: TenantUsage) -> tuple[Cell, ...]:
        all_ = [first, *(rows[first.tenant, first.resource] for rows in others)]
        limit, resource = first.limit, first.resource
        return (
            first.tenant or NONE,
            *((resource,) if named else ()),
            resource_text(resource, first.before),
            *(_of_quota(one) for one in all_),
            NONE if limit is None else resource_text(resource, limit),
            *(resource_text(resource, one.waiting) for one in all_),
        )

    after = [f">{name}" for name in subject.names]
    waiting = [">waiting"] if len(held) == 1 else [f">waiting, {name}" for name in subject.names]
    columns = ("tenant", *(("resource",) if named else ()), ">before", *after, ">quota", *waiting)
    title = "Tenants" if named else "Tenants, in GPUs"
    return table(title, columns, map(row, held[0]))


def _of_quota(one: TenantUsage) -> Meter:
    """Return a bar of what a tenant holds, of its quota; of the cluster if it has none."""
    text = resource_text(one.resource, one.after)
    whole = one.capacity if one.limit is None else one.limit
    if one.limit:
        text = f"{text}, {percent(one.after / one.limit)}"
    return Meter(text, min(1.0, one.after / whole) if whole else 0.0, tight=True)
