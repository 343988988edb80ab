"""How many copies of a dataset plans make at least, by what is asked of it alone.

Where those who must run beside a dataset are more than any region has room for, the relaxation
makes 1.07 copies of it, and a plan makes two. That is seen without any other dataset (`fewer.py`),
in a program of some thousand columns; rounded up, it is said to the relaxation of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from placewright.formulations.replicas.branching import relaxed_if_any
from placewright.formulations.replicas.fewer import fewer, largest_first
from placewright.formulations.replicas.pool import Pool
from placewright.formulations.replicas.program import program_of
from placewright.formulations.session import Session

SHARE, ONE = 0.05, 0.005
"""Shares of the time left for that, and for one dataset."""


def with_least(pool: Pool, holds: Mapping[str, int], session: Session, number: int) -> Pool:
    """Return a pool that says it of so many datasets, largest first, or as many as there is time.

    Parameters
    ----------
    holds
        Values of terms, of plans that are no worse in them.
    """
    least, size = pool.least.copy(), pool.wan.size
    until = (1 - SHARE) * session.remaining()
    for p in largest_first(pool)[:number].tolist():
        late = not session.deterministic and session.expired(until)
        if late or not pool.fresh[p].any():
            break
        alone = program_of(fewer(pool, np.arange(len(size)) == p))
        found = relaxed_if_any(alone.arrays("copies", holds), session, ONE, interior=False)
        if found is not None:
            least[p] = max(least[p], -(-found.bound // int(size[p])))
    return replace(pool, least=least)
