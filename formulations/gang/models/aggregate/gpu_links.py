"""The term `gpu_links` in the aggregate model: what tasks can have of the links of hosts at most.

    e[k,a,i]   tasks of kind k that are the i-th of their kind on a host of class a

    linked   sum over a, i of e[k,a,i]              <=  tasks of kind k that y starts
    gpus     sum over k, i of gpus(k) e[k,a,i]      <=  whole GPUs of the hosts of a

A kind is a number of GPUs and what is asked of their links. A class has the hosts on which as many
tasks of each kind alone add the same; the i-th adds no more than the one before it
(`LinkTables.most`), so they come in order. That kinds compete for the same links is left out.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.problem.gpu_links import GPU_LINKS, LinkDemands, set_of
from placewright.topology.units import WHOLE_GPU


def add_gpu_links(m: AggregateModel) -> None:
    """Append the term, if the policy has it."""
    problem = m.problem
    if GPU_LINKS not in problem.terms:
        return
    links = problem.link_demands
    # Who does not compete for hosts may have what it has now, or the best elsewhere.
    others = sum(map(problem.most_link_mbps, problem.not_competing))
    constant = float(problem.pinned_link_mbps + others)
    m.model.term(GPU_LINKS, m.y[:0], np.zeros(0), sense="max", constant=constant)
    if links is None or not any(links.asked):
        return
    shape_kind, kinds = _kinds(links)
    options = problem.options
    which, group = options.groups_of(m.y_option)
    kind = shape_kind[options.group_shape[group]]
    some = kind >= 0
    rows = m.model.rows("linked", len(kinds), upper=0.0)
    m.model.add(rows[kind[some]], m.y[which[some]], -options.group_count[group[some]])
    for gains, (hosts, gpus) in _classes(m, links, kinds).items():
        row = m.model.rows("linked gpus", 1, upper=gpus)
        for k, slopes in enumerate(gains):
            e = m.model.variables("e", len(slopes), upper=hosts)
            m.model.add(rows[k], e, 1.0)
            m.model.add(row, e, int(links.gpus[kinds[k]]))
            m.model.term(GPU_LINKS, e, np.array(slopes, dtype=np.float64), sense="max")


def _kinds(links: LinkDemands) -> tuple[Ints, list[int]]:
    """Return the kind of each shape, -1 without one, and a shape of each kind."""
    number: dict[tuple[object, int], int] = {}
    first: list[int] = []
    of_shape = np.full(len(links.asked), -1, dtype=np.int64)
    for shape, asked in enumerate(links.asked):
        if asked is not None:
            key = asked, int(links.gpus[shape])
            of_shape[shape] = number.setdefault(key, len(number))
            if of_shape[shape] == len(first):
                first.append(shape)
    return of_shape, first


def _classes(
    m: AggregateModel, links: LinkDemands, kinds: list[int]
) -> dict[tuple[tuple[int, ...], ...], tuple[int, int]]:
    """Return number and whole GPUs of the hosts by what tasks of each kind add on one of them."""
    problem = m.problem
    start, free = problem.cluster.gpu_start.tolist(), problem.cleared.gpu_free == WHOLE_GPU
    asking = np.array([asked is not None for asked in links.asked], dtype=np.bool_)
    hosts = np.flatnonzero((links.of_host >= 0) & problem.shape_hosts[asking].any(axis=0))
    known: dict[tuple[int, bytes], tuple[tuple[int, ...], ...]] = {}
    found: defaultdict[tuple[tuple[int, ...], ...], list[int]] = defaultdict(list)
    for host in hosts.tolist():
        mine, table = free[start[host] : start[host + 1]], int(links.of_host[host])
        key = table, mine.tobytes()
        if key not in known:
            gpus = set_of(np.flatnonzero(mine))
            known[key] = tuple(
                links.tables[table].most(asked, int(links.gpus[shape]), gpus)
                for shape in kinds
                if (asked := links.asked[shape]) is not None
            )
        found[known[key]].append(int(mine.sum()))
    return {gains: (len(gpus), sum(gpus)) for gains, gpus in found.items()}
