"""Leases that are alike, counted together: far fewer variables than one for each lease.

Two neighbouring leases are alike when every row has the same capacity in both and no window begins
or ends between them. A model then says of each way in how many leases of each span it runs
(`indexed.build`), and without whole numbers no span says less than its leases would: fractions of
leases can be spread evenly over it. That is the fluid relaxation, all that rows on sets of leases
can say (`cuts`).

In whole numbers nothing is lost either where all ways ask the same of a row, for then counts, each
at most the span's length and together at most its capacity, are leases (McNaughton's wrap-around).
With mixed gangs whole counts are a relaxation: two leases of 2 GPUs hold the area of a gang of 2
for one lease and a job of 1 for both, but no schedule of them.
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.deadline.problem.problem import Ints, Problem


def alike(problem: Problem) -> Ints:
    """Return the span of each lease, numbered from 0 in their order: int64 (horizon,)."""
    begins = np.zeros(problem.horizon + 1, dtype=np.bool_)
    begins[problem.first] = begins[problem.end] = True
    begins[1:-1] |= (np.diff(problem.capacity, axis=1) != 0).any(axis=0)
    begins[0] = False
    span: Ints = np.cumsum(begins[:-1])
    return span
