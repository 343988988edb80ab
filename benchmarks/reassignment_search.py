"""Large neighbourhood search for machine reassignment: each neighbourhood is a small exact MILP.

Some processes are free to go to some machines, all others stay (Shaw 1998; Mehta, O'Sullivan and
Simonis 2012 did so for this problem with constraint programming). `placewright.solver` solves the
programs; an assignment that comes back counts if the checker accepts it and it costs no more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.reassignment import Reassignment, broken_rules, cost_of
from placewright.array_types import Bools, Floats, Ints
from placewright.solver import Limits, Model, Worker

__all__ = ["neighbourhood_model", "search"]

START, LEAST, MOST = 250, 60, 10_000
"""Binary variables of a neighbourhood: at first, at least, at most."""

WHOLE = 500
"""So many pairs of process and machine are one program."""

SLICE_S, WORK = 1.5, 1.5
"""CPU seconds that a solve should take, and its limit of work; neighbourhoods grow and shrink."""

BACKSTOP_S = 100.0
SHRINK, GROW = 0.8, 1.1
SWAPS = 5
"""Partners that are tried in a swap, best first."""

GAP = 1e-5

PLENTY = 1 << 40


@dataclass(slots=True)
class _Part:
    """Which processes (F,) are free, which machines (K,) are open, columns x (F, K), values now."""

    free: Ints
    open: Ints
    now: list[Ints | Bools] = field(default_factory=list)
    x: Ints = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))


def neighbourhood_model(
    it: Reassignment, assignment: Ints, free: Ints, open_to: Ints
) -> tuple[Model, Floats]:
    """Model the best places of some processes, all others staying; return the point of now, too.

    The first block of columns says which free process is on which open machine, shape (F, K), in
    this order; the term is `cost`, up to a constant. Open machines include those of free processes.
    """
    model, part = Model(), _Part(free, open_to)
    shape = len(free), len(open_to)
    part.x = model.variables("on", shape[0] * shape[1], upper=1).reshape(shape)
    part.now.append((assignment[free][:, None] == open_to).ravel())
    model.add(model.rows("one", len(free), lower=1, upper=1)[:, None], part.x, 1)
    rest = np.ones(len(assignment), dtype=np.bool_)
    rest[free] = False
    _add_loads(model, it, assignment, rest, part)
    _add_moves(model, it, assignment, rest, part)
    _add_services(model, it, assignment, rest, part)
    return model, np.concatenate(part.now).astype(np.float64)


def _add_loads(model: Model, it: Reassignment, now: Ints, rest: Bools, part: _Part) -> None:
    """Capacities, what is above safety capacities, and balances."""
    need = it.need[part.free]
    used, passing = np.zeros_like(it.capacity), np.zeros_like(it.capacity)
    np.add.at(used, now[rest], it.need[rest])
    full = used.copy()
    np.add.at(full, now[part.free], need)
    full = full[part.open]
    # What moves uses transient resources on both machines; all that was at home does anyway.
    np.add.at(passing, it.initial, it.need)
    away = rest & (now != it.initial)
    np.add.at(passing, now[away], it.need[away])
    comes = it.initial[part.free][:, None] != part.open
    for resource in range(need.shape[1]):
        taken = (passing if it.transient[resource] else used)[part.open, resource]
        room = it.capacity[part.open, resource] - taken
        counts = comes if it.transient[resource] else np.ones_like(comes)
        tight = np.flatnonzero((need[:, resource, None] * counts).sum(axis=0) > room)
        rows = model.rows("capacity", len(tight), upper=room[tight])
        amounts = need[:, resource, None] * counts[:, tight]
        model.add(rows[None, :], part.x[:, tight], amounts)
        if it.load_weight[resource]:
            room = it.safety[part.open, resource] - used[part.open, resource]
            over = model.variables("over", len(room), upper=PLENTY)
            part.now.append(np.maximum(0, full[:, resource] - it.safety[part.open, resource]))
            rows = model.rows("safety", len(room), lower=-room)
            model.add(rows, over, 1)
            model.add(rows[None, :], part.x, -need[:, resource, None])
            model.term("cost", over, it.load_weight[resource], sense="min")
    left = (it.capacity - used)[part.open]
    for first, second, target, weight in it.balances.tolist():
        lacks = model.variables("lacks", len(left), upper=PLENTY)
        have = it.capacity[part.open] - full
        part.now.append(np.maximum(0, target * have[:, first] - have[:, second]))
        rows = model.rows("balance", len(left), lower=target * left[:, first] - left[:, second])
        model.add(rows, lacks, 1)
        model.add(rows[None, :], part.x, (target * need[:, first] - need[:, second])[:, None])
        model.term("cost", lacks, weight, sense="min")


def _add_moves(model: Model, it: Reassignment, now: Ints, rest: Bools, part: _Part) -> None:
    """Costs of processes that leave their first machine, and of the service with most of them."""
    of_process, of_service, of_machine = it.weights
    home = it.initial[part.free]
    moves = home[:, None] != part.open
    costs = of_process * it.move_cost[part.free][:, None] * moves
    costs += of_machine * it.distance[home[:, None], part.open]
    model.term("cost", part.x, costs, sense="min")
    moved = np.bincount(it.service[rest & (now != it.initial)], minlength=len(it.spread))
    services, position = np.unique(it.service[part.free], return_inverse=True)
    most = model.variables("most moved", 1, lower=int(moved.max(initial=0)), upper=PLENTY)
    part.now.append(np.array([np.bincount(it.service[now != it.initial], minlength=1).max()]))
    rows = model.rows("moved", len(services), lower=moved[services])
    model.add(rows, most, 1)
    model.add(rows[position][:, None], part.x, -1.0 * moves)
    model.term("cost", most, of_service, sense="min")


def _add_services(model: Model, it: Reassignment, now: Ints, rest: Bools, part: _Part) -> None:
    """Conflicts, spreads over locations, dependencies on services in the same neighbourhood."""
    mine = it.service[part.free]
    services = np.unique(mine)
    fixed = {one: now[rest & (it.service == one)] for one in services.tolist()}
    for one in services.tolist():
        rows_of = np.flatnonzero(mine == one)
        room = 1 - np.isin(part.open, fixed[one])
        rows = model.rows("conflict", len(part.open), upper=room)
        model.add(rows[None, :], part.x[rows_of], 1)
        there = set(it.location[fixed[one]].tolist())
        if (missing := int(it.spread[one]) - len(there)) > 0:
            reach = np.unique(it.location[part.open])
            reach = reach[~np.isin(reach, list(there))]
            in_location = model.variables("in location", len(reach), upper=1)
            part.now.append(np.isin(reach, it.location[now[part.free[rows_of]]]))
            rows = model.rows("location", len(reach), upper=0)
            model.add(rows, in_location, 1)
            where = it.location[part.open]
            for row, location in zip(rows, reach, strict=True):
                model.add(row, part.x[np.ix_(rows_of, np.flatnonzero(where == location))], -1)
            model.row("spread", in_location, 1.0, lower=missing)
    near = it.neighbourhood[part.open]
    freed = set(services.tolist())
    for one, other in it.depends:
        if not {one, other} & freed:
            continue
        homes = [now[rest & (it.service == service)] for service in (one, other)]
        stays, served = (set(it.neighbourhood[some].tolist()) for some in homes)
        for place in set(near.tolist()) - served:
            columns = np.flatnonzero(near == place)
            helpers = part.x[np.ix_(np.flatnonzero(mine == other), columns)]
            needy = np.flatnonzero(mine == one)
            if place in stays:
                model.row("needed", helpers.ravel(), 1.0, lower=1)
                continue
            rows = model.rows("depends", len(needy), upper=0)
            model.add(rows[:, None], part.x[np.ix_(needy, columns)], 1)
            model.add(rows[:, None], helpers.ravel()[None, :], -1)


class _Counts:
    """What runs where, kept as processes move one by one."""

    def __init__(self, it: Reassignment, now: Ints) -> None:
        self.it, self.now = it, now.copy()
        machines, services = len(it.capacity), len(it.spread)
        self.used, self.passing = np.zeros_like(it.capacity), np.zeros_like(it.capacity)
        np.add.at(self.passing, it.initial, it.need)
        self.moved = np.zeros(services, dtype=np.int64)
        self.on = np.zeros((services, machines), dtype=np.int64)
        self.near = np.zeros((services, int(it.neighbourhood.max()) + 1), dtype=np.int64)
        self.at = np.zeros((services, int(it.location.max()) + 1), dtype=np.int64)
        self.serves: list[list[int]] = [[] for _ in range(services)]
        self.asks: list[list[int]] = [[] for _ in range(services)]
        for one, other in it.depends:
            self.serves[other].append(one)
            self.asks[one].append(other)
        for process in range(len(now)):
            self._count(process, 1)

    def _count(self, process: int, sign: int) -> None:
        it, machine, service = self.it, self.now[process], self.it.service[process]
        self.used[machine] += sign * it.need[process]
        if machine != it.initial[process]:
            self.passing[machine] += sign * it.need[process]
            self.moved[service] += sign
        self.on[service, machine] += sign
        self.near[service, it.neighbourhood[machine]] += sign
        self.at[service, it.location[machine]] += sign

    def _machine_costs(self, used: Ints, on: Ints) -> Ints:
        """Return what loads and balances cost where machines `on` (N,) use so much (N, R)."""
        it = self.it
        free = it.capacity[on] - used
        costs: Ints = np.maximum(0, used - it.safety[on]) @ it.load_weight
        for first, second, target, weight in it.balances.tolist():
            costs += weight * np.maximum(0, target * free[:, first] - free[:, second])
        return costs

    def _move_costs(self, processes: Ints | int, on: Ints) -> Ints:
        """Return what it costs that processes have moved to machines `on`."""
        it, home = self.it, self.it.initial[processes]
        costs: Ints = it.weights[2] * it.distance[home, on]
        costs += it.weights[0] * it.move_cost[processes] * (on != home)
        return costs

    def _fits(self, process: int) -> Bools:
        """Say on which machines a process, which is counted nowhere, breaks no rule, shape (M,)."""
        it, service, need = self.it, self.it.service[process], self.it.need[process]
        away = np.arange(len(it.capacity)) != it.initial[process]
        amounts = np.where(it.transient, self.passing + need * away[:, None], self.used + need)
        may: Bools = (amounts <= it.capacity).all(axis=1) & (self.on[service] == 0)
        new = self.at[service] == 0
        may &= np.count_nonzero(~new) + new[it.location] >= it.spread[service]
        may &= np.logical_and.reduce(self.near[self.asks[service]] > 0)[it.neighbourhood]
        # Where services that need it run without it so far, it has to run in each such place.
        for one in self.serves[service]:
            for place in np.flatnonzero((self.near[one] > 0) & (self.near[service] == 0)):
                may &= it.neighbourhood == place
        return may

    def move(self, process: int) -> None:
        """Move a process to where it costs least, if that is less than now."""
        it, here, service = self.it, self.now[process], self.it.service[process]
        self._count(process, -1)
        every = np.arange(len(it.capacity))
        costs = self._machine_costs(self.used + it.need[process], every)
        costs += self._move_costs(process, every) - self._machine_costs(self.used, every)
        more = self.moved[service] + (every != it.initial[process]) - self.moved.max()
        costs += it.weights[1] * np.maximum(0, more)
        costs = np.where(self._fits(process), costs, np.iinfo(np.int64).max)
        best = int(costs.argmin())
        self.now[process] = best if costs[best] < costs[here] else here
        self._count(process, 1)

    def swap(self, process: int) -> None:
        """Let a process change places with the one with which that saves most, if any."""
        it, there, every = self.it, self.now, np.arange(len(self.now))
        here, less = there[process], it.need - it.need[process]
        alone = self._machine_costs(self.used, np.arange(len(self.used)))
        costs = self._machine_costs(self.used[here] + less, np.full_like(there, here))
        costs += self._machine_costs(self.used[there] - less, there) - alone[here] - alone[there]
        costs += self._move_costs(process, there) + self._move_costs(every, here)
        costs -= self._move_costs(process, here) + self._move_costs(every, there)
        costs[there == here] = 0
        for other in np.argsort(costs)[:SWAPS].tolist():
            if costs[other] >= 0 or self._swapped(process, other):
                return

    def _swapped(self, first: int, second: int) -> bool:
        """Swap two processes if that breaks no rule, and say whether."""
        homes = self.now[first], self.now[second]
        self._count(first, -1)
        self._count(second, -1)
        if done := bool(self._fits(first)[homes[1]]):
            self.now[first] = homes[1]
            self._count(first, 1)
            done = bool(self._fits(second)[homes[0]])
            self._count(first, -1)
            self.now[[first, second]] = homes[::-1] if done else homes
        self._count(first, 1)
        self._count(second, 1)
        return done


def descend(it: Reassignment, now: Ints, end: Callable[[], bool]) -> Ints:
    """Move and swap processes, each as saves most, until a pass over all saves nothing."""
    counts, cost, before = _Counts(it, now), cost_of(it, now), -1
    while cost != before and not end():
        for step in (counts.move, counts.swap):
            for process in range(len(now)):
                step(process)
        before, cost = cost, cost_of(it, counts.now)
    return counts.now


def _losses(it: Reassignment, now: Ints) -> Ints:
    """How much each machine adds to what `loads_bound` proves, shape (M,).

    Of a resource of which more is needed than all safety capacities, that is what a machine uses
    less than its own; else what it uses more.
    """
    used = np.zeros_like(it.capacity)
    np.add.at(used, now, it.need)
    parts = [(used - it.safety)[:, r] * it.load_weight[r] for r in range(used.shape[1])]
    free = it.capacity - used
    for first, second, target, weight in it.balances.tolist():
        parts.append(weight * (target * free[:, first] - free[:, second]))
    lost = np.zeros(len(used), dtype=np.int64)
    for part in parts:
        lost += np.maximum(0, -part if part.sum() > 0 else part)
    return lost


def _chosen(it: Reassignment, now: Ints, size: int, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw machines, a dear one and others, and free processes on them: about `size` pairs.

    Now and then some of the machines are those of one service.
    """
    machines, per = len(it.capacity), len(now) / len(it.capacity)
    lost = _losses(it, now)
    count = min(machines, max(2, round(np.sqrt(size / per))))
    first = draw.choice(machines, 1, p=(lost + 1) / (lost + 1).sum())
    others = draw.permutation(machines)
    some = np.concatenate([first, others[others != first]])[:count]
    if draw.integers(4) == 0:
        alike = draw.permutation(np.unique(now[it.service == it.service[draw.integers(len(now))]]))
        some = np.concatenate([first, alike[alike != first], others])
        some = np.array(list(dict.fromkeys(some.tolist()))[:count])
    inside = draw.permutation(np.flatnonzero(np.isin(now, some)))
    return np.sort(inside[: max(2, size // len(some))]), np.sort(some)


def search(
    it: Reassignment,
    backend: str,
    seconds: float,
    seed: int = 0,
    watch: Callable[[int], None] = lambda _: None,
) -> tuple[Ints, float | None]:
    """Improve the initial assignment for some seconds of CPU; `watch` is told each better cost.

    Returns the machine of each process (P,), and a bound where the whole problem was one program:
    where all processes and machines fit into one neighbourhood and it is solved, that is the end.
    """
    draw, size = np.random.default_rng(seed), START
    began = time.process_time()
    with Worker() as worker:

        def left() -> float:
            return seconds - (time.process_time() - began) - worker.cpu_seconds()

        now = descend(it, it.initial, lambda: left() <= 0)
        cost = cost_of(it, now)
        watch(cost)
        whole = len(now) * len(it.capacity) <= WHOLE
        while (before := left()) > 0:
            free, machines = np.arange(len(now)), np.arange(len(it.capacity))
            if not whole:
                free, machines = _chosen(it, now, size, draw)
            model, start = neighbourhood_model(it, now, free, machines)
            number = int(draw.integers(1 << 30))
            limits = Limits(BACKSTOP_S, GAP, number, work=WORK)
            if whole:
                limits = Limits(before, 0.0, number)
            outcome = worker.solve(backend, model.arrays("cost"), limits, start)
            if outcome.values is not None:
                made = now.copy()
                on = outcome.values[: len(free) * len(machines)].reshape(len(free), -1)
                made[free] = machines[on.argmax(axis=1)]
                found = cost_of(it, made)
                if found <= cost and not broken_rules(it, made):
                    if found < cost:
                        watch(found)
                    now, cost = made, found
            if whole:
                return now, outcome.bound
            took = before - left()
            size = max(LEAST, int(size * SHRINK)) if took > SLICE_S else size
            size = min(MOST, int(size * GROW) + 1) if took < SLICE_S / 2 else size
    return now, None
