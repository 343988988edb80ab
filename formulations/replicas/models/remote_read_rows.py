"""Data at hand in a region: held there, or read from afar by some job.

    x[p,r] in 0..1     dataset p is at hand in region r
    v[p,r] in {0, 1}   and is read from afar, where that is told apart (`AggregateProblem.apart`)
    e[p,r] >= 0        GiB read so beyond what the job that reads least of p reads

    v[p,r] <= x[p,r]
    a[c,r] <= x[p,r]                                           read k is of class c and dataset p
    e[p,r] >= sum_k gib[k] q[k,r] - least[p] v[p,r]            over reads k of p

x - v is the replica. Since jobs are whole, who reads from afar reads least[p] at the least; gib[k]
is what a whole class reads, if each of its jobs reads as much per weight as the one that reads
least. So least v + e is no more than what a plan reads there from afar.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.replicas.problem.job_classes import AggregateProblem
from placewright.formulations.replicas.problem.problem import TOGETHER
from placewright.solver import Model

FINE = 1 << 20
"""Parts of which coefficients are whole multiples, so that bounds can be certified."""


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Columns of data (datasets, regions), -1 where there is none.

    Attributes
    ----------
    replica
        x: what is held, or at hand where that is told apart.
    afar
        v: what of it is read from afar.
    """

    replica: Ints
    afar: Ints

    def add(self, model: Model, rows: Ints, p: Ints, r: Ints, coefficients: Ints | float) -> None:
        """Add what is held, with coefficients, of each dataset and region to a row."""
        for mine, columns, signed in self._held(p, r, coefficients):
            model.add(rows[mine], columns, signed)

    def count(self, model: Model, term: str, p: Ints, r: Ints, gib: Ints) -> None:
        """Count GiB of what is held of each dataset and region in a term."""
        for _, columns, signed in self._held(p, r, gib):
            model.term(term, columns, signed, sense="min")

    def _held(
        self, p: Ints, r: Ints, coefficients: Ints | float
    ) -> Iterator[tuple[Bools, Ints, Floats]]:
        """Yield where there is a column of x, then of v: that, the columns, what they count."""
        each = np.broadcast_to(np.asarray(coefficients, dtype=np.float64), np.shape(p))
        for columns, sign in ((self.replica[p, r], 1.0), (self.afar[p, r], -1.0)):
            mine = columns >= 0
            yield mine, columns[mine], sign * each[mine]


def data_of(aggregate: AggregateProblem, model: Model) -> Data:
    """Add the columns of data."""
    replica, afar = np.full((2, *aggregate.possible.shape), -1, dtype=np.int64)
    replica[aggregate.possible] = model.variables(
        "replica", int(aggregate.possible.sum()), upper=1.0
    )
    apart = int(aggregate.apart.sum())
    afar[aggregate.apart] = model.variables("afar", apart, upper=1.0)
    rows = model.rows("like", apart, upper=0.0)
    model.add(rows, afar[aggregate.apart], 1.0)
    model.add(rows, replica[aggregate.apart], -1.0)
    return Data(replica, afar)


def add_afar(aggregate: AggregateProblem, model: Model, data: Data, share: Ints, far: Ints) -> None:
    """Add the rows of who reads data at hand from afar, and GiB to the terms of reads.

    Parameters
    ----------
    share, far
        (classes, regions) and (reads, regions): columns of shares, and of those of them that read
        from afar.
    """
    k, r = np.nonzero((far >= 0) & aggregate.apart[aggregate.read_dataset])
    p = aggregate.read_dataset[k]
    rows = model.rows("hand", len(k), upper=0.0)
    model.add(rows, share[aggregate.read_class[k], r], 1.0)
    model.add(rows, data.replica[p, r], -1.0)

    least, most = least_read(aggregate), np.zeros_like(aggregate.least)
    np.add.at(most, aggregate.wan.read_dataset, aggregate.wan.read_gib)
    dataset, region = np.nonzero(aggregate.apart)
    upper = most[dataset].astype(np.float64)
    beyond = model.variables("beyond_least", len(dataset), upper=upper, integer=False)
    rows = model.rows("afar", len(dataset), lower=0.0)
    model.add(rows, beyond, 1.0)
    model.add(rows, data.afar[dataset, region], least[dataset])
    row = np.full(aggregate.apart.shape, -1, dtype=np.int64)
    row[dataset, region] = rows
    model.add(row[p, r], far[k, r], -_gib(aggregate)[k])
    for term in ("remote_reads", TOGETHER):
        model.term(term, beyond, 1.0, sense="min")
        model.term(term, data.afar[dataset, region], least[dataset], sense="min")


def least_read(aggregate: AggregateProblem) -> Ints:
    """Return the least GiB (datasets,) that a job reads of each; of those never read no limit."""
    least = np.full(len(aggregate.has_replica), np.iinfo(np.int64).max)
    np.minimum.at(least, aggregate.wan.read_dataset, aggregate.wan.read_gib)
    return least


def remotely_read(aggregate: AggregateProblem) -> Bools:
    """Return where some class may read data from afar (datasets, regions)."""
    found = np.zeros_like(aggregate.possible)
    lives = np.logical_or.reduce(aggregate.homes, axis=2)[aggregate.read_class]
    np.logical_or.at(found, aggregate.read_dataset, ~aggregate.local_only & lives)
    return found


def _gib(aggregate: AggregateProblem) -> Floats:
    """Return GiB (reads,) that a class reads, if all read like the one that reads least."""
    least = np.full(len(aggregate.read_class), np.inf)
    np.minimum.at(least, aggregate.step_read, aggregate.step_gib / aggregate.step_weight)
    least[np.isinf(least)] = 0.0
    # Rounded down to what bounds can be certified with.
    return np.floor(least * aggregate.weight[aggregate.read_class] * FINE) / FINE
