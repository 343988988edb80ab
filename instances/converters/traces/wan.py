"""A round of regions and links from measured grids of cloud regions."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from placewright.instances.checks.cluster import MAX_HOSTS
from placewright.instances.converters.support.trace_rounds import (
    Conversion,
    check_range,
    invalid_argument,
    without_summary,
)
from placewright.instances.converters.support.wan_files import Measured, read_grid
from placewright.instances.derived.names import check_known
from placewright.instances.documents.geo import MAX_REGIONS, Geo, Region
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo.supply import HOST_GPUS, MODELS, cluster, order, racks

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
