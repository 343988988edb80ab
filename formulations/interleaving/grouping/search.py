"""Groups of a pool and bounds of their worth, by what suits the pool."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.formulations.interleaving.grouping.classes import merged
from placewright.formulations.interleaving.grouping.columns import enumerated
from placewright.formulations.interleaving.grouping.packing import pack
from placewright.formulations.interleaving.grouping.pool import Grouping, GroupingBound, Pool
from placewright.formulations.session import Session


def group(pool: Pool, session: Session) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings, each worth more than those before, and bounds, each tighter.

    A pool may have one class per job: classes that are alike are merged first.
    """
    small = merged(pool)
    best: int | None = None
    tightest: int | None = None
    for found in pack(small.pool, enumerated(small.pool), session):
        if isinstance(found, GroupingBound):
            if tightest is None or found.value < tightest:
                tightest = found.value
                yield found
            continue
        grouping = small.expanded(found)
        if best is None or grouping.value > best:
            best = grouping.value
            yield grouping
