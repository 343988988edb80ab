"""Group matching: running jobs of one class are exchanged between groups, so that fewer must move.

Greedy matching of job groups with places, by the number of running jobs in common.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from placewright.formulations.interleaving.problem.compile import Interleaving
from placewright.formulations.interleaving.problem.packing_problem import PackingProblem
from placewright.formulations.interleaving.set_packing.job_classes import merge_classes


def match_running_groups(
    problem: Interleaving, packing: PackingProblem, sets: Sequence[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """Return job groups of equal value in which more running jobs keep their partners.

    Parameters
    ----------
    packing
        The packing problem of which the sets were made, in which running jobs are no other's equal.
    sets
        Job groups, by the indices of their jobs in the round.

    Notes
    -----
    Greedy: the pair of a job group and a place that have most in common is settled first.
    """
    class_of = _class_of_running(problem, packing)
    if len(set(class_of.values())) == len(class_of):
        return list(sets)
    chosen = {j for job_group in sets for j in job_group if j in class_of}
    places = list(dict.fromkeys(problem.colocated[j] for j in chosen))
    demand = [Counter(class_of[j] for j in job_group if j in class_of) for job_group in sets]
    new = [[j for j in job_group if j not in class_of] for job_group in sets]
    matched: set[int] = set()
    used: set[int] = set()
    for job_group, place in _pairs_by_overlap(
        demand, [[class_of[j] for j in p if j in chosen] for p in places]
    ):
        if job_group in matched or place in used:
            continue
        matched.add(job_group)
        used.add(place)
        for j in places[place]:
            if j in chosen and demand[job_group][class_of[j]]:
                demand[job_group][class_of[j]] -= 1
                new[job_group].append(j)
                chosen.remove(j)
    rest: defaultdict[int, list[int]] = defaultdict(list)
    for j in sorted(chosen, reverse=True):
        rest[class_of[j]].append(j)
    for mine, left in zip(new, demand, strict=True):
        mine += [rest[job_class].pop() for job_class in left.elements()]
    return [tuple(mine) for mine in new]


def _class_of_running(problem: Interleaving, packing: PackingProblem) -> dict[int, int]:
    """Return the class of each running job: jobs of one class are interchangeable."""
    of = merge_classes(packing).of.tolist()
    return {j: of[c] for c, j in enumerate(problem.jobs) if j in problem.colocated}


def _pairs_by_overlap(
    demand: Sequence[Counter[int]], in_place: Sequence[Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of a job group and a place, those with most jobs in common first."""
    common: Counter[tuple[int, int]] = Counter()
    with_class: defaultdict[int, list[int]] = defaultdict(list)
    for job_group, classes_of_group in enumerate(demand):
        for job_class in classes_of_group:
            with_class[job_class].append(job_group)
    for place, classes in enumerate(in_place):
        for job_class, number in Counter(classes).items():
            for job_group in with_class[job_class]:
                common[job_group, place] += min(number, demand[job_group][job_class])
    yield from sorted(common, key=lambda pair: (-common[pair], pair))
