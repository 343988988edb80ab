"""Running jobs that are alike trade teams, so that those who run together stay together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from placewright.formulations.interleaving.problem.compile import Interleaving
from placewright.formulations.interleaving.set_packing.job_classes import merged
from placewright.formulations.interleaving.set_packing.problem import Pool


def sticking(
    problem: Interleaving, pool: Pool, sets: Sequence[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """Return teams of the same worth in which more running jobs are with whom they run with.

    Parameters
    ----------
    pool
        The pool of which the sets were made, in which running jobs are no other's equal.
    sets
        Teams, by the indices of their jobs in the round.

    Notes
    -----
    Greedy: the pair of a team and a place that have most in common is settled first.
    """
    kind_of = _kinds(problem, pool)
    if len(set(kind_of.values())) == len(kind_of):
        return list(sets)
    chosen = {j for team in sets for j in team if j in kind_of}
    places = list(dict.fromkeys(problem.together[j] for j in chosen))
    seats = [Counter(kind_of[j] for j in team if j in kind_of) for team in sets]
    new = [[j for j in team if j not in kind_of] for team in sets]
    settled: set[int] = set()
    used: set[int] = set()
    for team, place in _by_common(seats, [[kind_of[j] for j in p if j in chosen] for p in places]):
        if team in settled or place in used:
            continue
        settled.add(team)
        used.add(place)
        for j in places[place]:
            if j in chosen and seats[team][kind_of[j]]:
                seats[team][kind_of[j]] -= 1
                new[team].append(j)
                chosen.remove(j)
    rest: defaultdict[int, list[int]] = defaultdict(list)
    for j in sorted(chosen, reverse=True):
        rest[kind_of[j]].append(j)
    for mine, left in zip(new, seats, strict=True):
        mine += [rest[kind].pop() for kind in left.elements()]
    return [tuple(mine) for mine in new]


def _kinds(problem: Interleaving, pool: Pool) -> dict[int, int]:
    """Return a number per running job of the pool that only its equals have."""
    of = merged(pool).of.tolist()
    return {j: of[c] for c, j in enumerate(problem.jobs) if j in problem.together}


def _by_common(
    seats: Sequence[Counter[int]], there: Sequence[Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of a team and a place, those with most jobs in common first."""
    common: Counter[tuple[int, int]] = Counter()
    with_kind: defaultdict[int, list[int]] = defaultdict(list)
    for team, wanted in enumerate(seats):
        for kind in wanted:
            with_kind[kind].append(team)
    for place, kinds in enumerate(there):
        for kind, number in Counter(kinds).items():
            for team in with_kind[kind]:
                common[team, place] += min(number, seats[team][kind])
    yield from sorted(common, key=lambda pair: (-common[pair], pair))
