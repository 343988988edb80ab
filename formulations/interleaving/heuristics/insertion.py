"""Waiting jobs join teams where these are, as long as that is worth it.

So a plan whose groups did not all find a place, or in which running groups stay, uses what is left.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from placewright.formulations.interleaving.heuristics.usage_in_place import (
    Held,
    places_of,
    within_quotas,
)
from placewright.formulations.interleaving.problem.compile import Interleaving
from placewright.formulations.interleaving.problem.merged_groups import merged
from placewright.formulations.interleaving.problem.teams import teams_of, worth
from placewright.formulations.interleaving.set_packing.columns import (
    allowed,
    padded,
    periods,
    worth_of,
)
from placewright.formulations.interleaving.set_packing.problem import ALONE, Bools, Ints
from placewright.formulations.session import Candidate, Group, Place


def joined(free: Interleaving, candidate: Candidate) -> Candidate | None:
    """Return a plan in which waiting jobs have joined teams of it, None if none can.

    Parameters
    ----------
    free
        The round of the candidate; jobs that stay are those that are pinned, and their mates.
    """
    jobs = free.round.jobs
    waiting = [
        c
        for c, j in enumerate(free.jobs)
        if free.pool.bucket[c] != ALONE and jobs[j].running is None and j not in candidate.starts
    ]
    if not waiting:
        return None
    yard = _Yard(free, candidate)
    weight = free.pool.weight
    waiting.sort(key=lambda c: (-jobs[free.jobs[c]].priority, -int(weight[c])))
    changed = [c for c in waiting if yard.place(c)]
    found = yard.candidate()
    # Rows count the least that any option takes.
    return found if changed and within_quotas(free, found.starts, found.preempted) else None


@dataclass(slots=True)
class _Team:
    """Classes of the pool in ascending order, where they are, and what they are worth."""

    classes: Ints
    places: tuple[Place, ...]
    worth: int


class _Yard:
    """Teams that others may join, by bucket; what is held of hosts, and left of rows."""

    def __init__(self, free: Interleaving, candidate: Candidate) -> None:
        self._free, self._candidate = free, candidate
        self._class_of = {j: c for c, j in enumerate(free.jobs)}
        self._teams: defaultdict[int, list[_Team]] = defaultdict(list)
        self._held = Held(free)
        self._left = free.pool.limit.copy()
        together = {j: group for group in candidate.groups for j in group.members}
        stopped = {place[2] for j in candidate.preempted for place in places_of(free, j)}
        for j, job in enumerate(free.round.jobs):
            members = together[j].members if j in together else (j,)
            if j != members[0] or j in candidate.preempted:
                continue
            if job.running is None and j not in candidate.starts:
                continue
            start = candidate.starts.get(j)
            places = places_of(free, j) if start is None else start[1]
            option = job.running.option if job.running else candidate.starts[j][0]
            mates = [free.round.jobs[mate] for mate in members]
            groups = merged(mates, free.sharing) if len(mates) > 1 else job.options[option].groups
            self._held.add(groups, places)
            if j in free.stays:
                continue
            classes = np.array(sorted(self._class_of[mate] for mate in members), dtype=np.int64)
            self._left -= free.pool.use(padded(classes[None]))[0]
            # Beside a stopped job only those of higher priority arrive.
            quiet = stopped.isdisjoint(place[2] for place in places)
            if option == 0 and quiet and members not in free.standing:
                now = worth(free, together.get(j) or Group(members, (0,), 0))
                self._teams[int(free.pool.bucket[classes[0]])].append(_Team(classes, places, now))

    def place(self, c: int) -> bool:
        """Let a waiting class join the team where that is worth most, if any."""
        pool = self._free.pool
        if (pool.per_member[:, c] > self._left).any():
            return False
        teams = self._teams[int(pool.bucket[c])]
        gains: list[tuple[int, int]] = []
        for size in range(1, pool.most):
            some = [n for n, team in enumerate(teams) if len(team.classes) == size]
            if some:
                members = np.sort(
                    np.column_stack([[*(teams[n].classes for n in some)], np.full(len(some), c)])
                )
                period = periods(pool, members)
                gain = worth_of(pool, members, period) - [teams[n].worth for n in some]
                fine = (gain > 0) & allowed(pool, members, period) & self._at_peace(c, members)
                gains += [(int(gain[k]), some[k]) for k in np.flatnonzero(fine)]
        return any(self._join(c, teams[n]) for _, n in sorted(gains, reverse=True))

    def candidate(self) -> Candidate:
        """Return the plan as it is now."""
        starts = dict(self._candidate.starts)
        sets = []
        for team in (team for teams in self._teams.values() for team in teams):
            members = tuple(self._free.jobs[c] for c in team.classes.tolist())
            for j in members:
                if self._free.round.jobs[j].running is None:
                    starts.setdefault(j, (0, team.places))
            if len(members) > 1:
                sets.append(members)
        mine = {j for members in sets for j in members}
        others = tuple(g for g in self._candidate.groups if not mine.intersection(g.members))
        groups = (*others, *teams_of(self._free, sets))
        source = f"{self._candidate.source}, joined"
        return replace(self._candidate, starts=starts, groups=groups, source=source)

    def _join(self, c: int, team: _Team) -> bool:
        jobs = self._free.round.jobs
        before = [jobs[self._free.jobs[k]] for k in team.classes.tolist()]
        groups = merged(before, self._free.sharing)
        self._held.add(groups, team.places, -1)
        new = jobs[self._free.jobs[c]]
        after = merged([*before, new], self._free.sharing)
        fits = self._held.admits(new.options[0].required, after, team.places)
        self._held.add(after if fits else groups, team.places)
        if fits:
            use = self._free.pool.use
            self._left += use(padded(team.classes[None]))[0]
            team.classes = np.sort(np.append(team.classes, c))
            team.worth = self._worth(team.classes)
            self._left -= use(padded(team.classes[None]))[0]
        return fits

    def _worth(self, classes: Ints) -> int:
        pool = self._free.pool
        return int(worth_of(pool, classes[None], periods(pool, classes[None]))[0])

    def _at_peace(self, c: int, members: Ints) -> Bools:
        """Tell in which groups nobody conflicts with a class, bool (groups,)."""
        conflicts = self._free.pool.conflicts
        enemies = conflicts[(conflicts == c).any(axis=1)]
        fighting: Bools = np.asarray(np.isin(members, enemies[enemies != c]).any(axis=1))
        return ~fighting
