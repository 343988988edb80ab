"""Tables of usage: GPUs in use before and after a plan, tenants' quotas, and what hosts share."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from placewright.cli.format.table import MAX_ROWS, print_rest, print_table, table
from placewright.report.facts.usage import (
    GPU,
    ModelUsage,
    PoolUsage,
    TenantUsage,
    UplinkUsage,
    fullest,
)
from placewright.report.text import NONE, gpus, megabits, number, percent, resource_text
from placewright.topology.units import WHOLE_GPU


def gpu_table(models: Sequence[ModelUsage]) -> Table:
    """Show the GPUs of healthy hosts by model, and how many are in use before and after."""
    columns = ("GPUs", "before", "after", "share")
    made = table("GPUs in use", "model", *columns, right=columns)
    rows = list(models)
    if len(rows) > 1:
        totals = (sum(amounts) for amounts in zip(*(row[1:] for row in rows), strict=True))
        rows.append(ModelUsage(f"all {len(rows)}", *totals))
    for model, count, before, after in rows:
        share = percent(after / (count * WHOLE_GPU)) if count else NONE
        made.add_row(model, number(count), gpus(before), gpus(after), share)
    return made


def tenant_table(tenants: Sequence[TenantUsage]) -> Table:
    """Show what tenants hold, may hold and wait for; resources only where a quota names others."""
    columns = ("before", "after", "quota", "share", "waiting")
    named = any(usage.resource != GPU for usage in tenants)
    first = ("tenant", "resource") if named else ("tenant",)
    title = "Tenants" if named else "Tenants, in GPUs"
    made = table(title, *first, *columns, right=columns)
    for usage in tenants:
        made.add_row(
            usage.tenant or NONE,
            *((usage.resource,) if named else ()),
            resource_text(usage.resource, usage.before),
            resource_text(usage.resource, usage.after),
            NONE if usage.limit is None else resource_text(usage.resource, usage.limit),
            percent(usage.after / usage.capacity) if usage.capacity else NONE,
            resource_text(usage.resource, usage.waiting),
        )
    return made


def print_pools(
    console: Console,
    pools: Sequence[PoolUsage],
    limit: int | None = MAX_ROWS,
    *,
    planned: bool = True,
) -> None:
    """Print how full the fullest domains of pools are, and how many more there are.

    `planned`: before and after a plan; else now.
    """
    if not pools:
        return
    columns = ("capacity", *(("before", "after") if planned else ("in use",)), "share")
    title = "Pools" if len(pools) == 1 else "Pools, fullest first"
    made = table(title, "resource", "where", *columns, right=columns)
    for usage in fullest(pools, limit):
        amounts = (usage.capacity, *((usage.before,) if planned else ()), usage.after)
        made.add_row(
            usage.resource,
            usage.where,
            *(resource_text(usage.resource, amount) for amount in amounts),
            percent(usage.share),
        )
    print_table(console, made)
    print_rest(console, len(pools), "more domain", limit)


def print_uplinks(
    console: Console,
    uplinks: Sequence[UplinkUsage],
    limit: int | None = MAX_ROWS,
    *,
    planned: bool = True,
) -> None:
    """Print how full the fullest uplinks are, and how many more there are.

    `planned`: before and after a plan; else now.
    """
    if not uplinks:
        return
    columns = ("bandwidth", *(("before", "after") if planned else ("in use",)), "share")
    made = table("Uplinks, fullest first", "where", *columns, right=columns)
    for usage in uplinks[:limit]:
        amounts = (usage.bandwidth, *((usage.before,) if planned else ()), usage.after)
        made.add_row(usage.where, *map(megabits, amounts), percent(usage.share))
    print_table(console, made)
    print_rest(console, len(uplinks), "more link", limit)
