"""Regions and links in text: bars of load before and after, and a grid of links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from placewright.array_types import Floats
from placewright.cli.format.console import OFFERED, PLACED, print_more
from placewright.cli.views.geo.tables import (
    MAX_REGIONS,
    by_load,
)
from placewright.instances.derived.phrases import count
from placewright.report.facts.regions import RegionPlan, heat
from placewright.report.text import gib, gpus, load, number

# Regions and links for the terminal: bars of load before and after, and a grid of links.


INDENT, GAP = 2, 2
MIN_NAME, LOAD = 8, 7
"""Columns of a region's name at least, and of a load in numbers."""
MIN_BAR, MAX_BAR = 6, 30
MOST = 4.0
"""The load at which bars end."""
WITHIN, OVER, BEYOND, FULL = "█", "▓", "›", "│"
NO_LINK, UNUSED, ABOVE = " ", "·", "!"
SHADES = "░▒▓█"

Ends = tuple[int, int]


class Grid(NamedTuple):
    """What links carry: a title, and the part of something for each link."""

    title: str
    parts: Mapping[Ends, float]


def print_regions(console: Console, facts: RegionPlan) -> None:
    """Print the load of regions, before and after a plan if there is one, and their links."""
    order = by_load(facts)[:MAX_REGIONS]
    _print_bars(console, facts, order)
    console.print()
    print_more(console, len(facts.regions.names) - len(order), "more region")
    for grid in _grids(facts):
        _print_grid(console, facts, order, grid)


def load_title(facts: RegionPlan) -> str:
    """Say what the load of a region is."""
    what = "asked" if facts.slow or facts.plan is None else "held"
    return f"Load of regions, GPUs {what} over GPUs there"


def loads_of(facts: RegionPlan) -> list[tuple[str, Sequence[int], Floats]]:
    """Return what is drawn beside each other: its title, milli-GPU of each region, and loads."""
    first = facts.before if facts.slow or facts.plan is None else facts.held
    drawn = (
        [("before", first)] if facts.plan is None else [("before", first), ("after", facts.after)]
    )
    return [(word, milli.tolist(), heat(milli, facts.regions.gpus)) for word, milli in drawn]


def _print_bars(console: Console, facts: RegionPlan, order: Sequence[int]) -> None:
    """Print a row per region with the GPUs that it has, and a bar for each of its loads."""
    names, supply, halves = facts.regions.names, facts.regions.gpus.tolist(), loads_of(facts)
    size = max(len("GPUs"), *(len(gpus(milli)) for milli in supply))
    name = max(min(max(map(len, names)), console.width // 4), MIN_NAME)
    space = console.width - INDENT - name - 1 - size - GAP
    bar = min(space // len(halves) - LOAD - 2 - GAP, MAX_BAR)
    bar = bar if bar >= MIN_BAR else 0
    console.print(Text(load_title(facts), "bold"))
    if bar:
        over = f"   {OVER * 2} more than there are" if _most(halves) > 1 else ""
        console.print(Text(f"{WITHIN * 2} load   {FULL} all GPUs{over}", "dim"))
    console.print()
    columns = LOAD + (1 + bar + 1 if bar else 0) + GAP
    titles = "".join(f"{word:>{LOAD}}".ljust(columns) for word, _, _ in halves)
    _print_line(console, Text(f"{'':{INDENT + name}} {'GPUs':>{size}}{'':{GAP}}{titles}", "dim"))
    for region in order:
        line = Text(" " * INDENT + names[region])
        line.truncate(INDENT + name, overflow="ellipsis", pad=True)
        line.append(f" {gpus(supply[region]):>{size}}{'':{GAP}}")
        for _, milli, loads in halves:
            line.append(f"{load(milli[region], supply[region]):>{LOAD}}")
            if bar:
                line.append(" ").append(_bar(float(loads[region]), _most(halves), bar))
            line.append(" " * GAP)
        _print_line(console, line)


def _most(halves: Sequence[tuple[str, Sequence[int], Floats]]) -> float:
    """Return the load at which bars end."""
    return min(max(1.0, *(float(loads.max()) for _, _, loads in halves)), MOST)


def _bar(value: float, most: float, cells: int) -> Text:
    """Draw a load, with a mark where all GPUs are asked; a load above zero has a cell."""
    whole = round(cells / most)
    filled = min(round(value * cells / most), cells)
    filled = max(filled, 1) if value > 0 else 0
    text = Text()
    text.append((WITHIN * min(filled, whole)).ljust(whole), PLACED)
    text.append(FULL, "dim")
    text.append((OVER * max(filled - whole, 0)).ljust(cells - whole), OFFERED)
    if value > most:
        text.right_crop(1)
        text.append(BEYOND, OFFERED)
    return text


def _grids(facts: RegionPlan) -> Iterator[Grid]:
    """Yield a line per link: of a round its bandwidth, of a plan its use."""
    links = facts.regions.links
    if facts.plan is None:
        widest = max((link.bandwidth for link in links.values()), default=0)
        if widest:
            parts = {ends: link.bandwidth / widest for ends, link in links.items()}
            yield Grid(f"Bandwidth of links, as a part of {number(widest)} Mbit/s", parts)
        return
    used = facts.links
    if any(use.copies for use in used.values()):
        total = sum(use.gib for use in used.values())
        parts = {ends: use.copied for ends, use in used.items()}
        yield Grid(f"Copies over links ({gib(total)}), as a part of their budgets", parts)
    if any(use.jobs for use in used.values()):
        total = sum(use.reads for use in used.values())
        parts = {ends: use.read for ends, use in used.items()}
        yield Grid(f"Reads over links ({gib(total)}), as a part of what they carry", parts)


def _print_grid(console: Console, facts: RegionPlan, order: Sequence[int], grid: Grid) -> None:
    """Print a row per region that sends and a column per region that gets something."""
    names = facts.regions.names
    console.print(Text(grid.title, "bold"), soft_wrap=True)
    digits = len(str(len(order)))
    name = max(min(max(map(len, names)), console.width // 4), MIN_NAME)
    space = console.width - INDENT - digits - name - 2
    cell = min(space // len(order), digits + 1)
    if cell < 1:
        sent = count(sum(part > 0 for part in grid.parts.values()), "link")
        console.print(
            f"{sent} of {len(facts.regions.links):,} used; too many regions to draw here",
            soft_wrap=True,
        )
        console.print()
        return
    legend = "   ".join(
        f"{shade * 2} {bound}"
        for shade, bound in zip(SHADES, ("to 25 %", "to 50 %", "to 75 %", "more"), strict=True)
    )
    above = f"   {ABOVE} above 100 %" if max(grid.parts.values(), default=0) > 1 else ""
    console.print(Text(f"from the row to the column: {legend}{above}   {UNUSED} none", "dim"))
    console.print()
    margin = " " * (INDENT + digits + name + 2)
    for numbers in _numbers(len(order), digits, cell):
        _print_line(console, Text(margin + numbers, "dim"))
    for row, source in enumerate(order, 1):
        line = Text(f"{'':{INDENT}}{row:>{digits}} {names[source]}")
        line.truncate(len(margin) - 1, overflow="ellipsis", pad=True)
        line.append(" ")
        for target in order:
            line.append(_cell(facts, grid, (source, target)).rjust(cell))
        _print_line(console, line)
    console.print()


def _numbers(columns: int, digits: int, cell: int) -> Iterator[str]:
    """Yield the lines that number the columns: one where numbers fit, else a digit each."""
    if cell > digits:
        yield "".join(f"{column:>{cell}}" for column in range(1, columns + 1))
        return
    texts = [f"{column:>{digits}}" for column in range(1, columns + 1)]
    yield from ("".join(text[digit].rjust(cell) for text in texts) for digit in range(digits))


def _cell(facts: RegionPlan, grid: Grid, ends: Ends) -> str:
    """Return the mark of a link."""
    part = grid.parts.get(ends, 0.0)
    if part > 1:
        return ABOVE
    if part <= 0:
        return UNUSED if ends in facts.regions.links else NO_LINK
    steps = (0.25, 0.5, 0.75)
    return SHADES[sum(1 for _ in takewhile(lambda step: part > step, steps))]


def _print_line(console: Console, line: Text) -> None:
    """Print a line that a terminal too narrow for it cuts instead of folding it."""
    line.rstrip()
    console.print(line, no_wrap=True, overflow="crop")
