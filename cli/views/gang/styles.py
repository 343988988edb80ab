"""Styles: the colour, hatch and symbol of jobs and of GPUs that nobody holds.

Maps, pictures and legends all draw with these. Nothing is told apart by colour alone: jobs have a
mark, the rest a hatch or a symbol.
"""

from __future__ import annotations

from typing import NamedTuple

from placewright.cli.format.colours import (
    FREE_EDGE,
    HATCHES,
    LARGE,
    LIGHT,
    PLACED,
    PREEMPTED,
    RESERVED,
    SHADE,
    STAYS,
    STOPS,
    TO_VACATE,
    UNHEALTHY,
    free_colour,
    free_hatch,
)
from placewright.cli.views.gang.facts import Holder, Occupancy, Use
from placewright.instances.derived.phrases import count
from placewright.report.facts.jobs import Condition
from placewright.report.text import count_gpus, shortened

MAX_TENANT = 16
FREE = "·"
UNMARKED = {
    Use.STARTED: "■▪◆",
    Use.MIGRATED: "▣▩◈",
    Use.PREEMPTED: "○◦◎",
    Use.KEPT: "□▫◇",
    Use.RUNNING: "□▫◇",
}
"""Symbols in turn of jobs without a mark, so that neighbours look different."""


class Style(NamedTuple):
    """How something is drawn: in a picture by colour, hatch and mark, in a terminal by symbol.

    `edge` is the colour of the hatch; `mark` is empty where a picture has no letter; `terminal` is
    the style of the symbol.
    """

    colour: str
    edge: str
    hatch: str | None
    mark: str
    symbol: str
    terminal: str


CONDITIONS = {
    Condition.RESERVED: Style(RESERVED, SHADE, "////", "", "▒", "yellow"),
    Condition.TO_VACATE: Style(TO_VACATE, SHADE, "\\\\\\\\", "", "░", "yellow"),
    Condition.AWAY: Style(UNHEALTHY, UNHEALTHY, None, "", "×", "red"),
    Condition.UNHEALTHY: Style(UNHEALTHY, UNHEALTHY, None, "", "×", "red"),
}


def free_style(model: int) -> Style:
    """Return how a free GPU of this model is drawn."""
    return Style(free_colour(model), FREE_EDGE, free_hatch(model), "", FREE, "dim")


def job_style(job: Holder) -> Style:
    """Return how a job is drawn.

    What arrives, or runs in a round without a plan, has a colour of its own, the next ones with a
    hatch; what stays is grey.
    """
    symbol = job.mark or UNMARKED[job.use][job.rank % 3]
    if job.use is Use.PREEMPTED:
        return Style(PREEMPTED, STOPS, "xxx", job.mark, symbol, "red")
    if job.use is Use.KEPT:
        colour = STAYS[job.rank % len(STAYS)]
        return Style(colour, colour, None, job.mark, symbol, colour)
    if not job.mark:
        colour = PLACED if job.use.arrives else STAYS[job.rank % len(STAYS)]
        hatch = "///" if job.use is Use.MIGRATED else None
        return Style(colour, LIGHT, hatch, "", symbol, colour)
    colour = LARGE[job.rank % len(LARGE)]
    hatch = HATCHES[job.rank // len(LARGE)]
    return Style(colour, LIGHT, hatch, job.mark, symbol, colour)


class Entry(NamedTuple):
    """A line of a legend; a heading may have a style, and so may what is below it."""

    text: str
    style: Style | None = None
    heading: bool = False


def legend_of(occupancy: Occupancy, most: int) -> list[Entry]:
    """Return the lines that name what is drawn: jobs by use, `most` of each, then hosts."""
    entries = []
    for use in Use:
        jobs = [job for job in occupancy.jobs if job.use is use]
        marked = [job for job in jobs if job.mark][:most]
        rest = jobs[len(marked) :]
        if not jobs:
            continue
        heading = f"{use}: {count(len(jobs), 'job')}, {_gpus(jobs)}"
        entries.append(Entry(heading, None if marked else _rest(jobs), heading=True))
        entries += [Entry(_job_text(job), job_style(job)) for job in marked]
        if marked and rest:
            entries.append(Entry(f"{count(len(rest), 'other job')}, {_gpus(rest)}", _rest(rest)))
    if occupancy.without_gpus:
        entries.append(
            Entry(f"not drawn: {count(occupancy.without_gpus, 'job')} without GPUs", heading=True)
        )
    entries.append(Entry("held by nobody", heading=True))
    entries += [
        Entry(f"free {shortened(model)}", free_style(index))
        for index, model in enumerate(occupancy.cluster.gpu_models)
    ]
    entries += [Entry(c.word, CONDITIONS[c]) for c in occupancy.conditions]
    return entries


def _rest(jobs: list[Holder]) -> Style:
    """Return the style of jobs that are not named one by one."""
    return job_style(jobs[0]._replace(mark=""))._replace(symbol=UNMARKED[jobs[0].use])


def _gpus(jobs: list[Holder]) -> str:
    return count_gpus(sum(job.milli_gpu for job in jobs))


def _job_text(job: Holder) -> str:
    tenant = f", {shortened(job.tenant, MAX_TENANT)}" if job.tenant else ""
    where = f" on {count(job.hosts, 'host')}" if job.hosts > 1 else ""
    return f"{shortened(job.name)}: {count_gpus(job.milli_gpu)}{where}{tenant}"
