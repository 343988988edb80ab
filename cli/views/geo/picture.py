"""The map of regions in a picture: load of each region, and what links carry.

Shades, hatches and line widths tell apart what colours do, so that a print in black and white says
the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from placewright.array_types import Floats
from placewright.cli.format.colours import OFFERED, PLACED
from placewright.cli.views.geo.chart import load_title, loads_of
from placewright.cli.views.geo.layout import positions
from placewright.instances.derived.phrases import count
from placewright.report.facts.regions import RegionPlan
from placewright.report.text import count_gpus, load, shortened

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LINKS = 20
"""Arrows on a map at most, those of most GiB."""
NEIGHBOURS = 2
"""Number of the widest links of each region that are drawn in grey."""

PANEL, TALL = 7.5, 6.2
BETWEEN, TOP, LINE = 0.3, 0.5, 0.24
LEAST, MOST = 0.11, 0.38
"""Radius of a region."""
LETTER, LABEL = 0.068, 0.3
"""Width of a letter, and height of a label of two lines. All in inches."""
SPACE, SMALLEST = 4.0, 0.6
"""Space of a map for each unit of it that regions take; how much smaller it is for few of them."""
BOUNDS = (0.5, 0.8, 1.0, 1.5)
FILLS: tuple[tuple[str, str | None], ...] = (
    ("#f2f7fb", None),
    ("#c3dcee", None),
    ("#6aaed6", None),
    ("#f0b48a", "////"),
    (OFFERED, "xxxx"),
)
"""Colour and hatch up to each bound, and beyond the last one; lighter where less is asked."""
PARTS = ((0.25, 0.6, "#8c8c8c"), (0.5, 1.1, "#666666"), (0.75, 1.7, "#3c3c3c"))
FULLEST = (2.5, "#000000")
"""Widths and shades of links up to each part of a budget, and beyond."""
GREY, FAINT = "#555555", "#d9d9d9"
CURVE = 0.13


class _Arrow(NamedTuple):
    source: int
    target: int
    gib: int
    part: float
    reads: bool


def add_regions(figure: Figure, facts: RegionPlan, gap: float = TOP) -> None:
    """Draw the map below all that the figure shows: before the plan, and after it beside that.

    `gap` is how far below, in inches.
    """
    from matplotlib.transforms import Bbox

    width, height = figure.get_size_inches()
    halves = loads_of(facts)
    radius = _radius(facts)
    boxes = np.stack(
        [
            [
                max(2 * r, LETTER * len(shortened(name)))
                for r, name in zip(radius, facts.regions.names, strict=True)
            ],
            2 * radius + LABEL,
        ],
        axis=1,
    )
    wide, tall = np.array([PANEL, TALL]) * max(
        np.sqrt(SPACE * boxes.prod(axis=1).sum() / (PANEL * TALL)), SMALLEST
    )
    centres = positions(facts.regions, wide, tall, boxes)
    centres -= (centres - boxes / 2).min(axis=0)
    wide, tall = (centres + boxes / 2).max(axis=0)
    centres[:, 1] -= LABEL / 2
    figure.text(0, -gap / height, load_title(facts), size=9, weight="bold", va="top")
    arrows = _arrows(facts)
    for half, (word, milli, loads) in enumerate(halves):
        left, top = half * (wide + BETWEEN), gap + LINE
        hottest = int(loads.argmax())
        text = load(milli[hottest], int(facts.regions.gpus[hottest]))
        caption = f"{word}: at most {text}, in {shortened(facts.regions.names[hottest])}"
        figure.text(left / width, -top / height, caption, size=9, va="top")
        box = Bbox.from_bounds(
            left / width, -(top + LINE + tall) / height, wide / width, tall / height
        )
        axes = figure.add_axes(box.bounds)
        axes.set_xlim(0, wide)
        axes.set_ylim(tall, 0)
        axes.set_axis_off()
        _add_faint(axes, facts, centres)
        if word == "after":
            _add_arrows(axes, arrows[:MAX_LINKS], centres, radius)
        _add_nodes(axes, facts, centres, radius, milli, loads)
    right = len(halves) * (wide + BETWEEN)
    figure.legend(
        handles=_legend(facts, arrows),
        loc="upper left",
        bbox_to_anchor=(right / width, -(gap + LINE) / height),
        frameon=False,
        fontsize=8,
        borderaxespad=0,
        borderpad=0,
        handlelength=2.6,
    )


def _radius(facts: RegionPlan) -> Floats:
    """Return the radius of each region: its area grows with its GPUs."""
    gpus = facts.regions.gpus
    return np.asarray(np.maximum(MOST * np.sqrt(gpus / max(int(gpus.max()), 1)), LEAST))


def _arrows(facts: RegionPlan) -> list[_Arrow]:
    """Return what goes over links, most GiB first."""
    used = facts.links.values()
    copies = [_Arrow(u.source, u.target, u.gib, u.copied, False) for u in used if u.copies]
    reads = [_Arrow(u.source, u.target, u.reads, u.read, True) for u in used if u.jobs]
    return sorted((*copies, *reads), key=lambda arrow: (-arrow.gib, arrow))


def _add_faint(axes: Axes, facts: RegionPlan, centres: Floats) -> None:
    """Draw the widest links of each region as what is there."""
    from matplotlib.collections import LineCollection

    beside: dict[int, list[tuple[int, int]]] = {}
    for (source, target), link in facts.regions.links.items():
        beside.setdefault(source, []).append((-link.bandwidth, target))
    pairs = {
        (min(source, target), max(source, target))
        for source, others in beside.items()
        for _, target in sorted(others)[:NEIGHBOURS]
    }
    lines = [centres[list(pair)] for pair in sorted(pairs)]
    axes.add_collection(LineCollection(lines, colors=FAINT, linewidths=0.7, zorder=1))


def _add_arrows(axes: Axes, arrows: list[_Arrow], centres: Floats, radius: Floats) -> None:
    """Draw what goes over links, each direction on a side of its own; the most on top."""
    from matplotlib.patches import FancyArrowPatch

    for arrow in reversed(arrows):
        axes.add_patch(
            FancyArrowPatch(
                tuple(centres[arrow.source]),
                tuple(centres[arrow.target]),
                arrowstyle="-|>",
                # Points, of which an inch has 72.
                mutation_scale=6 + 1.5 * _line(arrow.part)["linewidth"],
                shrinkA=72 * radius[arrow.source],
                shrinkB=72 * radius[arrow.target],
                connectionstyle=f"arc3,rad={-CURVE if arrow.reads else CURVE}",
                zorder=2,
                **_style(arrow.part, reads=arrow.reads),
            )
        )


def _style(part: float, *, reads: bool) -> dict[str, Any]:
    """Return how a link is drawn that carries this part of what it may."""
    if reads:
        return {"linewidth": _line(part)["linewidth"], "color": PLACED, "linestyle": "--"}
    return _line(part)


def _line(part: float) -> dict[str, Any]:
    for bound, width, colour in PARTS:
        if part <= bound:
            return {"linewidth": width, "color": colour}
    return {"linewidth": FULLEST[0], "color": FULLEST[1]}


def _add_nodes(
    axes: Axes,
    facts: RegionPlan,
    centres: Floats,
    radius: Floats,
    milli: Any,
    loads: Floats,
) -> None:
    """Draw each region with its name and its load."""
    from matplotlib.patches import Circle

    supply = facts.regions.gpus.tolist()
    for region, name in enumerate(facts.regions.names):
        x, y = centres[region]
        axes.add_patch(
            Circle(
                (x, y),
                radius[region],
                edgecolor="black",
                zorder=3,
                clip_on=False,
                **_fill(float(loads[region]), there=supply[region] > 0),
            )
        )
        text = f"{shortened(name)}\n{load(milli[region], supply[region])}"
        axes.text(
            x,
            y + radius[region] + 0.02,
            text,
            size=7,
            ha="center",
            va="top",
            linespacing=1.0,
            zorder=4,
            bbox={"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 0.5},
        )


def _fill(value: float, *, there: bool = True) -> dict[str, Any]:
    """Return how a region of this load is filled; one with more than it has is outlined heavily."""
    if not there:
        return {"facecolor": "white", "linestyle": ":", "linewidth": 1.0}
    colour, hatch = FILLS[sum(value > bound for bound in BOUNDS)]
    return {"facecolor": colour, "hatch": hatch, "linewidth": 2.0 if value > 1 else 0.8}


def _legend(facts: RegionPlan, arrows: list[_Arrow]) -> list[Artist]:
    """Name shades, sizes and lines."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    largest = count_gpus(int(facts.regions.gpus.max()))
    texts = [f"load up to {bound:.2f}" for bound in BOUNDS] + [f"load above {BOUNDS[-1]:.2f}"]
    values = [*BOUNDS, BOUNDS[-1] + 1]
    entries: list[Artist] = [
        Patch(edgecolor="black", label=text, **_fill(value))
        for text, value in zip(texts, values, strict=True)
    ]
    if not facts.regions.gpus.all():
        entries.append(Patch(edgecolor="black", label="no GPUs", **_fill(0, there=False)))
    entries.append(Line2D([], [], linestyle="", label=f"area: GPUs, at most {largest}"))
    entries.append(Line2D([], [], color=FAINT, linewidth=0.7, label="widest links"))
    for reads, what in ((False, "copies, of the budget"), (True, "reads, of what links carry")):
        if any(arrow.reads == reads for arrow in arrows):
            entries.append(Line2D([], [], linestyle="", label=what))
            entries += [
                Line2D([], [], label=f"  {text}", **_style(part, reads=reads))
                for part, text in (
                    (0.25, "to 25 %"),
                    (0.5, "to 50 %"),
                    (0.75, "to 75 %"),
                    (1, "more"),
                )
            ]
    if len(arrows) > MAX_LINKS:
        more = count(len(arrows) - MAX_LINKS, "more link")
        entries.append(Line2D([], [], linestyle="", label=f"and {more}, of less"))
    return entries
