"""One self-contained page about replays side by side; it has no script and loads nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from markupsafe import Markup

from placewright.array_types import Floats
from placewright.instances.derived.durations import duration
from placewright.report.panels.summary import Figure
from placewright.report.replays.charts import Chart, distributions, series
from placewright.report.replays.words import TITLES, assumption_text, interval_text
from placewright.report.table import Cell, Marked, Meter, Table, table
from placewright.report.template import content_policy, environment, text_of
from placewright.report.text import NONE
from placewright.rounds.replay.comparison import COMPARED, Comparison, Group
from placewright.rounds.replay.measures import SIZES, Measures
from placewright.rounds.replay.saved import Saved

COLOURS = 8
"""Further policies take the colours anew, dashed."""

GROUPED = {"jct_mean_s": "Mean completion time", "wait_mean_s": "Mean wait"}
"""Measures that are drawn by size and tenant."""


def render_replays(comparison: Comparison) -> str:
    """Return the page as HTML."""
    style = text_of("page.css") + text_of("replays.css")
    groups = comparison.groups
    return (
        environment()
        .get_template("replays.html")
        .render(
            title=str(groups[0].runs[0].card.get("trace") or "replays"),
            names=[group.name for group in groups],
            colours=COLOURS,
            figures=[_figure(group) for group in groups],
            measures=_measures(comparison),
            differences=list(_differences(comparison)),
            charts=list(_charts(groups)),
            sizes=list(_bars(groups, "GPUs of a job", lambda run: run.by_size)),
            tenants=list(_bars(groups, "tenant", lambda run: run.by_tenant)),
            cards=list(_cards(comparison)),
            policy=content_policy(style),
            style=Markup(style),  # noqa: S704
        )
    )


def _figure(group: Group) -> Figure:
    mean, last, wait = (group.value(key) for key in ("jct_mean_s", "jct_p99_s", "wait_mean_s"))
    words = [
        f"{word} {duration(round(found.mean))}"
        for word, found in (("p99", last), ("mean wait", wait))
        if found is not None
    ]
    seeds = [f"{len(group.runs)} seeds"] if len(group.runs) > 1 else []
    value = NONE if mean is None else duration(round(mean.mean))
    return Figure(group.name, (value,), ", ".join([*words, *seeds]))


def _measures(comparison: Comparison) -> Table:
    rows = []
    for measure in comparison.measures:
        best = comparison.best(measure)
        texts = [interval_text(measure, group.value(measure)) for group in comparison.groups]
        cells: list[Cell] = [
            Marked(text, "best") if number in best else text for number, text in enumerate(texts)
        ]
        rows.append([TITLES.get(measure, measure), *cells])
    note = "Marked: the best of a row where less, or more, is better."
    if any(len(group.runs) > 1 for group in comparison.groups):
        note += " Means over seeds ± half the width of the 95 % interval (Student's t)."
    return table("Measures", ("", *_numeric(comparison.groups)), rows, note)


def _differences(comparison: Comparison) -> Iterator[Table]:
    """Yield how much the others are above the first, if seeds pair them."""
    others = range(1, len(comparison.groups))
    rows = [
        (measure, [comparison.above_first(measure, number) for number in others])
        for measure in comparison.measures
    ]
    if any(one is not None for _, found in rows for one in found):
        yield table(
            f"Above {comparison.groups[0].name}, paired by seed",
            ("", *_numeric(comparison.groups[1:])),
            (
                (TITLES.get(measure, measure), *(interval_text(measure, one) for one in found))
                for measure, found in rows
            ),
            "± half the width of the 95 % interval of the differences (Student's t).",
        )


def _numeric(groups: tuple[Group, ...]) -> tuple[str, ...]:
    return tuple(f">{group.name}" for group in groups)


def _charts(groups: tuple[Group, ...]) -> Iterator[Chart]:
    counts = [sum(len(run.submit_us) for run in group.runs) for group in groups]
    for title, word, times in (
        ("Completion times", "ended", [_joined(group, lambda run: run.jct_s) for group in groups]),
        ("Waiting times", "started", [_joined(group, lambda run: run.wait_s) for group in groups]),
    ):
        note = f"Part of all jobs that {word} within a time; a curve to the left is better."
        yield distributions(title, note, times, counts)
    first = [group.runs[0].samples.astype(np.float64) for group in groups]
    at = [samples[:, 0] for samples in first]
    seed = " of the first seed" if any(len(group.runs) > 1 for group in groups) else ""
    for title, column in (("GPUs held", 1), ("Jobs waiting", 3)):
        note = f"Hourly samples{seed}, means of neighbours where there are many."
        yield series(title, note, at, [samples[:, column] for samples in first])


def _joined(group: Group, times: Callable[[Saved], Floats]) -> Floats:
    return np.concatenate([times(run) for run in group.runs])


def _bars(
    groups: tuple[Group, ...], by: str, parts: Callable[[Saved], Mapping[str, Measures]]
) -> Iterator[Table]:
    """Yield a table per measure with a row per size class or tenant, and bars in its cells."""
    found = [[parts(run) for run in group.runs] for group in groups]
    names = list(dict.fromkeys(name for runs in found for run in runs for name in run))
    order = {name: number for number, (_, name) in enumerate(SIZES)}
    names.sort(key=lambda name: order.get(name, len(order)))
    if not names:
        return
    for measure, title in GROUPED.items():
        rows = []
        for name in names:
            means = [_mean(runs, name, measure) for runs in found]
            most = max((one for one in means if one is not None), default=0.0) or 1.0
            cells = [NONE if one is None else _bar(one, most) for one in means]
            rows.append([name, *cells])
        yield table(
            f"{title} by {by}", (by, *_numeric(groups)), rows, "Bars: part of the longest of a row."
        )


def _bar(seconds: float, most: float) -> Meter:
    return Meter(duration(round(seconds)), max(0.0, seconds / most))


def _mean(runs: list[Mapping[str, Measures]], name: str, measure: str) -> float | None:
    values = [run[name][measure] for run in runs if measure in run.get(name, {})]
    return sum(values) / len(values) if values else None


def _cards(comparison: Comparison) -> Iterator[Table]:
    """Yield what differs between the groups, marked unless it is compared, and what does not."""
    differing = comparison.differing
    rows: list[list[Cell]] = []
    for key in differing:
        texts = [assumption_text(values) for values in comparison.assumed(key)]
        marked = key not in COMPARED
        rows.append([key, *(Marked(text, "differs") if marked else text for text in texts)])
    if set(differing) - set(COMPARED):
        names = (group.name for group in comparison.groups)
        yield table("Assumptions that differ", ("", *names), rows)
    same = (key for key in comparison.keys if key not in differing)
    yield table(
        "Assumptions of all",
        ("", ""),
        ((key, assumption_text(comparison.assumed(key)[0])) for key in same),
    )
