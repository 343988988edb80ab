"""Utilisation of a large cluster for the terminal: a bar per rack, or whatever holds racks.

It takes the place of the map where hosts are too many to draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from placewright.array_types import Floats, Ints
from placewright.cli.format.table import table
from placewright.cli.views.gang.chart import print_legend
from placewright.cli.views.gang.facts import Occupancy, Use
from placewright.cli.views.gang.parts import Parts
from placewright.cli.views.gang.styles import CONDITIONS, FREE, UNMARKED, Entry, legend_of
from placewright.report.facts.jobs import Condition
from placewright.report.text import NONE, gpus, number, percent
from placewright.topology.units import WHOLE_GPU

MAX_BARS = 64
WIDTH = 40
"""Of all bars of a row, in letters."""

USES = (Use.KEPT, Use.RUNNING, Use.MIGRATED, Use.STARTED, Use.PREEMPTED)
"""In the order in which they are drawn: what stays first."""

TERMINAL = {Use.MIGRATED: "cyan", Use.STARTED: "green", Use.PREEMPTED: "red"}


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
