"""Groups that run and would not be formed now: they may stay exactly as they are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from placewright.formulations.interleaving.set_packing.columns import allowed, padded, periods
from placewright.formulations.interleaving.set_packing.problem import MOST, Ints, Pool


def standing(pool: Pool, groups: Iterable[Ints]) -> Ints:
    """Return the groups, of classes in ascending order, that are not lawful, (groups, 4)."""
    found = [padded(group[None]) for group in groups if not lawful(pool, group)]
    return np.concatenate([np.zeros((0, MOST), dtype=np.int64), *found])


def lawful(pool: Pool, group: Ints) -> bool:
    """Whether two or more classes of one bucket may form a group now, int64 (members,)."""
    room = int(pool.gpu_memory[pool.bucket[group[0]]])
    if len(group) > pool.most or 0 < room < pool.memory[group].sum():
        return False
    if np.isin(pool.conflicts, group).all(axis=1).any():
        return False
    return bool(allowed(pool, group[None], periods(pool, group[None]))[0])
