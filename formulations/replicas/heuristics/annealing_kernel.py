"""Moves of units from cell to cell, and what they cost: the inner loops of annealing, compiled.

A step looks at every region for each dataset class that a unit reads, some hundred numbers: two
microseconds here, fifty in Python. All is in one file, since a compiled function that is kept on
disk is not made anew when a function of another file changes.

What copies take of links are sums, not ways. All links into a region take so much, and all out of
it, where what one region alone has leaves it once at least. What the link between two regions does
not take goes over a third region, so of what all links take together it takes twice as much. How
copies get around each other is not seen.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import numpy as np

from placewright.formulations.common.wan.arrays import Bools, Ints
from placewright.solver.arrays import Floats
from placewright.solver.compiled import compiled, inlined

EXCESS = 4.0
"""Price of a GiB more than storage or links take."""

NOWHERE, ZERO = cast("tuple[int, int]", (np.int64(-1), np.int64(0)))
"""No cell, and 0; as literals they would be types of their own, for which all is compiled anew."""


class AnnealingState(NamedTuple):
    """What is known of units, dataset classes and regions: what stays, then what moves change.

    Attributes
    ----------
    job class : Ints
        (units,): the job class that each is a part of.
    jobs, asks : Floats
        (units,): jobs, and milli-GPU of all of them.
    first, dataset classes : Ints
        (job classes + 1,) and (reads,): the dataset classes that each job class reads.
    may : Bools
        (job classes, regions, models): where it may be.
    afar : Floats
        (job classes, regions): what a job costs there for data that cannot be there.
    first_at, at : Ints
        (dataset classes + 1,) and (units that read it, for each dataset class).
    supply : Floats
        (cells,): milli-GPU.
    origin : Ints
        (dataset classes,): the region that alone has it, else the last entry of `out` and `link`.
    need, copy : Floats
        (dataset classes, regions): GiB that the first reader brings, and those of them that are
        copied.
    cell : Ints
        (units,): region and model as one number; `NOWHERE` for none.
    load : Floats
        (cells,): milli-GPU asked.
    readers, copies : Ints
        (dataset classes, regions) and (dataset classes,): units that read it there, and regions it
        is copied to.
    room, into, out, total : Floats
        (regions,), (regions,), (regions + 1,) and (1,): GiB that storage, links into a region, out
        of it and all links have left; negative where there is too much.
    link : Floats
        (regions + 1, regions): GiB that a link has left.
    costs, moved, before : Floats, Ints, Ints
        (regions,), (units,) and (units,): room to work in.
    """

    job_class: Ints
    jobs: Floats
    demand: Floats
    first_read: Ints
    read_dataset_class: Ints
    allowed_homes: Bools
    remote_cost: Floats
    first_reader: Ints
    reader: Ints
    supply: Floats
    origin: Ints
    stored_gib: Floats
    copied_gib: Floats
    cell: Ints
    load: Floats
    reader_count: Ints
    copy_count: Ints
    storage_left: Floats
    ingress_left: Floats
    egress_left: Floats
    total_left: Floats
    link_left: Floats
    data_cost: Floats
    moved_units: Ints
    old_cells: Ints


def prepare() -> None:
    """Load the machine code of what annealing calls, or make it."""
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
    """Move each unit once in this order, then so many times readers of a dataset class together.

    `noise` is in GiB, `price` in GiB per milli-GPU of overload.
    """
    for unit in order:
        remove_unit(state, unit)
        insert_unit(state, unit, _choose(state, unit, noise, price, random))
    regions = state.storage_left.size
    for _ in range(together):
        dataset_class, target = (
            int(random.random() * state.copy_count.size),
            int(random.random() * regions),
        )
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
    """Put a unit that is nowhere into a cell, if it is one."""
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
    """Write to `costs` what data costs in regions from the first to before the last, in GiB.

    For a unit that is nowhere: what it would be the only one to read, what storage and links cannot
    take of that, and what it reads from afar.
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
    """Return the GiB that a copy takes of all links, with so many left of the one between."""
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
    """Return a cell for a unit that is nowhere, `NOWHERE` if none will do."""
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
    """Return the least cost of a unit that is nowhere, and its cell; inf and `NOWHERE` if none.

    In regions from the first to before the last, but for one.
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
    """Return what a unit that was just taken out of a cell costs there."""
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
    """Move all that read a dataset class in a region to others, each where it costs least then.

    To regions from the first to before the last; nobody if less is gained than `least`.
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
    """Copy a dataset class to a region and move those readers there that gain by it.

    Nobody if less is gained than `least`, with the copy.
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
    """Put the first so many of who moved back where they were."""
    for i in range(number):
        remove_unit(state, state.moved_units[i])
    for i in range(number):
        insert_unit(state, state.moved_units[i], state.old_cells[i])
