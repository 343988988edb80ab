"""Repacking to free domains: movable one-task jobs leave chosen domains for GPUs elsewhere.

Shares are cut from fewer GPUs (`share_cutting.py`). Domains are chosen greedily by cost of moving
their jobs per worth. Swaps then reduce the excess of other resources (`swap_search.py`); where they
cannot, fewer domains are freed. Jobs of several tasks stay.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.heuristics.bundles import Bundles
from placewright.formulations.gang.heuristics.host_assignment import NOWHERE, HostAssignment, Units
from placewright.formulations.gang.heuristics.swap_search import drop_excess, reduce_excess
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.freeable_domains import FreeableDomains
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session


def repack_domains(problem: Problem, session: Session) -> Placement | None:
    """Return a placement that frees domains; None if none can be freed."""
    if problem.part_demands is not None:  # units are cut by milli-GPU alone
        return None
    freeing = FreeableDomains(problem)
    base = Placement(problem)
    bundles = Bundles(base)
    if not bundles.homes:
        return None
    units = bundles.units(session, freeing.worth_of_gpu)
    if units is None:
        return None
    gpus = np.where(problem.open & problem.state.busy, base.whole, 0)
    domains = _choose_domains(problem, freeing, units, bundles.homes, gpus)
    assignment = HostAssignment(units, base.free, gpus, np.isin(freeing.domain, domains))
    while domains and not reduce_excess(assignment, session):
        if session.expired():
            drop_excess(assignment)
            break
        domain = _domain_to_keep(assignment, units, freeing, domains)
        domains.remove(domain)
        assignment.reopen(np.flatnonzero(freeing.domain == domain))
    if not domains:
        return None
    placement = bundles.apply(assignment)
    repair_disruptions(placement)
    return placement


def _choose_domains(
    problem: Problem, freeing: FreeableDomains, units: Units, movable: Collection[int], gpus: Ints
) -> list[int]:
    """Choose domains whose units find GPUs elsewhere, those first that hold least per worth.

    The last is the first to be kept in use.
    """
    at_home = units.home != NOWHERE
    held = np.zeros(len(freeing.worth_of_domain))
    np.add.at(held, freeing.domain[units.home[at_home]], units.move_cost[at_home])
    host_sets = np.arange(len(units.allowed))
    free = np.zeros((len(host_sets), len(held)), dtype=np.int64)
    np.add.at(free, (host_sets[:, None], freeing.domain[None, :]), units.allowed * gpus)
    # GPUs that each set of hosts needs for units that are allowed on no other hosts.
    subset = ~(units.allowed[None, :, :] & ~units.allowed[:, None, :]).any(axis=2)
    need = np.zeros(len(host_sets), dtype=np.int64)
    np.add.at(need, units.host_set, units.gpus)
    spare = free.sum(axis=1) - subset @ need
    eligible = freeing.freeable & (held < freeing.worth_of_domain)
    for job, running in problem.running.items():
        if job not in movable:
            eligible[freeing.domain[[place[2] for place in running.places]]] = False
    order = np.argsort(held / np.maximum(freeing.worth_of_domain, 1), kind="stable")
    chosen = []
    for domain in order[eligible[order]].tolist():
        if (free[:, domain] <= spare).all():
            spare -= free[:, domain]
            chosen.append(domain)
    return chosen


def _domain_to_keep(
    assignment: HostAssignment, units: Units, freeing: FreeableDomains, domains: list[int]
) -> int:
    """Choose the domain to leave in use: one whose units found no GPUs, else the last."""
    homeless = units.home[(assignment.host == NOWHERE) & (units.home != NOWHERE)]
    return int(freeing.domain[homeless[0]]) if len(homeless) else domains[-1]
