"""Random tiny problems of admission, by seed: few jobs, few leases, little capacity."""

from __future__ import annotations

from typing import Literal

import numpy as np

from placewright.formulations.deadline.problem.problem import Problem

Shape = Literal["constant", "rising", "falling", "any"]
SHAPES: tuple[Shape, ...] = ("constant", "rising", "falling", "any")


def problem(
    seed: int,
    shape: Shape = "constant",
    *,
    gangs: bool = True,
    releases: bool = False,
    promises: bool = False,
    rows: int = 1,
    jobs: int = 5,
    horizon: int = 5,
    capacity: int = 4,
) -> Problem:
    """Draw a problem.

    Parameters
    ----------
    shape
        How capacity changes over time.
    gangs
        Whether jobs ask for more than one unit, and their options for different numbers of them.
    releases
        Whether alternatives may begin after lease 0.
    promises
        Whether some jobs have a promise already.
    rows
        Capacity rows; each alternative asks of some of them.
    jobs, horizon, capacity
        The most of each.
    """
    rng = np.random.default_rng(seed)
    leases, n = int(rng.integers(1, horizon + 1)), int(rng.integers(1, jobs + 1))
    capacities = rng.integers(1 if shape == "constant" else 0, capacity + 1, (rows, leases))
    if shape == "constant":
        capacities[:] = capacities[:, :1]
    elif shape != "any":
        capacities.sort(axis=1)
        capacities = capacities if shape == "rising" else capacities[:, ::-1]
    job, need, first, end, value, demand = [], [], [], [], [], []
    loss = np.zeros(n, dtype=np.int64)
    for j in range(n):
        for _ in range(int(rng.integers(1, 3)) if gangs else 1):
            begin = int(rng.integers(0, leases)) if releases else 0
            length = int(rng.integers(1, leases + 1))
            wants = rng.integers(0 if rows > 1 else 1, capacity + 1 if gangs else 2, rows)
            wants[int(rng.integers(rows))] = max(1, wants.max())
            ends = np.unique(rng.integers(begin + 1, leases + 1, int(rng.integers(1, 3))))
            values = np.sort(rng.integers(1, 8, len(ends)))[::-1]
            for e, v in zip(ends, values, strict=True):
                job.append(j)
                need.append(min(length, leases - begin))
                first.append(begin)
                end.append(int(e))
                value.append(int(v))
                demand.append(wants)
        if promises and rng.random() < 0.5:
            loss[j] = rng.integers(1, 8)
    whole = {"dtype": np.int64}
    return Problem(
        capacity=np.ascontiguousarray(capacities, **whole),
        loss=loss,
        job=np.array(job, **whole),
        need=np.array(need, **whole),
        first=np.array(first, **whole),
        end=np.array(end, **whole),
        value=np.array(value, **whole),
        demand=np.array(demand, **whole).reshape(len(job), rows),
    )
