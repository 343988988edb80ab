"""The cluster in text: its map, its tree, its utilisation; and the styles of all drawings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from placewright.array_types import Floats, Ints
from placewright.cli.format.console import (
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
    table,
)
from placewright.cli.views.gang.facts import LETTERS, Holder, Occupancy, Parts, SharingKind, Use
from placewright.instances.derived.phrases import count
from placewright.report.facts.jobs import Condition
from placewright.report.text import NONE, count_gpus, gpus, number, percent, short, shortened
from placewright.topology.units import WHOLE_GPU

# Styles: the colour, hatch and symbol of jobs and of GPUs that nobody holds.
#
# Maps, pictures and legends all draw with these. Nothing is told apart by colour alone: jobs have a
# mark, the rest a hatch or a symbol.


MAX_TENANT = 16
FREE = "·"
UNMARKED = {
    Use.STARTED: "■▪◆",
    Use.MIGRATED: "▣▩◈",
    Use.RESIZED: "▤▥◍",
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
        hatch = "///" if job.use in (Use.MIGRATED, Use.RESIZED) else None
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


# The rack-and-host map for the terminal: a row per host, a letter per GPU of a job.
#
# A GPU that several jobs share, or one in part, is in brackets: `[ABB·]` has a letter for each
# quarter or, where that is not enough, for each eighth of it. Jobs that take turns on a GPU are in
# braces: `{ABC}`.


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


# The containment tree of a cluster for the terminal, with counts per domain.


MAX_DOMAINS = 64


def cluster_tree(occupancy: Occupancy) -> Tree:
    """Draw a cluster level by level, as deep as `MAX_DOMAINS` lines reach.

    Each domain's line counts hosts, GPUs by model, free GPUs, and hosts by why nothing may arrive.
    """
    cluster = occupancy.cluster
    root = Tree(Text(cluster.name, style="bold"), guide_style="dim")
    branches = {0: root}
    lines = 0
    for depth, level in enumerate(cluster.levels):
        names = cluster.names[depth]
        lines += len(names)
        if lines > MAX_DOMAINS:
            hidden = [
                count(len(cluster.names[deeper]), name)
                for deeper, name in enumerate(cluster.levels[depth:], depth)
            ]
            root.add(Text(f"not drawn: {', '.join(hidden)}", style="dim"))
            break
        facts = _facts(occupancy, depth)
        above, branches = branches, {}
        for index, name in enumerate(names):
            holder = int(cluster.parent[depth][index])
            holder_name = cluster.names[depth - 1][holder] if depth else ""
            line = Text.assemble(
                (f"{level} ", "dim"), (short(name, holder_name), "bold"), "  ", facts[index]
            )
            branches[index] = above[holder].add(line)
    return root


def _facts(occupancy: Occupancy, depth: int) -> list[Text]:
    """Say what each domain of a level holds."""
    cluster = occupancy.cluster
    domain = cluster.domain[depth]
    size = len(cluster.names[depth])
    of_gpu = np.repeat(domain, cluster.gpu_count)
    free = np.bincount(of_gpu, weights=occupancy.free, minlength=size).astype(np.int64)
    hosts = np.bincount(domain, minlength=size)
    in_part = (occupancy.gpu_condition == Condition.RESERVED) & np.repeat(
        occupancy.host_condition == Condition.AVAILABLE, cluster.gpu_count
    )
    reserved = np.bincount(of_gpu[in_part], minlength=size)
    unusable = {
        condition: np.bincount(domain[occupancy.host_condition == condition], minlength=size)
        for condition in occupancy.conditions
    }
    by_model = [
        np.bincount(
            domain[cluster.gpu_model == model],
            weights=cluster.gpu_count[cluster.gpu_model == model],
            minlength=size,
        ).astype(np.int64)
        for model in range(len(cluster.gpu_models))
    ]
    facts = []
    for index in range(size):
        parts = [
            f"{amounts[index]:,} {model}"
            for model, amounts in zip(cluster.gpu_models, by_model, strict=True)
            if amounts[index]
        ] or ["no GPUs"]
        line = Text()
        if depth < len(cluster.levels) - 1:
            line.append(f"{count(int(hosts[index]), 'host')}, ")
        line.append(f"{' + '.join(parts)}, ").append(f"{gpus(int(free[index]))} free", "green")
        if reserved[index]:
            line.append(f", {count(int(reserved[index]), 'GPU')} reserved", "yellow")
        for condition, away in unusable.items():
            if away[index]:
                # Of a host itself the count would only say "1".
                here = depth == len(cluster.levels) - 1
                word = (
                    condition.word
                    if here
                    else f"{count(int(away[index]), 'host')} {condition.word}"
                )
                line.append(f", {word}", CONDITIONS[condition].terminal)
        facts.append(line)
    return facts


# Utilisation of a large cluster for the terminal: a bar per rack, or whatever holds racks.
#
# It takes the place of the map where hosts are too many to draw.


MAX_BARS = 64
WIDTH = 40
"""Of all bars of a row, in letters."""

USES = (Use.KEPT, Use.RUNNING, Use.MIGRATED, Use.RESIZED, Use.STARTED, Use.PREEMPTED)
"""In the order in which they are drawn: what stays first."""

TERMINAL = {Use.MIGRATED: "cyan", Use.RESIZED: "cyan", Use.STARTED: "green", Use.PREEMPTED: "red"}


class Domains(NamedTuple):
    """What has a bar each: domains of a level, or runs of hosts; `of_host` is that of each."""

    level: str
    names: Sequence[str]
    of_host: Ints


def print_utilisation(console: Console, occupancy: Occupancy) -> None:
    """Print a bar per domain, before and after a plan that moves or preempts jobs, and a legend.

    Of the deepest level above hosts that has at most `MAX_BARS` domains, else of runs of hosts.
    """
    domains = domains_of(occupancy)
    console.print(_table(occupancy, domains))
    console.print()
    print_legend(console, _legend(occupancy))
    console.print(Text("show -o map.png draws the whole cluster", "dim"))


def _legend(occupancy: Occupancy) -> Iterator[Entry]:
    """Yield the lines of the legend: uses of jobs, what is free whatever its model, conditions."""
    found: dict[str, Entry] = {}
    for entry in legend_of(occupancy, 0):
        style, text = entry.style, entry.text
        if style is not None:
            style = style._replace(symbol=style.symbol[0])
            text = "free" if style.symbol == FREE else text
        found.setdefault(text, entry._replace(text=text, style=style))
    yield from found.values()


def domains_of(occupancy: Occupancy) -> Domains:
    """Return what has a bar each."""
    cluster = occupancy.cluster
    for depth in reversed(range(len(cluster.levels) - 1)):
        names = cluster.names[depth]
        if 1 < len(names) <= MAX_BARS:
            return Domains(cluster.levels[depth], names, cluster.domain[depth])
    size = -(-cluster.num_hosts // MAX_BARS)
    of_host = np.arange(cluster.num_hosts, dtype=np.int64) // size
    first, last = cluster.hosts[::size], [*cluster.hosts[size - 1 :: size], cluster.hosts[-1]]
    runs = [f"{a} to {b}" for a, b in zip(first, last, strict=False)]
    return Domains("hosts", runs, of_host)


def amounts_of(occupancy: Occupancy, parts: Parts, of_gpu: Ints, size: int) -> Ints:
    """Return the milli-GPU of each domain by kind: `USES`, conditions, and free (domains, kinds).

    A GPU that is reserved or unhealthy counts as that as far as no job holds it.
    """
    use = np.array([USES.index(job.use) for job in occupancy.jobs], dtype=np.int64)
    rest = np.where(
        occupancy.gpu_condition == Condition.AVAILABLE,
        len(Condition) - 1,
        occupancy.gpu_condition - 1,
    )
    unused = WHOLE_GPU - parts.used(of_gpu.size)
    kinds = len(USES) + len(Condition)
    cell = np.concatenate([of_gpu[parts.gpu] * kinds, of_gpu * kinds])
    cell += np.concatenate([use[parts.job], len(USES) + rest])
    weights = np.concatenate([parts.milli, unused])
    counted = np.bincount(cell, weights=weights, minlength=size * kinds)
    return counted.astype(np.int64).reshape(size, kinds)


def letters_of(amounts: Ints, width: int) -> Ints:
    """Return how many of `width` letters each amount gets: one at least, the others in proportion.

    Of nothing at all there are no letters.
    """
    if not amounts.any():
        return np.zeros_like(amounts)
    exact: Floats = amounts * width / amounts.sum()
    letters = np.maximum(np.floor(exact).astype(np.int64), amounts > 0)
    while (missing := width - int(letters.sum())) != 0:
        step = 1 if missing > 0 else -1
        # What loses a letter has another left.
        able = (amounts > 0) & ((step > 0) | (letters > 1))
        letters[int(np.argmax(np.where(able, step * (exact - letters), -np.inf)))] += step
    return letters


def _table(occupancy: Occupancy, domains: Domains) -> Table:
    cluster, size = occupancy.cluster, len(domains.names)
    of_gpu = np.repeat(domains.of_host, cluster.gpu_count)
    there = np.bincount(of_gpu, minlength=size)
    sides = [amounts_of(occupancy, parts, of_gpu, size) for parts in occupancy.maps]
    used = sides[-1][:, : len(USES)].sum(axis=1)
    free = np.bincount(of_gpu, weights=occupancy.free, minlength=size)
    of_host = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
    open_gpus = np.bincount(
        of_host, weights=occupancy.free == WHOLE_GPU, minlength=cluster.num_hosts
    )
    empty = (open_gpus == cluster.gpu_count) & (cluster.gpu_count > 0)
    hosts = np.bincount(domains.of_host, weights=empty, minlength=size)
    bars = ("",) if len(sides) == 1 else ("before", "after")
    facts = ("GPUs", "in use", "free", "empty hosts")
    made = table(f"GPUs by {domains.level}", domains.level, *bars, *facts, right=facts)
    for index, name in enumerate(domains.names):
        total = int(there[index])
        made.add_row(
            name,
            *(_bar(side[index], WIDTH // len(sides)) for side in sides),
            number(total),
            percent(used[index] / (total * WHOLE_GPU)) if total else NONE,
            gpus(free[index]),
            number(int(hosts[index])),
        )
    return made


def _bar(amounts: Ints, width: int) -> Text:
    """Draw the amounts of a domain."""
    symbols = [(UNMARKED[use][0], TERMINAL.get(use, "")) for use in USES]
    symbols += [(CONDITIONS[c].symbol, CONDITIONS[c].terminal) for c in Condition if c]
    symbols.append((FREE, "dim"))
    text = Text(no_wrap=True)
    for (symbol, style), letters in zip(symbols, letters_of(amounts, width).tolist(), strict=True):
        text.append(symbol * letters, style)
    return text
