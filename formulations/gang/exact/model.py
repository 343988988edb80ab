r"""The variables and constraint blocks of the host-indexed model.

    y[j]       jobs of entry j that start
    x[t,h]     tasks of set t on host h                   sum_h x[t,h] = n y          (gang)
    capacity   sum_t demand[t,r] x[t,h] <= free[h,r]
    GPUs       gpus.py: w, b;   terms: terms.py: z, opened, used, together
    quota      what a tenant's jobs take <= what is left of its quota

Every placement of the round is a point of the model and every point a placement: it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.formulations.gang.exact.entries import Entry, Ints, TaskSet, entries_of
from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.problem import Choice, Problem
from placewright.solver import Model


@dataclass(frozen=True, eq=False, slots=True)
class Exact:
    """The model of some jobs on some hosts, and where its variables are.

    Attributes
    ----------
    hosts : the hosts of the model; below, a host is a position in this array
    room : (sets, hosts), how many tasks of a set fit a host alone
    y : a column per entry
    x, x_set, x_host : columns, task set and host of each x
    """

    problem: Problem
    placement: Placement
    hosts: Ints
    model: Model
    entries: list[Entry]
    sets: list[TaskSet]
    room: Ints
    y: Ints
    x: Ints
    x_set: Ints
    x_host: Ints

    @property
    def x_shape(self) -> Ints:
        """Shape of each x."""
        return np.array([s.shape for s in self.sets], dtype=np.int64)[self.x_set]

    def choice(self, entry: Entry) -> Choice:
        """Return the option that an entry starts."""
        return self.problem.classes[entry.job_class].choices[entry.choice]


def size_of(problem: Problem) -> int:
    """Return about how many variables the model of the whole round has."""
    hosts = problem.shape_hosts.sum(axis=1)
    levels = len(problem.cluster.levels) if "proximity" in problem.terms else 1
    _, sets = entries_of(problem, problem.counts)
    return int(sum(hosts[s.shape] * (levels if s.group else 1) for s in sets))


def build(problem: Problem, placement: Placement, hosts: Ints, numbers: Ints) -> Exact:
    """Model `numbers` jobs per class on what `placement` leaves free on `hosts`."""
    model = Model()
    entries, sets = entries_of(problem, numbers)
    room = np.zeros((len(sets), len(hosts)), dtype=np.int64)
    for t, task_set in enumerate(sets):
        tasks = sum(n * entries[e].most for e, _, n in task_set.users)
        room[t] = np.minimum(placement.fits(task_set.shape)[hosts], tasks)
    x_set, x_host = np.nonzero(room)
    y = model.variables("y", len(entries), upper=[e.most for e in entries])
    x = model.variables("x", len(x_set), upper=room[x_set, x_host])
    exact = Exact(problem, placement, hosts, model, entries, sets, room, y, x, x_set, x_host)
    _one_option(exact, numbers)
    _gang(exact)
    _capacity(exact)
    _quota(exact)
    return exact


def _one_option(m: Exact, numbers: Ints) -> None:
    """At most one option per job, and no more jobs of a class than there are."""
    rows = m.model.rows("one option", len(numbers), upper=numbers)
    m.model.add(rows[[e.job_class for e in m.entries]], m.y, 1.0)


def _gang(m: Exact) -> None:
    """All tasks of a started job, or none."""
    rows = m.model.rows("gang", len(m.sets), lower=0.0, upper=0.0)
    m.model.add(rows[m.x_set], m.x, 1.0)
    users = [(t, e, n) for t, task_set in enumerate(m.sets) for e, _, n in task_set.users]
    t, e, n = np.array(users, dtype=np.int64).reshape(-1, 3).T
    m.model.add(rows[t], m.y[e], -n)


def _capacity(m: Exact) -> None:
    for r in range(m.problem.shape_demand.shape[1]):
        rows = m.model.rows("capacity", len(m.hosts), upper=m.placement.free[m.hosts, r])
        m.model.add(rows[m.x_host], m.x, m.problem.shape_demand[m.x_shape, r])


def _quota(m: Exact) -> None:
    for (tenant, resource), left in m.placement.quota_left().items():
        mine = [
            i for i, e in enumerate(m.entries) if m.problem.classes[e.job_class].tenant == tenant
        ]
        demand = [m.problem.demand_of(m.choice(m.entries[i]), resource) for i in mine]
        row = m.model.rows("quota", 1, upper=left, keys=[(tenant, resource)])
        m.model.add(row, m.y[mine], np.array(demand, dtype=np.float64))
