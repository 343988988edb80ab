"""Insertion: waiting jobs join placed job groups, where that gains value.

So a plan whose groups did not all find a place, or in which running groups stay, uses what is left.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.interleaving.placement.usage_in_place import (
    HostUsage,
    places_of,
    within_quotas,
)
from placewright.formulations.interleaving.problem.compile import Interleaving
from placewright.formulations.interleaving.problem.job_groups import group_value, job_groups_of
from placewright.formulations.interleaving.problem.merged_groups import merged_option
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    allowed,
    pad_members,
    periods,
)
from placewright.formulations.interleaving.set_packing.columns import group_values
from placewright.formulations.plan_messages import Candidate, Group, Place


def insert_waiting(free: Interleaving, candidate: Candidate) -> Candidate | None:
    """Return a plan in which waiting jobs are inserted in job groups; None if none can.

    Parameters
    ----------
    free
        The round of the candidate; jobs that stay are those that are pinned, and their mates.
    """
    jobs = free.round.jobs
    waiting = [
        c
        for c, j in enumerate(free.jobs)
        if free.packing.bucket[c] != ALONE and jobs[j].running is None and j not in candidate.starts
    ]
    if not waiting:
        return None
    insertion = _Insertion(free, candidate)
    weight = free.packing.weight
    waiting.sort(key=lambda c: (-jobs[free.jobs[c]].priority, -int(weight[c])))
    changed = [c for c in waiting if insertion.insert(c)]
    found = insertion.candidate()
    # Rows count the least that any option takes.
    return found if changed and within_quotas(free, found.starts, found.preempted) else None


@dataclass(slots=True)
class _PlacedGroup:
    """A placed job group: its classes in ascending order, its places and its value."""

    classes: Ints
    places: tuple[Place, ...]
    value: int


class _Insertion:
    """State of the insertion: placed groups by bucket, use of hosts, residual rows."""

    def __init__(self, free: Interleaving, candidate: Candidate) -> None:
        self._free, self._candidate = free, candidate
        self._class_of = {j: c for c, j in enumerate(free.jobs)}
        self._groups: defaultdict[int, list[_PlacedGroup]] = defaultdict(list)
        self._usage = HostUsage(free)
        self._residual = free.packing.limit.copy()
        colocated = {j: group for group in candidate.groups for j in group.members}
        stopped = {place[2] for j in candidate.preempted for place in places_of(free, j)}
        for j, job in enumerate(free.round.jobs):
            members = colocated[j].members if j in colocated else (j,)
            if j != members[0] or j in candidate.preempted:
                continue
            if job.running is None and j not in candidate.starts:
                continue
            start = candidate.starts.get(j)
            places = places_of(free, j) if start is None else start[1]
            option = job.running.option if job.running else candidate.starts[j][0]
            mates = [free.round.jobs[mate] for mate in members]
            merged = merged_option(mates, free.sharing) if len(mates) > 1 else job.options[option]
            self._usage.add(merged, places)
            if j in free.stays:
                continue
            classes = np.array(sorted(self._class_of[mate] for mate in members), dtype=np.int64)
            self._residual -= free.packing.usage(pad_members(classes[None]))[0]
            # Beside a stopped job only those of higher priority arrive.
            undisturbed = stopped.isdisjoint(place[2] for place in places)
            if option == 0 and undisturbed and members not in free.frozen_groups:
                now = group_value(free, colocated.get(j) or Group(members, (0,), 0))
                self._groups[int(free.packing.bucket[classes[0]])].append(
                    _PlacedGroup(classes, places, now)
                )

    def insert(self, c: int) -> bool:
        """Insert a waiting class into the group where it gains most, if any."""
        packing = self._free.packing
        if (packing.per_member[:, c] > self._residual).any():
            return False
        placed_groups = self._groups[int(packing.bucket[c])]
        gains: list[tuple[int, int]] = []
        for size in range(1, packing.max_members):
            some = [
                n
                for n, placed_group in enumerate(placed_groups)
                if len(placed_group.classes) == size
            ]
            if some:
                members = np.sort(
                    np.column_stack(
                        [[*(placed_groups[n].classes for n in some)], np.full(len(some), c)]
                    )
                )
                period = periods(packing, members)
                gain = group_values(packing, members, period) - [
                    placed_groups[n].value for n in some
                ]
                accepted = (
                    (gain > 0)
                    & allowed(packing, members, period)
                    & self._without_conflict(c, members)
                )
                gains += [(int(gain[k]), some[k]) for k in np.flatnonzero(accepted)]
        return any(self._try_insert(c, placed_groups[n]) for _, n in sorted(gains, reverse=True))

    def candidate(self) -> Candidate:
        """Return the plan of the present state."""
        starts = dict(self._candidate.starts)
        sets = []
        for placed_group in (
            placed_group
            for placed_groups in self._groups.values()
            for placed_group in placed_groups
        ):
            members = tuple(self._free.jobs[c] for c in placed_group.classes.tolist())
            for j in members:
                if self._free.round.jobs[j].running is None:
                    starts.setdefault(j, (0, placed_group.places))
            if len(members) > 1:
                sets.append(members)
        mine = {j for members in sets for j in members}
        others = tuple(g for g in self._candidate.groups if not mine.intersection(g.members))
        groups = (*others, *job_groups_of(self._free, sets))
        source = f"{self._candidate.source}, insertion"
        return replace(self._candidate, starts=starts, groups=groups, source=source)

    def _try_insert(self, c: int, placed_group: _PlacedGroup) -> bool:
        jobs = self._free.round.jobs
        before = [jobs[self._free.jobs[k]] for k in placed_group.classes.tolist()]
        merged = merged_option(before, self._free.sharing)
        self._usage.add(merged, placed_group.places, -1)
        new = jobs[self._free.jobs[c]]
        after = merged_option([*before, new], self._free.sharing)
        fits = self._usage.admits(new.options[0].required, after, placed_group.places)
        self._usage.add(after if fits else merged, placed_group.places)
        if fits:
            use = self._free.packing.usage
            self._residual += use(pad_members(placed_group.classes[None]))[0]
            placed_group.classes = np.sort(np.append(placed_group.classes, c))
            placed_group.value = self._value(placed_group.classes)
            self._residual -= use(pad_members(placed_group.classes[None]))[0]
        return fits

    def _value(self, classes: Ints) -> int:
        packing = self._free.packing
        return int(group_values(packing, classes[None], periods(packing, classes[None]))[0])

    def _without_conflict(self, c: int, members: Ints) -> Bools:
        """Return in which groups no member conflicts with a class, bool (groups,)."""
        conflicts = self._free.packing.conflicts
        conflicting_pairs = conflicts[(conflicts == c).any(axis=1)]
        in_conflict: Bools = np.asarray(
            np.isin(members, conflicting_pairs[conflicting_pairs != c]).any(axis=1)
        )
        return ~in_conflict
