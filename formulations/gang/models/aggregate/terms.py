"""Objective terms of the aggregate model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.models.tenant_share_rows import add_share_terms
from placewright.formulations.gang.problem.collectives import LinkBandwidths, least_time_us_within
from placewright.formulations.gang.problem.jobs import Choice
from placewright.formulations.gang.problem.terms import (
    BOTTLENECK,
    ENTITLED,
    OPTION_SUMS,
    PROGRESS,
    VALUE,
)


def add_terms(m: AggregateModel) -> None:
    """Append the terms that the model has variables for."""
    options = m.problem.options
    running = np.array([k.running for k in m.problem.classes], dtype=np.bool_)[m.y_class]
    for term in dict.fromkeys((VALUE, ENTITLED, PROGRESS, *m.problem.terms)):
        if term not in OPTION_SUMS:
            continue
        worth = options.amounts(term)[m.y_option].astype(np.float64)
        before = float((worth * m.y_most)[running].sum())
        m.model.term(term, m.y, worth, sense="max", constant=-before)
    add_share_terms(m.model, m.problem, *m.y_columns, m.left_out_shares)
    cost = m.y_cost.astype(np.float64)
    m.model.term("disruption", m.y, -cost, sense="min", constant=float((cost * m.y_most).sum()))
    m.model.term("spread", m.u, m.gangs.spread, sense="min")
    if BOTTLENECK in m.problem.terms:
        m.model.term(BOTTLENECK, m.u, m.gangs.time_us, sense="min")
        chosen = [
            m.problem.classes[c].choices[o] for c, o in zip(m.y_class, m.y_choice, strict=True)
        ]
        m.model.term(BOTTLENECK, m.y, _single_times(m, chosen, running), sense="min")
    idle = m.opened[m.opened >= 0]
    m.model.term("opened", idle, np.ones(len(idle)), sense="min")


def _single_times(m: AggregateModel, chosen: Sequence[Choice], running: NDArray[np.bool_]) -> Ints:
    """Return the least time of the collectives inside one task of each pending option."""
    problem, speeds = m.problem, LinkBandwidths.of(m.problem.cluster)
    host = len(problem.cluster.levels) - 1
    return np.array(
        [
            sum(
                least_time_us_within(speeds, group, host, problem.shape_hosts[group.shape])
                for group in (() if runs else choice.groups)
                if group.timed and group.count == 1
            )
            for choice, runs in zip(chosen, running.tolist(), strict=True)
        ],
        dtype=np.int64,
    )
