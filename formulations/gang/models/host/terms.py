"""The objective terms of the host-indexed model, and the blocks that give them meaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb
from typing import Literal, TypeAlias

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.host.model import (
    NONE,
    HostModel,
    Tasks,
    TaskSet,
    add_arrival,
    add_domain_rows,
    add_domain_uses,
    charge_arrival,
    milli_each,
)
from placewright.formulations.gang.models.host.network import add_bottleneck, add_contention
from placewright.formulations.gang.models.host.rows import ANY_FREE, GpuSlots, add_topology_rows
from placewright.formulations.gang.models.tenant_share_rows import add_share_terms
from placewright.formulations.gang.problem.gpu_parts import FREE
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Group
from placewright.formulations.gang.problem.limits import BOTTLENECK, CONTENTION, OPTION_SUMS, VALUE
from placewright.formulations.gang.problem.terms import (
    STRANDED,
    FreeableDomains,
    TaskMix,
    partitions_apart,
)
from placewright.topology.units import WHOLE_GPU

# Terms of running jobs: what moves cost (`disruption`), `remaining`, and `freed`.
#
# disruption  sum_j migrate_cost (y - k) + preempt_cost (1 - y)  +  sum_p milli-GPU of p (1 - s[p])
#             of a job that resizes to o: resize_cost(o) + milli-GPU of o - 1000 sum_h w[j,h]
# w[j,h]      whole GPUs of h that it keeps   <=  those that it had there
#             <=  sum over its other options of the GPUs that arrive on h;  <=  those in whole use
# remaining   sum over places on hosts to vacate of milli-GPU s[p]
# empty[d]    domain d in use becomes free       s[p] + e <= 1,  x[t,h] <= capacity (1 - e)
# taken[d]    free domain d is used              x[t,h] <= capacity o
# freed       sum_d worth of d (e[d] - o[d])  -  disruption


def add_move_terms(m: HostModel, slots: GpuSlots | None = None) -> None:
    """Append the policy's terms of running jobs; `slots` where these may resize."""
    terms = m.problem.terms
    if "disruption" in terms:
        add_disruption(m, slots)
    if "remaining" in terms:
        _remaining(m)
    if "freed" in terms:
        add_freed(m, slots)


def add_disruption(m: HostModel, slots: GpuSlots | None = None) -> None:
    """Append the term `disruption`."""
    _disruption(m, "disruption", 1.0, slots)


def _disruption(m: HostModel, term: str, sign: float, slots: GpuSlots | None) -> None:
    """Append what moves cost to a term, with `sign` 1 or -1."""
    sense: Literal["min", "max"] = "min" if sign > 0 else "max"
    moving = [e for e, entry in enumerate(m.entries) if entry.may_stay]
    costs = [
        (m.problem.running[m.entries[e].job].migrate_cost,
         m.problem.running[m.entries[e].job].preempt_cost)
        for e in moving
    ]  # fmt: skip
    migrate, preempt = sign * np.array(costs, dtype=np.float64).reshape(-1, 2).T
    milli = sign * milli_each(m).astype(np.float64)
    constant = float(preempt.sum() + milli.sum())
    m.model.term(term, m.y[moving], migrate - preempt, sense=sense, constant=constant)
    m.model.term(term, m.kept[moving], -migrate, sense=sense)
    m.model.term(term, m.stays.s, -milli, sense=sense)
    for mine in m.entries_of_running:
        held = milli_each(m)[m.stays.entry == mine[0]].sum()
        for e in mine[1:]:
            running, choice = m.problem.running[m.entries[e].job], m.choice(m.entries[e])
            cost = running.resize_costs[choice.index] - running.preempt_cost - held
            cost += sum(group.milli_gpu for group in choice.groups)
            m.model.term(term, m.y[e], sign * float(cost), sense=sense)
        if len(mine) > 1:
            m.model.term(term, _kept_gpus(m, mine, slots), -sign * WHOLE_GPU, sense=sense)


def _kept_gpus(m: HostModel, mine: list[int], slots: GpuSlots | None) -> Ints:
    """Append w of a running job, whose entries are `mine`; return the columns."""
    whole = milli_each(m) >= WHOLE_GPU
    places = np.flatnonzero((m.stays.entry == mine[0]) & whole)
    sets = [t for t, one in enumerate(m.task_sets) if one.users[0][0] in mine[1:]]
    x, away = np.isin(m.x_set, sets), np.flatnonzero(np.isin(m.away_set, sets))
    gpus = m.problem.shape_gpu // WHOLE_GPU
    columns: list[Ints] = [np.zeros(0, dtype=np.int64)]
    for h in np.unique(m.stays.host[places]).tolist():
        here = places[m.stays.host[places] == h]
        w = m.model.variables("kept GPUs", 1, upper=m.stays.usable[here].sum())
        there = np.flatnonzero(x & (m.x_host == h))
        row = m.model.row("kept GPUs", w, 1.0, upper=0.0)
        m.model.add(row, m.x[there], -gpus[m.x_shape[there]])
        m.model.add(row, m.away[away], -gpus[m.set_shape[m.away_set[away]]])
        held = [gpu for p in here.tolist() for gpu in m.stays.gpus[p]]
        if slots is not None and (named := np.flatnonzero(slots.host == h)).size:
            named = named[np.isin(slots.gpu[named], held)]
            row = m.model.row("kept GPUs", w, 1.0, upper=0.0)
            m.model.add(row, slots.whole_uses(m, named), -1.0)
        columns.append(w)
    return np.concatenate(columns)


def _remaining(m: HostModel) -> None:
    there = np.flatnonzero(m.problem.vacate[m.hosts[m.stays.host]])
    milli = milli_each(m)[there].astype(np.float64)
    constant = float(m.problem.pinned_remaining)
    m.model.term("remaining", m.stays.s[there], milli, sense="min", constant=constant)


def add_freed(m: HostModel, slots: GpuSlots | None = None) -> None:
    """Append the term `freed`."""
    _disruption(m, "freed", -1.0, slots)
    freeing = FreeableDomains(m.problem)
    domain = freeing.domain[m.hosts]
    mine = np.unique(domain)
    for name, chosen, worth in (
        ("empty", mine[freeing.freeable[mine]], freeing.worth_of_domain),
        ("taken", mine[~freeing.busy[mine]], -freeing.worth_of_domain),
    ):
        columns = m.model.variables(name, len(chosen), upper=1)
        column_of = np.full(len(freeing.worth_of_domain), -1, dtype=np.int64)
        column_of[chosen] = columns
        _link(m, name, column_of[domain])
        m.model.term("freed", columns, worth[chosen].astype(np.float64), sense="max")


def _link(m: HostModel, name: str, column_of_host: Ints) -> None:
    """Tie each x, and each place of a running job, to the variable of its domain."""
    empty = name == "empty"
    at = np.flatnonzero(column_of_host[m.x_host] >= 0)
    capacity = m.capacity[m.x_set[at], m.x_host[at]].astype(np.float64)
    rows = m.model.rows(name, len(at), upper=capacity if empty else 0.0)
    m.model.add(rows, m.x[at], 1.0)
    m.model.add(rows, column_of_host[m.x_host[at]], capacity if empty else -capacity)
    if empty:
        at = np.flatnonzero(column_of_host[m.stays.host] >= 0)
        rows = m.model.rows(name, len(at), upper=1.0)
        m.model.add(rows, m.stays.s[at], 1.0)
        m.model.add(rows, column_of_host[m.stays.host[at]], 1.0)


# The term `stranded` in the host-indexed model.
#
#     fits[k,h]     host h fits one more task of kind k          0 or 1
#     useful[k,h]   milli-GPU that are useful to kind k there
#     large[m,i]    GPU slot i has m milli-GPU left                      0 or 1
#     left[m,i]     what slot i has left, if that is m or more
#
#     fits          demand[k,r] fits[k,h]   <=  free[h,r] - what arrives or stays on h
#     GPUs          n[k] fits[k,h]          <=  sum_i large[m(k),i]
#     useful        useful[k,h]             <=  sum_i left[m(k),i],   <=  most of h * fits[k,h]
#     large         m large[m,i]            <=  free[i] - uses of i
#     left          left[m,i]               <=  free[i] - uses of i,  <=  free[i] large[m,i]
#     slices        large[m,i]              <=  1 - s                 s: a MIG slice lies on i
#
#     stranded      total weight * (free milli-GPU - what arrives or stays)
#                   -  sum weight[k] useful[k,h]
#
# Only what is useful is to be large, so upper bounds are enough, and the optimum is exact. On hosts
# without shares GPUs in part use stay as they are, and the others are counted per host.


Sum: TypeAlias = tuple[float, list[tuple[int, float]]]
"""A constant, and columns with coefficients."""


def add_stranded(m: HostModel, slots: GpuSlots) -> None:
    """Append the term, its variables and rows."""
    mix = TaskMix.of(m.problem)
    gpus = m.placement.arrivable_milli_gpu()[m.hosts]
    open_ = m.problem.open[m.hosts]
    every = int(m.placement.free_milli_gpu[m.hosts[open_]].sum())
    m.model.term(STRANDED, m.y[:0], np.zeros(0), sense="min", constant=float(mix.total * every))
    stays = milli_each(m)
    stays = np.where(stays < WHOLE_GPU, stays, WHOLE_GPU) * m.stays.usable
    for at, columns, milli in (
        (m.x_host, m.x, m.problem.shape_gpu[m.x_shape]),
        (m.stays.host, m.stays.s, stays),
    ):
        counts = open_[at]
        taken = -float(mix.total) * milli[counts]
        m.model.term(STRANDED, columns[counts], taken, sense="min")
    uses = _uses(m, slots)
    model = m.problem.cluster.gpu_model[m.hosts].astype(np.int64)
    most = mix.useful(m.placement.free[m.hosts], gpus, model)
    for h in np.flatnonzero(open_).tolist():
        host = _Host(m, slots, uses, h, gpus[h])
        for k in np.flatnonzero(most[h]).tolist():
            host.add(mix, k, int(most[h, k]))


@dataclass(frozen=True, slots=True)
class _Uses:
    """Per host the columns of what arrives or stays there, with demands and whole GPUs.

    `slices` are the columns of MIG slices, `cut` the slots that hold slices of pinned jobs.
    """

    demands: dict[int, list[tuple[int, Ints]]]
    gpus: dict[int, list[tuple[int, int]]]
    slices: frozenset[int]
    cut: frozenset[int]


def _uses(m: HostModel, slots: GpuSlots) -> _Uses:
    """Collect what arrives or stays on each host."""
    uses = _Uses({}, {}, *_sliced(m, slots))
    sharing = set(slots.host.tolist())
    stay_gpus = np.where(milli_each(m) >= WHOLE_GPU, m.stays.usable, 0)
    for at, columns, shapes, gpus in (
        (m.x_host, m.x, m.x_shape, m.problem.shape_gpu[m.x_shape] // WHOLE_GPU),
        (m.stays.host, m.stays.s, m.stay_shape, stay_gpus),
    ):
        for h, column, shape, n in zip(
            at.tolist(), columns.tolist(), shapes.tolist(), gpus.tolist(), strict=True
        ):
            uses.demands.setdefault(h, []).append((column, m.problem.shape_demand[shape]))
            if n and h not in sharing:
                uses.gpus.setdefault(h, []).append((column, n))
    return uses


def _sliced(m: HostModel, slots: GpuSlots) -> tuple[frozenset[int], frozenset[int]]:
    """Return the columns of MIG slices, and the slots that hold slices of pinned jobs."""
    parts = m.placement.part_state
    if parts is None:
        return frozenset(), frozenset()
    staying = m.stays.s[parts.demands.is_slice[m.stay_shape]]
    named = slots.gpu != ANY_FREE
    layout = parts.layout[m.hosts[slots.host], np.where(named, slots.gpu, 0)]
    return (
        frozenset([*slots.b[slots.b_key < 0].tolist(), *staying.tolist()]),
        frozenset(np.flatnonzero(named & (layout != FREE)).tolist()),
    )


@dataclass(slots=True)
class _Host:
    """One host of the model; what several kinds of tasks need of it is added once."""

    m: HostModel
    slots: GpuSlots
    uses: _Uses
    at: int
    gpus: Ints
    sums: dict[int, tuple[Sum, Sum]] = field(default_factory=dict)

    def add(self, mix: TaskMix, kind: int, most: int) -> None:
        """Append `fits` and `useful` of a kind, to which at most `most` milli-GPU are useful."""
        m = self.m
        milli = int(mix.milli[kind])
        if milli not in self.sums:
            has_slots = bool((self.slots.host == self.at).any())
            self.sums[milli] = self._slots(milli) if has_slots else self._counted(milli)
        large, left = self.sums[milli]
        fits, useful = (
            m.model.variables("fits", 1, upper=1),
            m.model.variables("useful", 1, upper=most),
        )
        m.model.term(STRANDED, useful, -float(mix.weight[kind]), sense="min")
        self._at_most("useful", [(int(useful[0]), 1.0), (int(fits[0]), -float(most))], (0.0, []))
        self._at_most("useful", [(int(useful[0]), 1.0)], left)
        self._at_most("GPUs", [(int(fits[0]), float(mix.gpus[kind]))], large)
        for r in np.flatnonzero(mix.demand[kind]).tolist():
            taken = [
                (column, -float(demand[r]))
                for column, demand in self.uses.demands.get(self.at, ())
                if demand[r]
            ]
            free = float(m.placement.free[m.hosts[self.at], r])
            self._at_most("fits", [(int(fits[0]), float(mix.demand[kind, r]))], (free, taken))

    def _at_most(self, name: str, terms: list[tuple[int, float]], limit: Sum) -> None:
        """Append a row: these terms are no more than the limit."""
        constant, columns = limit
        both = [*terms, *((column, -factor) for column, factor in columns)]
        self.m.model.row(name, [c for c, _ in both], [f for _, f in both], upper=constant)

    def _counted(self, milli: int) -> tuple[Sum, Sum]:
        """Return how many GPUs are large enough, and what they have left, counted per host."""
        fixed = self.gpus[(self.gpus >= milli) & (self.gpus < WHOLE_GPU)]
        whole = int((self.gpus == WHOLE_GPU).sum())
        taken = self.uses.gpus.get(self.at, ())
        return (
            (float(len(fixed) + whole), [(column, -float(n)) for column, n in taken]),
            (
                float(fixed.sum() + whole * WHOLE_GPU),
                [(column, -float(n * WHOLE_GPU)) for column, n in taken],
            ),
        )

    def _slots(self, milli: int) -> tuple[Sum, Sum]:
        """Return the same for GPUs that have slots of their own."""
        m, slots = self.m, self.slots
        mine = np.flatnonzero((slots.host == self.at) & (slots.free >= milli))
        mine = np.array([i for i in mine.tolist() if i not in self.uses.cut], dtype=np.int64)
        large = m.model.variables("large", len(mine), upper=1)
        left = m.model.variables("left large", len(mine), upper=slots.free[mine])
        for i, is_large, has in zip(mine.tolist(), large.tolist(), left.tolist(), strict=True):
            use = np.flatnonzero(slots.use_slot == i)
            free: Sum = (
                float(slots.free[i]),
                [
                    (column, -float(taken))
                    for column, taken in zip(
                        slots.use[use].tolist(), slots.use_milli[use].tolist(), strict=True
                    )
                ],
            )
            for column in self.uses.slices.intersection(slots.use[use].tolist()):
                self._at_most("large", [(is_large, 1.0), (column, 1.0)], (1.0, []))
            self._at_most("large", [(is_large, float(milli))], free)
            self._at_most("left large", [(has, 1.0)], free)
            self._at_most("left large", [(has, 1.0), (is_large, -float(slots.free[i]))], (0.0, []))
        return (
            (0.0, [(column, 1.0) for column in large.tolist()]),
            (0.0, [(column, 1.0) for column in left.tolist()]),
        )


# y - k is 1 for a job that starts or migrates; for a kept job nothing below counts.
#
# z[t,d]         set t uses domain d              tasks of t in d - n k <= min(n, capacity) z[t,d]
#                a required level                 sum_d z[t,d] <= y - k
# opened[h], used[h]  a task arrives on host h    x[t,h] <= capacity u[h],  sum gpu x <= free u[h]
# left[h]        milli-GPU left free on h         left[h] >= free[h] used[h] - what h holds
# together[d,k]  k tasks of a job share d         sum_k k together[d,k] <= tasks of the job in d
#
# value      sum over jobs that run, less those of all running jobs; so progress, entitled
# spread     sum over sets and charged levels of GPUs * weight * (sum_d z - y + k)
# opened     sum of opened[h] over empty hosts
# leftover   sum_h left[h]
# in[d,i]        i tasks of a job or more are in d  tasks of the job in d <= sum_i in[d,i]
# apart          a task in a and one in b         apart[a,i,b,j] >= in[a,i] + in[b,j] - 1
#
# proximity  per level, pairs of a job's tasks less pairs that share a domain; with a graph of
#            switches per partition, and what pairs are further apart (`partitions_apart`)


def add_terms(m: HostModel, slots: GpuSlots | None = None) -> None:
    """Append what the policy's terms need, and the levels that options require."""
    add_value(m)
    for term in m.problem.terms:
        if term in OPTION_SUMS and term != VALUE:
            _add_worth(m, term, [m.choice(entry).amount(term) for entry in m.entries])
    add_share_terms(m.model, m.problem, *m.y_columns, m.problem.shares)
    add_move_terms(m, slots)
    add_topology_rows(m)
    m.model.term("spread", m.y[:0], np.zeros(0), sense="min")
    for t, task_set in enumerate(m.task_sets):
        if task_set.group is not None and task_set.group.depends_on_levels:
            _levels(m, t, task_set, task_set.group)
    if "opened" in m.problem.terms:
        _opened(m)
    if "leftover" in m.problem.terms:
        _leftover(m)
    if "proximity" in m.problem.terms:
        _proximity(m)
    if BOTTLENECK in m.problem.terms:
        add_bottleneck(m)
    if CONTENTION in m.problem.terms:
        add_contention(m)


def add_value(m: HostModel) -> None:
    """Append the values of the jobs that run, less those of the running jobs of the model."""
    _add_worth(m, VALUE, [m.choice(entry).value for entry in m.entries])


def _add_worth(m: HostModel, term: str, each: list[int]) -> None:
    """Append a term: the worth of each entry that runs, less that of all running jobs."""
    worth = np.array(each, dtype=np.float64)
    before = worth[[entry.may_stay for entry in m.entries]].sum()
    m.model.term(term, m.y, worth, sense="max", constant=-float(before))


def _levels(m: HostModel, t: int, task_set: TaskSet, group: Group) -> None:
    """Append the domains that a set uses: one of a required level, others at spread cost."""
    entry = task_set.users[0][0]
    weights = dict(group.weights)
    for level in sorted(set(weights) | ({group.required} - {NO_LEVEL})):
        _, z = add_domain_uses(m, "z", entry, [t], m.problem.cluster.domain[level])
        if level == group.required:
            add_arrival(m, m.model.row("required level", z, upper=0.0), entry, -1.0)
        if level in weights:
            cost = float(group.milli_gpu * weights[level])
            m.model.term("spread", z, cost, sense="min")
            charge_arrival(m, "spread", entry, -cost)


def _opened(m: HostModel) -> None:
    """Append the empty hosts where something arrives; hosts the placement uses are not empty."""
    busy = m.problem.state.busy | m.placement.arrivals.any(axis=1)
    columns = _host_uses(m, "opened", np.flatnonzero(~busy[m.hosts]))
    m.model.term("opened", columns, 1.0, sense="min")


def _leftover(m: HostModel) -> None:
    """Append the milli-GPU left free on the hosts where something arrives."""
    used = _host_uses(m, "used", np.arange(len(m.hosts)))
    free = _free_milli(m) + m.problem.reserved_free[m.hosts]
    left = m.model.variables("left", len(m.hosts), upper=free)
    rows = m.model.rows("left", len(m.hosts), upper=0.0)
    m.model.add(rows, used, free)
    m.model.add(rows, left, -1.0)
    m.model.add(rows[m.x_host], m.x, -m.problem.shape_gpu[m.x_shape])
    m.model.add(rows[m.stays.host], m.stays.s, -milli_each(m))
    m.model.term("leftover", left, 1.0, sense="min")


def _host_uses(m: HostModel, name: str, chosen: Ints) -> Ints:
    """Append 0/1 variables of chosen hosts that are 1 where a task arrives.

    The row on GPUs is implied for whole numbers; it makes the relaxation as strong as capacity.
    """
    columns = m.model.variables(name, len(chosen), upper=1)
    column_of = np.full(len(m.hosts), -1, dtype=np.int64)
    column_of[chosen] = columns
    mine = np.flatnonzero(column_of[m.x_host] >= 0)
    rows = m.model.rows(name, len(mine), upper=0.0)
    m.model.add(rows, m.x[mine], 1.0)
    m.model.add(rows, column_of[m.x_host[mine]], -m.capacity[m.x_set[mine], m.x_host[mine]])
    rows = m.model.rows(name, len(chosen), upper=0.0)
    row_of = np.full(len(m.hosts), -1, dtype=np.int64)
    row_of[chosen] = rows
    m.model.add(row_of[m.x_host[mine]], m.x[mine], m.problem.shape_gpu[m.x_shape[mine]])
    m.model.add(rows, columns, -_free_milli(m)[chosen])
    return columns


def _free_milli(m: HostModel) -> Ints:
    free: Ints = m.placement.free_milli_gpu[m.hosts]
    return free


def _proximity(m: HostModel) -> None:
    """Append the pairs of a job's tasks in different domains, summed over the levels.

    From n (n - 1) / 2 pairs those that share a domain are subtracted: together[d,k] = 1 claims k
    tasks in d, that is k (k - 1) / 2 pairs. One claim of all tasks in d is worth more than several
    of some.
    """
    m.model.term("proximity", m.y[:0], np.zeros(0), sense="min")
    partitions, beyond = partitions_apart(m.problem.cluster)
    sets_of: dict[int, list[int]] = {}
    for t, task_set in enumerate(m.task_sets):
        if task_set.group is not None:
            sets_of.setdefault(task_set.users[0][0], []).append(t)
    for entry, mine in sets_of.items():
        tasks = sum(n for t in mine for _, _, n in m.task_sets[t].users)
        charge_arrival(m, "proximity", entry, float(comb(tasks, 2) * len(partitions)))
        there = Tasks.of(m, mine)
        for domain in partitions:
            _together(m, entry, there, domain[m.hosts[there.hosts]], tasks)
        if beyond.any():
            _apart(m, entry, mine, beyond, tasks)


def _together(m: HostModel, entry: int, there: Tasks, domain: np.ndarray, tasks: int) -> None:
    """Append the claims of one job's tasks (a column each) in the domains of one level."""
    parts, part_of = np.unique(domain, return_inverse=True)
    held = np.bincount(part_of, weights=there.most, minlength=len(parts))
    claims = [(d, k) for d, h in enumerate(held) for k in range(2, min(int(h), tasks) + 1)]
    d, k = np.array(claims, dtype=np.int64).reshape(-1, 2).T
    together = m.model.variables("together", len(k), upper=1)
    rows = m.model.rows("count", len(parts), upper=0.0)
    m.model.add(rows[d], together, k)
    m.model.add(rows[part_of], there.columns, -1.0)
    if m.kept[entry] != NONE:
        # A kept job's pairs do not count: no claim on them.
        add_arrival(m, m.model.row("count", together, k, upper=0.0), entry, -tasks)
    m.model.term("proximity", together, -(k * (k - 1) // 2), sense="min")


def _apart(m: HostModel, entry: int, mine: list[int], beyond: Ints, tasks: int) -> None:
    """Append the pairs of tasks in two domains, by how much further apart these are.

    Without them, where they are many, the term is a lower bound.
    """
    leaf, there = m.problem.cluster.domain[-2], Tasks.of(m, mine)
    parts, part_of = np.unique(leaf[m.hosts[there.hosts]], return_inverse=True)
    held = np.bincount(part_of, weights=there.most, minlength=len(parts))
    most = np.minimum(held, tasks).astype(np.int64)
    further = np.triu(beyond[np.ix_(parts, parts)])
    if most @ (further > 0) @ most > parameters.PARAMETERS.models.max_pairs_apart:
        return
    rows = add_domain_rows(m, entry, mine, leaf).rows
    each = m.model.variables("in", int(most.sum()), upper=1)
    m.model.add(rows[np.repeat(np.arange(len(parts)), most)], each, -1.0)
    columns = np.split(each, np.cumsum(most)[:-1])
    for a, b in np.argwhere(further).tolist():
        one, other = np.repeat(columns[a], most[b]), np.tile(columns[b], most[a])
        both = m.model.variables("apart", len(one), upper=1)
        rows = m.model.rows("apart", len(one), upper=1.0)
        for column, factor in ((one, 1.0), (other, 1.0), (both, -1.0)):
            m.model.add(rows, column, factor)
        m.model.term("proximity", both, float(further[a, b]), sense="min")
