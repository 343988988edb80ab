"""What data costs in all, read from afar or copied: data at hand, wherever from.

In each region a dataset is at hand, or nobody there reads it. To have it at hand costs its size if
it is copied, and what is read if it is read from afar: where each job reads all of it at least, no
less. So all jobs are beside data at hand as they are beside replicas where nothing is read from
afar, and what holds of copies then (whose readers fit beside half a replica, how many are needed)
holds of data at hand. Only limits of storage and links make anybody read instead of copying. They
are kept where they may matter: there reading from afar is told apart (`remote_read_rows.py`).
Elsewhere data at hand costs as a copy does and takes no room.

That is for programs of whole replicas, in which half of a job or two may else read from afar. Where
classes have many jobs, who reads from afar pays enough in `relaxation.py` itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.bounds.branch_and_bound import try_relaxation
from placewright.formulations.replicas.models.relaxation import build_relaxation
from placewright.formulations.replicas.models.remote_read_rows import least_read, remotely_read
from placewright.formulations.replicas.problem.job_classes import AggregateProblem
from placewright.formulations.replicas.problem.problem import TOGETHER
from placewright.formulations.replicas.problem.restriction import count_for_share, largest_datasets
from placewright.formulations.session import Session


def at_hand(aggregate: AggregateProblem, apart: Bools) -> AggregateProblem:
    """Return a pool in which what is possible is data at hand.

    In its program `remote_reads+copies` is a bound of both in one sum. Limits of what leaves a
    region are left out.

    Parameters
    ----------
    apart
        (datasets, regions): where it is told apart what is held and what is read from afar, beside
        where a job may read less than all.
    """
    size = aggregate.wan.size
    either = remotely_read(aggregate) & aggregate.possible
    apart = either & (apart | (least_read(aggregate) < size)[:, None])
    merged = either & ~apart
    return replace(
        aggregate,
        local_only=aggregate.local_only | merged[aggregate.read_dataset],
        apart=apart,
        stored=aggregate.possible & ~merged,
        egress=np.full_like(aggregate.egress, size.sum()),
    )


def where_it_matters(
    aggregate: AggregateProblem, holds: Mapping[str, int], session: Session
) -> Bools:
    """Return where it may matter that data is stored (datasets, regions).

    That is for large data, in regions that a relaxation without limits nearly fills; everywhere
    without time for that.
    """
    relaxation = build_relaxation(at_hand(aggregate, np.zeros_like(aggregate.possible)))
    root = try_relaxation(relaxation.arrays(TOGETHER, holds), session)
    if root is None or root.point is None:
        return np.ones_like(aggregate.possible)
    tight = relaxation.filled_regions(
        root.point, parameters.PARAMETERS.accessible_tight_storage_share
    )
    matters: Bools = (
        largest_datasets(
            aggregate, count_for_share(aggregate, parameters.PARAMETERS.accessible_gib_share)
        )[:, None]
        & tight
    )
    return matters
