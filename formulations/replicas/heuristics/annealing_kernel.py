"""Moves of units from cell to cell, and what they cost: the inner loops of annealing, compiled.

A step looks at every region for each group that a unit reads, some hundred numbers: two
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


class State(NamedTuple):
    """What is known of units, groups and regions: what stays, then what moves change.

    Attributes
    ----------
    workload : Ints
        (units,): the workload that each is a part of.
    jobs, asks : Floats
        (units,): jobs, and milli-GPU of all of them.
    first, groups : Ints
        (workloads + 1,) and (reads,): the groups that each workload reads.
    may : Bools
        (workloads, regions, models): where it may be.
    afar : Floats
        (workloads, regions): what a job costs there for data that cannot be there.
    first_at, at : Ints
        (groups + 1,) and (units that read it, for each group).
    supply : Floats
        (cells,): milli-GPU.
    origin : Ints
        (groups,): the region that alone has it, else the last entry of `out` and `link`.
    need, copy : Floats
        (groups, regions): GiB that the first reader brings, and those of them that are copied.
    cell : Ints
        (units,): region and model as one number; `NOWHERE` for none.
    load : Floats
        (cells,): milli-GPU asked.
    readers, copies : Ints
        (groups, regions) and (groups,): units that read it there, and regions it is copied to.
    room, into, out, total : Floats
        (regions,), (regions,), (regions + 1,) and (1,): GiB that storage, links into a region, out
        of it and all links have left; negative where there is too much.
    link : Floats
        (regions + 1, regions): GiB that a link has left.
    costs, moved, before : Floats, Ints, Ints
        (regions,), (units,) and (units,): room to work in.
    """

    workload: Ints
    jobs: Floats
    asks: Floats
    first: Ints
    groups: Ints
    may: Bools
    afar: Floats
    first_at: Ints
    at: Ints
    supply: Floats
    origin: Ints
    need: Floats
    copy: Floats
    cell: Ints
    load: Floats
    readers: Ints
    copies: Ints
    room: Floats
    into: Floats
    out: Floats
    total: Floats
    link: Floats
    costs: Floats
    moved: Ints
    before: Ints


def prepare() -> None:
    """Load the machine code of what annealing calls, or make it."""
    none, numbers = np.empty(0, dtype=np.int64), np.empty(0)
    table, counts = np.empty((0, 0)), np.empty((0, 0), dtype=np.int64)
    state = State(
        workload=none,
        jobs=numbers,
        asks=numbers,
        first=none,
        groups=none,
        may=np.empty((0, 0, 0), dtype=np.bool_),
        afar=table,
        first_at=none,
        at=none,
        supply=numbers,
        origin=none,
        need=table,
        copy=table,
        cell=none,
        load=numbers,
        readers=counts,
        copies=none,
        room=numbers,
        into=numbers,
        out=numbers,
        total=numbers,
        link=table,
        costs=numbers,
        moved=none,
        before=none,
    )
    put(state, 0, NOWHERE)
    sweep(state, none, 0, 0.0, 0.0, np.random.default_rng(0))


@compiled
def sweep(
    state: State,
    order: Ints,
    together: int,
    noise: float,
    price: float,
    random: np.random.Generator,
) -> None:
    """Move each unit once in this order, then so many times readers of a group together.

    `noise` is in GiB, `price` in GiB per milli-GPU of overload.
    """
    for unit in order:
        take(state, unit)
        put(state, unit, _choose(state, unit, noise, price, random))
    regions = state.room.size
    for _ in range(together):
        group, target = int(random.random() * state.copies.size), int(random.random() * regions)
        at = state.at[state.first_at[group] : state.first_at[group + 1]]
        kind = int(random.random() * 3)
        # The worse a move, the rarer it is made.
        least = -noise * random.standard_exponential()
        if kind == 0:
            _gather(state, group, target, price, least)
        elif at.size > 0:
            region = state.cell[at[int(random.random() * at.size)]] // state.may.shape[2]
            if kind == 1:
                _empty(state, group, region, target, target + 1, price, least)
            else:
                _empty(state, group, region, ZERO, regions, price, least)


@compiled
def take(state: State, unit: int) -> None:
    """Take a unit out of its cell."""
    cell = state.cell[unit]
    if cell == NOWHERE:
        return
    region, workload = cell // state.may.shape[2], state.workload[unit]
    state.cell[unit] = NOWHERE
    state.load[cell] -= state.asks[unit]
    for group in state.groups[state.first[workload] : state.first[workload + 1]]:
        state.readers[group, region] -= 1
        if state.readers[group, region] == 0:
            state.room[region] += state.need[group, region]
            size = state.copy[group, region]
            if size > 0.0:
                origin = state.origin[group]
                state.copies[group] -= 1
                if state.copies[group] == 0:
                    state.out[origin] += size
                state.into[region] += size
                state.link[origin, region] += size
                state.total[0] += _hops(size, state.link[origin, region])


@compiled
def put(state: State, unit: int, cell: int) -> None:
    """Put a unit that is nowhere into a cell, if it is one."""
    if cell == NOWHERE:
        return
    region, workload = cell // state.may.shape[2], state.workload[unit]
    state.cell[unit] = cell
    state.load[cell] += state.asks[unit]
    for group in state.groups[state.first[workload] : state.first[workload + 1]]:
        if state.readers[group, region] == 0:
            state.room[region] -= state.need[group, region]
            size = state.copy[group, region]
            if size > 0.0:
                origin = state.origin[group]
                state.total[0] -= _hops(size, state.link[origin, region])
                state.link[origin, region] -= size
                state.into[region] -= size
                if state.copies[group] == 0:
                    state.out[origin] -= size
                state.copies[group] += 1
        state.readers[group, region] += 1


@compiled
def price_data(state: State, unit: int, first: int, last: int) -> None:
    """Write to `costs` what data costs in regions from the first to before the last, in GiB.

    For a unit that is nowhere: what it would be the only one to read, what storage and links cannot
    take of that, and what it reads from afar.
    """
    workload = state.workload[unit]
    for region in range(first, last):
        held = copied = hops = beyond = 0.0
        for group in state.groups[state.first[workload] : state.first[workload + 1]]:
            if state.readers[group, region] == 0:
                held += state.need[group, region]
                size = state.copy[group, region]
                if size > 0.0:
                    origin = state.origin[group]
                    copied += size
                    hops += _hops(size, state.link[origin, region])
                    if state.copies[group] == 0:
                        beyond += max(0.0, size - max(0.0, state.out[origin]))
        beyond += max(0.0, held - max(0.0, state.room[region]))
        if copied > 0.0:
            beyond += max(0.0, copied - max(0.0, state.into[region]))
            beyond += max(0.0, hops - max(0.0, state.total[0]))
        afar = state.afar[workload, region] * state.jobs[unit]
        state.costs[region] = copied + EXCESS * beyond + afar


@inlined
def _hops(size: float, left: float) -> float:
    """Return the GiB that a copy takes of all links, with so many left of the one between."""
    return size + max(0.0, size - max(0.0, left))


@compiled
def over(state: State, unit: int, cell: int) -> float:
    """Return the milli-GPU of overload that a unit adds to a cell."""
    load, supply = state.load[cell], state.supply[cell]
    asked = load + state.asks[unit]
    if asked <= supply:
        return 0.0
    once = asked - supply - max(0.0, load - supply)
    twice = max(0.0, asked - 1.2 * supply) - max(0.0, load - 1.2 * supply)
    return float(once + twice)


@inlined
def _choose(
    state: State, unit: int, noise: float, price: float, random: np.random.Generator
) -> int:
    """Return a cell for a unit that is nowhere, `NOWHERE` if none will do."""
    may = state.may[state.workload[unit]]
    regions, models = may.shape
    price_data(state, unit, ZERO, regions)
    least, chosen = np.inf, NOWHERE
    for region in range(regions):
        for model in range(models):
            if may[region, model]:
                cell = region * models + model
                # The least of costs less Gumbel noise is drawn as in a heat bath.
                cost = state.costs[region] + price * over(state, unit, cell)
                cost += noise * math.log(random.standard_exponential())
                if cost < least:
                    least, chosen = cost, cell
    return chosen


@inlined
def _cheapest(
    state: State, unit: int, first: int, last: int, but: int, price: float
) -> tuple[float, int]:
    """Return the least cost of a unit that is nowhere, and its cell; inf and `NOWHERE` if none.

    In regions from the first to before the last, but for one.
    """
    may = state.may[state.workload[unit]]
    models = may.shape[1]
    price_data(state, unit, first, last)
    least, chosen = np.inf, NOWHERE
    for region in range(first, last):
        for model in range(models):
            if may[region, model] and region != but:
                cell = region * models + model
                cost = state.costs[region] + price * over(state, unit, cell)
                if cost < least:
                    least, chosen = cost, cell
    return least, chosen


@inlined
def _worth(state: State, unit: int, cell: int, price: float) -> float:
    """Return what a unit that was just taken out of a cell costs there."""
    region = cell // state.may.shape[2]
    price_data(state, unit, region, region + 1)
    return float(state.costs[region] + price * over(state, unit, cell))


@inlined
def _empty(
    state: State, group: int, region: int, first: int, last: int, price: float, least: float
) -> None:
    """Move all that read a group in a region to others, each where it costs least then.

    To regions from the first to before the last; nobody if less is gained than `least`.
    """
    models, number, gain = state.may.shape[2], ZERO, 0.0
    if region == NOWHERE:
        return
    for unit in state.at[state.first_at[group] : state.first_at[group + 1]]:
        if state.cell[unit] // models == region:
            state.moved[number], state.before[number] = unit, state.cell[unit]
            number += 1
    for i in range(number):
        take(state, state.moved[i])
        gain += _worth(state, state.moved[i], state.before[i], price)
    for i in range(number):
        cost, cell = _cheapest(state, state.moved[i], first, last, region, price)
        gain -= cost
        if gain < least:
            _undo(state, number)
            break
        put(state, state.moved[i], cell)


@inlined
def _gather(state: State, group: int, region: int, price: float, least: float) -> None:
    """Copy a group to a region, and move all there to whom that is worth it, the copy apart.

    Nobody if less is gained than `least`, with the copy.
    """
    number, gain = ZERO, 0.0
    if state.readers[group, region] > 0:
        return
    for unit in state.at[state.first_at[group] : state.first_at[group + 1]]:
        cell = state.cell[unit]
        if cell == NOWHERE:
            continue
        take(state, unit)
        now = _worth(state, unit, cell, price)
        cost, best = _cheapest(state, unit, region, region + 1, NOWHERE, price)
        free = state.copy[group, region] if state.readers[group, region] == 0 else 0.0
        if cost - free < now:
            gain += now - cost
            state.moved[number], state.before[number] = unit, cell
            number += 1
            cell = best
        put(state, unit, cell)
    if gain < least:
        _undo(state, number)


@inlined
def _undo(state: State, number: int) -> None:
    """Put the first so many of who moved back where they were."""
    for i in range(number):
        take(state, state.moved[i])
    for i in range(number):
        put(state, state.moved[i], state.before[i])
