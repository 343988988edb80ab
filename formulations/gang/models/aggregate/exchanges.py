"""Exchanges between task slots of host patterns: dual-optimal inequalities as columns.

    e[s,t]   slots of shape s in patterns that tasks of shape t take

    tasks    sum over a, p of P[p,s] l[a,p] + sum_t (e[t,s] - e[s,t])  >=  tasks of s started

A task fits wherever one fits that takes no less of any resource and is allowed on no more hosts. So
a pattern with such a slot exchanged is a pattern, too, and the columns e change no optimum. In the
dual they say pi[t] <= pi[s], which all patterns together imply. With few patterns the prices are
near the last ones at once, and column generation needs a fraction of the iterations (Ben Amor,
Desrosiers and Valério de Carvalho, Dual-Optimal Inequalities for Stabilized Column Generation,
Operations Research 54, 2006). Pairs that follow from others are left out.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints


def exchangeable_slots(sizes: Ints, allowed: NDArray[np.bool_]) -> Ints:
    """Return (slot, task) pairs of shapes whose transitive closure says which task fits which slot.

    Parameters
    ----------
    sizes : int64 (shapes, resources)
        What a task takes.
    allowed : bool (shapes, classes)
        Which classes of hosts each shape may be on.

    Returns
    -------
    int64 (pairs, 2)
        Without cycles, but for pairs of equal shapes in both directions.
    """
    keys, first, kind = np.unique(
        np.column_stack([sizes, allowed]), axis=0, return_index=True, return_inverse=True
    )
    kind = kind.reshape(-1)
    takes, where = keys[:, : sizes.shape[1]], keys[:, sizes.shape[1] :].astype(np.bool_)
    fits = np.ones((len(keys), len(keys)), dtype=np.bool_)
    for amount in takes.T:
        fits &= amount[:, None] >= amount[None, :]
    for may in where.T:
        fits &= ~may[:, None] | may[None, :]
    np.fill_diagonal(fits, False)
    between = fits.astype(np.float32) @ fits.astype(np.float32) > 0
    slot, task = np.nonzero(fits & ~between)
    others = np.flatnonzero(first[kind] != np.arange(len(sizes)))
    equal = np.column_stack([first[kind[others]], others])
    return np.concatenate([np.column_stack([first[slot], first[task]]), equal, equal[:, ::-1]])


def exchanged_slots(pairs: Ints, flow: Ints) -> list[tuple[int, int, int]]:
    """Decompose exchanges into paths: (slot, task, number), each slot exchanged once.

    Parameters
    ----------
    pairs : int64 (pairs, 2)
        As `exchangeable_slots` returns them.
    flow : int64 (pairs,)
        How often each is used.
    """
    net: defaultdict[tuple[int, int], int] = defaultdict(int)
    used = np.flatnonzero(flow)
    for (slot, task), n in zip(pairs[used].tolist(), flow[used].tolist(), strict=True):
        net[slot, task] += n
        net[task, slot] -= n  # equal shapes may be exchanged in both directions
    left: defaultdict[int, dict[int, int]] = defaultdict(dict)
    gain: defaultdict[int, int] = defaultdict(int)
    for (slot, task), n in net.items():
        if n > 0:
            left[slot][task] = n
            gain[slot] -= n
            gain[task] += n
    found = []
    for source in [s for s, n in gain.items() if n < 0]:
        while gain[source] < 0:
            # A path without cycles ends where more slots come than go.
            path = [source]
            while gain[path[-1]] <= 0:
                path.append(next(t for t, n in left[path[-1]].items() if n))
            steps = list(pairwise(path))
            amount = min(-gain[source], gain[path[-1]], *(left[s][t] for s, t in steps))
            for slot, task in steps:
                left[slot][task] -= amount
            gain[source] += amount
            gain[path[-1]] -= amount
            found.append((source, path[-1], amount))
    return found
