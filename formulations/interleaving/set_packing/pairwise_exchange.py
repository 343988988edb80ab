"""Pairwise exchange: local search that regroups two groups at a time, and inserts idle jobs.

Two groups of a bucket have at most eight members, which split into two groups in at most 35 ways.
All splits of all pairs are tried; most are refused by an upper bound of their value, the rest are
evaluated exactly. Likewise each idle job is tried in the place of each member. The best changes
that touch different groups are made at once, until none gains.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    MAX_MEMBERS,
    PackingProblem,
    sort_members,
)
from placewright.formulations.interleaving.set_packing.column_value import (
    ValueBound,
    column_values,
)
from placewright.formulations.interleaving.set_packing.columns import NOT_ALLOWED, Columns
from placewright.formulations.session import Session

SPLITS = np.array([[0, *rest] for rest in combinations(range(1, 2 * MAX_MEMBERS), MAX_MEMBERS - 1)])
"""Which of eight places make the first group: all ways in which the first place is among them."""

OTHERS = np.array(
    [[p for p in range(2 * MAX_MEMBERS) if p not in split] for split in SPLITS.tolist()]
)


def improve_by_exchange(packing: PackingProblem, columns: Columns, session: Session) -> Columns:
    """Return columns of at least as much value, which respect all rows."""
    state = _ColumnState(packing, columns)
    changed = np.ones(len(columns), dtype=np.bool_)
    while changed.any() and not session.expired():
        before = state.members.copy()
        for bucket in range(packing.buckets):
            state.exchange_members(bucket, changed)
            state.insert_idle(bucket)
        changed = (state.members != before).any(axis=1)
    used = state.members[:, 0] != ALONE
    return Columns(state.members[used], state.value[used])


class _ColumnState:
    """Columns under exchange, residual rows, and idle jobs."""

    def __init__(self, packing: PackingProblem, columns: Columns) -> None:
        self.packing, self.value_bound = packing, ValueBound(packing)
        self.members, self.value = columns.members.copy(), columns.value.copy()
        self.bucket = packing.bucket[self.members[:, 0]]
        used = self.members[self.members != ALONE]
        self.idle = packing.count - np.bincount(used, minlength=packing.classes)
        self.residual = packing.limit - self._use(self.members)

    def exchange_members(self, bucket: int, changed: Bools) -> None:
        """Regroup pairs of columns of a bucket, of which at least one has changed."""
        used = np.flatnonzero((self.bucket == bucket) & (self.members[:, 0] != ALONE))
        pairs = used[np.column_stack(np.triu_indices(len(used), 1))]
        pairs = pairs[changed[pairs].any(axis=1)]
        parts = [
            self._best_splits(pairs[at : at + parameters.PARAMETERS.exchange_chunk_pairs])
            for at in range(0, len(pairs), parameters.PARAMETERS.exchange_chunk_pairs)
        ]
        if not parts:
            return
        places, new, gain = (np.concatenate(part) for part in zip(*parts, strict=True))
        touched = np.zeros(len(self.members), dtype=np.bool_)
        for best in np.argsort(-gain, kind="stable"):
            if not touched[places[best]].any() and self._replace(places[best], new[best]):
                touched[places[best]] = True

    def _best_splits(self, pairs: Ints) -> tuple[Ints, Ints, Ints]:
        """Return pairs that gain by another split, its groups, and the gain."""
        members = self.members[pairs].reshape(len(pairs), -1)
        now = self.value[pairs].sum(axis=1)
        optimistic = self.value_bound.of(members[:, SPLITS].reshape(-1, MAX_MEMBERS))
        optimistic += self.value_bound.of(members[:, OTHERS].reshape(-1, MAX_MEMBERS))
        pair, split = np.nonzero(optimistic.reshape(len(pairs), -1) > now[:, None])
        new = np.stack([members[pair[:, None], of[split]] for of in (SPLITS, OTHERS)], axis=1)
        new = sort_members(new.reshape(-1, MAX_MEMBERS))
        value = column_values(self.packing, new).reshape(-1, 2)
        gain = np.where(
            (value == NOT_ALLOWED).any(axis=1), NOT_ALLOWED, value.sum(axis=1) - now[pair]
        )
        good = np.flatnonzero(gain > 0)
        good = good[np.lexsort((-gain[good], pair[good]))]
        _, first = np.unique(pair[good], return_index=True)
        best = good[first]
        return pairs[pair[best]], new.reshape(-1, 2, MAX_MEMBERS)[best], gain[best]

    def insert_idle(self, bucket: int) -> None:
        """Insert idle jobs of a bucket in place of members, or in free places."""
        packing = self.packing
        used = np.flatnonzero((self.bucket == bucket) & (self.members[:, 0] != ALONE))
        idle = np.flatnonzero((packing.bucket == bucket) & (self.idle > 0))
        grid = np.meshgrid(used, idle, np.arange(packing.max_members), indexing="ij")
        where, who, place = (axis.ravel() for axis in grid)
        new = self.members[where]
        left = new[np.arange(len(new)), place]
        new[np.arange(len(new)), place] = who
        better = self.value_bound.of(new) > self.value[where]
        better &= (left == ALONE) | ~packing.must_cover[left]
        where, who, left, new = where[better], who[better], left[better], sort_members(new[better])
        gain = column_values(packing, new) - self.value[where]
        touched = np.zeros(len(self.members), dtype=np.bool_)
        order = np.argsort(-gain, kind="stable")
        for best in order[gain[order] > 0].tolist():
            group, job = where[best], who[best]
            if touched[group] or not self.idle[job]:
                continue
            if self._replace(where[best : best + 1], new[best : best + 1]):
                touched[group] = True
                self.idle[job] -= 1
                if left[best] != ALONE:
                    self.idle[left[best]] += 1

    def _replace(self, places: Ints, new: Ints) -> bool:
        """Replace columns, if the rows allow; return whether they do."""
        residual = self.residual + self._use(self.members[places]) - self._use(new)
        if (residual < 0).any():
            return False
        self.members[places], self.value[places] = new, column_values(self.packing, new)
        self.residual = residual
        return True

    def _use(self, members: Ints) -> Ints:
        """Return what columns take of each row together."""
        used: Ints = self.packing.usage(members[members[:, 0] != ALONE]).sum(axis=0)
        return used
