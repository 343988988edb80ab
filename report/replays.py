"""One self-contained page about replays of several policies side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
from markupsafe import Markup

from placewright.array_types import Floats
from placewright.instances.derived.phrases import DAY, HOUR, MINUTE, duration
from placewright.instances.traces.trace import NEVER
from placewright.report.panels.summary import Figure
from placewright.report.table import Cell, Marked, Meter, Table, table
from placewright.report.template import content_policy, environment, text_of
from placewright.report.text import NONE, shortened
from placewright.rounds.replay.files import COMPARED, Assumption, Comparison, Group, Saved
from placewright.rounds.replay.measures import SIZES, Interval, Measures

# Charts of replays as paths of an SVG: distributions on a logarithmic axis, and time series.


WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 10, 28
MAX_POINTS = 400
LEAST_S = 1.0
"""Where a logarithmic axis begins."""

NAMED_TIMES = (
    (1, "1 s"),
    (10, "10 s"),
    (MINUTE, "1 min"),
    (10 * MINUTE, "10 min"),
    (HOUR, "1 h"),
    (10 * HOUR, "10 h"),
    (4 * DAY, "4 d"),
    (40 * DAY, "40 d"),
    (365 * DAY, "1 y"),
    (3650 * DAY, "10 y"),
)
"""Ticks of a logarithmic axis of times."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of an axis: where it is on the picture, and what it says."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A curve with the number of what it shows, and the path of it."""

    number: int
    path: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over two axes.

    Parameters
    ----------
    title, note
        What it shows, and how it is to be read.
    across, up
        Ticks of the axes.
    lines
        One per policy that has something to show.
    """

    title: str
    note: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    lines: tuple[Line, ...]


def distributions(
    title: str,
    note: str,
    times: Sequence[Floats],
    counts: Sequence[int],
    named: Sequence[tuple[float, str]] = NAMED_TIMES,
) -> Chart:
    """Draw which part of all jobs took up to a time; jobs without a time stay above the curve.

    The logarithmic axis begins at `LEAST_S`, with ticks at `named` values.
    """
    most = max((float(one.max()) for one in times if len(one)), default=LEAST_S)
    end = log10(max(most, 10 * LEAST_S))

    def x(seconds: Floats) -> Floats:
        scaled: Floats = _across(np.log10(np.maximum(seconds, LEAST_S)) / end)
        return scaled

    lines = []
    for number, (one, count) in enumerate(zip(times, counts, strict=True)):
        if not len(one):
            continue
        ranks = np.unique(np.linspace(0, len(one) - 1, MAX_POINTS).astype(np.int64))
        steps = np.sort(one)[ranks]
        lines.append(Line(number, _path(x(steps), _up((ranks + 1) / count), first=_up(0.0))))
    across = tuple(
        _tick(_across(log10(seconds) / end), text)
        for seconds, text in named
        if log10(seconds) <= end
    )
    up = tuple(_tick(_up(part / 4), f"{25 * part} %") for part in range(5))
    return Chart(title, note, across, up, tuple(lines))


def series(title: str, note: str, times: Sequence[Floats], values: Sequence[Floats]) -> Chart:
    """Draw values over time in seconds, means of neighbours where there are many."""
    end = max((float(one[-1]) for one in times if len(one)), default=1.0) or 1.0
    top = nice_step(max((float(one.max()) for one in values if len(one)), default=1.0) / 4) * 4
    lines = []
    for number, (at, value) in enumerate(zip(times, values, strict=True)):
        if len(at):
            short, means = _thinned(at), _thinned(value)
            lines.append(Line(number, _path(_across(short / end), _up(means / top))))
    unit, name = (DAY, "d") if end >= 2 * DAY else (HOUR, "h")
    step = nice_step(end / unit / 6)
    across = tuple(
        _tick(_across(part * step * unit / end), f"{part * step:,.12g} {name}")
        for part in range(floor(end / unit / step) + 1)
    )
    up = tuple(_tick(_up(part / 4), f"{top * part / 4:,.12g}") for part in range(5))
    return Chart(title, note, across, up, tuple(lines))


def nice_step(least: float) -> float:
    """Return the least of 1, 2, 2.5, 5 times a power of ten that is not below a number."""
    if least <= 0:
        return 1.0
    power = 10.0 ** floor(log10(least))
    return next(power * lead for lead in (1, 2, 2.5, 5, 10) if power * lead >= least * (1 - 1e-9))


def _tick(at: Floats, text: str) -> Tick:
    return Tick(round(float(at), 1), text)


def _across(part: Floats | float) -> Floats:
    return np.asarray(LEFT + (WIDTH - LEFT - RIGHT) * np.asarray(part, dtype=np.float64))


def _up(part: Floats | float) -> Floats:
    return np.asarray(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * np.asarray(part))


def _thinned(values: Floats) -> Floats:
    """Return at most `MAX_POINTS` means of neighbours."""
    each = ceil(len(values) / MAX_POINTS)
    starts = np.arange(0, len(values), each)
    means: Floats = np.add.reduceat(values, starts) / np.diff(np.append(starts, len(values)))
    return means


def _path(across: Floats, up: Floats, first: Floats | None = None) -> str:
    """Return a path through points; from `first`, a step at each of them."""
    points = [f"{x:.1f},{y:.1f}" for x, y in zip(across.tolist(), up.tolist(), strict=True)]
    if first is None:
        return "M" + "L".join(points)
    steps = [f"H{x:.1f}V{y:.1f}" for x, y in zip(across.tolist(), up.tolist(), strict=True)]
    return f"M{LEFT},{float(first):.1f}" + "".join(steps)


# Measures of replays in words and numbers.


TITLES = {
    "jobs": "jobs",
    "unfinished": "jobs that did not end",
    "jct_mean_s": "JCT, mean (s)",
    "jct_p50_s": "JCT, median (s)",
    "jct_p90_s": "JCT, p90 (s)",
    "jct_p99_s": "JCT, p99 (s)",
    "wait_mean_s": "wait, mean (s)",
    "wait_p50_s": "wait, median (s)",
    "wait_p90_s": "wait, p90 (s)",
    "wait_p99_s": "wait, p99 (s)",
    "bounded_slowdown_mean": "bounded slowdown, mean",
    "rho_mean": "JCT over work, mean",
    "rho_worst": "JCT over work, worst",
    "finish_time_fairness_mean": "JCT over isolated time, mean",
    "finish_time_fairness_worst": "JCT over isolated time, worst",
    "unfair": "jobs later than 1.05 times their isolated time",
    "stops_per_job": "stops per job",
    "moves_per_job": "moves per job",
    "resizes_per_job": "resizes per job",
    "restarts_per_job": "restarts per job",
    "deadlines_met": "deadlines met",
    "value_missed": "value of deadlines missed",
    "makespan_s": "makespan (s)",
    "allocation": "GPUs held, part of all",
    "fragmentation": "free GPUs that jobs cannot use, part of the free",
    "useful_gpu_s": "useful GPU-seconds",
    "overhead_gpu_s": "GPU-seconds of overhead",
    "lost_gpu_s": "GPU-seconds of lost work",
    "events": "events",
    "decisions": "decisions",
    "gap_mean": "gap of a round, mean",
    "gap_most": "gap of a round, largest",
    "rounds_without_bound": "rounds without a bound",
}
"""What each measure is called."""

SHARES = frozenset({"allocation", "fragmentation", "deadlines_met", "unfair"})
COUNTS = frozenset({"jobs", "unfinished", "events", "decisions", "value_missed"})
SMALL_GAP = 1e-3
MAX_ASSUMPTION = 24


def measure_text(measure: str, value: float) -> str:
    """Write a measure: seconds and counts in whole numbers, parts in percent, else two decimals."""
    if measure in SHARES:
        return f"{100 * value:.1f} %"
    if measure.startswith("gap_"):
        return f"{value:.1e}" if 0 < value < SMALL_GAP else f"{value:.3f}"
    if measure in COUNTS or measure.endswith("_s"):
        return f"{value:,.0f}"
    return f"{value:,.2f}"


def interval_text(measure: str, found: Interval | None) -> str:
    """Write a measure, with half the width of its interval where several seeds give one."""
    if found is None:
        return NONE
    text = measure_text(measure, found.mean)
    if not 0 < found.half_width < float("inf"):
        return text  # one seed, or all alike
    return f"{text} ± {measure_text(measure, found.half_width)}"


def assumption_text(values: Iterable[Assumption]) -> str:
    """Write what a group assumes, of each of its seeds if they differ."""
    return ", ".join(_assumption(value) for value in values)


def _assumption(value: Assumption) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shortened(str(value), MAX_ASSUMPTION)


# One self-contained page about replays side by side; it has no script and loads nothing.


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
    fair = [_hourly(*group.runs[0].fairness) for group in groups]
    if any(len(at) for at, _ in fair):
        note = (
            f"Completion time over isolated time of the jobs{seed} that ended in an hour, mean: "
            "above 1 where their own parts of the cluster would have been better."
        )
        yield series("Finish-time fairness", note, *zip(*fair, strict=True))
    known = [samples[samples[:, 4] != NEVER] for samples in first]
    if any(map(len, known)):
        note = (
            "Jain's index of what jobs had in the last hour, of their part of the cluster: 1 where "
            f"all are alike. Hourly samples{seed}."
        )
        index = [samples[:, 4] / 1000 for samples in known]
        yield series("Fairness of shares", note, [samples[:, 0] for samples in known], index)


def _hourly(at: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the hours in which there are values, in seconds, and their means."""
    hours, number = np.unique(at // HOUR, return_inverse=True)
    means: Floats = np.bincount(number, weights=values) / np.bincount(number)
    return HOUR * (hours + 1), means


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
