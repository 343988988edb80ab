"""Terms of running jobs: what moves cost (`disruption`), `remaining`, and `freed`.

disruption  sum_j migrate_cost (y - k) + preempt_cost (1 - y)  +  sum_p milli-GPU of p (1 - s[p])
remaining   sum over places on hosts to vacate of milli-GPU s[p]
empty[d]    domain d in use becomes free       s[p] + e <= 1,  x[t,h] <= capacity (1 - e)
taken[d]    free domain d is used              x[t,h] <= capacity o
freed       sum_d worth of d (e[d] - o[d])  -  disruption
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.model import HostModel, milli_each
from placewright.formulations.gang.problem.freeable_domains import FreeableDomains
from placewright.formulations.gang.problem.jobs import ANY_JOB


def add_move_terms(m: HostModel) -> None:
    """Append the policy's terms of running jobs."""
    terms = m.problem.terms
    if "disruption" in terms:
        add_disruption(m)
    if "remaining" in terms:
        _remaining(m)
    if "freed" in terms:
        add_freed(m)


def add_disruption(m: HostModel) -> None:
    """Append the term `disruption`."""
    _disruption(m, "disruption", 1.0)


def _disruption(m: HostModel, term: str, sign: float) -> None:
    """Append what moves cost to a term, with `sign` 1 or -1."""
    sense: Literal["min", "max"] = "min" if sign > 0 else "max"
    moving = [e for e, entry in enumerate(m.entries) if entry.job != ANY_JOB]
    costs = [
        (m.problem.running[m.entries[e].job].migrate_cost,
         m.problem.running[m.entries[e].job].preempt_cost)
        for e in moving
    ]  # fmt: skip
    migrate, preempt = sign * np.array(costs, dtype=np.float64).reshape(-1, 2).T
    milli = sign * milli_each(m).astype(np.float64)
    constant = float(preempt.sum() + milli.sum())
    m.model.term(term, m.y[moving], migrate - preempt, sense=sense, constant=constant)
    m.model.term(term, m.kept[moving], -migrate, sense=sense)
    m.model.term(term, m.stays.s, -milli, sense=sense)


def _remaining(m: HostModel) -> None:
    there = np.flatnonzero(m.problem.vacate[m.hosts[m.stays.host]])
    milli = milli_each(m)[there].astype(np.float64)
    constant = float(m.problem.pinned_remaining)
    m.model.term("remaining", m.stays.s[there], milli, sense="min", constant=constant)


def add_freed(m: HostModel) -> None:
    """Append the term `freed`."""
    _disruption(m, "freed", -1.0)
    freeing = FreeableDomains(m.problem)
    domain = freeing.domain[m.hosts]
    mine = np.unique(domain)
    for name, chosen, worth in (
        ("empty", mine[freeing.freeable[mine]], freeing.worth_of_domain),
        ("taken", mine[~freeing.busy[mine]], -freeing.worth_of_domain),
    ):
        columns = m.model.variables(name, len(chosen), upper=1)
        column_of = np.full(len(freeing.worth_of_domain), -1, dtype=np.int64)
        column_of[chosen] = columns
        _link(m, name, column_of[domain])
        m.model.term("freed", columns, worth[chosen].astype(np.float64), sense="max")


def _link(m: HostModel, name: str, column_of_host: Ints) -> None:
    """Tie each x, and each place of a running job, to the variable of its domain."""
    empty = name == "empty"
    at = np.flatnonzero(column_of_host[m.x_host] >= 0)
    capacity = m.capacity[m.x_set[at], m.x_host[at]].astype(np.float64)
    rows = m.model.rows(name, len(at), upper=capacity if empty else 0.0)
    m.model.add(rows, m.x[at], 1.0)
    m.model.add(rows, column_of_host[m.x_host[at]], capacity if empty else -capacity)
    if empty:
        at = np.flatnonzero(column_of_host[m.stays.host] >= 0)
        rows = m.model.rows(name, len(at), upper=1.0)
        m.model.add(rows, m.stays.s[at], 1.0)
        m.model.add(rows, column_of_host[m.stays.host[at]], 1.0)
