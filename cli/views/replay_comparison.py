"""What the command line shows of replays side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placewright.cli.format.table import print_table, table
from placewright.instances.errors import printable
from placewright.report.replays.words import TITLES, interval_text

if TYPE_CHECKING:
    from rich.console import Console

    from placewright.rounds.replay.comparison import Comparison
    from placewright.rounds.replay.measures import Interval


def print_replays(console: Console, comparison: Comparison) -> None:
    """Print a row per measure and a column per policy, the best marked; then what differs."""
    names = [printable(group.name) for group in comparison.groups]
    many = any(len(group.runs) > 1 for group in comparison.groups)
    title = "mean over seeds ± half its 95 % interval; * is best" if many else "* is best"
    made = table(f"Measures, {title}", "", *names, right=names)
    for measure in comparison.measures:
        best = comparison.best(measure)
        row = [
            interval_text(measure, group.value(measure)) + (" *" if number in best else "")
            for number, group in enumerate(comparison.groups)
        ]
        made.add_row(TITLES.get(measure, printable(measure)), *row)
    print_table(console, made)
    _print_differences(console, comparison, names)
    _print_assumptions(console, comparison, names)


def _print_differences(console: Console, comparison: Comparison, names: list[str]) -> None:
    """Print how much the others are above the first, seed by seed."""
    rows = [
        (measure, [comparison.above_first(measure, number) for number in range(1, len(names))])
        for measure in comparison.measures
    ]
    if not any(one is not None for _, found in rows for one in found):
        return
    made = table(f"Above {names[0]}, paired by seed, ± half the 95 % interval", "", *names[1:])
    for measure, found in rows:
        made.add_row(
            TITLES.get(measure, printable(measure)), *(interval_text(measure, one) for one in found)
        )
    print_table(console, made)


def _print_assumptions(console: Console, comparison: Comparison, names: list[str]) -> None:
    """Print the assumptions in which the groups differ, besides policy and seed."""
    keys = [key for key in comparison.differing if key not in ("policy", "seed")]
    if not keys:
        return
    made = table("Assumptions that differ", "", *names)
    for key in keys:
        texts = [
            ", ".join(dict.fromkeys(printable(str(run.card.get(key))) for run in group.runs))
            for group in comparison.groups
        ]
        made.add_row(printable(key), *texts)
    print_table(console, made)


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
