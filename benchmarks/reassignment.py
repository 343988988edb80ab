"""The ROADEF/EURO challenge 2012: machine reassignment of Google, its documents and their checker.

Processes of services run on machines and may move. Loads above safety capacities, missing balance
between resources, and moves cost (problem statement of the challenge, sections 2 and 3). The
checker here knows nothing of the model in `reassignment_search`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from placewright.array_types import Bools, Ints

__all__ = ["Reassignment", "broken_rules", "cost_of", "loads_bound", "read_reassignment"]


@dataclass(frozen=True, slots=True, eq=False)
class Reassignment:
    """An instance with R resources, M machines, S services, P processes and B balances.

    Parameters
    ----------
    transient, load_weight
        Whether a resource is used on both machines while a process moves, and what a unit above a
        safety capacity costs; shape (R,).
    neighbourhood, location, capacity, safety
        Of machines, shapes (M,), (M,), (M, R), (M, R).
    distance
        What it costs to move from a machine to another, shape (M, M).
    spread, depends
        In how many locations a service has to be, shape (S,); pairs (a, b) of services: where a
        process of a runs, one of b has to run in the same neighbourhood.
    service, need, move_cost, initial
        Of processes, shapes (P,), (P, R), (P,), (P,).
    balances
        Rows of two resources, a target and a weight, shape (B, 4).
    weights
        Of moved processes, of the service with most moved processes, of distances.
    """

    transient: Bools
    load_weight: Ints
    neighbourhood: Ints
    location: Ints
    capacity: Ints
    safety: Ints
    distance: Ints
    spread: Ints
    depends: tuple[tuple[int, int], ...]
    service: Ints
    need: Ints
    move_cost: Ints
    balances: Ints
    weights: tuple[int, int, int]
    initial: Ints


def read_reassignment(model: Path, assignment: Path) -> Reassignment:
    """Read an instance and its initial assignment, files of whole numbers."""
    numbers = iter(np.array(model.read_text(encoding="ascii").split(), dtype=np.int64))

    def table(width: int, rows: int | None = None) -> Ints:
        count = int(next(numbers)) if rows is None else rows
        found = np.fromiter(numbers, np.int64, count * width) if count else np.zeros(0, np.int64)
        return found.reshape(count, width)

    resources = table(2)
    size, machines = len(resources), int(next(numbers))
    of_machines = table(2 + 2 * size + machines, machines)
    spread, depends = [], []
    for service in range(int(next(numbers))):
        spread.append(next(numbers))
        depends += [(service, int(next(numbers))) for _ in range(int(next(numbers)))]
    processes = table(2 + size)
    balances = table(4)
    weights = table(3, 1)[0]
    return Reassignment(
        transient=resources[:, 0] == 1,
        load_weight=resources[:, 1],
        neighbourhood=of_machines[:, 0],
        location=of_machines[:, 1],
        capacity=of_machines[:, 2 : 2 + size],
        safety=of_machines[:, 2 + size : 2 + 2 * size],
        distance=of_machines[:, 2 + 2 * size :] * (1 - np.eye(len(of_machines), dtype=np.int64)),
        spread=np.array(spread, dtype=np.int64),
        depends=tuple(depends),
        service=processes[:, 0],
        need=processes[:, 1 : 1 + size],
        move_cost=processes[:, 1 + size],
        balances=balances,
        weights=(int(weights[0]), int(weights[1]), int(weights[2])),
        initial=np.array(assignment.read_text(encoding="ascii").split(), dtype=np.int64),
    )


def broken_rules(it: Reassignment, assignment: Ints) -> list[str]:
    """Return every constraint that an assignment of processes to machines breaks, in words."""
    if (
        assignment.shape != it.initial.shape
        or not np.isin(assignment, np.arange(len(it.capacity))).all()
    ):
        return ["not a machine for each process"]
    return list(_broken(it, assignment.tolist()))


def _broken(it: Reassignment, assignment: list[int]) -> Iterator[str]:
    used: defaultdict[tuple[int, int], int] = defaultdict(int)
    homes: defaultdict[int, list[int]] = defaultdict(list)
    for process, (now, before) in enumerate(zip(assignment, it.initial.tolist(), strict=True)):
        homes[int(it.service[process])].append(now)
        for resource, amount in enumerate(it.need[process].tolist()):
            used[now, resource] += amount
            if it.transient[resource] and now != before:
                used[before, resource] += amount
    for (machine, resource), amount in used.items():
        if amount > it.capacity[machine, resource]:
            yield f"capacity of machine {machine}, resource {resource}"
    for service, machines in homes.items():
        if len(set(machines)) < len(machines):
            yield f"conflict of service {service}"
        if len({int(it.location[one]) for one in machines}) < it.spread[service]:
            yield f"spread of service {service}"
    for service, other in it.depends:
        near = {int(it.neighbourhood[one]) for one in homes[other]}
        if not {int(it.neighbourhood[one]) for one in homes[service]} <= near:
            yield f"dependency of service {service} on {other}"


def cost_of(it: Reassignment, assignment: Ints) -> int:
    """Return the total cost of an assignment, as the challenge defines it."""
    used = np.zeros_like(it.capacity)
    np.add.at(used, assignment, it.need)
    total = int((np.maximum(0, used - it.safety) * it.load_weight).sum())
    free = it.capacity - used
    for first, second, target, weight in it.balances.tolist():
        total += weight * int(np.maximum(0, target * free[:, first] - free[:, second]).sum())
    moved = np.flatnonzero(assignment != it.initial)
    of_process, of_service, of_machine = it.weights
    total += of_process * int(it.move_cost[moved].sum())
    total += of_service * int(np.bincount(it.service[moved], minlength=1).max())
    return total + of_machine * int(it.distance[it.initial[moved], assignment[moved]].sum())


def loads_bound(it: Reassignment) -> int:
    """Return a lower bound on the cost: loads and balances of all machines added up.

    The sum of positive parts is no less than the positive part of the sum, and moves cost nothing
    less than 0.
    """
    need, free = it.need.sum(axis=0), it.capacity.sum(axis=0) - it.need.sum(axis=0)
    total = int((np.maximum(0, need - it.safety.sum(axis=0)) * it.load_weight).sum())
    for first, second, target, weight in it.balances.tolist():
        total += weight * max(0, target * int(free[first]) - int(free[second]))
    return total
