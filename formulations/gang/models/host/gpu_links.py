"""Links between GPUs in the host-indexed model: sets of GPUs where those of a host differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.model import HostModel
from placewright.formulations.gang.problem.gpu_links import (
    GPU_LINKS,
    GpuSet,
    LinkDemands,
    LinkTables,
    bits,
    set_of,
)

# A task that asks for links has a 0/1 variable for each set of GPUs that it may have on a host
# whose GPUs differ. All other tasks take any GPUs that are left, which `gpus` counts.
#
#     sets       sum_S z[t,h,S]  =  x[t,h]
#     named      sum over S with GPU g of z[t,h,S] + s of the places on g  <=  1  (w[g] with shares)
#     gpu_links  sum of the Mbit/s of S over z, and of their GPUs over the places that stay
#
# On other hosts all sets are equal, and x itself counts in the term.


class _Asking(NamedTuple):
    """Tasks of a shape on a host of the model: a column, or a number of promised ones."""

    host: int
    shape: int
    column: int
    number: int


def add_gpu_links(m: HostModel, whole: dict[tuple[int, int], int]) -> None:
    """Append the rows, and the term.

    `whole` has the column that says whether a GPU is used as a whole, by host (position in the
    model) and GPU, on hosts where GPUs are shared.
    """
    links, counts = m.problem.link_demands, GPU_LINKS in m.problem.terms
    if counts:
        constant = float(m.problem.pinned_link_mbps)
        m.model.term(GPU_LINKS, m.y[:0], np.zeros(0), sense="max", constant=constant)
    if links is None or not any(links.asked):
        return
    if counts:
        staying = [
            links.mbps(links.asked[shape], int(m.hosts[host]), gpus)
            for shape, host, gpus in zip(
                m.stay_shape.tolist(), m.stays.host.tolist(), m.stays.gpus, strict=True
            )
        ]
        m.model.term(GPU_LINKS, m.stays.s, np.array(staying, dtype=np.float64), sense="max")
    by_host: dict[int, list[_Asking]] = {}
    for one in _asking(m, links, counts=counts):
        by_host.setdefault(one.host, []).append(one)
    on_gpu: dict[tuple[int, int], list[int]] = {}
    for p, (host, gpus) in enumerate(zip(m.stays.host.tolist(), m.stays.gpus, strict=True)):
        for gpu in gpus:
            on_gpu.setdefault((host, gpu), []).append(int(m.stays.s[p]))
    for host, asking in by_host.items():
        table = links.tables[links.of_host[m.hosts[host]]]
        free = set_of(m.placement.free_gpu_ids(int(m.hosts[host])))
        columns, sets = _add_sets(m, links, table, asking, free, counts=counts)
        for gpu in bits(free):
            named, used = columns[[gpus >> gpu & 1 > 0 for gpus in sets]], whole.get((host, gpu))
            row = m.model.row("named", named, upper=1.0 if used is None else 0.0)
            if used is None:
                m.model.add(row, on_gpu.get((host, gpu), []), 1.0)
            else:
                m.model.add(row, used, -1.0)


def _asking(m: HostModel, links: LinkDemands, *, counts: bool) -> Iterator[_Asking]:
    """Yield who needs a set of GPUs by name; on hosts whose GPUs are alike, add to the term."""
    for i, (shape, host) in enumerate(zip(m.x_shape.tolist(), m.x_host.tolist(), strict=True)):
        at, asked = int(m.hosts[host]), links.asked[shape]
        if asked is None or links.of_host[at] < 0:
            continue
        if not links.differ[at]:
            if counts:
                some = range(int(links.gpus[shape]))
                m.model.term(GPU_LINKS, m.x[i : i + 1], links.mbps(asked, at, some), sense="max")
        elif counts or links.required[shape]:
            yield _Asking(host, shape, int(m.x[i]), 0)
    state = m.placement.link_state
    if state is not None:
        for host, at in enumerate(m.hosts.tolist()):
            for shape, number in state.promised(at).items() if links.differ[at] else ():
                yield _Asking(host, shape, -1, number)


def _add_sets(
    m: HostModel,
    links: LinkDemands,
    table: LinkTables,
    asking: Sequence[_Asking],
    free: GpuSet,
    *,
    counts: bool,
) -> tuple[Ints, list[GpuSet]]:
    """Append the sets of GPUs of the tasks on one host; return the columns and the sets."""
    columns: list[Ints] = []
    sets: list[GpuSet] = []
    for one in asking:
        mine = table.sets_of(links.task(one.shape, free), free)
        z = m.model.variables("set", len(mine), upper=1)
        row = m.model.row("sets", z, lower=float(one.number), upper=float(one.number))
        asked = links.asked[one.shape]
        if one.column >= 0:
            m.model.add(row, one.column, -1.0)
            if counts and asked is not None:
                mbps = np.array([table.mbps(asked, gpus) for gpus in mine], dtype=np.float64)
                m.model.term(GPU_LINKS, z, mbps, sense="max")
        columns.append(z)
        sets += mine
    return np.concatenate(columns), sets
