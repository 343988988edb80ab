"""The Gantt chart of a schedule: in the terminal, and in pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from placewright.cli.format.console import STAGES, print_table, table
from placewright.cli.views.policies import PolicyViews
from placewright.explain.stages import waits_of
from placewright.instances.derived.phrases import count
from placewright.report.panels.schedule import bars_of, span_of
from placewright.report.text import after, number, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round

MAX_JOBS, CELLS = 40, 32
BARS = {"s0": "▒", "s1": "█", "s2": "▓"}
ROW, NAME, TOP, WIDTH = 0.2, 0.08, 0.2, 6.0
"""Inches in a picture: of a job, a letter of its name, the space above, and the bars."""


def _charts(console: Console, round_: Round, plan: Plan) -> None:
    """Print when each job runs: as text, and as bars from now until all is done."""
    waits, now = waits_of(round_, plan), round_.now
    if not waits:
        return
    seconds = span_of(waits, now)
    columns = ("job", "tasks", "from", "to", f"{number(seconds)} s from now", "waits")
    made = table("Schedule", *columns, right=("tasks", "from", "to"))
    for name, wait in list(waits.items())[:MAX_JOBS]:
        cells = [" "] * CELLS
        for bar in bars_of(wait, now, seconds):
            first = min(int(bar.start * CELLS), CELLS - 1)
            last = max(first + 1, round(bar.end * CELLS))
            cells[first:last] = BARS[bar.style] * (last - first)
        said = wait.scheduled
        times = after(said.start, now), after(said.end, now)
        made.add_row(
            shortened(name),
            number(said.tasks),
            *times,
            Text("".join(cells), "cyan"),
            wait.text(now),
        )
    console.print()
    print_table(console, made)
    if len(waits) > MAX_JOBS:
        console.print(f"... and {count(len(waits) - MAX_JOBS, 'more job')}")


def _panels(figure: Figure, round_: Round, plan: Plan | None) -> None:
    """Draw the Gantt chart of a plan."""
    waits = {} if plan is None else waits_of(round_, plan)
    if not waits:
        return
    shown, seconds = list(waits.items())[:MAX_JOBS], span_of(waits, round_.now)
    width, height = figure.get_size_inches()
    tall = ROW * len(shown)
    left = NAME * max(len(shortened(name)) for name, _ in shown)
    figure.text(0, -TOP / height, "Schedule", size=9, weight="bold", va="top")
    # Below all that the figure shows: pictures are cut to what is in them.
    box = (left / width, -(2.5 * TOP + tall) / height, WIDTH / width, tall / height)
    axes = figure.add_axes(box)
    for y, (_, wait) in enumerate(shown):
        for bar in bars_of(wait, round_.now, seconds):
            span = (bar.start * seconds, (bar.end - bar.start) * seconds)
            axes.broken_barh([span], (y + 0.1, 0.8), facecolors=STAGES[int(bar.style[1])])
    axes.set_yticks([y + 0.5 for y in range(len(shown))], [shortened(name) for name, _ in shown])
    axes.set(xlim=(0, seconds), ylim=(len(shown), 0), xlabel="seconds from now")
    axes.tick_params(labelsize=7, length=2)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


VIEWS = PolicyViews(plan_charts=_charts, panels=_panels)
