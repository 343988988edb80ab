"""GPUs in use by model, and what tenants hold of their quotas, before and after."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.report.facts.tenants import cells_of, shares_of
from placewright.report.facts.usage import GPU, ModelUsage, TenantUsage, gpu_usage, tenant_usage
from placewright.report.panels.subject import Subject
from placewright.report.table import Cell, Meter, Table, table
from placewright.report.text import NONE, gpus, number, percent, resource_text
from placewright.topology.units import WHOLE_GPU


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
