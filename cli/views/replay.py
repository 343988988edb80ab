"""Replays: the summary of one, a sweep, and several side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from placewright.cli.format.console import print_table, table
from placewright.instances.derived.phrases import count
from placewright.instances.errors import printable
from placewright.report.replays import TITLES, assumption_text, interval_text, measure_text
from placewright.report.text import NONE
from placewright.rounds.replay.files import COMPARED

if TYPE_CHECKING:
    from rich.console import Console

    from placewright.rounds.replay.files import Comparison
    from placewright.rounds.replay.loop import Loop
    from placewright.rounds.replay.measures import Interval


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
        + (f", {count(unfinished, 'job')} did not end" if unfinished else "")
    )


def print_pipelines(console: Console, found: Mapping[str, dict[str, float]]) -> None:
    """Print a row for each policy that pipelines were played by."""
    columns = {"pipelines": "pipelines", "jct_mean_s": "JCT", "jct_p99_s": "p99"}
    columns["makespan_s"] = "makespan"
    made = table("times in seconds", "policy", *columns.values(), right=columns.values())
    for name, one in found.items():
        made.add_row(name, *(f"{one[key]:,.0f}" for key in columns))
    print_table(console, made)


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


PADDING = 3
"""Of a column, with what divides it from the next."""


def print_replays(console: Console, comparison: Comparison) -> None:
    """Print measures with the best marked, differences over seeds, and what is assumed otherwise.

    There is a column per policy where they fit on the screen, else a row.
    """
    names = [printable(group.name) for group in comparison.groups]
    many = any(len(group.runs) > 1 for group in comparison.groups)
    title = "± half the 95 % interval; * is best" if many else "* is best"
    rows = []
    for measure in comparison.measures:
        best = comparison.best(measure)
        cells = [
            interval_text(measure, group.value(measure)) + (" *" if number in best else "")
            for number, group in enumerate(comparison.groups)
        ]
        rows.append([_title(measure), *cells])
    _print(console, f"Measures, {title}", ["", *names], rows)
    others = range(1, len(names))
    rows = [
        [_title(key), *(interval_text(key, comparison.above_first(key, one)) for one in others)]
        for key in comparison.measures
    ]
    if any(cell != NONE for row in rows for cell in row[1:]):
        title = f"Above {names[0]}, paired by seed, ± half the 95 % interval"
        _print(console, title, ["", *names[1:]], rows)
    rows = [
        [printable(key), *(printable(assumption_text(one)) for one in comparison.assumed(key))]
        for key in comparison.differing
        if key not in COMPARED
    ]
    if rows:
        _print(console, "Assumptions that differ", ["", *names], rows)


def _title(measure: str) -> str:
    return TITLES.get(measure, printable(measure))


def _print(console: Console, title: str, heads: list[str], rows: list[list[str]]) -> None:
    """Print a table; if it is wider than the screen, turned, a block of columns after another."""
    columns = list(zip(heads, *rows, strict=True))
    if _width(columns) > console.width:
        columns = [tuple(heads), *(tuple(row) for row in rows)]
    while len(columns) > 1:
        fits = max(
            (n for n in range(2, len(columns) + 1) if _width(columns[:n]) <= console.width),
            default=2,
        )
        shown = columns[:fits]
        made = table(title, *(column[0] for column in shown))
        for column in made.columns[1:]:
            column.justify = "right"
        for row in list(zip(*shown, strict=True))[1:]:
            made.add_row(*row)
        print_table(console, made)
        columns = [columns[0], *columns[fits:]]


def _width(columns: Sequence[tuple[str, ...]]) -> int:
    return sum(PADDING + max(map(len, column)) for column in columns)


def replays_object(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as it is printed in JSON."""
    return {
        "kind": "ReplayComparison",
        "differing": list(comparison.differing),
        "groups": [
            {
                "name": group.name,
                "folders": [run.folder for run in group.runs],
                "card": group.runs[0].card,
                "seeds": list(group.seeds),
                "measures": {key: _object(group.value(key)) for key in comparison.measures},
                "above_first": {
                    key: _object(comparison.above_first(key, number))
                    for key in comparison.measures
                    if number and comparison.above_first(key, number) is not None
                },
            }
            for number, group in enumerate(comparison.groups)
        ],
        "best": {
            key: [comparison.groups[number].name for number in sorted(comparison.best(key))]
            for key in comparison.measures
            if comparison.best(key)
        },
    }


def _object(found: Interval | None) -> dict[str, float | None] | None:
    if found is None:
        return None
    known = found.half_width != float("inf")
    return {"mean": found.mean, "half_width": found.half_width if known else None}
