"""Timelines for the terminal: a row per job of a group, a letter for the stage that it is at."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase

from rich.console import Console
from rich.text import Text

from placewright.cli.format.colours import stage_colour
from placewright.instances.derived.phrases import count
from placewright.report.facts.turns import Member, Timelines, Turns
from placewright.report.text import count_gpus, milliseconds, percent

HEADING = "Groups that take turns: one period each, and speeds as parts of those alone"
MAX_GROUPS = 8
MIN_CELLS, MAX_CELLS = 12, 96
MIN_NAME = 8
INDENT = 2
SPEED = 7
"""Columns of a speed such as ` 68.4 %`."""
WAITS = "·"


def print_timelines(console: Console, timelines: Timelines) -> None:
    """Print one period of each group, and how many more groups there are."""
    marks = letters(timelines.resources)
    console.print(Text(HEADING, "bold"))
    legend = Text()
    for index, (mark, resource) in enumerate(zip(marks, timelines.resources, strict=True)):
        legend.append(f" {mark} ", _style(index)).append(f" {resource}   ")
    console.print(legend.append(f"{WAITS} waits"))
    for turns in timelines.turns:
        console.print()
        _print_turns(console, turns, marks)
    if timelines.more:
        console.print()
        console.print(more_text(timelines))


def more_text(timelines: Timelines) -> str:
    """Say how many groups are not drawn."""
    return f"... and {count(timelines.more, 'more group')}"


def letters(resources: Sequence[str]) -> list[str]:
    """Return a letter for each resource: the first of its name that none before it has."""
    chosen: list[str] = []
    for resource in resources:
        wanted = [letter for letter in resource.lower() if letter in ascii_lowercase]
        chosen.append(next(c for c in (*wanted, *ascii_lowercase) if c not in chosen))
    return chosen


def caption(turns: Turns) -> str:
    """Say in a line which GPUs a group shares, and how well."""
    return (
        f"{turns.where}  {count_gpus(turns.milli_gpu)}, period {milliseconds(turns.period)}, "
        f"efficiency {percent(turns.efficiency)}"
    )


def _print_turns(console: Console, turns: Turns, marks: Sequence[str]) -> None:
    """Print a group: where it is, a row per job, and a ruler of the slots."""
    space = console.width - INDENT - SPEED - 1
    longest = max(len(member.name) for member in turns.members)
    name = max(min(longest, space - MIN_CELLS, space // 2), MIN_NAME)
    cells = min(max(space - name, MIN_CELLS), MAX_CELLS)
    console.print(caption(turns), soft_wrap=True)
    for member in turns.members:
        label = Text(" " * INDENT + member.name)
        label.truncate(INDENT + name, overflow="ellipsis", pad=True)
        row = label.append(" ").append(_row(member, cells, marks))
        # A terminal too narrow even for this cuts rows instead of folding them.
        console.print(
            row.append(f"{percent(member.speed):>{SPEED}}"), no_wrap=True, overflow="crop"
        )
    ruler = Text(" " * (INDENT + name + 1) + _ruler(turns.boundaries, cells), "dim")
    console.print(ruler, no_wrap=True, overflow="crop")


def _row(member: Member, cells: int, marks: Sequence[str]) -> Text:
    """Draw a job's period; every stage has a cell at least, if need be of a longer one."""
    row: list[int | None] = [None] * cells
    for bar in sorted(member.bars, key=lambda bar: bar.start - bar.end):
        first = min(round(bar.start * cells), cells - 1)
        last = max(round(bar.end * cells), first + 1)
        row[first:last] = [bar.resource] * (last - first)
    text = Text()
    for resource in row:
        if resource is None:
            text.append(WAITS, "dim")
        else:
            text.append(marks[resource], _style(resource))
    return text


def _ruler(boundaries: Sequence[float], cells: int) -> str:
    """Mark where slots begin and end, below the cells."""
    line = ["─"] * cells
    for boundary in boundaries[1:-1]:
        line[min(round(boundary * cells), cells - 1)] = "┴"
    line[0], line[-1] = "└", "┘"
    return "".join(line)


def _style(resource: int) -> str:
    return f"black on {stage_colour(resource)}"
