"""The rack-and-host map for the terminal: a row per host, a cell per GPU."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from rich.columns import Columns
from rich.console import Console
from rich.text import Text

from placewright.cli.format.colours import LARGE, RUNNING, job_colour
from placewright.cli.format.text import count, count_gpus, short
from placewright.cli.views.gang.facts import NOBODY, Occupancy, PlacedJob
from placewright.topology.units import WHOLE_GPU

MAX_HOSTS = 128

STARTED, MIGRATED, HELD, FREE, SICK = "■", "▣", "□", "·", "×"
SHARES = "▂▄▆"


def print_map(console: Console, occupancy: Occupancy) -> None:
    """Print the first `MAX_HOSTS` hosts by rack, what was left out, and a legend."""
    cluster = occupancy.cluster
    racked = len(cluster.levels) > 1
    # Hosts of one rack need not be neighbours in the document.
    order = (
        np.argsort(cluster.domain[-2], kind="stable") if racked else np.arange(cluster.num_hosts)
    )
    shown = order[:MAX_HOSTS].tolist()
    for section, hosts in groupby(shown, key=lambda host: _section(occupancy, host)):
        if section:
            console.print(Text(section, style="bold"))
        tiles = [
            _tile(occupancy, rack, list(members))
            for rack, members in groupby(
                hosts, key=lambda host: int(cluster.domain[-2, host]) if racked else host
            )
        ]
        console.print(Columns(tiles, padding=(0 if not racked else 1, 3), equal=True))
        console.print()
    if len(order) > len(shown):
        console.print(
            f"... and {count(len(order) - len(shown), 'more host')}; "
            "show -o map.png draws the whole cluster"
        )
    _print_legend(console, occupancy)


def _section(occupancy: Occupancy, host: int) -> str:
    """Name the domains above the host's rack, outermost first."""
    cluster = occupancy.cluster
    return " / ".join(
        f"{cluster.levels[depth]} {cluster.names[depth][cluster.domain[depth, host]]}"
        for depth in range(len(cluster.levels) - 2)
    )


def _tile(occupancy: Occupancy, rack: int, hosts: list[int]) -> Text:
    """Draw a rack with its title, or one host of a cluster without levels."""
    cluster = occupancy.cluster
    if len(cluster.levels) == 1:
        return Text.assemble(f"{cluster.hosts[rack]} ", _cells(occupancy, rack))
    title = cluster.names[-2][rack]
    labels = [short(cluster.hosts[host], title) for host in hosts]
    width = max(map(len, labels))
    rows = [
        Text.assemble((f"{label:<{width}} ", "dim"), _cells(occupancy, host))
        for label, host in zip(labels, hosts, strict=True)
    ]
    return Text("\n").join([Text.assemble((f"{cluster.levels[-2]} ", "dim"), title), *rows])


def _cells(occupancy: Occupancy, host: int) -> Text:
    """Draw the GPUs of a host, a character each."""
    start, stop = occupancy.cluster.gpu_start[host : host + 2].tolist()
    if not occupancy.healthy[host]:
        return Text(SICK * (stop - start), style="red")
    cells = Text()
    for gpu in range(start, stop):
        owner = int(occupancy.owner[gpu])
        used = int(occupancy.running[gpu] + occupancy.placed[gpu])
        if used == 0:
            cells.append(FREE, "dim")
        else:
            whole = HELD if owner == NOBODY else _mark(occupancy.jobs[owner])
            share = SHARES[min(used * len(SHARES) // WHOLE_GPU, len(SHARES) - 1)]
            colour = RUNNING if owner == NOBODY else job_colour(owner)
            cells.append(whole if used == WHOLE_GPU else share, colour)
    return cells


def _mark(job: PlacedJob) -> str:
    return MIGRATED if job.migrated else STARTED


def _print_legend(console: Console, occupancy: Occupancy) -> None:
    marks = f"{STARTED} started"
    if any(job.migrated for job in occupancy.jobs):
        marks += f", {MIGRATED} migrated"
    console.print(
        Text.assemble(
            (HELD, RUNNING),
            " running   ",
            FREE,
            " free   ",
            (SICK, "red"),
            f" {occupancy.unusable}   ",
            f"{SHARES} in part   ",
            f"{marks}:" if occupancy.jobs else "",
        )
    )
    for index, job in enumerate(occupancy.jobs[: len(LARGE)]):
        console.print(
            Text.assemble(
                (f"  {_mark(job)} ", job_colour(index)),
                f"{job.name}  {count_gpus(job.milli_gpu)} on {count(job.hosts, 'host')}",
            )
        )
    rest = occupancy.jobs[len(LARGE) :]
    if rest:
        console.print(
            Text.assemble(
                (f"  {STARTED} ", job_colour(len(LARGE))),
                f"{count(len(rest), 'other job')}, "
                f"{count_gpus(sum(job.milli_gpu for job in rest))}",
            )
        )
