r"""The host-indexed model: which task runs on which host. Exact; for small rounds and small parts.

    y[j]      job j (a copy of its class) or number of jobs of a class with an option
    x[t,h]    tasks of set t on host h                      sum_h x[t,h] = n y       (all or nothing)
    b[h,i,f]  shares of fraction f on GPU i of h            sum_i b[h,i,f] >= shares of f on h
    w[h,i]    GPU i of h is used whole                      sum_i w[h,i]   >= whole GPUs asked on h
    z[t,d]    set t uses domain d                           sum_{h in d} x[t,h] <= n z[t,d]
    o[h], e[h]  an empty host becomes used; a host takes a task
    l[t,d,k]  job t has k tasks in domain d (for pairs)     k l[t,d,k] summed <= tasks in d

A task set is all tasks of one shape where the place of one does not matter to the others, and one
group of one job where it does (required or charged levels; all of a job's groups where pairs count).
GPUs are told apart only on hosts that may take shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.placement import Placement, Put
from placewright.formulations.gang.problem import NO_LEVEL, SENSE, Choice, Group, Problem
from placewright.formulations.session import HOLD_SLACK, Bound, Candidate, Session, rounded
from placewright.instances.documents import WHOLE_GPU
from placewright.solver import Model

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Entry:
    """One y: up to `most` jobs of a class with a choice; `number` tells the copies apart."""

    job_class: int
    choice: int
    most: int


@dataclass(slots=True)
class TaskSet:
    """Tasks of one shape; `users` are (entry, group index, tasks per job)."""

    shape: int
    users: list[tuple[int, int, int]]
    group: Group | None = None


@dataclass(frozen=True, eq=False)
class Exact:
    """The model and where its variables are; x is given by columns, task set and host position."""

    problem: Problem
    hosts: Ints
    model: Model
    entries: list[Entry]
    sets: list[TaskSet]
    y: Ints
    x: Ints
    x_set: Ints
    x_host: Ints
    slots: list[tuple[int, int, int]]
    shares: Ints
    share_slot: Ints
    share_fraction: Ints


def size_of(problem: Problem) -> int:
    """Number of x variables that the whole round would need (an upper estimate)."""
    entries, sets = _entries(problem, problem.counts)
    hosts = problem.shape_hosts.sum(axis=1)
    levels = len(problem.cluster.levels) if "proximity" in problem.terms else 1
    del entries
    return int(sum(hosts[s.shape] * (levels if s.group else 1) for s in sets))


def run(problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
    """Solve a whole round term by term, each held at what the plan has before the next."""
    placement = Placement(problem)
    hosts = np.arange(problem.cluster.num_hosts)
    exact = build(problem, placement, hosts, problem.counts)
    holds: list[tuple[str, int]] = []
    start: NDArray[np.float64] | None = None
    for index, term in enumerate(problem.terms):
        left = len(problem.terms) - index
        outcome = session.optimise(
            exact.model.arrays(term), share=max(0.6, 1 / left), gap=0.0, start=start
        )
        if outcome is None:
            return
        if outcome.bound is not None:
            yield Bound(term, rounded(outcome.bound, SENSE[term]), tuple(holds))
        if outcome.values is None or outcome.objective is None:
            return
        start = outcome.values
        placement = Placement(problem)
        apply(exact, start, placement)
        yield Candidate(placement.places(), "exact")
        exact.model.hold(term, round(outcome.objective), HOLD_SLACK)
        holds.append((term, round(outcome.objective)))


def build(problem: Problem, placement: Placement, hosts: Ints, numbers: Ints) -> Exact:
    """Append all blocks for `numbers` jobs per class on what `placement` leaves free on `hosts`."""
    model = Model()
    entries, sets = _entries(problem, numbers)
    room = np.array(
        [placement.fits(s.shape)[hosts] for s in sets], dtype=np.int64
    ).reshape(len(sets), len(hosts))
    most = np.array([sum(n * entries[e].most for e, _, n in s.users) for s in sets])
    room = np.minimum(room, most[:, None]) if len(sets) else room
    y = model.variables("y", len(entries), upper=[e.most for e in entries])
    x_set, x_host = np.nonzero(room)
    x = model.variables("x", len(x_set), upper=room[x_set, x_host])
    slots, shares, share_slot, share_fraction = _gpus(model, problem, placement, hosts, sets, x, x_set, x_host)
    exact = Exact(
        problem,
        hosts,
        model,
        entries,
        sets,
        y,
        x,
        x_set,
        x_host,
        slots,
        shares,
        share_slot,
        share_fraction,
    )
    _one_option(exact, numbers)
    _gang(exact)
    _capacity(exact, placement)
    _quota(exact, placement)
    _value(exact)
    _levels(exact, room)
    _opened(exact, placement, room)
    if "leftover" in problem.terms:
        _leftover(exact, placement, room)
    if "proximity" in problem.terms:
        _proximity(exact, room)
    return exact


def _entries(problem: Problem, numbers: Ints) -> tuple[list[Entry], list[TaskSet]]:
    """Aggregate what is interchangeable; one copy per job where places depend on each other."""
    entries: list[Entry] = []
    by_shape: dict[int, TaskSet] = {}
    own: list[TaskSet] = []
    for c in np.flatnonzero(numbers).tolist():
        for o, choice in enumerate(problem.classes[c].choices):
            tied = _tied(problem, choice)
            copies = int(numbers[c]) if tied else 1
            for _ in range(copies):
                entry = len(entries)
                entries.append(Entry(c, o, 1 if tied else int(numbers[c])))
                for k, group in enumerate(choice.groups):
                    user = (entry, k, group.count)
                    if tied:
                        own.append(TaskSet(group.shape, [user], group))
                    else:
                        by_shape.setdefault(group.shape, TaskSet(group.shape, []))
                        by_shape[group.shape].users.append(user)
    return entries, [*by_shape.values(), *own]


def _tied(problem: Problem, choice: Choice) -> bool:
    if any(group.bound_to_levels for group in choice.groups):
        return True
    return "proximity" in problem.terms and sum(group.count for group in choice.groups) > 1


def _gpus(
    model: Model,
    problem: Problem,
    placement: Placement,
    hosts: Ints,
    sets: Sequence[TaskSet],
    x: Ints,
    x_set: Ints,
    x_host: Ints,
) -> tuple[list[tuple[int, int, int]], Ints, Ints, Ints]:
    """GPUs of each host: counted where all tasks take whole ones, told apart where some share.

    Returns the slots (host position, GPU or -1 for any free one, free milli-GPU) and the variables b
    with their slot and fraction.
    """
    gpu = problem.shape_gpu[[s.shape for s in sets]] if sets else np.zeros(0, dtype=np.int64)
    x_gpu = gpu[x_set]
    shared = (x_gpu > 0) & (x_gpu < WHOLE_GPU)
    sharing = np.unique(x_host[shared])
    plain = np.setdiff1d(np.unique(x_host[x_gpu >= WHOLE_GPU]), sharing)
    rows = np.full(len(hosts), -1, dtype=np.int64)
    rows[plain] = model.rows("gpus", len(plain), upper=placement.whole[hosts[plain]])
    mine = np.flatnonzero((x_gpu >= WHOLE_GPU) & (rows[x_host] >= 0))
    model.add(rows[x_host[mine]], x[mine], x_gpu[mine] // WHOLE_GPU)

    slots: list[tuple[int, int, int]] = []
    for at in sharing.tolist():
        partial = placement.partial[hosts[at]]
        slots += [(at, int(i), int(partial[i])) for i in np.flatnonzero(partial)]
        slots += [(at, -1, WHOLE_GPU)] * int(placement.whole[hosts[at]])
    slot_host = np.array([s[0] for s in slots], dtype=np.int64)
    slot_free = np.array([s[2] for s in slots], dtype=np.int64)
    fractions = np.unique(x_gpu[shared])
    pairs = [
        (i, int(f)) for i, (_, _, free) in enumerate(slots) for f in fractions if f <= free
    ]
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    share_slot, share_fraction = table[:, 0], table[:, 1]
    b = model.variables("b", len(table), upper=slot_free[share_slot] // share_fraction)
    free = np.flatnonzero(slot_free == WHOLE_GPU)
    w = model.variables("w", len(free), upper=1)
    cut = model.rows("gpu", len(slots), upper=slot_free)
    model.add(cut[share_slot], b, share_fraction)
    model.add(cut[free], w, WHOLE_GPU)
    # Whole GPUs asked on a sharing host are whole slots of it.
    rows[:] = -1
    rows[sharing] = model.rows("gpus", len(sharing), upper=0.0)
    mine = np.flatnonzero((x_gpu >= WHOLE_GPU) & (rows[x_host] >= 0))
    model.add(rows[x_host[mine]], x[mine], x_gpu[mine] // WHOLE_GPU)
    model.add(rows[slot_host[free]], w, -1.0)
    for f in fractions:
        rows[:] = -1
        rows[sharing] = model.rows("share", len(sharing), upper=0.0)
        mine = np.flatnonzero(x_gpu == f)
        model.add(rows[x_host[mine]], x[mine], 1.0)
        given = np.flatnonzero(share_fraction == f)
        model.add(rows[slot_host[share_slot[given]]], b[given], -1.0)
    return slots, b, share_slot, share_fraction


def _one_option(m: Exact, numbers: Ints) -> None:
    """At most one option per job, at most all jobs of a class."""
    rows = m.model.rows("one option", len(numbers), upper=numbers)
    m.model.add(rows[[e.job_class for e in m.entries]], m.y, 1.0)


def _gang(m: Exact) -> None:
    """All tasks of a started job, or none."""
    rows = m.model.rows("gang", len(m.sets), lower=0.0, upper=0.0)
    m.model.add(rows[m.x_set], m.x, 1.0)
    users = [(t, e, n) for t, s in enumerate(m.sets) for e, _, n in s.users]
    table = np.array(users, dtype=np.int64).reshape(-1, 3)
    m.model.add(rows[table[:, 0]], m.y[table[:, 1]], -table[:, 2])


def _capacity(m: Exact, placement: Placement) -> None:
    demand = m.problem.shape_demand[_shapes(m)]
    for r in range(demand.shape[1]):
        rows = m.model.rows("capacity", len(m.hosts), upper=placement.free[m.hosts, r])
        m.model.add(rows[m.x_host], m.x, demand[:, r])


def _quota(m: Exact, placement: Placement) -> None:
    left = dict(m.problem.quota)
    for _, c, o, _ in placement.started():
        for tenant, resource in left:
            if m.problem.classes[c].tenant == tenant:
                choice = m.problem.classes[c].choices[o]
                left[tenant, resource] -= m.problem.demand_of(choice, resource)
    for (tenant, resource), amount in left.items():
        mine = [
            i for i, e in enumerate(m.entries) if m.problem.classes[e.job_class].tenant == tenant
        ]
        demand = [m.problem.demand_of(_choice(m, m.entries[i]), resource) for i in mine]
        row = m.model.rows("quota", 1, upper=amount, keys=[(tenant, resource)])
        m.model.add(row, m.y[mine], np.array(demand, dtype=np.float64))


def _value(m: Exact) -> None:
    values = [_choice(m, e).value for e in m.entries]
    m.model.term("value", m.y, np.array(values, dtype=np.float64), sense="max")


def _levels(m: Exact, room: Ints) -> None:
    """Domains that a set uses: at most one of a required level, the others cost spread."""
    model, cluster = m.model, m.problem.cluster
    model.term("spread", m.y[:0], np.zeros(0), sense="min")
    for t, task_set in enumerate(m.sets):
        group = task_set.group
        if group is None or not group.bound_to_levels:
            continue
        y = m.y[task_set.users[0][0]]
        mine = np.flatnonzero(m.x_set == t)
        weights = dict(group.weights)
        for level in sorted(set(weights) | ({group.required} - {NO_LEVEL})):
            domain = cluster.domain[level][m.hosts[m.x_host[mine]]]
            parts, part_of = np.unique(domain, return_inverse=True)
            held = np.bincount(part_of, weights=room[t, m.x_host[mine]], minlength=len(parts))
            z = model.variables("z", len(parts), upper=1)
            used = model.rows("domain", len(parts), upper=0.0)
            model.add(used[part_of], m.x[mine], 1.0)
            model.add(used, z, -np.minimum(held, group.count))
            if level == group.required:
                row = model.rows("required level", 1, upper=0.0)
                model.add(row, z, 1.0)
                model.add(row, y, -1.0)
            if level in weights:
                cost = float(group.milli_gpu * weights[level])
                model.term("spread", z, cost, sense="min")
                model.term("spread", [y], [-cost], sense="min")


def _opened(m: Exact, placement: Placement, room: Ints) -> None:
    """An empty host that takes a task is opened; on GPUs the row is as strong as capacity."""
    busy = m.problem.state.busy[m.hosts].copy()
    position = {int(h): i for i, h in enumerate(m.hosts)}
    for _, _, _, puts in placement.started():
        for put in puts:
            if put.host in position:
                busy[position[put.host]] = True
    o = _uses(m, "opened", np.flatnonzero(~busy), placement, room)
    m.model.term("opened", o, np.ones(len(o)), sense="min")


def _leftover(m: Exact, placement: Placement, room: Ints) -> None:
    """GPUs left free on the hosts that take a task, in milli-GPU."""
    e = _uses(m, "used", np.arange(len(m.hosts)), placement, room)
    free = placement.whole[m.hosts] * WHOLE_GPU + placement.partial[m.hosts].sum(axis=1)
    m.model.term("leftover", e, free, sense="min")
    m.model.term("leftover", m.x, -m.problem.shape_gpu[_shapes(m)], sense="min")


def _uses(m: Exact, name: str, chosen: Ints, placement: Placement, room: Ints) -> Ints:
    """0/1 variables of chosen hosts that are 1 where a task is."""
    model = m.model
    used = model.variables(name, len(chosen), upper=1)
    of_host = np.full(len(m.hosts), -1, dtype=np.int64)
    of_host[chosen] = used
    mine = np.flatnonzero(of_host[m.x_host] >= 0)
    rows = model.rows(name, len(mine), upper=0.0)
    model.add(rows, m.x[mine], 1.0)
    model.add(rows, of_host[m.x_host[mine]], -room[m.x_set[mine], m.x_host[mine]])
    free = placement.whole[m.hosts] * WHOLE_GPU + placement.partial[m.hosts].sum(axis=1)
    rows = model.rows(name, len(chosen), upper=0.0)
    of_row = np.full(len(m.hosts), -1, dtype=np.int64)
    of_row[chosen] = rows
    model.add(of_row[m.x_host[mine]], m.x[mine], m.problem.shape_gpu[_shapes(m)[mine]])
    model.add(rows, used, -free[chosen])
    return used


def _proximity(m: Exact, room: Ints) -> None:
    """Pairs of a job's tasks that are apart, summed over the levels: n (n-1) / 2 less those together.

    l[d,k] = 1 claims k tasks in a domain, worth k (k-1) / 2 pairs; at most one claim per domain.
    """
    model, cluster = m.model, m.problem.cluster
    model.term("proximity", m.y[:0], np.zeros(0), sense="min")
    sets_of: dict[int, list[int]] = {}
    for t, task_set in enumerate(m.sets):
        if task_set.group is not None:
            sets_of.setdefault(task_set.users[0][0], []).append(t)
    for entry, mine in sets_of.items():
        tasks = sum(n for t in mine for _, _, n in m.sets[t].users)
        at = np.flatnonzero(np.isin(m.x_set, mine))
        pairs = tasks * (tasks - 1) // 2
        model.term(
            "proximity", [m.y[entry]], [float(pairs * len(cluster.levels))], sense="min"
        )
        for domains in cluster.domain:
            parts, part_of = np.unique(domains[m.hosts[m.x_host[at]]], return_inverse=True)
            held = np.bincount(
                part_of, weights=room[m.x_set[at], m.x_host[at]], minlength=len(parts)
            ).astype(np.int64)
            claims = [(d, k) for d, h in enumerate(held) for k in range(2, min(h, tasks) + 1)]
            table = np.array(claims, dtype=np.int64).reshape(-1, 2)
            together = model.variables("together", len(table), upper=1)
            one = model.rows("one count", len(parts), upper=1.0)
            model.add(one[table[:, 0]], together, 1.0)
            count = model.rows("count", len(parts), upper=0.0)
            model.add(count[table[:, 0]], together, table[:, 1])
            model.add(count[part_of], m.x[at], -1.0)
            worth = table[:, 1] * (table[:, 1] - 1) // 2
            model.term("proximity", together, -worth, sense="min")


def apply(m: Exact, values: NDArray[np.float64], placement: Placement) -> None:
    """Start what the values start, on the GPUs that they name."""
    number = np.rint(values).astype(np.int64)
    gpus = _open_slots(m, number, placement)
    places: list[list[int]] = [[] for _ in m.sets]  # a host per task
    for i in np.flatnonzero(number[m.x]):
        places[m.x_set[i]] += [int(m.hosts[m.x_host[i]])] * int(number[m.x[i]])
    sets_of: dict[tuple[int, int], int] = {
        (e, k): t for t, s in enumerate(m.sets) for e, k, _ in s.users
    }
    for e, entry in enumerate(m.entries):
        for _ in range(int(number[m.y[e]])):
            puts = []
            for k, group in enumerate(_choice(m, entry).groups):
                pool = places[sets_of[e, k]]
                for _ in range(group.count):
                    puts.append(_put(m.problem, placement, group.shape, k, pool.pop(), gpus))
            placement.start(entry.job_class, entry.choice, puts)


def _open_slots(
    m: Exact, number: Ints, placement: Placement
) -> dict[tuple[int, int], list[int]]:
    """Per (host, fraction) the GPUs that offer a place, as b says."""
    offers: dict[tuple[int, int], list[int]] = {}
    named: dict[int, int] = {}
    opened: dict[int, int] = {}
    for i in np.flatnonzero(number[m.shares]):
        slot = int(m.share_slot[i])
        at, gpu, _ = m.slots[slot]
        host = int(m.hosts[at])
        if slot not in named:
            if gpu < 0:
                gpu = placement.free_gpus(host)[opened.get(host, 0)]
                opened[host] = opened.get(host, 0) + 1
            named[slot] = gpu
        key = host, int(m.share_fraction[i])
        offers.setdefault(key, []).extend([named[slot]] * int(number[m.shares[i]]))
    return offers


def _put(
    problem: Problem,
    placement: Placement,
    shape: int,
    group: int,
    host: int,
    gpus: dict[tuple[int, int], list[int]],
) -> Put:
    fraction = int(problem.shape_gpu[shape])
    if not problem.shared[shape]:
        return Put(group, host, 1, placement.put(shape, host))
    chosen = (gpus[host, fraction].pop(),)
    placement.hold(shape, host, chosen)
    return Put(group, host, 1, chosen)


def _shapes(m: Exact) -> Ints:
    """Shape of each x."""
    of_set = np.array([s.shape for s in m.sets], dtype=np.int64)
    return of_set[m.x_set]


def _choice(m: Exact, entry: Entry) -> Choice:
    return m.problem.classes[entry.job_class].choices[entry.choice]
