"""The section `leases` of a Round: the length and number of leases, and outages of hosts.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from placewright.instances.documents.base import Document, Index, Many
from placewright.instances.documents.cluster import HostName
from placewright.instances.errors import InvalidInputError

MAX_LENGTH = 10**7
MAX_HORIZON = 10**4


class Outage(Document):
    """Hosts (a name or range) that are away from `start` (None: already) to `end` (None: for good).

    Both are in seconds on the round's clock; at `end` the hosts are back.
    """

    host: HostName
    start: Index | None = None
    end: Index | None = None

    @model_validator(mode="after")
    def _forwards(self) -> Outage:
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise InvalidInputError(f"expected more than start, {self.start}", ("end",), self.end)
        return self


class Leases(Document):
    """Leases of `length_s` seconds, of which the first begins now; promises use `horizon` of them.

    In a lease that one of the `outages` overlaps its hosts have nothing. `headroom` are the
    thousandths of later leases that promises leave free where jobs can run now instead, so that
    jobs yet to come fit; nothing is refused for it.
    """

    length_s: Annotated[int, Field(strict=True, ge=1, le=MAX_LENGTH)] = 1200
    horizon: Annotated[int, Field(strict=True, ge=1, le=MAX_HORIZON)] = 500
    outages: Many[Outage] = ()
    headroom: Annotated[int, Field(strict=True, ge=0, le=1000)] = 0

    def start(self, now: int, lease: int) -> int:
        """Return when a lease begins, in seconds on the round's clock."""
        return now + lease * self.length_s

    def overlapped(self, outage: Outage, now: int) -> tuple[int, int]:
        """Return the first lease that an outage overlaps, and the one after the last."""
        first = 0 if outage.start is None else max(0, (outage.start - now) // self.length_s)
        end = self.horizon
        if outage.end is not None:
            end = max(0, -((now - outage.end) // self.length_s))
        return min(first, self.horizon), max(min(end, self.horizon), min(first, self.horizon))

    def first_usable(self, ready: int | None, now: int) -> int:
        """Return the first lease that begins no earlier than `ready` (None: the current one)."""
        return 0 if ready is None else max(0, -((now - ready) // self.length_s))
