"""Groups of a pool and bounds of their worth, by what suits the pool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from placewright.formulations.interleaving.set_packing.column_generation.solve import pack_distinct
from placewright.formulations.interleaving.set_packing.columns import enumerated, number_of_columns
from placewright.formulations.interleaving.set_packing.integer_program import pack
from placewright.formulations.interleaving.set_packing.job_classes import merged
from placewright.formulations.interleaving.set_packing.problem import Grouping, GroupingBound, Pool
from placewright.formulations.interleaving.set_packing.template_columns import fill
from placewright.formulations.interleaving.set_packing.templates import MOST_TEMPLATES, Profiles
from placewright.formulations.session import Session

ENUMERATED = 50_000
"""Most multisets of classes of which each is made a column."""

WORTH_FILLING = 30_000
"""From so many on templates are filled instead, if they are few."""

PER_TEMPLATE = 8
"""Multisets per template where templates are few."""


def group(pool: Pool, session: Session) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings, each worth more than those before, and bounds, each tighter.

    A pool may have one class per job: classes that are alike are merged first.
    """
    best: int | None = None
    tightest: int | None = None
    for found in _found(pool, session):
        if isinstance(found, Grouping):
            if best is None or found.value > best:
                best = found.value
                yield found
        elif tightest is None or found.value < tightest:
            tightest = found.value
            yield found


def _found(pool: Pool, session: Session) -> Iterator[Grouping | GroupingBound]:
    small = merged(pool)
    if pool.peak.any() and number_of_columns(small.pool) > WORTH_FILLING:
        # Prices leave peaks out, and without them more classes are alike.
        small = merged(replace(pool, peak=np.zeros_like(pool.peak)))
    profiles = Profiles.of_pool(small.pool)
    number = number_of_columns(small.pool)
    few = profiles.templates <= min(MOST_TEMPLATES, number // PER_TEMPLATE)
    if few and number > WORTH_FILLING:
        yield from fill(small, profiles, session)
        return
    if number <= ENUMERATED:
        search = pack(small.pool, enumerated(small.pool), session)
    else:
        search = pack_distinct(small.pool, session)
    for found in search:
        yield small.expanded(found) if isinstance(found, Grouping) else found
