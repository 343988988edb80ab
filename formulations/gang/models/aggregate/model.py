"""The aggregate model: how many jobs of each class start, how many tasks each host class takes.

    y[c,o]  jobs of class c with option o                     sum_o y[c,o] <= jobs of c
    x[s,a]  tasks of shape s on hosts of class a              sum_a x[s,a]  = tasks that y starts
    o[a]    empty hosts of class a that become used
    u[q,d]  gangs of kind q in domain d (gangs.py)            sum_d u[q,d]  = gangs that y starts
    v[g,p]  GPUs of kind g cut by pattern p (gpu_columns.py, gpu_part_columns.py)

    capacity   sum_s demand[s,r] x[s,a]            <= free[a,r]            per class and resource
    gpus       sum_s gpus(s) x[s,a] + sum_p v[a,p] <= free whole GPUs of a
    floor      sum_s floor(gpus(s)/t) x[s,a]       <= hosts of a * floor(whole/t),  t = 2, 4, 8 ...
    (for classes of empty hosts the right-hand sides grow with o[a])
    share      tasks of a part on a                <= places in its patterns
    domain     gangs in and below a domain         <= what its hosts hold
    pool       what gangs in and below a domain take  <= what its pools have
    failure domains   failure_domains.py;   numbers of hosts   wide_hosts.py
    quota      what an account's jobs take         <= what is left of its quota, cap or pools
    (and precedence within it, account_rows.py; and cuts of both, account_cuts.py)
    value, entitled, progress   of the jobs of y, less those of all running jobs
    disruption                  of the jobs that are not in y
    disruption budget           disruption_budget.py
    share                       tenant_share_rows.py

A running job that may move is a job like any other, on hosts that are cleared of all such jobs: to
keep it is to place it. A class of running jobs has a y for each of a few steps of stop cost.

Exact for GPUs and levels if tasks take powers of two of GPUs and gangs take whole hosts. For other
sizes, and in CPU and memory, a relaxation, since a class knows only sums over its hosts. Every
placement of the round maps to a point of the model with the same value and opened hosts and at most
the same spread, so bounds of the model are valid for the round.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.aggregate.account_rows import (
    account_limits,
    add_account_rows,
    most_started,
)
from placewright.formulations.gang.models.aggregate.disruption_budget import (
    add_disruption_budget,
    steps_of,
)
from placewright.formulations.gang.models.aggregate.failure_domains import add_failure_domains
from placewright.formulations.gang.models.aggregate.gangs import (
    domain_rows,
    gang_columns,
    gang_kinds,
    pool_rows,
)
from placewright.formulations.gang.models.aggregate.gpu_parts import GpuPartTypes
from placewright.formulations.gang.models.aggregate.host_classes import HostClasses
from placewright.formulations.gang.models.aggregate.rows import add_class_sums
from placewright.formulations.gang.models.aggregate.terms import add_terms
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.models.aggregate.wide_hosts import add_wide_hosts
from placewright.formulations.gang.problem.disruption_budget import NOTHING
from placewright.formulations.gang.problem.problem import Problem
from placewright.solver import Model


def build_aggregate_model(
    problem: Problem, classes: HostClasses, capacity: Ints, whole: Ints, *, sums: bool = True
) -> AggregateModel:
    """Build the aggregate model of a problem.

    Parameters
    ----------
    capacity : int64 (shapes, hosts)
        How many tasks fit each cleared host.
    whole : int64 (hosts,)
        Free whole GPUs of each cleared host.
    sums
        Whether to append x and the rows that sum over the hosts of a class. Without them patterns
        of whole hosts (host_columns.py) take their place.

    Raises
    ------
    ValueError
        If `whole` is not what hosts have that are cleared of all running jobs that may move: a
        bound of the model would not hold for plans that stop some of them.
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
        problem,
        classes,
        model,
        y,
        y_option,
        y_most,
        y_cost,
        x,
        x_shape,
        x_class,
        opened,
        u,
        gangs,
        kinds,
        kind_of,
        np.full(len(problem.classes), -1, dtype=np.int64),
        np.full(len(problem.shape_gpu), -1, dtype=np.int64),
        np.full(len(classes), -1, dtype=np.int64),
        np.full((len(parts), len(classes)), -1, dtype=np.int64),
        np.full(len(problem.quota), -1, dtype=np.int64),
        parts,
        np.stack(y_use, axis=1),
        y_least,
        np.full(len(NOTHING), -1, dtype=np.int64),
    )
    _one_option(counts)
    _tasks(counts)
    _gang_totals(counts)
    if sums:
        add_class_sums(counts)
    _domains(counts, whole)
    _pools(counts)
    add_account_rows(counts, limits)
    _labels(counts)
    add_failure_domains(counts, capacity, whole)
    add_wide_hosts(counts, capacity, whole)
    add_disruption_budget(counts)
    add_terms(counts)
    return counts


def _columns(problem: Problem, most: Ints) -> Ints:
    """Return option, most jobs, stop cost, least jobs and use of the budget of each y.

    Of pending jobs at most as many may start with each option, `most`. Running jobs of a class are
    divided into steps.
    """
    options = problem.options
    pending = np.flatnonzero(problem.num_pending[options.job_class])
    none = np.zeros((2 + len(NOTHING), len(pending)), dtype=np.int64)
    columns = [np.concatenate([pending[None], most[None, pending], none])]
    for c, job_class in enumerate(problem.classes):
        if job_class.running:
            option = int(options.class_start[c])
            gpus = int(options.milli_gpu[option])
            columns += [
                np.array([[option, s.jobs, s.cost + gpus, s.jobs * s.protected, *s.use]]).T
                for s in steps_of(problem, c)
            ]
    table = np.concatenate(columns, axis=1)
    # In order of the classes, the steps of one in their order.
    return table[:, np.argsort(table[0], kind="stable")]


def _one_option(m: AggregateModel) -> None:
    """At most one option per job: no more jobs of a class than there are."""
    rows = m.model.rows("one option", len(m.problem.classes), upper=m.problem.num_competing)
    m.option_row[:] = rows
    m.model.add(rows[m.y_class], m.y, 1.0)


def _tasks(m: AggregateModel) -> None:
    """Tasks placed = tasks started, per shape."""
    upper = 0.0 if len(m.x) else np.inf  # a host pattern may hold more than is started
    rows = m.model.rows("tasks", len(m.problem.shape_gpu), lower=0.0, upper=upper)
    m.task_row[:] = rows
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
    """Gangs in and below each domain fit its hosts (Hall's condition, gangs.py)."""
    for capacity, domain, entries, tasks in domain_rows(m.problem, m.gang_kinds, m.gangs, whole):
        used = np.unique(domain)
        rows = m.model.rows("domain", len(used), upper=capacity[used])
        m.model.add(rows[np.searchsorted(used, domain)], m.u[entries], tasks)


def _pools(m: AggregateModel) -> None:
    """Gangs in and below each domain take no more than its pools have."""
    for limit, domain, entries, taken in pool_rows(m.problem, m.gang_kinds, m.gangs):
        used = np.unique(domain)
        rows = m.model.rows("pool", len(used), upper=limit[used])
        m.model.add(rows[np.searchsorted(used, domain)], m.u[entries], taken.astype(np.float64))


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
        row = m.model.rows("label", 1, upper=len(free))
        m.model.add(row[[0] * len(mine)], m.y[mine], 1.0)
