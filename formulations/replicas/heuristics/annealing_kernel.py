"""Compiled kernel of simulated annealing: moves of units between cells, and their costs.

A cell is a GPU model of a region. A move looks at every region for each dataset class that a unit
reads, some hundred numbers: two microseconds here, fifty in Python. All is in one file, longer than
others, since a compiled function that is kept on disk is not compiled anew when a function of
another file changes.

Links are relaxed to sums: ingress of each region, egress of each region (where it alone has the
data, which then leaves at least once), and the total over all links. What the direct link between
two regions cannot carry takes two hops over a third region, and counts twice in the total.
Conflicts in time and between copies are not seen.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.solver.compiled import compiled, inlined

EXCESS = 4.0
"""Price of a GiB more than storage or links take."""

NOWHERE, ZERO = cast("tuple[int, int]", (np.int64(-1), np.int64(0)))
"""No cell, and 0; as literals they would be types of their own, for which all is compiled anew."""


class AnnealingState(NamedTuple):
    """State of the kernel: constants first, then what moves change."""

    job_class: Ints  # (units,): the job class of each unit
    # jobs, demand: (units,): jobs, and milli-GPU of all of them.
    jobs: Floats
    demand: Floats
    # first_read, read_dataset_class: (job classes + 1,) and (reads,): the dataset classes that each
    # job class reads.
    first_read: Ints
    read_dataset_class: Ints
    allowed_homes: Bools  # (job classes, regions, models): where it may be
    # (job classes, regions): cost of remote reads of a job there, of data that cannot be there.
    remote_cost: Floats
    # first_reader, reader: (dataset classes + 1,) and (units that read it, for each dataset class).
    first_reader: Ints
    reader: Ints
    supply: Floats  # (cells,): milli-GPU
    # (dataset classes,): the only region that has it, else the last entry of `egress_left` and
    # `link_left`.
    origin: Ints
    # stored_gib, copied_gib: (dataset classes, regions): GiB that its first reader stores there,
    # and copies there.
    stored_gib: Floats
    copied_gib: Floats
    cell: Ints  # (units,): region and model as one number; `NOWHERE` for none
    load: Floats  # (cells,): milli-GPU of demand
    # reader_count, copy_count: (dataset classes, regions) and (dataset classes,): units that read
    # it there, and regions that it is copied to.
    reader_count: Ints
    copy_count: Ints
    # storage_left, ingress_left, egress_left, total_left: (regions,), (regions,), (regions + 1,)
    # and (1,): residual GiB of storage, of links into a region, out of it, and of all links;
    # negative if exceeded.
    storage_left: Floats
    ingress_left: Floats
    egress_left: Floats
    total_left: Floats
    link_left: Floats  # (regions + 1, regions): residual GiB of each link
    # data_cost, moved_units, old_cells: (regions,), (units,) and (units,):
    # buffers.
    data_cost: Floats
    moved_units: Ints
    old_cells: Ints


def prepare() -> None:
    """Load the compiled functions that Python calls, or compile them."""
    none, numbers = np.empty(0, dtype=np.int64), np.empty(0)
    table, counts = np.empty((0, 0)), np.empty((0, 0), dtype=np.int64)
    state = AnnealingState(
        job_class=none,
        jobs=numbers,
        demand=numbers,
        first_read=none,
        read_dataset_class=none,
        allowed_homes=np.empty((0, 0, 0), dtype=np.bool_),
        remote_cost=table,
        first_reader=none,
        reader=none,
        supply=numbers,
        origin=none,
        stored_gib=table,
        copied_gib=table,
        cell=none,
        load=numbers,
        reader_count=counts,
        copy_count=none,
        storage_left=numbers,
        ingress_left=numbers,
        egress_left=numbers,
        total_left=numbers,
        link_left=table,
        data_cost=numbers,
        moved_units=none,
        old_cells=none,
    )
    insert_unit(state, 0, NOWHERE)
    sweep(state, none, 0, 0.0, 0.0, np.random.default_rng(0))


@compiled
def sweep(
    state: AnnealingState,
    order: Ints,
    together: int,
    noise: float,
    price: float,
    random: np.random.Generator,
) -> None:
    """Move each unit once in the given order, then try a number of compound moves.

    `together`: number of compound moves. `noise` and `price`: GiB, and GiB per milli-GPU of
    overload.
    """
    for unit in order:
        remove_unit(state, unit)
        insert_unit(state, unit, _choose(state, unit, noise, price, random))
    regions = state.storage_left.size
    for _ in range(together):
        dataset_class = int(random.random() * state.copy_count.size)
        target = int(random.random() * regions)
        at = state.reader[state.first_reader[dataset_class] : state.first_reader[dataset_class + 1]]
        kind = int(random.random() * 3)
        # The worse a move, the rarer it is made.
        least = -noise * random.standard_exponential()
        if kind == 0:
            _gather_readers(state, dataset_class, target, price, least)
        elif at.size > 0:
            region = state.cell[at[int(random.random() * at.size)]] // state.allowed_homes.shape[2]
            if kind == 1:
                _empty_region(state, dataset_class, region, target, target + 1, price, least)
            else:
                _empty_region(state, dataset_class, region, ZERO, regions, price, least)


@compiled
def remove_unit(state: AnnealingState, unit: int) -> None:
    """Take a unit out of its cell."""
    cell = state.cell[unit]
    if cell == NOWHERE:
        return
    region, job_class = cell // state.allowed_homes.shape[2], state.job_class[unit]
    state.cell[unit] = NOWHERE
    state.load[cell] -= state.demand[unit]
    for dataset_class in state.read_dataset_class[
        state.first_read[job_class] : state.first_read[job_class + 1]
    ]:
        state.reader_count[dataset_class, region] -= 1
        if state.reader_count[dataset_class, region] == 0:
            state.storage_left[region] += state.stored_gib[dataset_class, region]
            size = state.copied_gib[dataset_class, region]
            if size > 0.0:
                origin = state.origin[dataset_class]
                state.copy_count[dataset_class] -= 1
                if state.copy_count[dataset_class] == 0:
                    state.egress_left[origin] += size
                state.ingress_left[region] += size
                state.link_left[origin, region] += size
                state.total_left[0] += _hops(size, state.link_left[origin, region])


@compiled
def insert_unit(state: AnnealingState, unit: int, cell: int) -> None:
    """Put a unit that is in no cell into one, or leave it out if that is `NOWHERE`."""
    if cell == NOWHERE:
        return
    region, job_class = cell // state.allowed_homes.shape[2], state.job_class[unit]
    state.cell[unit] = cell
    state.load[cell] += state.demand[unit]
    for dataset_class in state.read_dataset_class[
        state.first_read[job_class] : state.first_read[job_class + 1]
    ]:
        if state.reader_count[dataset_class, region] == 0:
            state.storage_left[region] -= state.stored_gib[dataset_class, region]
            size = state.copied_gib[dataset_class, region]
            if size > 0.0:
                origin = state.origin[dataset_class]
                state.total_left[0] -= _hops(size, state.link_left[origin, region])
                state.link_left[origin, region] -= size
                state.ingress_left[region] -= size
                if state.copy_count[dataset_class] == 0:
                    state.egress_left[origin] -= size
                state.copy_count[dataset_class] += 1
        state.reader_count[dataset_class, region] += 1


@compiled
def price_data(state: AnnealingState, unit: int, first: int, last: int) -> None:
    """Write the cost of data in GiB for a unit that is in no cell to `data_cost`.

    For regions from the first to before the last: replicas of which it would be the only reader,
    penalties on storage and links that they exceed, and remote reads.
    """
    job_class = state.job_class[unit]
    for region in range(first, last):
        held = copied = hops = beyond = 0.0
        for dataset_class in state.read_dataset_class[
            state.first_read[job_class] : state.first_read[job_class + 1]
        ]:
            if state.reader_count[dataset_class, region] == 0:
                held += state.stored_gib[dataset_class, region]
                size = state.copied_gib[dataset_class, region]
                if size > 0.0:
                    origin = state.origin[dataset_class]
                    copied += size
                    hops += _hops(size, state.link_left[origin, region])
                    if state.copy_count[dataset_class] == 0:
                        beyond += max(0.0, size - max(0.0, state.egress_left[origin]))
        beyond += max(0.0, held - max(0.0, state.storage_left[region]))
        if copied > 0.0:
            beyond += max(0.0, copied - max(0.0, state.ingress_left[region]))
            beyond += max(0.0, hops - max(0.0, state.total_left[0]))
        remote_cost = state.remote_cost[job_class, region] * state.jobs[unit]
        state.data_cost[region] = copied + EXCESS * beyond + remote_cost


@inlined
def _hops(size: float, left: float) -> float:
    """Return the GiB of all links that a copy takes, by the residual GiB of the direct link."""
    return size + max(0.0, size - max(0.0, left))


@compiled
def added_overload(state: AnnealingState, unit: int, cell: int) -> float:
    """Return the milli-GPU of overload that a unit adds to a cell."""
    load, supply = state.load[cell], state.supply[cell]
    asked = load + state.demand[unit]
    if asked <= supply:
        return 0.0
    once = asked - supply - max(0.0, load - supply)
    twice = max(0.0, asked - 1.2 * supply) - max(0.0, load - 1.2 * supply)
    return float(once + twice)


@inlined
def _choose(
    state: AnnealingState, unit: int, noise: float, price: float, random: np.random.Generator
) -> int:
    """Draw a cell for a unit that is in none, `NOWHERE` if it has no allowed cell."""
    may = state.allowed_homes[state.job_class[unit]]
    regions, models = may.shape
    price_data(state, unit, ZERO, regions)
    least, chosen = np.inf, NOWHERE
    for region in range(regions):
        for model in range(models):
            if may[region, model]:
                cell = region * models + model
                # The least of costs less Gumbel noise is drawn as in a heat bath.
                cost = state.data_cost[region] + price * added_overload(state, unit, cell)
                cost += noise * math.log(random.standard_exponential())
                if cost < least:
                    least, chosen = cost, cell
    return chosen


@inlined
def _cheapest(
    state: AnnealingState, unit: int, first: int, last: int, but: int, price: float
) -> tuple[float, int]:
    """Return the least cost of a unit that is in no cell, and that cell; inf and `NOWHERE` if none.

    In regions from the first to before the last, one of them excluded.
    """
    may = state.allowed_homes[state.job_class[unit]]
    models = may.shape[1]
    price_data(state, unit, first, last)
    least, chosen = np.inf, NOWHERE
    for region in range(first, last):
        for model in range(models):
            if may[region, model] and region != but:
                cell = region * models + model
                cost = state.data_cost[region] + price * added_overload(state, unit, cell)
                if cost < least:
                    least, chosen = cost, cell
    return least, chosen


@inlined
def _cost_in_place(state: AnnealingState, unit: int, cell: int, price: float) -> float:
    """Return the cost of a unit in the cell from which it was just removed."""
    region = cell // state.allowed_homes.shape[2]
    price_data(state, unit, region, region + 1)
    return float(state.data_cost[region] + price * added_overload(state, unit, cell))


@inlined
def _empty_region(
    state: AnnealingState,
    dataset_class: int,
    region: int,
    first: int,
    last: int,
    price: float,
    least: float,
) -> None:
    """Compound move: all readers of a dataset class in a region move elsewhere, one by one.

    Each to its cheapest cell in regions from the first to before the last. Undone if the gain is
    less than `least`.
    """
    models, number, gain = state.allowed_homes.shape[2], ZERO, 0.0
    if region == NOWHERE:
        return
    for unit in state.reader[
        state.first_reader[dataset_class] : state.first_reader[dataset_class + 1]
    ]:
        if state.cell[unit] // models == region:
            state.moved_units[number], state.old_cells[number] = unit, state.cell[unit]
            number += 1
    for i in range(number):
        remove_unit(state, state.moved_units[i])
        gain += _cost_in_place(state, state.moved_units[i], state.old_cells[i], price)
    for i in range(number):
        cost, cell = _cheapest(state, state.moved_units[i], first, last, region, price)
        gain -= cost
        if gain < least:
            _undo(state, number)
            break
        insert_unit(state, state.moved_units[i], cell)


@inlined
def _gather_readers(
    state: AnnealingState, dataset_class: int, region: int, price: float, least: float
) -> None:
    """Compound move: copy a dataset class to a region and move those readers that gain by it.

    The cost of the copy is not charged to any one reader. Undone if the gain of all is less than
    `least`.
    """
    number, gain = ZERO, 0.0
    if state.reader_count[dataset_class, region] > 0:
        return
    for unit in state.reader[
        state.first_reader[dataset_class] : state.first_reader[dataset_class + 1]
    ]:
        cell = state.cell[unit]
        if cell == NOWHERE:
            continue
        remove_unit(state, unit)
        now = _cost_in_place(state, unit, cell, price)
        cost, best = _cheapest(state, unit, region, region + 1, NOWHERE, price)
        free = (
            state.copied_gib[dataset_class, region]
            if state.reader_count[dataset_class, region] == 0
            else 0.0
        )
        if cost - free < now:
            gain += now - cost
            state.moved_units[number], state.old_cells[number] = unit, cell
            number += 1
            cell = best
        insert_unit(state, unit, cell)
    if gain < least:
        _undo(state, number)


@inlined
def _undo(state: AnnealingState, number: int) -> None:
    """Put the first units of `moved_units` back into their old cells."""
    for i in range(number):
        remove_unit(state, state.moved_units[i])
    for i in range(number):
        insert_unit(state, state.moved_units[i], state.old_cells[i])
