"""Free domains: pack anew what fills GPUs badly, and move all that runs on what is to be free.

Shares are cut from fewer GPUs (rebinning.py). What to free is chosen by what it holds for what it
is worth; the tasks there go to GPUs that are free elsewhere, whatever else those hosts lack. Swaps
settle that (swapping.py), and where they cannot, less is freed: when time is up, whoever then lacks
something is back in place. Jobs of several tasks stay.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.heuristics.bundles import Items
from placewright.formulations.gang.heuristics.swap_search import NOWHERE, Seating, Units
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.freeable_domains import FreeableDomains
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session

Ints = NDArray[np.int64]


def repack(problem: Problem, session: Session) -> Placement | None:
    """Return a placement that frees what can be freed so; None if nothing can."""
    if problem.part_demands is not None:  # units are cut by milli-GPU alone
        return None
    freeing = FreeableDomains(problem)
    base = Placement(problem)
    items = Items(base)
    if not items.homes:
        return None
    units = items.units(session, freeing.worth_of_gpu)
    if units is None:
        return None
    gpus = np.where(problem.open & problem.state.busy, base.whole, 0)
    domains = _to_free(problem, freeing, units, items.homes, gpus)
    seating = Seating(units, base.free, gpus, np.isin(freeing.domain, domains))
    while domains and not seating.settle(session):
        if session.expired():
            seating.unload()
            break
        domain = _unfit(seating, units, freeing, domains)
        domains.remove(domain)
        seating.reopen(np.flatnonzero(freeing.domain == domain))
    if not domains:
        return None
    placement = items.carried_out(seating)
    repair_preemptions(placement)
    return placement


def _to_free(
    problem: Problem, freeing: FreeableDomains, units: Units, movable: Collection[int], gpus: Ints
) -> list[int]:
    """Choose domains whose units have GPUs elsewhere, those first that hold least for their worth.

    The last one is the first to do without.
    """
    at_home = units.home != NOWHERE
    held = np.zeros(len(freeing.worth_of_domain))
    np.add.at(held, freeing.domain[units.home[at_home]], units.cost[at_home])
    kinds = np.arange(len(units.allowed))
    room = np.zeros((len(kinds), len(held)), dtype=np.int64)
    np.add.at(room, (kinds[:, None], freeing.domain[None, :]), units.allowed * gpus)
    # Units that may be on no other hosts than those of a kind need so many of its GPUs.
    within = ~(units.allowed[None, :, :] & ~units.allowed[:, None, :]).any(axis=2)
    need = np.zeros(len(kinds), dtype=np.int64)
    np.add.at(need, units.kind, units.gpus)
    spare = room.sum(axis=1) - within @ need
    may = freeing.freeable & (held < freeing.worth_of_domain)
    for job, running in problem.running.items():
        if job not in movable:
            may[freeing.domain[[place[2] for place in running.places]]] = False
    order = np.argsort(held / np.maximum(freeing.worth_of_domain, 1), kind="stable")
    chosen = []
    for domain in order[may[order]].tolist():
        if (room[:, domain] <= spare).all():
            spare -= room[:, domain]
            chosen.append(domain)
    return chosen


def _unfit(seating: Seating, units: Units, freeing: FreeableDomains, domains: list[int]) -> int:
    """Choose the domain to leave in use: one whose units found no GPUs, else the last."""
    homeless = units.home[(seating.host == NOWHERE) & (units.home != NOWHERE)]
    return int(freeing.domain[homeless[0]]) if len(homeless) else domains[-1]
