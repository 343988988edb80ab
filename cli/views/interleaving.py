"""Turns of groups: tables, text and picture, and what policy `interleaving` shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from placewright.cli.format.console import FREE, STAGES, print_table, stage_colour, table
from placewright.cli.views.policies import PolicyViews
from placewright.instances.derived.phrases import count
from placewright.report.facts.turns import Member, Timelines, Turns, groups_in, timelines_of
from placewright.report.text import count_gpus, gpus, milliseconds, number, percent, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    from placewright.instances.documents.job import Job
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round


Row = tuple[str, str, str, str, str]


def sizes_of(jobs: Mapping[str, Job], plan: Plan) -> list[Row]:
    """Return a row per size of groups, the smallest first.

    Its columns: jobs of a group, groups, the GPUs that they hold and those that their jobs ask,
    and the mean of the jobs' speeds as parts of those alone.
    """
    by_size: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for group in groups_in(plan):
        by_size[len(group["members"])].append(group)
    rows = []
    for size, groups in sorted(by_size.items()):
        held = sum(jobs[g["members"][0]["job"]].options[0].milli_gpu for g in groups)
        speed = sum(_alone(jobs, group) / group["period"] for group in groups)
        rows.append(
            (
                number(size),
                number(len(groups)),
                gpus(held),
                gpus(size * held),
                percent(speed / (size * len(groups))),
            )
        )
    return rows


def _alone(jobs: Mapping[str, Job], group: Mapping[str, Any]) -> int:
    """Add up the microseconds that an iteration of each member takes alone."""
    profiles = [jobs[member["job"]].profile for member in group["members"]]
    return sum(profile.alone for profile in profiles if profile is not None)


def print_groups(console: Console, jobs: Mapping[str, Job], plan: Plan) -> None:
    """Print how many groups take turns, by their size."""
    rows = sizes_of(jobs, plan)
    if rows:
        columns = ("jobs each", "groups", "GPUs", "GPUs asked", "mean speed, of that alone")
        made = table("Groups that take turns", *columns, right=columns)
        for row in rows:
            made.add_row(*row)
        print_table(console, made)


# Timelines for the terminal: a row per job of a group, a letter for the stage that it is at.


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


# Timelines below the map of a picture: a row per job of a group, its stages as bars.


MAX_DRAWN = 12
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


def _tables(console: Console, round_: Round, plan: Plan) -> None:
    print_groups(console, {job.name: job for job in round_.jobs}, plan)


def _charts(console: Console, round_: Round, plan: Plan) -> None:
    timelines = timelines_of(round_, plan, MAX_GROUPS)
    if timelines is not None:
        console.print()
        print_timelines(console, timelines)


def _panels(figure: Figure, round_: Round, plan: Plan | None) -> None:
    timelines = timelines_of(round_, plan, MAX_DRAWN)
    if timelines is not None:
        add_timelines(figure, timelines)


VIEWS = PolicyViews(plan_tables=_tables, plan_charts=_charts, panels=_panels)
