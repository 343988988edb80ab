"""Exact integer values of all terms of policy `replicas`, from a layout."""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.common.wan.arrays import NONE, Wan
from placewright.formulations.replicas.problem.problem import (
    HOMELESS,
    Layout,
    imbalance_of,
    overload_of,
)
from placewright.topology.units import WHOLE_GPU


def term_values(wan: Wan, layout: Layout) -> dict[str, int]:
    """Return the value of each term of the policy `replicas`.

    With D and S as milli-GPU of demand and supply per region and model: `overload` is the sum of
    max(0, D - S) + max(0, D - 1.2 S), and three times the demand of each job without a home;
    `remote_reads` is the GiB that jobs read from other regions, and all reads of jobs without a
    home; `copies` the GiB of new replicas; `imbalance` the GiB that regions with limited storage
    hold beyond their share; `hottest` the largest D / S of a region, in thousandths, rounded up.
    """
    demand = demand_of(wan, layout.homes)
    return {
        "overload": overload_of(demand, wan.supply)
        + HOMELESS * int(wan.demand[layout.homes[:, 0] == NONE].sum()),
        "remote_reads": _remote_reads(wan, layout),
        "copies": int((layout.creates(wan) * wan.size[:, None]).sum()),
        "imbalance": imbalance_of(layout.replicas.T.astype(np.int64) @ wan.size, wan.storage),
        "hottest": hottest_of(demand, wan.supply),
    }


def demand_of(wan: Wan, homes: Ints) -> Ints:
    """Return the milli-GPU demand of homes (regions, models)."""
    demand = np.zeros_like(wan.supply)
    place_homeless_jobs = homes[:, 0] != NONE
    np.add.at(
        demand,
        (homes[place_homeless_jobs, 0], homes[place_homeless_jobs, 1]),
        wan.demand[place_homeless_jobs],
    )
    return demand


def hottest_of(demand: Ints, supply: Ints) -> int:
    """Return the largest demand over supply of a region, in thousandths, rounded up."""
    asked, given = demand.sum(axis=1).tolist(), supply.sum(axis=1).tolist()
    # A thousand times what is asked may be beyond 64 bits.
    heats = (-(-1000 * a // (g or WHOLE_GPU)) for a, g in zip(asked, given, strict=True))
    return max(heats, default=0)


def _remote_reads(wan: Wan, layout: Layout) -> int:
    region = layout.homes[wan.read_job, 0]
    local = layout.replicas[wan.read_dataset, region] & (region != NONE)
    return int(wan.read_gib[~local].sum())
