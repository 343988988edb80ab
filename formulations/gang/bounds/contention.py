"""A bound on `contention` where all jobs start, by the cutting stock of `models/link_patterns.py`.

If each job has one option, of some value, and the best plan starts them all, so does every plan
that is no worse in `value`. In each, tasks of one size fill the domains of a level somehow: gangs
are cut, and domains filled, in ways that are columns of the integer program. What it leaves out
only costs more: tasks of other sizes, links of other levels, rules on places, CPU and memory.
Jobs that run and may move would be free not to count, so there is no bound beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.link_patterns import DomainKind, GangKind, LinkPatterns
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import Group
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import CLASS_VALUES, CONTENTION, VALUE
from placewright.formulations.gang.problem.uplinks import pinned_loads
from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session
from placewright.topology.units import WHOLE_GPU
from placewright.topology.uplinks import uplinks_of


def contention_bounds(problem: Problem, session: Session) -> Iterator[Bound]:
    """Yield a bound for each level of links and each size of tasks, if the best plan starts all."""
    best = session.best
    earlier = problem.terms[: problem.terms.index(CONTENTION)]
    if best is None or not _all_start(problem, {term: best[term] for term in earlier}):
        return
    holds = tuple((term, best[term]) for term in earlier)
    most_spread = best["spread"] if "spread" in earlier else None
    links = uplinks_of(problem.cluster)
    for one, load in zip(links, pinned_loads(problem, links), strict=True):
        spare = one.spare_beside(load).tolist()
        for gpu, groups in _groups_by_size(problem).items():
            if session.expired():
                return
            if not any(group.rate_mbps for group in groups):
                continue
            room = np.bincount(one.domain, _places(problem, gpu), minlength=len(spare)).astype(int)
            program = LinkPatterns(
                Counter(_kind(group, one.level) for group in groups.elements()),
                Counter(map(DomainKind, room.tolist(), spare)),
                most_spread,
            )
            outcome = program.solve(session) if program.enumerate_columns() else None
            if outcome is not None and outcome.bound is not None and outcome.bound > 0:
                bound = problem.round_bound(CONTENTION, outcome.bound)
                yield Bound(CONTENTION, bound, holds, certified=False)


def _all_start(problem: Problem, values: Mapping[str, int]) -> bool:
    """Whether plans of such values start every job, each in the same way."""
    if any(c.running or len(c.choices) != 1 for c in problem.classes):
        return False
    counted = [term for term in values if term in (VALUE, *CLASS_VALUES)]
    # A class has one choice, so the amounts are by class.
    worth = np.array([problem.options.amounts(term) for term in counted])
    number = np.array([len(c.jobs) for c in problem.classes])
    return (
        bool((worth > 0).any(axis=0).all())
        and [values[t] for t in counted] == (worth @ number).tolist()
    )


def _groups_by_size(problem: Problem) -> dict[int, Counter[Group]]:
    """Return the groups of all jobs whose tasks take whole GPUs, by the milli-GPU of a task."""
    found: dict[int, Counter[Group]] = {}
    parts = problem.part_demands
    for job_class in problem.classes:
        for group in job_class.choices[0].groups:
            gpu = int(problem.shape_gpu[group.shape])
            if gpu >= WHOLE_GPU and (parts is None or not parts.is_slice[group.shape]):
                found.setdefault(gpu, Counter())[group] += len(job_class.jobs)
    return found


def _places(problem: Problem, gpu: int) -> Ints:
    """Return how many tasks of a size each host has room for when it is empty."""
    shapes = np.flatnonzero(problem.shape_gpu == gpu)
    places: Ints = Placement(problem).whole // (gpu // WHOLE_GPU)
    return places * problem.shape_hosts[shapes].any(axis=0)


def _kind(group: Group, level: int) -> GangKind:
    step = group.milli_gpu * dict(group.weights).get(level, 0)
    return GangKind(group.count, outside=False, rate=group.rate_mbps, step=step)
