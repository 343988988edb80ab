"""A grid of links between regions: throughput, round-trip times, egress prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.instances.documents.geo import WanLink

COPY_SHARE = 5
"""Copies may take a fifth of what a link carries in the window: 20 % use."""


@dataclass(frozen=True, slots=True, eq=False)
class WanGrid:
    """Links from each region to each other one.

    Attributes
    ----------
    regions : tuple of str
        Names.
    bandwidth, rtt_us, egress : Ints
        (regions, regions), from the first to the second: Mbit/s, microseconds, micro-dollars per
        GiB; the diagonals say nothing.
    """

    regions: tuple[str, ...]
    bandwidth: Ints
    rtt_us: Ints
    egress: Ints

    def only(self, kept: Sequence[int]) -> WanGrid:
        """Return the grid of some regions, in the order given."""
        rows = np.ix_(kept, kept)
        return WanGrid(
            regions=tuple(self.regions[r] for r in kept),
            bandwidth=self.bandwidth[rows],
            rtt_us=self.rtt_us[rows],
            egress=self.egress[rows],
        )

    def links(self, window_s: int) -> Iterator[WanLink]:
        """Yield a link for each two regions, with a budget of `1 / COPY_SHARE` of what it carries.

        Parameters
        ----------
        window_s
            Seconds of the window that the budget is for.
        """
        count = len(self.regions)
        for a in range(count):
            for b in range(count):
                if a != b:
                    bandwidth = int(self.bandwidth[a, b])
                    yield WanLink(
                        source=self.regions[a],
                        target=self.regions[b],
                        bandwidth=bandwidth,
                        rtt_us=int(self.rtt_us[a, b]),
                        egress=int(self.egress[a, b]),
                        budget=bandwidth * window_s * 10**6 // (8 * 2**30 * COPY_SHARE),
                    )
