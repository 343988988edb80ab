"""Links between regions: some of a measured grid, or drawn like one."""

from __future__ import annotations

import numpy as np

from placewright.instances.generators.geo.distributions import (
    RTT_US,
    THROUGHPUT_MBPS,
    interpolated,
    order,
)
from placewright.instances.generators.mixes import Shares
from placewright.instances.generators.wan_grid import WanGrid

EGRESS = Shares(
    (21_475, 53_687, 85_899, 93_952, 96_637, 128_849, 161_061, 204_011),
    (90, 50, 130, 150, 150, 290, 100, 40),
)
"""Micro-dollars per GiB: 0.02, 0.05, 0.08, 0.0875, 0.09, 0.12, 0.15 and 0.19 USD per GB, about as
often as on the grid of 63 cloud regions."""


def draw_grid(rng: np.random.Generator, regions: int, grid: WanGrid | None) -> WanGrid:
    """Return the links between the regions: those of `grid`, or drawn by its percentiles.

    What is drawn is as far apart and as fast as the measured grid, but independently: there, links
    over longer ways are slower. Round-trip times are the same both ways.
    """
    if grid is not None:
        return grid.only(np.sort(order(rng, len(grid.regions))[:regions]).tolist())
    shape = (regions, regions)
    rtt = interpolated(RTT_US, rng.random(shape))
    lower = np.tril_indices(regions, -1)
    rtt[lower] = rtt.T[lower]
    return WanGrid(
        regions=tuple(f"region-{r}" for r in range(regions)),
        bandwidth=interpolated(THROUGHPUT_MBPS, rng.random(shape)),
        rtt_us=rtt,
        egress=EGRESS.pick(rng.random(shape)),
    )
