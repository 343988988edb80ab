"""Frozen groups: groups that run, break a rule of forming groups, and may only stay as they are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.interleaving.problem.packing_problem import (
    MAX_MEMBERS,
    PackingProblem,
    allowed,
    pad_members,
    periods,
)


def frozen_groups_of(packing: PackingProblem, groups: Iterable[Ints]) -> Ints:
    """Return the groups, of ascending classes, that may not be formed (groups, 4)."""
    found = [pad_members(group[None]) for group in groups if not may_form(packing, group)]
    return np.concatenate([np.zeros((0, MAX_MEMBERS), dtype=np.int64), *found])


def may_form(packing: PackingProblem, group: Ints) -> bool:
    """Whether two or more classes of one bucket may form a group now, int64 (members,)."""
    gpu_memory = int(packing.gpu_memory[packing.bucket[group[0]]])
    if len(group) > packing.max_members or 0 < gpu_memory < packing.memory[group].sum():
        return False
    if np.isin(packing.conflicts, group).all(axis=1).any():
        return False
    return bool(allowed(packing, group[None], periods(packing, group[None]))[0])
