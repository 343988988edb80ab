"""Measured grids of cloud regions (throughput, round-trip times, egress prices) as links.

The layout is that of the grids published with Jain et al., "Skyplane: Optimizing Transfer Cost and
Throughput Using Cloud-Aware Overlays", NSDI'23: a row per two regions and their network tiers.

- Of several tiers the first of `TIERS` that was measured counts: premium at both ends, at the
  source, at the target, at neither. Of several measurements of the same, their mean.
- A region to itself is left out.
- A region without round-trip times takes those of its nearest neighbour that has some: of the
  regions of the same provider whose name is the same but for the number at its end, else of all,
  the one with the highest throughput, both ways together. Between the two it is the shortest
  round-trip time of the neighbour.
- USD per GB (10^9 bytes) become micro-dollars per GiB, Gbit/s (10^9 bits) Mbit/s.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.wan_grid import WanGrid

Grid: TypeAlias = Mapping[tuple[str, str], int]
"""A whole number for each two regions."""

TIERS = (
    ("PREMIUM", "PREMIUM"),
    ("PREMIUM", "STANDARD"),
    ("STANDARD", "PREMIUM"),
    ("STANDARD", "STANDARD"),
)

_MAX_GBPS = 10**6
_MAX_MS = 10**6
_MAX_USD = 1000
_GB, _GIB = 10**9, 2**30
_FILES = ("throughput", "rtt", "egress")


class Measured(NamedTuple):
    """A grid, and the neighbour whose round-trip times stand for those of a region without any."""

    grid: WanGrid
    neighbours: Mapping[str, str]


def read_folder(folder: str | os.PathLike[str]) -> Measured:
    """Read the grid from the three CSV files of a folder, recognized by their names.

    Raises
    ------
    InvalidInputError
        If there is not one file each with `throughput`, `rtt` and `egress` in its name, or one
        cannot be used.
    """
    found = []
    for word in _FILES:
        files = sorted(Path(folder).glob(f"*{word}*.csv"))
        if len(files) != 1:
            raise InvalidInputError(
                f"{len(files)} files *{word}*.csv; expected one",
                file=os.fspath(folder),
                show_value=False,
            )
        found += files
    return read_grid(*found)


def read_grid(
    throughput_csv: str | os.PathLike[str],
    rtt_csv: str | os.PathLike[str],
    egress_csv: str | os.PathLike[str],
) -> Measured:
    """Read the grid of all regions of which throughput was measured, in the order of their names.

    Parameters
    ----------
    throughput_csv
        Columns src_region, src_tier, dst_region, dst_tier and throughput_gbps. Two regions without
        a row have a link of bandwidth 0.
    rtt_csv
        The same regions and tiers, and avg_rtt_ms. A pair measured one way only is as far apart the
        other way.
    egress_csv
        Columns src, dest, src_tier, dest_tier and cost, in USD per GB.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with line and column; for regions without a price, or none
        of whose round-trip times are known.
    """
    columns = ("src_region", "src_tier", "dst_region", "dst_tier")
    mbps = _read(read_table(throughput_csv), columns, "throughput_gbps", 4, _MAX_GBPS)
    rtt = _read(read_table(rtt_csv), columns, "avg_rtt_ms", 3, _MAX_MS)
    columns = ("src", "src_tier", "dest", "dest_tier")
    price = _read(read_table(egress_csv), columns, "cost", 6, _MAX_USD)
    names = tuple(sorted({name for pair in mbps for name in pair}))
    if not names:
        raise InvalidInputError(
            "no row from one region to another; expected at least one",
            file=os.fspath(throughput_csv),
            show_value=False,
        )
    neighbours = _neighbours(names, mbps, rtt)
    count = len(names)
    bandwidth, rtt_us, egress = (np.zeros((count, count), dtype=np.int64) for _ in range(3))
    for a, source in enumerate(names):
        for b, target in enumerate(names):
            if a == b:
                continue
            if (source, target) not in price:
                raise _missing(egress_csv, "price", source, target)
            far = _rtt(rtt, neighbours.get(source, source), neighbours.get(target, target))
            if far is None:
                raise _missing(rtt_csv, "round-trip time", source, target)
            bandwidth[a, b] = (mbps.get((source, target), 0) + 5) // 10
            rtt_us[a, b] = far
            egress[a, b] = (price[source, target] * _GIB + _GB // 2) // _GB
    return Measured(WanGrid(names, bandwidth, rtt_us, egress), neighbours)


def _read(
    table: Table, columns: Sequence[str], value: str, places: int, maximum: int
) -> dict[tuple[str, str], int]:
    """Return a value for each two different regions, in units of 10^-places, of their best tiers.

    The mean of several measurements is rounded to the nearest, halves up.
    """
    table.require(*columns, value)
    if not table.lines:
        raise InvalidInputError("expected at least one row", file=table.file, show_value=False)
    amounts = table.decimals(value, places, maximum).tolist()
    source, source_tier, target, target_tier = (table.columns[column] for column in columns)
    rank = {tiers: i for i, tiers in enumerate(TIERS)}
    found: defaultdict[tuple[str, str], dict[int, list[int]]] = defaultdict(dict)
    for row, amount in enumerate(amounts):
        tiers = source_tier[row], target_tier[row]
        if tiers not in rank:
            wrong = 1 if tiers[0] not in ("PREMIUM", "STANDARD") else 3
            raise table.error(row, columns[wrong], "expected PREMIUM or STANDARD")
        for column, name in ((columns[0], source[row]), (columns[2], target[row])):
            table.check_name(row, column, name)
        if source[row] != target[row]:
            found[source[row], target[row]].setdefault(rank[tiers], []).append(amount)
    best = {pair: by_tier[min(by_tier)] for pair, by_tier in found.items()}
    return {pair: (2 * sum(v) + len(v)) // (2 * len(v)) for pair, v in best.items()}


def _neighbours(names: Sequence[str], mbps: Grid, rtt: Grid) -> dict[str, str]:
    """Return the nearest neighbour of each region that has no round-trip time."""
    known = {name for pair in rtt for name in pair}
    found = {}
    for name in names:
        if name in known:
            continue
        others = [other for other in names if other in known]
        here = [other for other in others if _place(other) == _place(name)]
        if others:
            found[name] = max(
                here or others,
                key=lambda o: mbps.get((name, o), 0) + mbps.get((o, name), 0),
            )
    return found


def _place(name: str) -> str:
    """Return a region's name without the number at its end."""
    return name.rstrip("0123456789").rstrip("-")


def _rtt(rtt: Grid, source: str, target: str) -> int | None:
    """Return the round-trip time of two regions, or of one to the nearest; None if unknown."""
    if source == target:
        return min(value for pair, value in rtt.items() if source in pair)
    return rtt.get((source, target), rtt.get((target, source)))


def _missing(file: str | os.PathLike[str], what: str, source: str, target: str) -> Exception:
    return InvalidInputError(
        f"no {what} from {source} to {target}; expected one for each two regions",
        file=os.fspath(file),
        show_value=False,
    )
