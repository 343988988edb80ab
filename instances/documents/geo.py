"""The section `geo` of a Round: regions, the WAN between them, and where data lives.

References
----------
Choudhury et al., "MAST: global scheduling of ML training across geo-distributed datacenters at
hyperscale", OSDI'24: where data lives is decided apart from where jobs run.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from placewright.instances.documents.base import (
    MAX_AMOUNT,
    Document,
    Flag,
    Index,
    Many,
    Name,
)
from placewright.instances.documents.quantities import MilliGpu

MAX_REGIONS = 256
MAX_WINDOW = 10**7

Gib = Annotated[int, Field(strict=True, ge=1, le=10**9)]
Price = Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)]
"""Micro-dollars."""


class Read(Document):
    """What a job reads of a dataset in each window while it runs, in GiB.

    `remote`: it may read a replica in another region over a link; otherwise it runs only where a
    replica is.
    """

    dataset: Name
    gib: Gib
    remote: Flag = True


class WanLink(Document):
    """A link from one region to another, in this direction only.

    `bandwidth` is in Mbit/s (0: nothing passes), `rtt_us` in microseconds, `egress` in
    micro-dollars per GiB. `budget` is what copies of data may take of it in the window, in GiB
    (None: all that its bandwidth carries).
    """

    source: Name
    target: Name
    bandwidth: Annotated[int, Field(strict=True, ge=0, le=10**9)]
    rtt_us: Index = 0
    egress: Price = 0
    budget: Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)] | None = None


class Dataset(Document):
    """A dataset: its GiB, the regions that hold a replica, and those that may (None: all).

    Data that must stay in some regions is not read from others either, nor passes through them.
    """

    name: Name
    size: Gib
    replicas: Many[Name] = Field(default=(), max_length=MAX_REGIONS)
    regions: Many[Name] | None = Field(default=None, min_length=1, max_length=MAX_REGIONS)


class Copying(Document):
    """A copy under way: a region holds a replica from `ready` on, in seconds on the round's clock.

    Its storage is taken already, and its budget is spent.
    """

    dataset: Name
    region: Name
    ready: Index


class Region(Document):
    """What a region offers beside its hosts.

    `storage` is in GiB (None: without limit), `prices` are micro-dollars per GPU-hour by GPU model,
    and `quotas` cap what a tenant's jobs hold there, in GPUs.
    """

    name: Name
    storage: Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)] | None = None
    prices: dict[Name, Price] = Field(default_factory=dict)
    quotas: dict[Name, MilliGpu] = Field(default_factory=dict)


class Geo(Document):
    """Regions are the domains of `level`. Budgets and reads are per window of `window_s` seconds.

    A region without an entry has no limit and no prices; two regions without a link exchange
    nothing.
    """

    level: Name = "region"
    window_s: Annotated[int, Field(strict=True, ge=1, le=MAX_WINDOW)] = 86_400
    regions: Many[Region] = Field(default=(), max_length=MAX_REGIONS)
    links: Many[WanLink] = Field(default=(), max_length=MAX_REGIONS**2)
    datasets: Many[Dataset] = ()
    copying: Many[Copying] = ()

    def carries(self, link: WanLink) -> int:
        """Return the GiB that a link's bandwidth carries in the window, rounded down."""
        return link.bandwidth * self.window_s * 10**6 // (8 * 2**30)

    def budget(self, link: WanLink) -> int:
        """Return the GiB of copies that may take a link in the window."""
        most = self.carries(link)
        return most if link.budget is None else min(most, link.budget)
