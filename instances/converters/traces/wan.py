"""A round of regions and links from measured grids of cloud regions, as published with Skyplane.

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

from placewright.instances.checks.cluster import MAX_HOSTS
from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.converters.support.trace_rounds import (
    Conversion,
    check_range,
    invalid_argument,
    without_summary,
)
from placewright.instances.derived.names import check_known
from placewright.instances.documents.geo import MAX_REGIONS, Geo, Region
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.geo.supply import HOST_GPUS, MODELS, cluster, order, racks
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


GPUS = 512
WINDOW_S = 86_400


def read_wan(
    throughput_csv: str | os.PathLike[str],
    rtt_csv: str | os.PathLike[str],
    egress_csv: str | os.PathLike[str],
    *,
    regions: Sequence[str] | None = None,
    count: int | None = None,
    seed: int = 0,
    gpus: int = GPUS,
) -> Conversion:
    """Turn grids of cloud regions into a round of policy `replicas` without data and jobs.

    Copies may take a fifth of what a link carries in a day.

    Parameters
    ----------
    throughput_csv, rtt_csv, egress_csv
        As `read_grid` reads them.
    regions
        Regions to take, in this order; all if None.
    count, seed
        The number of regions to draw by the seed instead, in the order of their names.
    gpus
        GPUs of each region, a multiple of 8.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used (with line and column) or an argument out of its range.
    """
    if gpus % HOST_GPUS:
        raise invalid_argument("gpus", gpus, f"expected a multiple of {HOST_GPUS}")
    check_range("seed", seed, 0, 10**12)
    measured = read_grid(throughput_csv, rtt_csv, egress_csv)
    names = measured.grid.regions
    which = "all" if regions is None else "as named"
    if regions is not None:
        if count is not None:
            raise invalid_argument("count", count, "expected regions or a count of them, not both")
        kept = _named(regions, names)
    elif count is not None:
        check_range("count", count, 1, len(names))
        rng = np.random.Generator(np.random.PCG64(seed))
        kept = np.sort(order(rng, len(names))[:count]).tolist()
        which = f"drawn with seed {seed}"
    else:
        kept = list(range(len(names)))
    check_range("count", len(kept), 1, MAX_REGIONS)
    check_range("gpus", gpus, HOST_GPUS, MAX_HOSTS // len(kept) * HOST_GPUS)
    grid = measured.grid.only(kept)
    hosts = np.zeros((len(kept), len(MODELS)), dtype=np.int64)
    hosts[:, MODELS.index("A100")] = gpus // HOST_GPUS
    made = Round(
        name="wan",
        cluster=cluster("wan", grid.regions, racks(grid.regions, hosts)),
        geo=Geo(
            window_s=WINDOW_S,
            regions=tuple(Region(name=name) for name in grid.regions),
            links=tuple(grid.links(WINDOW_S)),
        ),
        policy=Policy(formulation="replicas"),
    )
    text = f"wan: {len(kept)} of {len(names)} regions ({which}), {gpus:,} GPUs each"
    return Conversion(made, f"{text}; {_links(made)}{_warnings(measured, grid.regions)}")


convert_wan = without_summary(read_wan)


def _named(regions: Sequence[str], names: Sequence[str]) -> list[int]:
    index = {name: i for i, name in enumerate(names)}
    for i, name in enumerate(regions):
        check_known(name, index, "region", ("regions",))
        if name in regions[:i]:
            raise invalid_argument("regions", name, "given twice; expected each name once")
    if not regions:
        raise invalid_argument("regions", regions, "expected at least one")
    return [index[name] for name in regions]


def _links(round_: Round) -> str:
    """Say how many links there are, how fast, and how far apart."""
    links = round_.geo.links
    if not links:
        return "no links"
    gbps = [link.bandwidth / 1000 for link in links]
    ms = [link.rtt_us / 1000 for link in links]
    return (
        f"{len(links):,} links of {min(gbps):.2f} to {max(gbps):.2f} Gbit/s, "
        f"{min(ms):.1f} to {max(ms):.1f} ms"
    )


def _warnings(measured: Measured, regions: Sequence[str]) -> str:
    """Say whose round-trip times are those of a neighbour."""
    return "".join(
        f"; warning: {name} has no round-trip times, those of {measured.neighbours[name]} stand in"
        for name in regions
        if name in measured.neighbours
    )
