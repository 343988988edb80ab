"""Regions as a picture, where they lie; and what policies `geo` and `replicas` show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from placewright.array_types import Floats
from placewright.cli.format.console import OFFERED, PLACED
from placewright.cli.views.geo.chart import load_title, loads_of, print_regions
from placewright.cli.views.geo.tables import print_data_of_round, print_region_tables
from placewright.cli.views.policies import PolicyViews
from placewright.instances.derived.phrases import count
from placewright.report.facts.regions import RegionPlan, Regions, region_plan_of
from placewright.report.text import count_gpus, gib, load, shortened

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round


# Layout of a region map: distances approximate round-trip times.
#
# Rounds have no coordinates. Torgerson's classical scaling of round-trip times comes near to
# those of the earth, up to a turn; boxes that overlap are then pushed apart. Where no time is
# known, regions lie on a circle.
#
# References
# ----------
# W. S. Torgerson, "Multidimensional scaling: I. Theory and method", Psychometrika 17 (1952).


ROUNDS = 400
"""Passes that push boxes apart."""
EVEN, FEW = 0.6, 4
"""How much of a place among many is that in the order of all; among few all of it is distance."""
BOTH = 5
"""Passes between two along both sides."""
FAR = 1.5
"""Regions that no path of links joins, in the longest distance."""


def positions(regions: Regions, width: float, height: float, boxes: Floats) -> Floats:
    """Return the centre of each region on a page, the y axis pointing down (regions, 2).

    `boxes` has the width and height that each region takes (regions, 2); where all of them find no
    place the page is left.
    """
    count = len(regions.names)
    if count == 1:
        return np.array([[width / 2, height / 2]])
    plane = _plane(_distances(regions))
    low, high = plane.min(axis=0), plane.max(axis=0)
    space = np.maximum(np.array([width, height]) - boxes.max(axis=0), 1e-9)
    flat = (plane - (low + high) / 2) * (space / np.maximum(high - low, 1e-9)).min() / space
    # Evenly by rank, in part: one region far away must not squeeze many others together.
    rank = plane.argsort(axis=0, kind="stable").argsort(axis=0) / (count - 1)
    even = EVEN * (1 - FEW / max(count, FEW))
    scaled = (1 - even) * (flat + 0.5) + even * rank
    return _apart(scaled * space + boxes.max(axis=0) / 2, boxes, np.array([width, height]))


def _distances(regions: Regions) -> Floats:
    """Return distances (regions, regions): the least sum of round-trip times along links."""
    count = len(regions.names)
    far = np.full((count, count), np.inf)
    np.fill_diagonal(far, 0)
    for (source, target), link in regions.links.items():
        if link.rtt_us:
            for ends in ((source, target), (target, source)):
                far[ends] = min(far[ends], link.rtt_us)
    for via in range(count):
        np.minimum(far, far[:, via, None] + far[None, via, :], out=far)
    known = far[np.isfinite(far)]
    most = float(known.max())
    return np.where(np.isfinite(far), far, FAR * most if most else 0.0)


def _plane(distances: Floats) -> Floats:
    """Multidimensional scaling: return points that approximate the distances, wider than high."""
    count = len(distances)
    if distances.max() <= 0:
        turn = 2 * np.pi * np.arange(count) / count
        return np.stack([-np.cos(turn), -np.sin(turn)], axis=1)
    centre = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centre @ distances**2 @ centre)
    points = vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 0))
    # A map and its mirror image are alike: the first region lies on the left, above.
    return np.asarray(points * np.where(points[0] > 0, -1, 1))


def _apart(points: Floats, boxes: Floats, page: Floats) -> Floats:
    """Push boxes apart that overlap, along the side on which they overlap less."""
    points = points.copy()
    need = (boxes[:, None] + boxes[None, :]) / 2
    order = np.arange(len(points))
    for turn in range(ROUNDS):
        gap = points[:, None] - points[None, :]
        overlap = need - np.abs(gap)
        both = np.asarray((overlap > 1e-6).all(axis=2))
        np.fill_diagonal(both, False)
        if not both.any():
            break
        # Of two points in one place the first one goes left or up.
        side = np.where(gap == 0, np.where(order[:, None] < order, -1, 1)[:, :, None], np.sign(gap))
        across = overlap[:, :, 0] < overlap[:, :, 1]
        # Now and then along both, or those at the edge of the page never part.
        along = np.stack([across, ~across], axis=2) | (turn % BOTH == 0)
        push = np.where(both[:, :, None] & along, side * overlap / 2, 0).sum(axis=1)
        points += 0.7 * push
        points = np.clip(points, boxes / 2, np.maximum(page - boxes / 2, boxes / 2))
    return points


# The map of regions in a picture: load of each region, and what links carry.
#
# Shades, hatches and line widths tell apart what colours do, so that a print in black and white
# says the same.


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


NO_MAP_GAP = 0.01
"""Inches above regions that are drawn without a map."""


def data_text(round_: Round) -> str:
    """Count the regions of a round, its datasets, their replicas, and the links."""
    geo = round_.geo
    regions = sum(domain.level == geo.level for domain in round_.cluster.domains)
    replicas = sum(len(dataset.replicas) for dataset in geo.datasets)
    return (
        f"{count(regions, 'region')}, {count(len(geo.links), 'link')}, "
        f"{count(len(geo.datasets), 'dataset')} of {gib(sum(d.size for d in geo.datasets))}, "
        f"{count(replicas, 'replica')}"
    )


def _round_charts(console: Console, round_: Round) -> None:
    regions = region_plan_of(round_, None)
    console.print()
    print_regions(console, regions)
    print_data_of_round(console, regions)


def _tables(console: Console, round_: Round, plan: Plan) -> None:
    print_region_tables(console, region_plan_of(round_, plan))


def _charts(console: Console, round_: Round, plan: Plan) -> None:
    """Print the load of regions and links, below a map if there is one, and the tables."""
    regions = region_plan_of(round_, plan)
    if round_.policy.spec.places_jobs:
        console.print()
    print_regions(console, regions)
    print_region_tables(console, regions)


def _panels(figure: Figure, round_: Round, plan: Plan | None) -> None:
    mapped = plan is None or round_.policy.spec.places_jobs
    add_regions(figure, region_plan_of(round_, plan), TOP if mapped else NO_MAP_GAP)


VIEWS = PolicyViews(
    round_text=data_text,
    round_charts=_round_charts,
    plan_tables=_tables,
    plan_charts=_charts,
    panels=_panels,
)
