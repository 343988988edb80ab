"""Pricing of patterns of whole hosts by beam search: items worth most together on one host.

    max  sum_i price[i] n[i]      sum_i size[i,r] n[i] <= host[r],   0 <= n[i] <= most[i]

The linear relaxation gives a multiplier per resource. The worth of a partial pattern plus that of
its free resources at these multipliers bounds what it can still become; the partial patterns with
the largest such sums are extended.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.session import Session
from placewright.solver import Model


def best_patterns(
    session: Session, sizes: Ints, most: Ints, price: Floats, host: Ints, threshold: float
) -> list[Ints]:
    """Return patterns (items per type) priced above a threshold, the best first.

    Parameters
    ----------
    sizes : int64 (types, resources)
    most : int64 (types,)
    price : float64 (types,)
    host : int64 (resources,)
    """
    tuning = parameters.PARAMETERS.models
    useful = np.flatnonzero((price > 0) & (sizes <= host).all(axis=1) & (most > 0))
    multipliers = _multipliers(session, sizes[useful], most[useful], price[useful], host)
    if multipliers is None:
        return []
    reduced = price[useful] - sizes[useful] @ multipliers
    tried = useful[np.argsort(-reduced, kind="stable")[: tuning.max_beam_items]]
    return [
        pattern
        for worth, pattern in _search(sizes, most, price, host, multipliers, tried)
        if worth > threshold
    ]


def _multipliers(
    session: Session, sizes: Ints, most: Ints, price: Floats, host: Ints
) -> Floats | None:
    """Return a multiplier per resource: the duals of the pricing problem's linear relaxation."""
    model = Model()
    n = model.variables("n", len(price), upper=most, integer=False)
    rows = model.rows("host", len(host), upper=host)
    at, resource = np.nonzero(sizes)
    model.add(rows[resource], n[at], sizes[at, resource])
    model.term("price", n, price, sense="max")
    outcome = session.optimise(model.arrays("price", relax=True))
    if outcome is None or outcome.row_duals is None:
        return None
    return outcome.row_duals.clip(min=0.0)


def _search(
    sizes: Ints, most: Ints, price: Floats, host: Ints, multipliers: Floats, tried: Ints
) -> list[tuple[float, Ints]]:
    """Extend patterns item by item, each item no earlier in `tried` than the one before it."""
    tuning = parameters.PARAMETERS.models
    size, cost = sizes[tried], price[tried]
    number = np.zeros((1, len(tried)), dtype=np.int64)
    free = host[None, :].copy()
    worth = np.zeros(1)
    last = np.zeros(1, dtype=np.int64)
    best: list[tuple[float, Ints]] = []
    while len(worth):
        fits = (free[:, None, :] >= size).all(axis=2) & (number < most[tried])
        fits &= np.arange(len(tried)) >= last[:, None]
        label, item = np.nonzero(fits)
        if not len(label):
            break
        after = free[label] - size[item]
        value = worth[label] + cost[item]
        score = value + after @ multipliers
        keep = np.argsort(-score, kind="stable")[: tuning.beam_width]
        label, last, free, worth = label[keep], item[keep], after[keep], value[keep]
        number = number[label]
        number[np.arange(len(keep)), last] += 1
        top = np.argsort(-worth, kind="stable")[: tuning.max_beam_patterns]
        best += [(float(worth[i]), number[i]) for i in top]
        best = sorted(best, key=lambda entry: -entry[0])[: tuning.max_beam_patterns]
    patterns = []
    for value_of, count in best:
        pattern = np.zeros(len(price), dtype=np.int64)
        pattern[tried] = count
        patterns.append((value_of, pattern))
    return patterns
