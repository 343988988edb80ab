"""Ordered sums of tenant shares (max-min fairness) as rows, for every model that counts jobs.

    y[c,o]    jobs of a class that hold something afterwards, with an option
    s[i]      share of tenant i, in units of 1 / SCALE        0 <= s[i] <= most[i]
    b[i,r]    resource r is dominant                          sum_r b[i,r] = 1
    r[k]      the k-th smallest share;    d[i,k] >= r[k] - s[i],  d >= 0

    share     s[i] <= SCALE (held[i,r] + sum_y demand[r] y) / per[i,r]  +  most[i] (1 - b[i,r])
    sum       s[i] <= SCALE (max_r held[i,r] / per[i,r]  +  sum_y max_r (demand[r] / per[i,r]) y)
    theta_k   k r[k] - sum_i d[i,k]      is at most the sum of the k smallest s, and reaches it

(Ogryczak and Sliwinski 2003, see limits.py.) A tenant whose jobs all have one dominant
resource needs no b. The rows `sum` are implied for whole numbers and tighten the linear relaxation.

Rows are written in whole numbers. Where their common denominator is beyond
`MAX_EXACT_DENOMINATOR`, each job counts with its share rounded up to 1 / `FINE` of a unit: still a
relaxation, and one unit too much for a tenant of thousands of jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import cast

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.gang.problem.limits import (
    SCALE,
    SHARE_TERMS,
    TenantShare,
    num_smallest,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.solver import Model

_SHARE, _DOMINANT, _ORDERED, _SHORT = "share", "dominant", "ordered", "short"
"""The blocks of s, b, r and d."""

FINE = 10_000
MAX_EXACT_DENOMINATOR = 100_000
"""Solvers round within 1e-6 of a whole number; multiples of 1e-5 stay distinct."""


def add_share_terms(
    model: Model,
    problem: Problem,
    y: Ints,
    y_class: Ints,
    y_choice: Ints,
    shares: tuple[TenantShare, ...],
) -> None:
    """Append the share terms of the policy.

    `y_class` and `y_choice` are job class and choice of each column of `y`, `shares` the tenants
    that count, with what their jobs hold that no y counts.
    """
    terms = [term for term in problem.terms if term in SHARE_TERMS]
    if not terms:
        return
    most = [t.upper_bound for t in problem.shares_with_jobs(problem.num_jobs.tolist())]
    s = model.variables(_SHARE, len(shares), upper=most)
    tenant = np.array([c.tenant for c in problem.classes], dtype=np.int64)[y_class]
    order = np.argsort(tenant, kind="stable")
    begin = np.searchsorted(tenant[order], [share.tenant for share in shares])
    end = np.searchsorted(tenant[order], [share.tenant for share in shares], side="right")
    rows = _Rows()
    for i, share in enumerate(shares):
        mine = order[begin[i] : end[i]]
        pairs = list(zip(y_class[mine].tolist(), y_choice[mine].tolist(), strict=True))
        _share_rows(model, problem, share, int(s[i]), most[i], y[mine], pairs, rows)
    rows.append_to(model)
    for term in terms:
        _add_ordered_sum(model, term, num_smallest(term, len(shares)), s, max(most, default=0))


def with_actual_shares(
    model: Model,
    problem: Problem,
    y: Ints,
    y_class: Ints,
    y_choice: Ints,
    shares: tuple[TenantShare, ...],
    point: Floats,
) -> Floats:
    """Return a point with the same y, and the shares and ordered sums that follow from it.

    Variables of later terms may have any value that rows allow; a search that starts from the point
    needs the actual ones. Parameters as for `add_share_terms`.
    """
    found = point.copy()
    held = {share.tenant: share for share in shares}
    for c, o, n in zip(y_class.tolist(), y_choice.tolist(), point[y], strict=True):
        job_class = problem.classes[c]
        if job_class.tenant in held and (number := round(n)):
            amounts = problem.amounts_of(job_class.choices[o])
            mine = {r: number * amount for r, amount in amounts.items()}
            held[job_class.tenant] = held[job_class.tenant].plus(mine)
    of = {tenant: share.by_resource for tenant, share in held.items()}
    s = np.array([max(of[share.tenant].values(), default=0) for share in shares])
    for block in model.variable_blocks:
        columns = slice(block.start, block.start + block.size)
        if not block.size:
            continue
        if block.name == _SHARE:
            found[columns] = s
        elif block.name == _DOMINANT:
            pairs = cast(list[tuple[int, int]], block.keys)
            each = np.array([of[tenant][r] for tenant, r in pairs])
            found[columns] = np.arange(len(pairs)) == each.argmax()
        elif block.name in (_ORDERED, _SHORT):
            least = np.sort(s)[cast(list[int], block.keys)[0] - 1]
            found[columns] = least if block.name == _ORDERED else np.maximum(least - s, 0)
    return found


class _Rows:
    """Rows of the block `share`, collected to be appended at once."""

    def __init__(self) -> None:
        self._upper: list[int] = []
        self._row: list[Ints] = [np.zeros(0, dtype=np.int64)]
        self._column: list[Ints] = [np.zeros(0, dtype=np.int64)]
        self._value: list[Floats] = [np.zeros(0)]

    def add(self, upper: int, columns: Ints, values: list[int]) -> None:
        """Collect one row."""
        self._row.append(np.full(len(columns), len(self._upper)))
        self._column.append(columns)
        self._value.append(np.array(values, dtype=np.float64))
        self._upper.append(upper)

    def append_to(self, model: Model) -> None:
        """Append all rows to a model."""
        rows = model.rows("share", len(self._upper), upper=self._upper)
        columns, values = np.concatenate(self._column), np.concatenate(self._value)
        model.add(rows[np.concatenate(self._row)], columns, values)


def _share_rows(
    model: Model,
    problem: Problem,
    share: TenantShare,
    s: int,
    most: int,
    y: Ints,
    pairs: list[tuple[int, int]],
    rows: _Rows,
) -> None:
    """Bound a tenant's share by what it holds of its dominant resource."""
    amounts = {
        (c, o): problem.amounts_of(problem.classes[c].choices[o]) for c, o in dict.fromkeys(pairs)
    }
    dominant = _dominant_resources(share, [*amounts.values(), dict(share.held)])
    b = np.zeros(0, dtype=np.int64)
    if len(dominant) > 1:
        keys = [(share.tenant, r) for r in dominant]
        b = model.variables(_DOMINANT, len(keys), upper=1, keys=keys)
        model.row("one dominant", b, lower=1.0, upper=1.0)
        most_of = {
            pair: max(_fine_share(share, mine, r) for r in dominant)
            for pair, mine in amounts.items()
        }
        most_held = max(_fine_share(share, share.held, r) for r in dominant)
        row = model.row("sum", s, FINE, upper=most_held)
        model.add(row, y, -np.array([most_of[pair] for pair in pairs], dtype=np.float64))
    for number, r in enumerate(dominant):
        unit = gcd(share.denominator[r], *(SCALE * mine[r] for mine in amounts.values()))
        if share.denominator[r] <= MAX_EXACT_DENOMINATOR * unit:
            each, held = share.denominator[r] // unit, SCALE * share.held[r] // unit
            demand = {pair: SCALE * mine[r] // unit for pair, mine in amounts.items()}
        else:
            each, held = FINE, _fine_share(share, share.held, r)
            demand = {pair: _fine_share(share, mine, r) for pair, mine in amounts.items()}
        free = each * most if len(b) else 0
        values = [each, *(-demand[pair] for pair in pairs), *([free] if len(b) else [])]
        rows.add(held + free, np.concatenate([[s], y, b[number : number + 1]]), values)


def _fine_share(share: TenantShare, amounts: Mapping[int, int], resource: int) -> int:
    """Return the share of an amount in units of 1 / (SCALE * FINE), rounded up."""
    return -(-FINE * SCALE * amounts[resource] // share.denominator[resource])


def _dominant_resources(share: TenantShare, amounts: list[dict[int, int]]) -> list[int]:
    """Return the resources that may be dominant; of those that are always equal, the first."""

    def no_more(r: int, q: int) -> bool:
        return all(
            mine[r] * share.denominator[q] <= mine[q] * share.denominator[r] for mine in amounts
        )

    return [
        r
        for r in share.denominator
        if not any(
            q != r and no_more(r, q) and (q < r or not no_more(q, r)) for q in share.denominator
        )
    ]


def _add_ordered_sum(model: Model, term: str, number: int, s: Ints, most: int) -> None:
    """Append the sum of the `number` smallest shares as a term."""
    if number >= len(s):
        model.term(term, s, 1.0, sense="max")
        return
    least = model.variables(_ORDERED, 1, upper=most, keys=[number])
    keys = [number] * (len(s) if number > 1 else 0)
    short = model.variables(_SHORT, len(keys), upper=most, keys=keys)
    rows = model.rows("ordered", len(s), upper=0.0)
    model.add(rows, least, 1.0)
    model.add(rows, s, -1.0)
    model.add(rows[: len(short)], short, -1.0)
    model.term(term, least, float(number), sense="max")
    model.term(term, short, -1.0, sense="max")
