"""Lower bounds on the cost of single datasets, as valid inequalities of the relaxation of all.

Where the jobs that must run beside a dataset exceed the capacity of every region, the relaxation
makes 1.07 copies of it, while a plan makes two, or one and reads the rest remotely. The relaxation
restricted to this dataset (`problem/restriction.py`), of some thousand columns, shows it. Jobs and
replicas are integer, so the cost is a multiple of the greatest common divisor of the size and the
GiB that each job reads; the bound is rounded up to one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.models.relaxation import build_relaxation
from placewright.formulations.replicas.models.solve_relaxation import try_relaxation
from placewright.formulations.replicas.problem.job_classes import AggregateProblem
from placewright.formulations.replicas.problem.problem import DATA_SUM
from placewright.formulations.replicas.problem.restriction import (
    datasets_by_size,
    restrict_to_datasets,
)
from placewright.formulations.session import Session


def with_dataset_bounds(
    aggregate: AggregateProblem, holds: Mapping[str, int], session: Session, number: int
) -> AggregateProblem:
    """Return an aggregate problem with `least` of a number of datasets, largest first.

    Fewer if the time share ends.

    Parameters
    ----------
    aggregate
        One without bounds of single datasets.
    holds
        Upper bounds on terms.
    """
    least, wan = aggregate.least.copy(), aggregate.wan
    unit = wan.size.copy()
    np.gcd.at(unit, wan.read_dataset, wan.read_gib)
    until = (1 - parameters.PARAMETERS.dataset_bounds_time_share) * session.remaining()
    for p in datasets_by_size(aggregate)[:number].tolist():
        if session.expired(until) or not aggregate.copyable[p].any():
            break
        alone = build_relaxation(restrict_to_datasets(aggregate, np.arange(len(least)) == p))
        found = try_relaxation(
            alone.arrays(DATA_SUM, holds), session, parameters.PARAMETERS.dataset_bound_time_share
        )
        if found is not None:
            least[p] = max(least[p], -(-found.bound // unit[p]) * unit[p])
    return replace(aggregate, least=least)
