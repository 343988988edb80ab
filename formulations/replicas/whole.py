"""All replicas whole: the program as one that SCIP branches on, the largest datasets first.

    y[p] in {0, 1}     whether dataset p is copied at all:   x[p,r] <= y[p] <= sum_r x[p,r]

over copies. The relaxation copies most datasets by halves to several regions; that there is one
copy or none is a question that no single replica asks, and most of a bound hangs on its answer for
the largest few. So y comes with an order in which to branch, by size.

Nodes whose bound passes a cut-off need no more work: a cut-off at the value of a plan less the gap
that would be good enough makes the tree far smaller than the optimum would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from placewright.formulations.replicas.branching import Relaxed
from placewright.formulations.replicas.pool import Pool
from placewright.formulations.replicas.program import TOGETHER, Program, program_of
from placewright.formulations.wan.compile import Bools, Ints
from placewright.solver import Arrays
from placewright.solver.arrays import Floats

MOST_COPIES = 2000
"""Copies that could be made, more than which make relaxations too slow to branch on."""

EARLIER, OPEN = 10, 0.02
"""Whether a dataset is copied comes like a dataset of so many times its size, if it is open.

That is, if the number of its copies in the relaxation is so far from a whole one.
"""

PART = 1e-3
"""So much of a copy in an optimum of the relaxation is not there by tolerance."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What of a program is to be decided.

    Attributes
    ----------
    free : Bools
        (datasets, regions): copies that may be made or not.
    copied : Bools
        (datasets, regions): the others, if they are made.
    whole : Bools
        (datasets,): of which copies are whole.
    """

    free: Bools
    copied: Bools
    whole: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """A program with the columns y.

    Attributes
    ----------
    copied : Ints
        (datasets,): the columns, -1 where a dataset cannot be copied.
    """

    program: Program
    copied: Ints

    @classmethod
    def of(cls, pool: Pool) -> Self:
        """Return it for a pool."""
        return cls._counted(program_of(pool))

    @classmethod
    def together(cls, pool: Pool, tight: Bools) -> Self:
        """Return it for the sum of GiB read remotely and copied.

        In each region a dataset p is held, read from afar, or not read. Reading from afar costs
        least[p] at least, what the job that reads least of it reads, since jobs are whole; and all
        that is read, where each job of a class reads as much per GPU as any of them at least:

            v[p,r] in {0, 1} <= x[p,r]           x[p,r] - v[p,r] is the replica
            a[c,r] - q[k,r] <= x[p,r] - v[p,r]
            g[p,r] >= least[p] v[p,r],  g[p,r] >= sum_k t[k] q[k,r]

        over reads k of p by class c, where t is what a whole class reads. Then the sum of
        size (x - v), over what is not there yet, and g is to be least, and nobody is without a
        replica or its like. Limits of what leaves a region are left out.

        Where storage and links take whatever comes, a job that reads all of a dataset or more costs
        no less than a copy of it: so there v, g and q are left out, too, but for data that cannot
        be copied there.

        Parameters
        ----------
        tight
            (regions,): where limits of storage and of copies that come are kept (`Pool.limited`).
        """
        wan = pool.wan
        afar = np.zeros_like(pool.possible)
        np.logical_or.at(
            afar, pool.read_dataset, ~pool.near & pool.homes[pool.read_class].any(axis=2)
        )
        possible = pool.possible | afar
        least = np.full(len(wan.size), np.iinfo(np.int64).max)
        np.minimum.at(least, wan.read_dataset, wan.read_gib)
        afar &= tight | ~(pool.possible & (least >= wan.size)[:, None])
        bought = replace(
            pool.limited(tight),
            near=np.ones_like(pool.near),
            possible=possible,
            fresh=possible & ~pool.there,
        )
        program = program_of(bought)
        p, r = np.nonzero(afar)
        model, x = program.model, program.replica[p, r]
        v = model.variables("afar", len(p), upper=1.0)
        rows = model.rows("like", len(p), upper=0.0)
        model.add(rows, v, 1.0)
        model.add(rows, x, -1.0)
        model.add(program.room_rows[r], v, -wan.size[p])
        new = bought.fresh[p, r]
        model.add(program.ingress_rows[r[new]], v[new], -wan.size[p[new]])
        gib = model.variables("gib", len(p), integer=False)
        model.term(TOGETHER, gib, 1.0, sense="min")
        model.term(TOGETHER, v[new], -wan.size[p[new]], sense="min")
        rows = model.rows("some", len(p), lower=0.0)
        model.add(rows, gib, 1.0)
        model.add(rows, v, -least[p])
        at = np.full(afar.shape, -1, dtype=np.int64)
        at[p, r] = np.arange(len(p))
        k, r = np.nonzero((program.share[pool.read_class] >= 0) & afar[pool.read_dataset])
        p = pool.read_dataset[k]
        far = model.variables("far", len(k), upper=1.0, integer=False)
        rows = model.rows("held", len(k), upper=0.0)
        model.add(rows, program.share[pool.read_class[k], r], 1.0)
        model.add(rows, far, -1.0)
        model.add(rows, program.replica[p, r], -1.0)
        model.add(rows, v[at[p, r]], 1.0)
        rows = model.rows("read", len(gib), lower=0.0)
        model.add(rows, gib, 1.0)
        model.add(rows[at[p, r]], far, -_least_reads(pool)[k])
        return cls._counted(program)

    @classmethod
    def _counted(cls, program: Program) -> Self:
        pool, model = program.pool, program.model
        some = np.flatnonzero(pool.fresh.any(axis=1))
        copied = np.full(len(pool.kept), -1, dtype=np.int64)
        copied[some] = model.variables("copied", len(some), upper=1.0)
        p, r = np.nonzero(pool.fresh)
        rows = model.rows("copies", len(p), upper=0.0)
        model.add(rows, program.replica[p, r], 1.0)
        model.add(rows, copied[p], -1.0)
        rows = np.full(len(copied), -1, dtype=np.int64)
        rows[some] = model.rows("uncopied", len(some), lower=0.0)
        model.add(rows[p], program.replica[p, r], 1.0)
        model.add(rows[some], copied[some], -1.0)
        return cls(program, copied)

    def arrays(
        self,
        term: str,
        holds: Mapping[str, int],
        choice: Choice | None = None,
        numbers: Floats | None = None,
    ) -> Arrays:
        """Return the program, with all copies free and whole if no choice is given.

        Replicas of today may be dropped in part.

        Parameters
        ----------
        numbers
            (datasets,): how many copies a relaxation makes, to ask first where that is open.
        """
        program, pool = self.program, self.program.pool
        arrays = program.arrays(term, holds, relax=False)
        order = np.zeros(arrays.columns, dtype=np.int64)
        size = pool.wan.size
        p, r = np.nonzero(pool.fresh)
        order[program.replica[p, r]] = size[p]
        some = np.flatnonzero(self.copied >= 0)
        order[self.copied[some]] = size[some]
        if numbers is not None:
            is_open = np.abs(numbers - np.rint(numbers)) > OPEN
            order[self.copied[is_open & (self.copied >= 0)]] *= EARLIER
        lower, upper, integer = arrays.lower.copy(), arrays.upper.copy(), arrays.integer.copy()
        integer[program.replica[pool.there]] = False
        if choice is not None:
            settled = pool.fresh & ~choice.free
            columns = program.replica[settled]
            lower[columns] = upper[columns] = choice.copied[settled]
            integer[program.replica[pool.fresh & ~choice.whole[:, None]]] = False
            integer[self.copied[some[~choice.whole[some]]]] = False
        return replace(arrays, priority=order, lower=lower, upper=upper, integer=integer)


def _least_reads(pool: Pool) -> Floats:
    """Return GiB (reads,) that a whole class reads, if all read like the one that reads least."""
    least = np.full(len(pool.read_class), np.inf)
    np.minimum.at(least, pool.step_read, pool.step_gib / pool.step_weight)
    return np.where(np.isfinite(least), least, 0.0) * pool.weight[pool.read_class]


def worth_a_try(program: Program, arrays: Arrays, found: Relaxed, share: float) -> Bools:
    """Return the copies (datasets, regions) that a relaxation has in part, or almost.

    Almost: one more would cost less than this share of its size.
    """
    pool = program.pool
    dear = program.replicas(arrays.reduced_costs(-found.prices))
    worth: Bools = pool.fresh & (dear < share * pool.wan.size[:, None])
    if found.point is not None:
        worth |= pool.fresh & (program.replicas(found.point) > PART)
    return worth
