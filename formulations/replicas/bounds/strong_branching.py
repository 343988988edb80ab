"""Strong branching at the root of the replica tree: the children of some datasets are bounded.

The datasets with the most GiB of fractionality are probed: a copy in each region alone, and none.
The root is branched on the one with the smallest estimated tree (Le Bodic and Nemhauser, "An
abstract model for branching", Mathematical Programming 166, 2017). Its cheapest children also tell
the search where to place that dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Floats
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.bounds.tree_node import (
    Fixings,
    Node,
    fractionality,
    tree_growth_rate,
)
from placewright.formulations.replicas.models.relaxation import Relaxation
from placewright.formulations.session import Session
from placewright.solver.batched_pdhg import WIDTH


@dataclass(frozen=True, slots=True)
class Probes:
    """Bounds of children of the root.

    Attributes
    ----------
    bounds
        By dataset and region that gets a copy, `NONE` for no copy at all.
    growth_rates
        Estimate of the tree's size by dataset, where all of its children are bounded.
    """

    bounds: dict[tuple[int, int], float]
    growth_rates: dict[int, float]

    def branching_dataset(self) -> tuple[int, list[int]] | None:
        """Return the dataset of the smallest tree and its regions by bound; None without any."""
        if not self.growth_rates:
            return None
        p = min(self.growth_rates, key=self.growth_rates.__getitem__)
        return p, self.regions(p)

    def regions(self, p: int) -> list[int]:
        """Return the regions that may get a copy of a dataset, by bound."""
        bounds = {r: bound for (q, r), bound in self.bounds.items() if q == p and r != NONE}
        return sorted(bounds, key=bounds.__getitem__)


def probe_datasets(
    relaxation: Relaxation,
    point: Floats,
    session: Session,
    root: float,
    node_of: Callable[[Fixings], Node],
    solve: Callable[[Sequence[Node], int], list[Node]],
) -> Probes:
    """Return bounds of the children of some datasets, fewer if the time share ends.

    Parameters
    ----------
    point, root
        The point of the relaxation, and its bound.
    node_of
        Returns the child of the root with these fixings.
    solve
        Returns nodes after so many iterations.
    """
    doubt = fractionality(relaxation.copy_fractions(point))
    datasets = np.argsort(-relaxation.aggregate.wan.size * doubt, kind="stable")[
        : parameters.PARAMETERS.probed_datasets
    ]
    datasets = datasets[doubt[datasets] > parameters.PARAMETERS.min_fractionality]
    children: dict[tuple[int, int], Fixings] = {}
    for p in datasets.tolist():
        columns, regions = relaxation.replica[p], np.flatnonzero(relaxation.aggregate.copyable[p])
        children |= {(p, r): {int(columns[r]): 1.0} for r in regions.tolist()}
        children[p, NONE] = dict.fromkeys(columns[regions].tolist(), 0.0)
    found: dict[tuple[int, int], Node] = {}
    until = (1 - parameters.PARAMETERS.probing_time_share) * session.remaining()
    batch = parameters.PARAMETERS.tree_threads * WIDTH
    for k in range(0, len(children), batch):
        keys = list(children)[k : k + batch]
        nodes = [node_of(children[key]) for key in keys]
        solved = solve(nodes, parameters.PARAMETERS.probing_iterations)
        found |= dict(zip(keys, solved, strict=True))
        if session.expired(until):
            break
    bounds = {key: node.bound for key, node in found.items()}
    least = parameters.PARAMETERS.min_branching_gain_rel * max(1, root)
    growth_rates = {
        p: tree_growth_rate(
            np.maximum([bound - root for (q, _), bound in bounds.items() if q == p], least)
        )
        for p in datasets.tolist()
        if (p, NONE) in found
    }
    if growth_rates and not session.expired(until):
        p = min(growth_rates, key=growth_rates.__getitem__)
        mine = sorted((key for key in found if key[0] == p), key=bounds.__getitem__)[:batch]
        surer = solve([found[key] for key in mine], parameters.PARAMETERS.confirming_iterations)
        bounds |= {key: node.bound for key, node in zip(mine, surer, strict=True)}
    return Probes(bounds, growth_rates)
