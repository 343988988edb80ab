"""Timelines below the map of a picture: a row per job of a group, its stages as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placewright.cli.format.colours import (
    FREE,
    STAGES,
    stage_colour,
)
from placewright.cli.views.interleaving.chart import HEADING, caption, letters, more_text
from placewright.report.facts.turns import Timelines, Turns
from placewright.report.text import percent, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

MAX_GROUPS = 12
LEGEND_COLUMNS = 6

WIDTH = 6.0
ROW, CAPTION, BETWEEN = 0.2, 0.24, 0.12
NAME, MARKED = 0.075, 0.12
"""Space for a character of a job's name, and least one for a letter in a bar."""
TOP = 0.5
"""All in inches."""
BAR = 0.8
"""Height of a bar, as a fraction of its row."""
HATCH = "////"


def add_timelines(figure: Figure, timelines: Timelines) -> None:
    """Draw one period of each group below all that the figure shows."""
    width, height = figure.get_size_inches()
    names = [shortened(member.name) for turns in timelines.turns for member in turns.members]
    left = NAME * max(map(len, names))
    legend = _legend(timelines.resources)
    legend_height = ROW * -(-len(legend) // LEGEND_COLUMNS)
    tall = sum(map(_height, timelines.turns)) + CAPTION * (timelines.more > 0)
    top = TOP + CAPTION + legend_height
    axes = figure.add_axes((left / width, -(top + tall) / height, WIDTH / width, tall / height))
    # Down in inches, and to the right in parts of a period.
    axes.set_xlim(0, 1)
    axes.set_ylim(tall, 0)
    axes.set_axis_off()
    figure.text(0, -TOP / height, HEADING, size=9, weight="bold", va="top")
    figure.legend(
        handles=legend,
        loc="upper left",
        bbox_to_anchor=(0, -(TOP + CAPTION) / height),
        ncols=LEGEND_COLUMNS,
        frameon=False,
        fontsize=8,
        borderaxespad=0,
        borderpad=0,
    )
    y = 0.0
    marks = letters(timelines.resources)
    for turns in timelines.turns:
        _add_turns(axes, turns, y, marks)
        y += _height(turns)
    if timelines.more:
        axes.text(0, y + CAPTION, more_text(timelines), size=8, va="bottom")


def _add_turns(axes: Axes, turns: Turns, top: float, marks: Sequence[str]) -> None:
    """Draw a group from this height on: where it is, a row per job, and where slots begin.

    A stage has the letter of its resource, as in a terminal, where there is space for it.
    """
    first = top + CAPTION
    axes.text(0, first, caption(turns), size=8, va="bottom")
    for index, member in enumerate(turns.members):
        y = first + ROW * (index + (1 - BAR) / 2)
        middle = first + ROW * (index + 0.5)
        axes.broken_barh([(0, 1)], (y, ROW * BAR), facecolors=FREE[0])
        for bar in member.bars:
            axes.broken_barh(
                [(bar.start, bar.end - bar.start)],
                (y, ROW * BAR),
                facecolors=stage_colour(bar.resource),
                hatch=_hatch(bar.resource),
            )
            if WIDTH * (bar.end - bar.start) > MARKED:
                axes.text(
                    (bar.start + bar.end) / 2,
                    middle,
                    marks[bar.resource],
                    size=7,
                    ha="center",
                    va="center",
                )
        axes.text(-0.01, middle, shortened(member.name), size=7, ha="right", va="center")
        axes.text(1.01, middle, percent(member.speed), size=7, va="center")
    axes.vlines(
        turns.boundaries,
        first,
        first + ROW * len(turns.members),
        colors="#555555",
        linewidths=0.6,
        clip_on=False,
    )


def _height(turns: Turns) -> float:
    return CAPTION + ROW * len(turns.members) + BETWEEN


def _hatch(resource: int) -> str | None:
    """Tell apart resources whose colour is the same."""
    return HATCH if resource >= len(STAGES) else None


def _legend(resources: tuple[str, ...]) -> list[Patch]:
    """Name the colours of the resources, and that of waiting."""
    from matplotlib.patches import Patch

    # The letter comes first: matplotlib leaves out labels that begin with an underscore.
    return [
        *(
            Patch(
                facecolor=stage_colour(index),
                hatch=_hatch(index),
                label=f"{mark}: {shortened(name)}",
            )
            for index, (mark, name) in enumerate(zip(letters(resources), resources, strict=True))
        ),
        Patch(facecolor=FREE[0], label=" waits"),
    ]
