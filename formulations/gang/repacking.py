"""Free domains: pack anew what fills GPUs badly, and move all that runs on what is to be free.

Shares are cut from fewer GPUs (rebinning.py). What to free is chosen by what it holds for what it
is worth; the tasks there go to GPUs that are free elsewhere, whatever else those hosts lack. Swaps
settle that (swapping.py), and where they cannot, less is freed. Jobs of several tasks stay.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.freeing import Freeing
from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.problem import Problem, Put
from placewright.formulations.gang.rebinning import Bin, Home, rebin
from placewright.formulations.gang.swapping import NOWHERE, Seating, Units
from placewright.formulations.session import Session
from placewright.instances.documents import WHOLE_GPU

Ints = NDArray[np.int64]


def repack(problem: Problem, session: Session) -> Placement | None:
    """Return a placement that frees what can be freed so; None if nothing can."""
    freeing = Freeing(problem)
    jobs = _movable(problem)
    base = Placement(problem)
    for job in jobs:
        base.stop(base.start_of(job))
    items = _items(problem, session, jobs, freeing.gpu_worth)
    if not items:
        return None
    units = _units(problem, items)
    gpus = np.where(problem.open & problem.state.busy, base.whole, 0)
    domains = _to_free(problem, freeing, units, jobs, gpus)
    seating = Seating(units, base.free, gpus, np.isin(freeing.domain, domains))
    while domains and not seating.settle(session):
        if session.expired():
            return None
        domain = _unfit(seating, units, freeing, domains)
        domains.remove(domain)
        seating.reopen(np.flatnonzero(freeing.domain == domain))
    if not domains:
        return None
    return _carried_out(base, items, seating.host)


def _movable(problem: Problem) -> dict[int, Home]:
    """Return the jobs of one task that may move, and where they are.

    A share is one of them only if all shares on its GPU are.
    """
    jobs: dict[int, Home] = {}
    fixed: set[Home] = set()
    for job, running in problem.running.items():
        home = [(host, gpus) for _, _, host, gpus in running.places]
        if len(home) == 1 and problem.floats(running) and _whole(problem, home[0]):
            jobs[job] = home[0]
        else:
            fixed.update(home)
    return {job: home for job, home in jobs.items() if home not in fixed}


def _whole(problem: Problem, home: Home) -> bool:
    """Whether the GPUs are wholly free without the jobs that may move; there must be some."""
    host, gpus = home
    start = int(problem.cluster.gpu_start[host])
    return bool(gpus) and all(problem.cleared.gpu_free[start + g] == WHOLE_GPU for g in gpus)


def _shape(problem: Problem, job: int) -> int:
    return problem.classes[problem.running[job].job_class].choices[0].groups[0].shape


def _cost(problem: Problem, job: int) -> int:
    return problem.running[job].migrate_cost + int(problem.shape_gpu[_shape(problem, job)])


def _items(problem: Problem, session: Session, jobs: dict[int, Home], worth: int) -> list[Bin]:
    """Return what takes GPUs for itself: tasks of whole GPUs, and bins of shares."""
    shares: defaultdict[Home, list[int]] = defaultdict(list)
    for job, home in jobs.items():
        if problem.shared[_shape(problem, job)]:
            shares[home].append(job)
    bins = rebin(problem, session, shares, worth) if shares else []
    known = set(chain.from_iterable(shares.values()))
    return bins + [Bin((job,), home, 1) for job, home in jobs.items() if job not in known]


def _units(problem: Problem, items: list[Bin]) -> Units:
    shapes = [[_shape(problem, job) for job in item.jobs] for item in items]
    masks: dict[bytes, int] = {}
    kind = [
        masks.setdefault(problem.shape_hosts[sorted(set(s))].all(axis=0).tobytes(), len(masks))
        for s in shapes
    ]
    return Units(
        gpus=np.array([-(-problem.shape_gpu[s].sum() // WHOLE_GPU) for s in shapes]),
        demand=np.array([problem.shape_demand[s].sum(axis=0) for s in shapes]),
        home=np.array([item.home[0] if item.home else NOWHERE for item in items]),
        cost=np.array([sum(_cost(problem, j) for j in i.jobs[: i.stay]) for i in items]),
        allowed=np.stack([np.frombuffer(mask, dtype=np.bool_) for mask in masks]),
        kind=np.array(kind),
    )


def _to_free(
    problem: Problem, freeing: Freeing, units: Units, jobs: dict[int, Home], gpus: Ints
) -> list[int]:
    """Choose domains whose units have GPUs elsewhere, those first that hold least for their worth.

    The last one is the first to do without.
    """
    at_home = units.home != NOWHERE
    held = np.zeros(len(freeing.worth))
    np.add.at(held, freeing.domain[units.home[at_home]], units.cost[at_home])
    kinds = np.arange(len(units.allowed))
    room = np.zeros((len(kinds), len(held)), dtype=np.int64)
    np.add.at(room, (kinds[:, None], freeing.domain[None, :]), units.allowed * gpus)
    may = freeing.clearable & (held < freeing.worth)
    for job, running in problem.running.items():
        if job not in jobs:
            may[freeing.domain[[place[2] for place in running.places]]] = False
    # Units that may be on no other hosts than those of a kind need so many of its GPUs.
    within = ~(units.allowed[None, :, :] & ~units.allowed[:, None, :]).any(axis=2)
    spare = room.sum(axis=1) - within @ np.bincount(units.kind, weights=units.gpus).astype(np.int64)
    order = np.argsort(held / np.maximum(freeing.worth, 1), kind="stable")
    chosen = []
    for domain in order[may[order]].tolist():
        if (room[:, domain] <= spare).all():
            spare -= room[:, domain]
            chosen.append(domain)
    return chosen


def _unfit(seating: Seating, units: Units, freeing: Freeing, domains: list[int]) -> int:
    """Choose the domain to leave in use: one whose units found no GPUs, else the last."""
    homeless = units.home[(seating.host == NOWHERE) & (units.home != NOWHERE)]
    return int(freeing.domain[homeless[0]]) if len(homeless) else domains[-1]


def _carried_out(base: Placement, items: list[Bin], hosts: Ints) -> Placement:
    """Start the jobs on their hosts: on the GPUs that they had, or on free ones."""
    problem = base.problem
    at_home = [
        item.home is not None and item.home[0] == host
        for item, host in zip(items, hosts, strict=True)
    ]
    taken = {item.home for item, stays in zip(items, at_home, strict=True) if stays}
    named = {(home[0], gpu) for home in taken if home is not None for gpu in home[1]}
    free: dict[int, list[int]] = {}
    for host in set(hosts.tolist()):
        free[host] = [gpu for gpu in base.free_gpus(host) if (host, gpu) not in named]
    for item, host, stays in zip(items, hosts.tolist(), at_home, strict=True):
        group = problem.classes[problem.running[item.jobs[0]].job_class].choices[0].groups[0]
        number = -(-int(problem.shape_gpu[group.shape]) // WHOLE_GPU)
        gpus = (
            item.home[1] if item.home and stays else tuple(free[host].pop() for _ in range(number))
        )
        for job in item.jobs:
            start = problem.start_of[job]
            if (start.puts[0].host, start.puts[0].gpus) == (host, gpus):
                base.restart(start)
            else:
                put = Put(0, host, 1, gpus)
                base.keep(_shape(problem, job), put)
                base.start(start.job_class, 0, (put,), job)
    return base
