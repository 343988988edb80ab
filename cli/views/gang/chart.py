"""The rack-and-host map for the terminal: a row per host, a letter per GPU of a job.

A GPU that several jobs share, or one in part, is in brackets: `[ABB·]` has a letter for each
quarter or, where that is not enough, for each eighth of it. Jobs that take turns on a GPU are in
braces: `{ABC}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np
from rich.columns import Columns
from rich.console import Console
from rich.text import Text

from placewright.array_types import Ints
from placewright.cli.views.gang.facts import LETTERS, Occupancy
from placewright.cli.views.gang.parts import Parts, SharingKind
from placewright.cli.views.gang.styles import (
    CONDITIONS,
    Entry,
    Style,
    free_style,
    job_style,
    legend_of,
)
from placewright.instances.derived.phrases import count
from placewright.report.facts.jobs import Condition
from placewright.report.text import short

MAX_HOSTS = 128
"""Larger clusters have their utilisation by rack instead."""

QUARTERS, EIGHTHS = 4, 8
ARROW = " → "
NOTES = {
    SharingKind.SHARES: "[AB··] a GPU in parts: what each job holds of it, in proportion",
    SharingKind.SLICES: "[AABB··C·] a GPU cut into MIG slices: who holds each memory slice",
    SharingKind.TURNS: "{AB} a GPU on which jobs take turns",
}


def print_map(console: Console, occupancy: Occupancy) -> None:
    """Print all hosts by rack, and a legend.

    Where the plan moves or preempts jobs, each host has its GPUs before the plan and after it. Of a
    cluster without GPUs there is no map to print.
    """
    cluster = occupancy.cluster
    if not cluster.num_gpus:
        number = count(cluster.num_hosts, "host")
        console.print(f"no map: {number} without GPUs; solve lists where jobs are")
        return
    racked = len(cluster.levels) > 1
    # Hosts of one rack need not be neighbours in the document.
    order = (
        np.argsort(cluster.domain[-2], kind="stable") if racked else np.arange(cluster.num_hosts)
    )
    shown = order.tolist()
    rows = _Rows(occupancy, shown)
    if occupancy.before is not None:
        console.print(Text(f"each host before{ARROW}after the plan", "dim"))
    for section, hosts in groupby(shown, key=lambda host: _section(occupancy, host)):
        if section:
            console.print(Text(section, style="bold"))
        tiles = [
            _tile(occupancy, rows, rack, list(members))
            for rack, members in groupby(
                hosts, key=lambda host: int(cluster.domain[-2, host]) if racked else -1
            )
        ]
        if racked:
            console.print(Columns(tiles, padding=(1, 3), equal=True))
        else:
            console.print(Columns(tiles[0].split(), padding=(0, 3), equal=True))
        console.print()
    print_legend(console, legend_of(occupancy, len(LETTERS)))
    for sharing in occupancy.sharing:
        console.print(Text(NOTES[sharing], "dim"))


def _section(occupancy: Occupancy, host: int) -> str:
    """Name the domains above the host's rack, outermost first."""
    cluster = occupancy.cluster
    return " / ".join(
        f"{cluster.levels[depth]} {cluster.names[depth][cluster.domain[depth, host]]}"
        for depth in range(len(cluster.levels) - 2)
    )


def _tile(occupancy: Occupancy, rows: _Rows, rack: int, hosts: list[int]) -> Text:
    """Draw a rack with its title, or hosts of a cluster without levels."""
    cluster = occupancy.cluster
    title = cluster.names[-2][rack] if rack >= 0 else ""
    labels = [short(cluster.hosts[host], title) for host in hosts]
    width = max(map(len, labels))
    lines = [
        Text.assemble((f"{label:<{width}} ", "dim"), rows.of(host))
        for label, host in zip(labels, hosts, strict=True)
    ]
    heading = [Text.assemble((f"{cluster.levels[-2]} ", "dim"), title)] if title else []
    return Text("\n").join([*heading, *lines])


class _Rows:
    """The rows of hosts: GPUs as letters, before and after a plan, and why nothing may arrive."""

    def __init__(self, occupancy: Occupancy, hosts: list[int]) -> None:
        self.occupancy = occupancy
        self.styles = [job_style(job) for job in occupancy.jobs]
        self.halves = [(parts, self._starts(parts)) for parts in occupancy.maps]
        cells = [[self._half(host, half) for half in self.halves] for host in hosts]
        self.cells = dict(zip(hosts, cells, strict=True))
        self.width = max((len(row[0]) for row in cells), default=0)

    def _starts(self, parts: Parts) -> Ints:
        """Return where the parts of each GPU begin (gpus + 1,)."""
        return np.searchsorted(parts.gpu, np.arange(self.occupancy.cluster.num_gpus + 1))

    def of(self, host: int) -> Text:
        """Return the row of a host."""
        first, *others = self.cells[host]
        row = first.copy()
        for other in others:
            row.append(" " * (self.width - len(first))).append(ARROW, "dim").append(other)
        condition = Condition(int(self.occupancy.host_condition[host]))
        if condition:
            row.append(f" {condition.word}", CONDITIONS[condition].terminal)
        return row

    def _half(self, host: int, half: tuple[Parts, Ints]) -> Text:
        """Draw the GPUs of a host before or after the plan."""
        parts, starts = half
        cluster, text = self.occupancy.cluster, Text()
        for gpu in range(*cluster.gpu_start[host : host + 2].tolist()):
            condition = Condition(int(self.occupancy.gpu_condition[gpu]))
            rest = CONDITIONS[condition] if condition else free_style(int(cluster.gpu_model[host]))
            text.append(self._gpu(parts, range(*starts[gpu : gpu + 2].tolist()), rest))
        return text

    def _gpu(self, parts: Parts, held: range, rest: Style) -> Text:
        """Draw one GPU: a letter if it is free or one job has it, else its parts."""
        if not held:
            return Text(rest.symbol, rest.terminal)
        styles = [self.styles[int(parts.job[part])] for part in held]
        if parts.right[held[0]] < 1:
            return _joined("{}", styles)
        if len(held) == 1 and parts.high[held[0]] - parts.low[held[0]] >= 1:
            return Text(styles[0].symbol, styles[0].terminal)
        low, high = parts.low[held.start : held.stop], parts.high[held.start : held.stop]
        for cells in (QUARTERS, EIGHTHS):
            first, last = np.rint(cells * low).astype(int), np.rint(cells * high).astype(int)
            # A part has a letter at least, if need be of what is above it.
            last = np.maximum(last, first + 1)
            first = np.maximum(first, np.concatenate([[0], last[:-1]]))
            last = np.maximum(last, first + 1)
            if last[-1] <= cells and np.allclose(cells * high, last, atol=0.3):
                break
        drawn = [rest] * int(max(cells, last[-1]))
        for style, start, end in zip(styles, first.tolist(), last.tolist(), strict=True):
            drawn[start:end] = [style] * (end - start)
        return _joined("[]", drawn)


def _joined(brackets: str, styles: Sequence[Style]) -> Text:
    """Return the symbols of a GPU between brackets."""
    text = Text(brackets[0], "dim")
    for style in styles:
        text.append(style.symbol, style.terminal)
    return text.append(brackets[1], "dim")


def print_legend(console: Console, entries: Iterable[Entry]) -> None:
    """Name the letters and symbols, in columns where the terminal is wide enough."""
    lines: list[Text] = []

    def print_lines() -> None:
        if lines:
            console.print(Columns(lines, padding=(0, 3), equal=True, column_first=True))
        lines.clear()

    for text, style, heading in entries:
        if heading:
            print_lines()
        line = Text.assemble((f"{style.symbol} ", style.terminal) if style else "", text)
        if heading:
            console.print(line)
        else:
            lines.append(Text("  ") + line)
    print_lines()
