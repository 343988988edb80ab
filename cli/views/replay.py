"""What the command line shows of a replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from placewright.cli.format.table import print_table, table
from placewright.report.replays import measure_text

if TYPE_CHECKING:
    from rich.console import Console

    from placewright.rounds.replay.loop import Loop

_SECONDS_BETWEEN = 0.2

COLUMNS = {
    "jobs": "jobs",
    "jct_mean_s": "JCT",
    "jct_p50_s": "median",
    "jct_p99_s": "p99",
    "wait_mean_s": "wait",
    "bounded_slowdown_mean": "slowdown",
    "stops_per_job": "stops",
}
"""Measures of jobs that the table has, and their headings."""


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


def print_sweep(console: Console, summaries: dict[str, dict[str, Any]]) -> None:
    """Print a row for each replay of a sweep."""
    given = ("policy", "load", "seed")
    right = (*given[1:], *COLUMNS.values())
    made = table("all jobs, times in seconds", *given, *COLUMNS.values(), right=right)
    for summary in summaries.values():
        card, measures = summary["card"], summary["measures"]
        told = (card["policy"], f"{card['load']:g}", str(card["seed"]))
        made.add_row(*told, *(measure_text(key, measures[key]) for key in COLUMNS))
    print_table(console, made)


@contextmanager
def replay_progress(console: Console) -> Iterator[Callable[[Loop], None] | None]:
    """Yield what shows how far a replay is and when it ends; None where there is no terminal."""
    if not console.is_terminal:
        yield None
        return
    began = shown = monotonic()
    with console.status("playing ...") as status:

        def show(loop: Loop) -> None:
            nonlocal shown
            if monotonic() < shown + _SECONDS_BETWEEN:
                return
            shown = monotonic()
            ended, jobs = loop.next_arrival - len(loop.alive), len(loop.trace)
            left = (monotonic() - began) * (jobs - ended) / max(1, ended)
            alive = f"{len(loop.alive):,} alive"
            status.update(f"{ended:,} of {jobs:,} jobs ended, {alive}, about {left:,.0f} s left")

        yield show


@contextmanager
def sweep_progress(console: Console, replays: int) -> Iterator[Callable[[str], None]]:
    """Yield what shows which replays of a sweep are done."""
    began, ended = monotonic(), 0
    with console.status(f"playing {replays} replays ...") as status:

        def show(name: str) -> None:
            nonlocal ended
            ended += 1
            left = (monotonic() - began) * (replays - ended) / ended
            status.update(f"{ended} of {replays} replays, {name} done, about {left:,.0f} s left")

        yield show
