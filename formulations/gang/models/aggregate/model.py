"""The aggregate model: how many jobs of each class start, how many tasks each host class takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.models.aggregate.accounts import (
    account_limits,
    add_account_rows,
    add_disruption_budget,
    add_failure_domains,
    most_started,
    steps_of,
)
from placewright.formulations.gang.models.aggregate.gpu_links import add_gpu_links
from placewright.formulations.gang.models.aggregate.host_classes import HostClasses
from placewright.formulations.gang.models.aggregate.variables import (
    AggregateModel,
    GpuPartTypes,
    domain_rows,
    gang_columns,
    gang_kinds,
    pool_rows,
)
from placewright.formulations.gang.models.tenant_share_rows import add_share_terms
from placewright.formulations.gang.problem.jobs import Choice
from placewright.formulations.gang.problem.limits import (
    BOTTLENECK,
    ENTITLED,
    NOTHING,
    OPTION_SUMS,
    PROGRESS,
    VALUE,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import LinkBandwidths, least_time_us_within
from placewright.solver import Model
from placewright.topology.units import WHOLE_GPU

# Rows of the aggregate model that sum over a host class: `capacity`, `gpus`, `floor`, `share`.
#
# Hosts in use have their free amounts together; empty hosts add what each has when they are opened.


def add_class_sums(m: AggregateModel) -> None:
    """Append the rows, and record their indices in `m`."""
    _capacity(m)
    _gpus(m)
    _floor(m)
    _shares(m)


def _per_class(m: AggregateModel, name: str, coefficient: Ints, total: Ints, each: Ints) -> Ints:
    """Append rows  sum coefficient x <= total  per class; <= each * opened for empty hosts.

    `coefficient` is per x, `total` and `each` (largest amount of one host) per class. Returns the
    row of each class to which further columns may be added, -1 for classes without one.
    """
    used = np.zeros(len(m.host_classes), dtype=np.bool_)
    used[m.x_class[coefficient > 0]] = True
    row_of = np.full(len(m.host_classes), -1, dtype=np.int64)
    entries = np.flatnonzero(coefficient)
    by_host = used & m.host_classes.idle
    # Hosts of one class may differ in what the key leaves out: then the sum is a row of its own.
    by_sum = used & ~(by_host & (each * m.host_classes.size <= total))
    for chosen, upper in ((by_sum, total), (by_host, np.zeros_like(total))):
        index = np.flatnonzero(chosen)
        row_of[index] = m.model.rows(name, len(index), upper=upper[index], keys=index.tolist())
        mine = entries[chosen[m.x_class[entries]]]
        m.model.add(row_of[m.x_class[mine]], m.x[mine], coefficient[mine])
        if chosen is by_host:
            m.model.add(row_of[index], m.opened[index], -each[index])
    return row_of


def _capacity(m: AggregateModel) -> None:
    for r in np.flatnonzero(m.problem.limited).tolist():
        demand = m.problem.shape_demand[m.x_shape, r]
        _per_class(m, "capacity", demand, m.host_classes.free[:, r], m.host_classes.most_free[:, r])


def _gpus(m: AggregateModel) -> None:
    whole = m.problem.shape_gpu[m.x_shape] // WHOLE_GPU
    # A class that takes shares needs the row too, for the GPUs that patterns cut.
    row_of = _per_class(
        m, "gpus", whole, m.host_classes.whole * m.host_classes.size, m.host_classes.whole
    )
    missing = np.flatnonzero((row_of < 0) & (m.host_classes.whole > 0))
    idle = m.host_classes.idle[missing]
    upper = np.where(idle, 0, (m.host_classes.whole * m.host_classes.size)[missing])
    row_of[missing] = m.model.rows("gpus", len(missing), upper=upper, keys=missing.tolist())
    opened = missing[idle]
    m.model.add(row_of[opened], m.opened[opened], -m.host_classes.whole[opened])
    m.gpu_row = row_of


def _floor(m: AggregateModel) -> None:
    whole = m.problem.shape_gpu[m.x_shape] // WHOLE_GPU
    t = 2
    while t <= whole.max(initial=0):
        each = m.host_classes.whole // t
        _per_class(m, "floor", whole // t, each * m.host_classes.size, each)
        t *= 2


def _shares(m: AggregateModel) -> None:
    """Append rows: tasks of a part <= places in patterns (gpu_columns.py adds those)."""
    part = m.part_of(m.x_shape, m.x_class)
    for f in range(len(m.parts)):
        mine = np.flatnonzero(part == f)
        index = np.unique(m.x_class[mine])
        m.share_row[f, index] = m.model.rows("share", len(index), upper=0.0)
        m.model.add(m.share_row[f, m.x_class[mine]], m.x[mine], 1.0)


# Objective terms of the aggregate model.


def add_terms(m: AggregateModel) -> None:
    """Append the terms that the model has variables for."""
    options = m.problem.options
    running = np.array([k.running for k in m.problem.classes], dtype=np.bool_)[m.y_class]
    for term in dict.fromkeys((VALUE, ENTITLED, PROGRESS, *m.problem.terms)):
        if term not in OPTION_SUMS:
            continue
        worth = options.amounts(term)[m.y_option].astype(np.float64)
        before = float((worth * m.y_most)[running & (m.y_choice == 0)].sum())
        gain = float(m.problem.free_gain(term))
        m.model.term(term, m.y, worth, sense="max", constant=gain - before)
    add_share_terms(m.model, m.problem, *m.y_columns, m.left_out_shares)
    stops = int((m.y_cost * m.y_most)[m.y_choice == 0].sum())
    cost = _resize_costs(m.problem)[m.y_option] - m.y_cost
    m.model.term("disruption", m.y, cost, sense="min", constant=float(stops))
    m.model.term("spread", m.u, m.gangs.spread, sense="min")
    if BOTTLENECK in m.problem.terms:
        m.model.term(BOTTLENECK, m.u, m.gangs.time_us, sense="min")
        chosen = [
            m.problem.classes[c].choices[o] for c, o in zip(m.y_class, m.y_choice, strict=True)
        ]
        m.model.term(BOTTLENECK, m.y, _single_times(m, chosen, running), sense="min")
    add_gpu_links(m)
    idle = m.opened[m.opened >= 0]
    m.model.term("opened", idle, np.ones(len(idle)), sense="min")


def _resize_costs(problem: Problem) -> Ints:
    """Return what a running job disrupts at least that resizes to each option, (options,).

    What the option costs, and the milli-GPU that it takes beyond all whole GPUs that the job had.
    """
    options = problem.options
    whole = options.sum_over_tasks(problem.shape_gpu[options.group_shape] // WHOLE_GPU)
    first = options.class_start[options.job_class]
    cost: Ints = options.milli_gpu - WHOLE_GPU * np.minimum(whole, whole[first])
    sizes = (problem.num_jobs > problem.num_pending)[options.job_class] & (options.choice > 0)
    cost[~sizes] = 0
    for o in np.flatnonzero(sizes).tolist():
        job_class = problem.classes[options.job_class[o]]
        index = job_class.choices[options.choice[o]].index
        cost[o] += min(problem.running[job].resize_costs[index] for job in job_class.jobs)
    return cost


def _single_times(m: AggregateModel, chosen: Sequence[Choice], running: Bools) -> Ints:
    """Return the least time of the collectives inside one task of each pending option."""
    problem, speeds = m.problem, LinkBandwidths.of(m.problem.cluster)
    host = len(problem.cluster.levels) - 1
    return np.array(
        [
            sum(
                least_time_us_within(speeds, group, host, problem.shape_hosts[group.shape])
                for group in (() if runs else choice.groups)
                if group.timed and group.count == 1
            )
            for choice, runs in zip(chosen, running.tolist(), strict=True)
        ],
        dtype=np.int64,
    )


# Rows of the aggregate model for gangs on few hosts: some of these have to hold many tasks.
#
# Of n tasks on at most k hosts, none of which holds more than c of them, a hosts or more hold t
# or more each, a (c - t + 1) >= n - k (t - 1). So, for each number w of GPUs and t the tasks that
# take w or more,
#
#     sum over jobs of a y  <=  sum over hosts of floor(free whole GPUs / w)
#
# What else is asked of numbers of hosts is left out, but for gangs that fit no domain
# and `least` hosts as a domain limit (accounts.py).


def add_wide_hosts(m: AggregateModel, capacity: Ints, whole: Ints) -> None:
    """Append the rows of pending jobs whose groups are on few hosts.

    `capacity` and `whole` are as in `build_aggregate_model`.
    """
    options = m.problem.options
    # Running jobs may stay where they are.
    pending = np.flatnonzero(m.problem.num_pending[m.y_class])
    which, group = options.groups_of(m.y_option[pending])
    gpus = m.problem.shape_gpu[options.group_shape[group]] // WHOLE_GPU
    ranges = [options.groups[g].num_hosts for g in group.tolist()]
    asked = np.array([one is not None for one in ranges], dtype=np.bool_)
    some = np.flatnonzero(asked & (gpus > 0))
    if not len(some):
        return
    shape, each = options.group_shape[group[some]], gpus[some]
    most = np.array([0 if r is None else r.most for r in ranges], dtype=np.int64)[some]
    least = np.array([0 if r is None else r.least for r in ranges], dtype=np.int64)[some]
    count = options.group_count[group[some]]
    largest = np.minimum(capacity[shape].max(axis=1, initial=0), count - least + 1)
    free = whole[(capacity[np.unique(shape)] > 0).any(axis=0)]
    for width in range(2, int(free.max(initial=0)) + 1):
        tasks = -(-width // each)
        rest = count - most * (tasks - 1)
        number = np.where(
            (rest > 0) & (largest >= tasks), -(-rest // np.maximum(largest - tasks + 1, 1)), 0
        )
        used = np.flatnonzero(number)
        if len(used):
            columns = m.y[pending[which[some[used]]]]
            m.model.row("wide hosts", columns, number[used], upper=(free // width).sum())


#     y[c,o]  jobs of class c with option o                     sum_o y[c,o] <= jobs of c
#     x[s,a]  tasks of shape s on hosts of class a              sum_a x[s,a]  = tasks that y starts
#     o[a]    empty hosts of class a that become used
#     u[q,d]  gangs of kind q in domain d            sum_d u[q,d]  = gangs that y starts
#     v[g,p]  GPUs of kind g cut by pattern p (gpu_columns.py)
#
#     capacity   sum_s demand[s,r] x[s,a]            <= free[a,r]            per class and resource
#     gpus       sum_s gpus(s) x[s,a] + sum_p v[a,p] <= free whole GPUs of a
#     floor      sum_s floor(gpus(s)/t) x[s,a]     <= hosts of a * floor(whole/t),  t = 2, 4, 8 ...
#     (for classes of empty hosts the right-hand sides grow with o[a])
#     share      tasks of a part on a                <= places in its patterns
#     domain     gangs in and below a domain         <= what its hosts hold
#     pool       what gangs in and below a domain take  <= what its pools have
#     failure domains   accounts.py;   numbers of hosts   wide hosts
#     quota      what an account's jobs take         <= what is left of its quota, cap or pools
#     (and precedence within it; and cuts of both, accounts.py)
#     value, entitled, progress   of the jobs of y, less those of all running jobs
#     disruption                  of the jobs that are not in y, and of those that resize
#     disruption budget           accounts.py
#     share                       tenant_share_rows.py
#
# A running job that may move is a job like any other, on hosts that are cleared of all such jobs:
# to keep it is to place it. A class of running jobs has a y for each of a few steps of stop cost,
# and for each of its options.
#
# Exact for GPUs and levels if tasks take powers of two of GPUs and gangs take whole hosts. For
# other sizes, and in CPU and memory, a relaxation, since a class knows only sums over its hosts.
# Every placement of the round maps to a point of the model with the same value and opened hosts
# and at most the same spread, so bounds of the model are valid for the round.


def build_aggregate_model(
    problem: Problem, classes: HostClasses, capacity: Ints, whole: Ints, *, sums: bool = True
) -> AggregateModel:
    """Build the aggregate model of a problem.

    `capacity`, int64 (shapes, hosts), says how many tasks fit each cleared host, `whole`, int64
    (hosts,), its free whole GPUs. `sums`: whether to append x and the rows that sum over the hosts
    of a class; without them patterns of whole hosts (host_columns.py) take their place.

    Raises `ValueError` if `whole` is not what hosts have that are cleared of all running jobs that
    may move: a bound of the model would not hold for plans that stop some of them.
    """
    if not np.array_equal(whole, problem.cleared.whole_free(problem.cluster)):
        raise ValueError("the hosts are not cleared; a bound of the model would not hold")
    model = Model()
    limits = account_limits(problem)
    y_option, y_most, y_cost, y_least, *y_use = _columns(problem, most_started(problem, limits))
    y = model.variables("y", len(y_option), upper=y_most)
    x_shape, x_class = np.nonzero(classes.capacity if sums else np.zeros_like(classes.capacity))
    x = model.variables("x", len(x_shape), upper=classes.capacity[x_shape, x_class])
    opened = np.full(len(classes), -1, dtype=np.int64)
    idle = np.flatnonzero(classes.idle)
    opened[idle] = model.variables("opened", len(idle), upper=classes.size[idle])
    kinds, kind_of = gang_kinds(problem, capacity)
    gangs = gang_columns(problem, kinds)
    u = model.variables("gang", len(gangs.kind), upper=gangs.most)
    parts = GpuPartTypes.of_problem(problem)
    counts = AggregateModel(
        problem, classes, model, y, y_option, y_most, y_cost, x, x_shape, x_class, opened, u, gangs,
        kinds, kind_of, parts, np.stack(y_use, axis=1), y_least,
    )  # fmt: skip
    _one_option(counts)
    _tasks(counts)
    _gang_totals(counts)
    if sums:
        add_class_sums(counts)
    _domains(counts, whole)
    add_account_rows(counts, limits)
    _labels(counts)
    add_failure_domains(counts, capacity, whole)
    add_wide_hosts(counts, capacity, whole)
    add_disruption_budget(counts)
    add_terms(counts)
    return counts


def _columns(problem: Problem, most: Ints) -> Ints:
    """Return option, most jobs, stop cost, least jobs and what each y spares of the budget.

    Of pending jobs at most as many may start with each option, `most`. Running jobs of a class are
    divided into steps.
    """
    options = problem.options
    pending = np.flatnonzero(problem.num_pending[options.job_class])
    none = np.zeros((2 + len(NOTHING), len(pending)), dtype=np.int64)
    columns = [np.concatenate([pending[None], most[None, pending], none])]
    for c, job_class in enumerate(problem.classes):
        if job_class.running:
            first, end = options.class_start[c : c + 2].tolist()
            gpus = int(options.milli_gpu[first])
            columns += [
                np.array([[option, s.jobs, s.cost + gpus, s.jobs * s.protected, *use]]).T
                for option in range(first, end)
                for s in steps_of(problem, c)
                for use in [s.use if option == first else s.spared_by_resize]
            ]
    table = np.concatenate(columns, axis=1)
    # In order of the classes, the steps of one in their order.
    return table[:, np.argsort(table[0], kind="stable")]


def _one_option(m: AggregateModel) -> None:
    """At most one option per job: no more jobs of a class than there are."""
    rows = m.model.rows("one option", len(m.problem.classes), upper=m.problem.num_competing)
    m.option_row = rows
    m.model.add(rows[m.y_class], m.y, 1.0)
    for mine in m.steps:
        if len(mine) > 1:
            m.model.row("one option", m.y[mine], upper=float(m.y_most[mine[0]]))


def _tasks(m: AggregateModel) -> None:
    """Tasks placed = tasks started, per shape."""
    upper = 0.0 if len(m.x) else np.inf  # a host pattern may hold more than is started
    rows = m.model.rows("tasks", len(m.problem.shape_gpu), lower=0.0, upper=upper)
    m.task_row = rows
    m.model.add(rows[m.x_shape], m.x, 1.0)
    options = m.problem.options
    which, group = options.groups_of(m.y_option)
    m.model.add(rows[options.group_shape[group]], m.y[which], -options.group_count[group])


def _gang_totals(m: AggregateModel) -> None:
    """Gangs placed in domains = gangs started, per kind."""
    rows = m.model.rows("gangs", len(m.gang_kinds), lower=0.0, upper=0.0)
    m.model.add(rows[m.gangs.kind], m.u, 1.0)
    kinds = [m.gang_kind_of.get(group, -1) for group in m.problem.options.groups]
    kind_of = np.array(kinds, dtype=np.int64)
    # Running jobs are of no kind: they may stay where they are.
    mine = np.flatnonzero(m.problem.num_pending[m.y_class])
    which, group = m.problem.options.groups_of(m.y_option[mine])
    bound = np.flatnonzero(kind_of[group] >= 0)
    m.model.add(rows[kind_of[group[bound]]], m.y[mine[which[bound]]], -1.0)


def _domains(m: AggregateModel, whole: Ints) -> None:
    """Gangs in and below each domain fit its hosts (Hall's condition, variables.py) and pools."""
    of_hosts = domain_rows(m.problem, m.gang_kinds, m.gangs, whole)
    of_pools = pool_rows(m.problem, m.gang_kinds, m.gangs)
    for name, found in (("domain", of_hosts), ("pool", of_pools)):
        for held, domain, entries, taken in found:
            used = np.unique(domain)
            rows = m.model.rows(name, len(used), upper=held[used])
            m.model.add(rows[np.searchsorted(used, domain)], m.u[entries], taken)


def _labels(m: AggregateModel) -> None:
    """No more jobs of an anti-affinity label start than there are domains for them."""
    problem = m.problem
    columns: defaultdict[int, list[int]] = defaultdict(list)
    for i, (c, o) in enumerate(zip(m.y_class.tolist(), m.y_choice.tolist(), strict=True)):
        if not problem.classes[c].running:
            columns[problem.classes[c].choices[o].label].append(i)
    for number, label in enumerate(problem.labels):
        mine = columns[number]
        pinned = {
            d
            for job, home in label.running_domains.items()
            if job not in problem.running
            for d in home
        }
        free = set(problem.cluster.domain[label.level][problem.open].tolist()) - pinned
        m.model.row("label", m.y[mine], upper=len(free))
