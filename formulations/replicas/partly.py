"""Some datasets whole, the others at their prices: what a solver claims of large rounds.

Of an optimum of the relaxation, the datasets of which most GiB are in doubt are made whole. The
replicas of the others are left out, and rows that they are in are paid for, at the relaxation's
multipliers y:

    c x  >=  y b + sum over columns left out of the least (c - y A)[j] x[j]
           + the least of (c - y A) x over the columns and rows that are left, some of them whole

which is the relaxation's own bound if nothing is whole, and a small program: whoever reads the
others is free to run anywhere, at a price. Few datasets decide most: the larger a dataset, the
more it matters that a half of it is not to be had.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.formulations.replicas.branching import Relaxed, copies_of, doubt_of
from placewright.formulations.replicas.program import Program
from placewright.formulations.session import Session
from placewright.formulations.wan.compile import Ints
from placewright.solver import Arrays

GAP = 2e-3
"""Relative gap at which a program counts as solved; its bound is taken, not its point."""


def in_doubt(program: Program, found: Relaxed, number: int) -> Ints:
    """Return so many datasets of which most GiB are copied in part, those of most first."""
    doubt = doubt_of(copies_of(program, found.point))
    return np.argsort(-program.pool.wan.size * doubt, kind="stable")[:number]


def partly_whole(
    program: Program, arrays: Arrays, found: Relaxed, whole: Ints, session: Session, share: float
) -> float | None:
    """Return a claimed bound with some datasets (n,) whole; None without one.

    Parameters
    ----------
    arrays, found
        A relaxation of the program, and what it says.
    share
        Of the time left, at most.
    """
    pool = program.pool
    gone = np.zeros(arrays.columns, dtype=np.bool_)
    gone[program.replica[pool.possible]] = True
    gone[program.replica[whole][pool.possible[whole]]] = False
    entry = arrays.entry_rows()
    left_out = np.zeros(arrays.rows, dtype=np.bool_)
    left_out[entry[gone[arrays.indices]]] = True
    price = np.where(left_out, -found.prices, 0.0)
    limit = np.where(price > 0, arrays.row_lower, arrays.row_upper)
    price = np.where(np.isfinite(limit), price, 0.0)
    paid = price != 0
    cost = arrays.reduced_costs(price)
    constant = float(price[paid] @ limit[paid]) + float(
        np.minimum(cost * arrays.lower, cost * arrays.upper)[gone].sum()
    )
    columns, rows = np.flatnonzero(~gone), np.flatnonzero(~left_out)
    stays = ~left_out[entry]
    number = np.bincount((np.cumsum(~left_out) - 1)[entry[stays]], minlength=len(rows))
    integer = np.zeros(arrays.columns, dtype=np.bool_)
    integer[program.replica[whole][pool.fresh[whole]]] = True
    part = replace(
        arrays,
        cost=cost[columns],
        constant=arrays.constant + constant,
        lower=arrays.lower[columns],
        upper=arrays.upper[columns],
        integer=integer[columns],
        row_lower=arrays.row_lower[rows],
        row_upper=arrays.row_upper[rows],
        indptr=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(number)]),
        indices=(np.cumsum(~gone) - 1)[arrays.indices[stays]],
        data=arrays.data[stays],
        when=arrays.when[rows],
        row_block=arrays.row_block[rows],
    )
    if not part.integer.any():
        return None
    outcome = session.optimise(part, share=share, gap=GAP)
    return None if outcome is None else outcome.bound
