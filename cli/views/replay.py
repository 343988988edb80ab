"""What the command line shows of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placewright.cli.format.table import print_table, table

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = {
    "jobs": "jobs",
    "jct_mean_s": "mean JCT",
    "jct_p50_s": "median",
    "jct_p99_s": "p99",
    "wait_mean_s": "mean wait",
    "bounded_slowdown_mean": "slowdown",
    "stops_per_job": "stops",
}
"""Measures of jobs that the table has, and their headings."""


def measure_text(key: str, value: float) -> str:
    """Write a measure: seconds and counts in whole numbers, ratios with two decimals."""
    return f"{value:,.0f}" if key == "jobs" or key.endswith("_s") else f"{value:,.2f}"


def print_summary(console: Console, summary: dict[str, Any]) -> None:
    """Print the measures of all jobs, of each size class and tenant, and of the cluster."""
    card, measures = summary["card"], summary["measures"]
    made = table(
        f"{card['policy']} on {card['hosts']} GPUs, times in seconds",
        "",
        *COLUMNS.values(),
        right=COLUMNS.values(),
    )
    rows = [("all", measures)]
    rows += [(f"{name} GPUs", one) for name, one in summary["by_size"].items()]
    rows += list(summary["by_tenant"].items())
    for name, one in rows:
        made.add_row(name, *(measure_text(key, one[key]) for key in COLUMNS))
    print_table(console, made)
    unfinished = int(measures["unfinished"])
    console.print(
        f"makespan {measures['makespan_s']:,.0f} s, "
        f"GPUs held {100 * measures['allocation']:.1f} % of the time, "
        f"overhead {measures['overhead_gpu_s']:,.0f} GPU-seconds, "
        f"lost {measures['lost_gpu_s']:,.0f}"
        + (f", {unfinished} jobs did not end" if unfinished else "")
    )
