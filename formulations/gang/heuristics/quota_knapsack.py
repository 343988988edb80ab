"""Multidimensional knapsack: which changes of a displacement to keep within all quotas and caps.

The jobs that start and those that stop on connected hosts are one change; hosts that share a job
are connected. Changes depend on each other through quotas alone:

    max  sum_i gain[i] k[i]      sum_i use[i,q] k[i]  <=  residual quota q,      k[i] in {0, 1}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import networkx as nx
import numpy as np

from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.session import Session
from placewright.solver import Model


def keep_within_quotas(session: Session, placement: Placement) -> None:
    """Undo the changes that exceed quotas, in a placement in which no running job has moved."""
    problem = placement.problem
    left = Placement(problem).quota_left()
    came, stopped = _changes(placement)
    if not left or not came:
        return
    gain = np.zeros(len(came))
    use = np.zeros((len(came), len(left)))
    for jobs, sign in ((came, 1), (stopped, -1)):
        for i, members in jobs.items():
            for _, c, o in members:
                job_class = problem.classes[c]
                choice = job_class.choices[o]
                gain[i] += sign * choice.value
                for q, (owner, resource) in enumerate(left):
                    if owner in job_class.accounts:
                        use[i, q] += sign * problem.demand_of(choice, resource)
    model = Model()
    kept = model.variables("kept", len(came), upper=1)
    rows = model.rows("quota", len(left), upper=np.array(list(left.values())))
    at, of = np.nonzero(use)
    model.add(rows[of], kept[at], use[at, of])
    model.term("gain", kept, gain, sense="max")
    tuning = parameters.PARAMETERS.insertion
    outcome = session.optimise(
        model.arrays("gain"), most=tuning.max_quota_seconds, gap=tuning.quota_gap_rel
    )
    if outcome is None or outcome.values is None:
        return
    for i in np.flatnonzero(np.rint(outcome.values) == 0).tolist():
        for number, _, _ in came[i]:
            placement.stop(number)
        for job, _, _ in stopped[i]:
            placement.restart(problem.running_placement_of[job])


_Jobs = dict[int, list[tuple[int, int, int]]]
"""By change: (start or running job, class, choice)."""


def _changes(placement: Placement) -> tuple[_Jobs, _Jobs]:
    """Return who came and who stopped, by change; the changes are numbered."""
    problem = placement.problem
    came = [
        (number, start.job_class, start.choice, [put.host for put in start.tasks])
        for number, start in placement.changed()
    ]
    stopped = [
        (job, running.job_class, 0, [place[2] for place in running.places])
        for stopped in placement.stopped
        for job, running in ((job, problem.running[job]) for job in stopped)
    ]
    graph: nx.Graph[int] = nx.Graph()
    for _, _, _, hosts in (*came, *stopped):
        nx.add_path(graph, hosts)
    component = {
        host: i for i, hosts in enumerate(nx.connected_components(graph)) for host in hosts
    }

    def grouped(jobs: Iterable[tuple[int, int, int, list[int]]]) -> _Jobs:
        found: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for job, c, o, hosts in jobs:
            found[component[hosts[0]]].append((job, c, o))
        return found

    first, second = grouped(came), grouped(stopped)
    return {i: first[i] for i in range(nx.number_connected_components(graph))}, second
