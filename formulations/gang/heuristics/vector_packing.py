"""Vector bin packing: best fit decreasing, and column generation on equal hosts.

A pattern is a set of items that one host holds together:

    max  sum_i worth[i] c[i]      c[i] <= items of type i,   c[i] <= sum_p P[p,i] l[p],
                                  sum_p l[p] <= hosts

Patterns are priced by beam search (`models/aggregate/host_pricing.py`; Gilmore and Gomory 1961,
with the demand as an upper bound).
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.host_pricing import best_patterns
from placewright.formulations.session import Session
from placewright.solver import Model



def best_fit_decreasing(sizes: Ints, free: Ints) -> Ints:
    """Place items (items, resources) on hosts with `free` (hosts, resources); GPUs come first.

    Largest first, each to the host whose other resources then still serve its other GPUs best.
    Returns the host of each item, `NOWHERE` for items that fit none.
    """
    free = free.copy()
    chosen = np.full(len(sizes), NOWHERE, dtype=np.int64)
    scale = np.maximum(free.max(axis=0, initial=1), 1)
    left = sizes.sum(axis=0).astype(np.float64)
    heaviest = (sizes[:, 1:] / scale[1:]).max(axis=1, initial=0.0)
    for i in np.lexsort((-heaviest, -sizes[:, 0])):
        left -= sizes[i]
        hosts = np.flatnonzero((free >= sizes[i]).all(axis=1))
        if not len(hosts):
            continue
        after = free[hosts] - sizes[i]
        needed = after[:, :1] * (left[1:] / max(left[0], 1.0))
        short = ((needed - after[:, 1:]).clip(min=0) / scale[1:]).sum(axis=1)
        chosen[i] = hosts[np.lexsort((after[:, 0], np.round(short, 3)))[0]]
        free[chosen[i]] -= sizes[i]
    return chosen


def pack_by_columns(session: Session, sizes: Ints, worth: Ints, chosen: Ints, free: Ints) -> Ints:
    """Pack again on hosts that are all equal, starting from the patterns of `chosen`.

    Returns the better of the two packings by total worth.
    """
    types, kind = np.unique(np.column_stack([worth, sizes]), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    master = _PatternMaster(types[:, 1:], types[:, 0], np.bincount(kind), free[0], len(free))
    used = np.zeros((len(free), len(types)), dtype=np.int64)
    placed = chosen >= 0
    np.add.at(used, (chosen[placed], kind[placed]), 1)
    for pattern in np.unique(used, axis=0):
        master.add(pattern)
    packing = master.solve(session)
    result = np.full(len(sizes), NOWHERE, dtype=np.int64)
    members = [np.flatnonzero(kind == t).tolist() for t in range(len(types))]
    for host, pattern in enumerate(packing):
        for t in np.flatnonzero(pattern):
            for _ in range(min(int(pattern[t]), len(members[t]))):
                result[members[t].pop()] = host
    return result if worth[result >= 0].sum() > worth[placed].sum() else chosen


class _PatternMaster:
    """The master problem and its patterns."""

    def __init__(self, sizes: Ints, worth: Ints, number: Ints, host: Ints, hosts: int) -> None:
        self.sizes, self.worth, self.number, self.host = sizes, worth, number, host
        self.model = Model()
        self.patterns: list[Ints] = []
        self.columns: list[int] = []
        self._seen: set[bytes] = set()
        covered = self.model.variables("covered", len(worth), upper=number)
        self._cover = self.model.rows("cover", len(worth), upper=0.0)
        self.model.add(self._cover, covered, 1.0)
        self._hosts = self.model.rows("hosts", 1, upper=hosts)
        self.model.term("worth", covered, worth, sense="max")

    def add(self, pattern: Ints) -> bool:
        """Append a pattern; False if it is known or empty."""
        if pattern.tobytes() in self._seen or not pattern.any():
            return False
        self._seen.add(pattern.tobytes())
        column = self.model.variables("pattern", 1)
        held = np.flatnonzero(pattern)
        self.model.add(self._cover[held], column, -pattern[held])
        self.model.add(self._hosts, column, 1.0)
        self.patterns.append(pattern)
        self.columns.append(int(column[0]))
        return True

    def solve(self, session: Session) -> list[Ints]:
        """Price patterns while they help, then choose among them; returns one pattern per host."""
        tuning = parameters.PARAMETERS.packing
        reserve = session.remaining() * (1 - tuning.pattern_share)
        while not session.expired(reserve):
            outcome = session.optimise(self.model.arrays("worth", relax=True))
            if outcome is None or outcome.row_duals is None or outcome.objective is None:
                break
            if outcome.objective >= float(self.worth @ self.number) - 0.5:
                break
            price = outcome.row_duals[self._cover].clip(min=0.0)
            threshold = float(outcome.row_duals[self._hosts[0]]) * (1 + 1e-6)
            found = best_patterns(session, self.sizes, self.number, price, self.host, threshold)
            if not sum(self.add(pattern) for pattern in found):
                break
        outcome = session.optimise(
            self.model.arrays("worth"),
            share=tuning.pattern_share,
            most=tuning.max_pattern_seconds,
            gap=tuning.pattern_gap_rel,
        )
        if outcome is None or outcome.values is None:
            return []
        times = np.rint(outcome.values[self.columns]).astype(int)
        return [p for p, n in zip(self.patterns, times, strict=True) for _ in range(n)]
