"""Domains emptied (`freed`): their jobs move to hosts in use elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.repacking import Bundles
from placewright.formulations.gang.heuristics.vector_packing import (
    HostAssignment,
    Units,
    drop_excess,
    reduce_excess,
)
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.gang_tree import place_group
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import (
    NO_LEVEL,
    NOWHERE,
    Group,
    RunningJob,
    TaskPlacement,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import FreeableDomains
from placewright.formulations.session import Session

# Evacuation: tasks leave hosts for others that fit them; the other tasks stay in place.


def evacuate(placement: Placement) -> None:
    """Relocate tasks from the policy's hosts to vacate, jobs with the largest tasks first."""
    problem = placement.problem
    jobs = [
        job
        for job, running in problem.running.items()
        if any(
            problem.vacate[host] and problem.shape_gpu[_groups(problem, running)[g].shape]
            for g, _, host, _ in running.places
        )
    ]
    for job in sorted(jobs, key=lambda j: (-_largest(problem, problem.running[j]), j)):
        if not relocate(placement, job, problem.vacate):
            _eject_one(placement, job)


def _eject_one(placement: Placement, job: int) -> bool:
    """One-step ejection: another job leaves a host, and the evacuated one takes its place."""
    problem = placement.problem
    running = problem.running[job]
    groups = _groups(problem, running)
    leaving = [groups[g].shape for g, _, host, _ in running.places if problem.vacate[host]]
    if len(leaving) != 1:
        return False
    others: defaultdict[int, list[int]] = defaultdict(list)
    for other, there in problem.running.items():
        hosts = {place[2] for place in there.places}
        if len(hosts) == 1 and placement.in_place(other):
            others[hosts.pop()].append(other)
    tries, most = 0, parameters.PARAMETERS.insertion.max_evacuation_ejections
    free = placement.free_milli_gpu
    fit = np.flatnonzero(problem.shape_hosts[leaving[0]])
    for host in fit[np.argsort(-free[fit], kind="stable")].tolist():
        here = np.zeros(problem.cluster.num_hosts, dtype=np.bool_)
        here[host] = True
        for other in sorted(others[host], key=lambda j: _largest(problem, problem.running[j])):
            tries += 1
            if tries > most:
                return False
            if relocate(placement, other, here, ~here & problem.open):
                if relocate(placement, job, problem.vacate, here):
                    return True
                placement.stop(placement.start_of(other))
                placement.restart(problem.running_placement_of[other])
    return False


def evacuation_cost(problem: Problem) -> int:
    """Return the least disruption of emptying the policy's hosts of all that may move."""
    cost = 0
    for running in problem.running.values():
        groups = _groups(problem, running)
        milli = [problem.shape_gpu[groups[g].shape] for g, _, _, _ in running.places]
        leaving = [problem.vacate[host] for _, _, host, _ in running.places]
        moved = sum(int(m) for m, a in zip(milli, leaving, strict=True) if a)
        if moved:
            stops = running.migrate_cost + moved, running.preempt_cost + int(sum(milli))
            cost += min(*stops, *problem.resize_costs(running))
    return cost


def _largest(problem: Problem, running: RunningJob) -> int:
    return max(group.milli_gpu // group.count for group in _groups(problem, running))


def _groups(problem: Problem, running: RunningJob) -> tuple[Group, ...]:
    return problem.classes[running.job_class].choices[0].groups


def relocate(
    placement: Placement,
    job: int,
    sources: NDArray[np.bool_],
    within: NDArray[np.bool_] | None = None,
) -> bool:
    """Move the tasks of a running job in place off the hosts `leave`, if they fit elsewhere.

    What runs on a host that failed moves, too; the other tasks stay. `within` restricts where tasks
    go. Returns whether the job was moved; if not, it is in place as before. A job whose tasks are
    tied to each other, or kept from others, is not.
    """
    problem = placement.problem
    running = problem.running[job]
    if problem.classes[running.job_class].choices[0].is_tied:
        return False
    groups = _groups(problem, running)
    start = problem.running_placement_of[job]
    leaving = sources | ~problem.state.healthy
    staying = [put for put in start.tasks if not leaving[put.host]]
    placement.stop(placement.start_of(job))
    with placement.without_rank_limits([job]):
        for put in staying:
            placement.keep(groups[put.group].shape, put)
        puts: list[TaskPlacement] = []
        for k, group in enumerate(groups):
            here = [put.host for put in staying if put.group == k]
            mask = _allowed_hosts(problem, group, here, within)
            found = None if mask is None else _place_moving(placement, group, k, len(here), mask)
            if found is None:
                for put in (*staying, *puts):
                    placement.lift(groups[put.group].shape, put)
                break
            puts += found
        else:
            staying += puts
    if len(staying) and sum(put.count for put in staying) == sum(group.count for group in groups):
        placement.start(running.job_class, 0, staying, job)
        return True
    placement.restart(start)
    return False


def _allowed_hosts(
    problem: Problem, group: Group, here: list[int], within: NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    """Hosts that the moving tasks of a group may use; None if those that stay are apart already.

    A job that runs may be apart against its required level, but not one that moves: not even the
    groups of it that stay.
    """
    mask = np.ones(problem.cluster.num_hosts, dtype=np.bool_) if within is None else within
    if group.required == NO_LEVEL or not here:
        return mask
    domain = problem.cluster.domain[group.required]
    if len(set(domain[here].tolist())) > 1:
        return None
    same: NDArray[np.bool_] = domain == domain[here[0]]
    return mask & same


def _place_moving(
    placement: Placement, group: Group, index: int, num_staying: int, mask: NDArray[np.bool_]
) -> list[TaskPlacement] | None:
    if num_staying == group.count:
        return []
    return place_group(placement, replace(group, count=group.count - num_staying), index, mask)


# Greedy emptying of domains (`freed`): all jobs of a domain move to hosts in use elsewhere.
#
# `repack_domains` frees more, but knows neither GPU memory nor MIG slices, and moves one-task
# jobs alone; this needs no solver and moves all jobs.


def empty_domains(placement: Placement) -> None:
    """Empty domains one after the other, those first that hold fewest GPUs for their worth.

    A domain is tried only if its moves cost less than it is worth and nothing has moved in. If one
    of its jobs finds no host outside, all its jobs are back where they were.
    """
    problem = placement.problem
    freeing = FreeableDomains(problem)
    jobs_in: dict[int, list[int]] = {}
    held = np.zeros(len(freeing.worth_of_domain))
    for job, running in problem.running.items():
        groups = _groups(problem, running)
        for group, _, host, _ in running.places:
            held[freeing.domain[host]] += int(problem.shape_gpu[groups[group].shape])
        for d in {int(freeing.domain[place[2]]) for place in running.places}:
            jobs_in.setdefault(d, []).append(job)
    usable = problem.state.busy & problem.open
    moved: set[int] = set()
    taken: set[int] = set()
    order = np.argsort(held / np.maximum(freeing.worth_of_domain, 1), kind="stable")
    for d in order[freeing.freeable[order] & (freeing.worth_of_domain[order] > 0)].tolist():
        jobs = jobs_in[d]
        here = freeing.domain == d
        if (
            d in taken
            or not moved.isdisjoint(jobs)
            or _disruption(problem, jobs, here) >= freeing.worth_of_domain[d]
        ):
            continue
        within = usable & ~here
        done = []
        for job in sorted(jobs, key=lambda j: -_largest(problem, problem.running[j])):
            if not relocate(placement, job, here, within):
                break
            done.append(job)
        if len(done) < len(jobs):
            for job in reversed(done):
                placement.stop(placement.start_of(job))
                placement.restart(problem.running_placement_of[job])
            continue
        usable &= ~here
        moved.update(jobs)
        for job in jobs:
            puts = placement.get(placement.start_of(job))
            taken.update(int(freeing.domain[put.host]) for put in (puts.tasks if puts else ()))


def _disruption(problem: Problem, jobs: list[int], here: NDArray[np.bool_]) -> int:
    """Disruption of moving jobs off some hosts."""
    total = 0
    for job in jobs:
        running = problem.running[job]
        groups = _groups(problem, running)
        total += running.migrate_cost + sum(
            int(problem.shape_gpu[groups[g].shape]) for g, _, h, _ in running.places if here[h]
        )
    return total


# Repacking to free domains: movable one-task jobs leave chosen domains for GPUs elsewhere.
#
# Shares are cut from fewer GPUs (`repacking.py`). Domains are chosen greedily by cost of
# moving jobs per worth. Swaps then reduce the excess of other resources (`vector_packing.py`);
# where they cannot, fewer domains are freed. Jobs of several tasks stay.


def repack_domains(problem: Problem, session: Session) -> Placement | None:
    """Return a placement that frees domains; None if none can be freed."""
    if not problem.counts_gpus_alone:
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
