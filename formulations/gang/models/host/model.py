"""The host-indexed model: exact, for small rounds and small parts of large ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, NamedTuple, Self

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, Choice, Group
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import STRANDED, TaskMix
from placewright.solver import Model

# What the host-indexed model counts: entries (jobs that may run) and task sets (their tasks).
#
# Pending jobs of a class with one option are one entry, and all tasks of a shape are one set, as
# long as the place of one task does not matter to others. Where it does (required or charged
# levels, the term `proximity`), and for running jobs, each job is an entry of its own and each of
# its groups a set.


@dataclass(frozen=True, slots=True)
class Entry:
    """Up to `most` jobs of a class with one of its choices; `job` is given for a running job."""

    job_class: int
    choice: int
    most: int
    job: int = ANY_JOB

    @property
    def may_stay(self) -> bool:
        """Whether it is a running job with the option that it runs."""
        return self.job != ANY_JOB and self.choice == 0

    @property
    def resizes(self) -> bool:
        """Whether it is a running job with another option."""
        return self.job != ANY_JOB and self.choice > 0


@dataclass(frozen=True, slots=True)
class TaskSet:
    """Tasks of one shape; `users` are (entry, group index, tasks per job).

    `group` is given if the set is one group of one job.
    """

    shape: int
    users: list[tuple[int, int, int]] = field(default_factory=list)
    group: Group | None = None


def entries_of(
    problem: Problem,
    numbers: Ints,
    running: Sequence[int] = (),
    *,
    separate: bool = False,
    resizing: bool = False,
) -> tuple[list[Entry], list[TaskSet]]:
    """Return entries and task sets of `numbers` pending jobs per class and of `running` jobs.

    With `separate`, every pending job is an entry of its own, and each of its groups a set. With
    `resizing`, running jobs have an entry for each of their options.
    """
    entries: list[Entry] = []
    by_shape: dict[int, TaskSet] = {}
    own: list[TaskSet] = []

    def add(entry: Entry, choice: Choice, *, alone: bool) -> None:
        for k, group in enumerate(choice.groups):
            user = (len(entries), k, group.count)
            if alone:
                own.append(TaskSet(group.shape, [user], group))
            else:
                by_shape.setdefault(group.shape, TaskSet(group.shape)).users.append(user)
        entries.append(entry)

    for c in np.flatnonzero(numbers).tolist():
        for o, choice in enumerate(problem.classes[c].choices):
            alone = separate or needs_own_entry(problem, choice)
            for _ in range(int(numbers[c]) if alone else 1):
                add(Entry(c, o, 1 if alone else int(numbers[c])), choice, alone=alone)
    for job in running:
        job_class = problem.running[job].job_class
        choices = problem.classes[job_class].choices
        for o, choice in enumerate(choices if resizing else choices[:1]):
            add(Entry(job_class, o, 1, job), choice, alone=True)
    return entries, [*by_shape.values(), *own]


def needs_own_entry(problem: Problem, choice: Choice) -> bool:
    """Whether the place of one task matters to where the job's others may or should go."""
    if choice.is_tied or (choice.pooled and choice.uses and choice.num_tasks > 1):
        return True
    for group in choice.groups:
        if group.depends_on_levels or group.timed:
            return True
    return "proximity" in problem.terms and sum(group.count for group in choice.groups) > 1


#     y[j]       jobs of entry j that run afterwards
#     x[t,h]     tasks of set t that arrive on host h       sum_h x[t,h] + sum_p s[p] = n y   (gang)
#     s[p]       a running task stays in its place p
#     k[j]       a running job is kept: all tasks stay      k[j] <= s[p]
#     capacity   sum_t demand[t,r] x[t,h] + sum_p demand[p,r] s[p] <= free[h,r]
#     GPUs       rows.py: w, b;   terms: terms.py, rows.py
#     quota      what a tenant's jobs hold <= its quota
#     pools      rows.py
#     victims    preemption.py
#
# Every placement of the round is a point of the model and every point a placement: it is exact, but
# for what the rows of victims leave out.


NONE = -1
Moves = Literal["placed", "none", "away"]


@dataclass(frozen=True, eq=False, slots=True)
class StayVariables:
    """The places of the running jobs of a model, in the order of their entries."""

    s: Ints  # a column per place
    # entry, set, host: entry, task set and host (position in the model) of each place
    entry: Ints
    set: Ints
    host: Ints
    gpus: list[tuple[int, ...]]  # GPUs of each place
    slot: list[int | None]  # start of each place's MIG slice
    usable: Ints  # how many of its GPUs are not reserved


@dataclass(frozen=True, eq=False, slots=True)
class HostModel:
    """The model of some jobs on some hosts, and where its variables are."""

    problem: Problem
    placement: Placement
    hosts: Ints  # the hosts of the model; below, a host is a position in this array
    model: Model
    entries: list[Entry]
    task_sets: list[TaskSet]
    capacity: Ints  # (sets, hosts), how many tasks of a set fit a host alone
    y: Ints  # a column per entry
    kept: Ints  # a column per entry, `NONE` for pending jobs
    # x, x_set, x_host: columns, task set and host of each x
    x: Ints
    x_set: Ints
    x_host: Ints
    stays: StayVariables  # the places of running jobs
    # away, away_set: columns of running tasks that move to any host, and their task sets
    away: Ints
    away_set: Ints

    @property
    def y_columns(self) -> tuple[Ints, Ints, Ints]:
        """The columns y, and the job class and choice of each."""
        entries = [(entry.job_class, entry.choice) for entry in self.entries]
        job_class, choice = np.array(entries, dtype=np.int64).reshape(-1, 2).T
        return self.y, job_class, choice

    @property
    def entries_of_running(self) -> list[list[int]]:
        """The entries of each running job, first that of the option that it runs."""
        of_job: defaultdict[int, list[int]] = defaultdict(list)
        for e, entry in enumerate(self.entries):
            if entry.job != ANY_JOB:
                of_job[entry.job].append(e)
        return list(of_job.values())

    @property
    def set_of(self) -> dict[tuple[int, int], int]:
        """Task set of each entry and group."""
        return {(e, k): t for t, one in enumerate(self.task_sets) for e, k, _ in one.users}

    @property
    def set_shape(self) -> Ints:
        """Shape of each task set."""
        return np.array([s.shape for s in self.task_sets], dtype=np.int64)

    @property
    def x_shape(self) -> Ints:
        """Shape of each x."""
        return self.set_shape[self.x_set]

    @property
    def stay_shape(self) -> Ints:
        """Shape of each place of a running job."""
        return self.set_shape[self.stays.set]

    def choice(self, entry: Entry) -> Choice:
        """Return the option that an entry starts."""
        return self.problem.classes[entry.job_class].choices[entry.choice]


def num_task_variables(problem: Problem, most: float = inf) -> int:
    """Return about how many task variables the model of the whole round has.

    Counting ends where there are more than `most`.
    """
    hosts: list[int] = problem.shape_hosts.sum(axis=1).tolist()
    levels, pairs = len(problem.cluster.levels), "proximity" in problem.terms
    kinds = len(TaskMix.of(problem).weight) if STRANDED in problem.terms else 0
    shared_shapes: set[int] = set()
    number = int(problem.open.sum()) * kinds
    for job_class in problem.classes:
        for choice in job_class.choices:
            own = job_class.running or needs_own_entry(problem, choice)
            for group in choice.groups:
                if own:
                    times = levels if pairs or group.counts_all_levels else 1
                    number += len(job_class.jobs) * hosts[group.shape] * times
                elif group.shape not in shared_shapes:
                    shared_shapes.add(group.shape)
                    number += hosts[group.shape]
        if number > most:
            break
    return number


def build_host_model(
    problem: Problem,
    placement: Placement,
    hosts: Ints,
    numbers: Ints,
    running: Sequence[int] = (),
    moves: Moves = "placed",
    *,
    separate: bool = False,
    resizing: bool = False,
) -> HostModel:
    """Build the variables and the rows that do not depend on the terms.

    The model has `numbers`, int64 (classes,), pending jobs of each class, and `running` jobs, which
    must be stopped in the placement and have all their places on the hosts, else `ValueError`.
    `moves` says where their tasks may arrive: where they fit ("placed"), nowhere ("none"), or
    anywhere without using capacity ("away", a relaxation). With `separate` pending jobs of a class
    get entries of their own, with `resizing` running jobs may have others of their options.
    """
    if any(placement.is_running(job) for job in running):
        raise ValueError("a running job was not stopped: what it holds would count twice")
    model = Model()
    entries, sets = entries_of(problem, numbers, running, separate=separate, resizing=resizing)
    capacity = np.zeros((len(sets), len(hosts)), dtype=np.int64)
    for t, task_set in enumerate(sets):
        tasks = sum(n * entries[e].most for e, _, n in task_set.users)
        if moves == "placed" or entries[task_set.users[0][0]].job == ANY_JOB:
            capacity[t] = np.minimum(placement.fits(task_set.shape)[hosts], tasks)
    x_set, x_host = np.nonzero(capacity)
    y = model.variables("y", len(entries), upper=[e.most for e in entries])
    x = model.variables("x", len(x_set), upper=capacity[x_set, x_host])
    moving = np.flatnonzero([e.may_stay for e in entries])
    kept = np.full(len(entries), NONE, dtype=np.int64)
    kept[moving] = model.variables("kept", len(moving), upper=1)
    stays = _stays(problem, model, hosts, entries, sets)
    of_running = [entries[s.users[0][0]].job != ANY_JOB and moves == "away" for s in sets]
    away_set = np.flatnonzero(np.array(of_running, dtype=np.bool_))
    count = np.array([s.users[0][2] for s in sets], dtype=np.int64)
    away = model.variables("away", len(away_set), upper=count[away_set])
    exact = HostModel(
        problem, placement, hosts, model, entries, sets, capacity, y, kept, x, x_set, x_host,
        stays, away, away_set,
    )  # fmt: skip
    limit = numbers.copy()
    np.add.at(limit, [problem.running[job].job_class for job in running], 1)
    _one_option(exact, limit)
    _gang(exact)
    _kept(exact)
    _capacity(exact)
    _quota(exact)
    return exact


def _stays(
    problem: Problem, model: Model, hosts: Ints, entries: list[Entry], sets: list[TaskSet]
) -> StayVariables:
    """Append s for the places of running jobs."""
    set_of = {(e, k): t for t, task_set in enumerate(sets) for e, k, _ in task_set.users}
    at = np.full(problem.cluster.num_hosts, NONE, dtype=np.int64)
    at[hosts] = np.arange(len(hosts))
    places = [
        (e, set_of[e, put.group], int(at[put.host]), put.gpus, put.slot)
        for e, entry in enumerate(entries)
        if entry.may_stay
        for put in problem.running[entry.job].tasks
    ]
    if any(host == NONE for _, _, host, _, _ in places):
        raise ValueError("a running job has a place on a host that the model lacks")
    start = problem.cluster.gpu_start
    usable = [
        int(problem.usable[int(start[hosts[h]]) + np.array(gpus, dtype=np.int64)].sum())
        for _, _, h, gpus, _ in places
    ]
    entry_of, set_, host = (np.array([p[i] for p in places], dtype=np.int64) for i in range(3))
    return StayVariables(
        model.variables("stays", len(places), upper=1),
        entry_of,
        set_,
        host,
        [p[3] for p in places],
        [p[4] for p in places],
        np.array(usable, dtype=np.int64),
    )


def _one_option(m: HostModel, numbers: Ints) -> None:
    """At most one option per job, and no more jobs of a class than there are."""
    rows = m.model.rows("one option", len(numbers), upper=numbers)
    m.model.add(rows[[e.job_class for e in m.entries]], m.y, 1.0)
    for mine in m.entries_of_running:
        if len(mine) > 1:
            m.model.row("one option", m.y[mine], upper=1.0)


def _gang(m: HostModel) -> None:
    """All tasks of a job, or none."""
    rows = m.model.rows("gang", len(m.task_sets), lower=0.0, upper=0.0)
    m.model.add(rows[m.x_set], m.x, 1.0)
    m.model.add(rows[m.stays.set], m.stays.s, 1.0)
    m.model.add(rows[m.away_set], m.away, 1.0)
    users = [(t, e, n) for t, task_set in enumerate(m.task_sets) for e, _, n in task_set.users]
    t, e, n = np.array(users, dtype=np.int64).reshape(-1, 3).T
    m.model.add(rows[t], m.y[e], -n)


def _kept(m: HostModel) -> None:
    """Keep all tasks of a kept job; on failed hosts no task of another job stays."""
    failed = ~m.problem.state.healthy[m.hosts[m.stays.host]]
    rows = m.model.rows("kept", len(failed), lower=np.where(failed, 0.0, -np.inf), upper=0.0)
    m.model.add(rows, m.kept[m.stays.entry], 1.0)
    m.model.add(rows, m.stays.s, -1.0)


def _capacity(m: HostModel) -> None:
    for r in range(m.problem.shape_demand.shape[1]):
        rows = m.model.rows("capacity", len(m.hosts), upper=m.placement.free[m.hosts, r])
        m.model.add(rows[m.x_host], m.x, m.problem.shape_demand[m.x_shape, r])
        m.model.add(rows[m.stays.host], m.stays.s, m.problem.shape_demand[m.stay_shape, r])


def _quota(m: HostModel) -> None:
    entries_of: defaultdict[int, list[int]] = defaultdict(list)
    for i, entry in enumerate(m.entries):
        for account in m.problem.classes[entry.job_class].accounts:
            entries_of[account].append(i)
    left = m.placement.quota_left()
    rows = m.model.rows("quota", len(left), upper=list(left.values()), keys=list(left))
    for row, (account, amount) in zip(rows, left, strict=True):
        mine = entries_of[account]
        demand = [m.problem.demand_of(m.choice(m.entries[i]), amount) for i in mine]
        m.model.add(row, m.y[mine], np.array(demand, dtype=np.float64))


def milli_each(m: HostModel) -> Ints:
    """Return the milli-GPU of the task in each place of a running job, int64 (places,)."""
    return m.problem.shape_gpu[m.stay_shape]


# Tasks of a job per domain: arrivals and tasks that stay, less those of a kept job.


class DomainRows(NamedTuple):
    """A row per domain that counts tasks of an entry there, less those of a kept job."""

    rows: Ints
    parts: Ints  # the domains, ascending
    most: Ints  # how many tasks could be there


class Tasks(NamedTuple):
    """What arrives and then what stays of some task sets: columns, hosts in the model, how many."""

    columns: Ints
    hosts: Ints
    most: Ints
    arrivals: int  # how many of the columns are x

    @classmethod
    def of(cls, m: HostModel, sets: Sequence[int]) -> Self:
        """Return the tasks of some sets."""
        x, stays = (
            np.flatnonzero(np.isin(m.x_set, sets)),
            np.flatnonzero(np.isin(m.stays.set, sets)),
        )
        capacity, one = m.capacity[m.x_set[x], m.x_host[x]], np.ones(len(stays), dtype=np.int64)
        columns = np.append(m.x[x], m.stays.s[stays])
        hosts = np.append(m.x_host[x], m.stays.host[stays])
        return cls(columns, hosts, np.append(capacity, one), len(x))


def add_domain_rows(
    m: HostModel,
    entry: int,
    sets: Sequence[int],
    domain: np.ndarray,
    *,
    lower: float = -np.inf,
    upper: float = 0.0,
) -> DomainRows:
    """Append a row for each domain that tasks of some sets of an entry may be in.

    `domain` has the domain of each host of the cluster; `lower` and `upper` bound every row.
    """
    tasks = Tasks.of(m, sets)
    parts, part_of = np.unique(domain[m.hosts[tasks.hosts]], return_inverse=True)
    rows = m.model.rows("domain", len(parts), lower=lower, upper=upper)
    m.model.add(rows[part_of], tasks.columns, 1.0)
    if m.kept[entry] != NONE:
        before = np.bincount(part_of[tasks.arrivals :], minlength=len(parts))
        m.model.add(rows, m.kept[entry], -before)
    most = np.bincount(part_of, weights=tasks.most, minlength=len(parts)).astype(np.int64)
    return DomainRows(rows, parts.astype(np.int64), most)


def add_domain_uses(
    m: HostModel, name: str, entry: int, sets: Sequence[int], domain: np.ndarray
) -> tuple[DomainRows, Ints]:
    """Append a variable per domain, 1 where tasks of some sets of an entry are in it."""
    tasks = sum(n for t in sets for _, _, n in m.task_sets[t].users)
    found = add_domain_rows(m, entry, sets, domain)
    use = m.model.variables(name, len(found.parts), upper=1)
    m.model.add(found.rows, use, -np.minimum(found.most, tasks))
    return found, use


def add_arrival(m: HostModel, row: Ints, entry: int, factor: float) -> None:
    """Add y - k of an entry, 1 if it starts or migrates, to a row."""
    m.model.add(row, m.y[entry], factor)
    if m.kept[entry] != NONE:
        m.model.add(row, m.kept[entry], -factor)


def charge_arrival(m: HostModel, term: str, entry: int, cost: float) -> None:
    """Add the same to a term that is minimised."""
    kept = m.kept[entry]
    m.model.term(term, m.y[entry], cost, sense="min")
    m.model.term(term, [] if kept == NONE else kept, -cost, sense="min")
