"""What a dataset costs at least in every plan, by what is asked of it alone.

Where those who must run beside a dataset are more than any region has room for, the relaxation
makes 1.07 copies of it, and a plan makes two, or one and reads it from afar. That is seen without
any other dataset (`problem/restriction.py`), in a program of some thousand columns. Jobs are whole,
and so are replicas: what the dataset costs is a multiple of what divides its size and the GiB that
each job reads of it. Rounded up to one, it is said to the relaxation of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from placewright.formulations.replicas.bounds.branch_and_bound import try_relaxation
from placewright.formulations.replicas.models.relaxation import build_relaxation
from placewright.formulations.replicas.problem.job_classes import AggregateProblem
from placewright.formulations.replicas.problem.problem import TOGETHER
from placewright.formulations.replicas.problem.restriction import (
    datasets_by_size,
    restrict_to_datasets,
)
from placewright.formulations.session import Session

SHARE, ONE = 0.05, 0.005
"""Shares of the time left for that, and for one dataset."""


def with_dataset_bounds(
    aggregate: AggregateProblem, holds: Mapping[str, int], session: Session, number: int
) -> AggregateProblem:
    """Return a pool that says it of so many datasets, largest first, or as many as there is time.

    Parameters
    ----------
    pool
        One in which nothing is told apart.
    holds
        Values of terms, of plans that are no worse in them.
    """
    least, wan = aggregate.least.copy(), aggregate.wan
    unit = wan.size.copy()
    np.gcd.at(unit, wan.read_dataset, wan.read_gib)
    until = (1 - SHARE) * session.remaining()
    for p in datasets_by_size(aggregate)[:number].tolist():
        if session.expired(until) or not aggregate.copyable[p].any():
            break
        alone = build_relaxation(restrict_to_datasets(aggregate, np.arange(len(least)) == p))
        found = try_relaxation(alone.arrays(TOGETHER, holds), session, ONE)
        if found is not None:
            least[p] = max(least[p], -(-found.bound // unit[p]) * unit[p])
    return replace(aggregate, least=least)
