"""Flows for copies that are to be made, and times at which replicas go: one schedule of many.

Which copies are made when, over which links, counts in no term: a plan is valued by the replicas
that there are in the end. So one schedule stands for all that lead to the same replicas. It is
sought copy by copy: each goes alone, over one path after the other as far as budgets carry it, as
fast as links allow; before it replicas go where it lacks room, and it may wait for a copy under
way. If no order leads to the end, all copies are tried at once, at even rates over all the window.

Not every schedule is found: copies that have to overlap in part, or that split otherwise, are
missed. Then plans are missing that would be valid, and the fuzz is the weaker for it, not wrong; a
plan of the solver with such a schedule is judged by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise, permutations
from typing import NamedTuple, TypeAlias

from fuzz.data.world import GIBIT, MEGABIT, Link, Replica, Road, World
from fuzz.policy import Raw

Budgets: TypeAlias = dict[Road, int]
Part: TypeAlias = tuple[tuple[str, ...], int]
"""A path, and the GiB that take it."""

MOST = 300
"""Steps of the search."""


class Carried(NamedTuple):
    """Plan sections: new replicas, deletions and flows."""

    creates: list[Raw]
    drops: list[Raw]
    flows: list[Raw]


class _State(NamedTuple):
    """What has been done so far, and until when."""

    at: int
    creates: dict[Replica, int]
    drops: dict[Replica, int]
    flows: tuple[Raw, ...]
    budgets: Budgets


def carry(world: World, creates: set[Replica], drops: set[Replica]) -> Carried | None:
    """Return flows and times for copies and deletions, None if none are found."""
    search = _Search(world, creates, drops)
    budgets = {road: link.budget for road, link in world.links.items()}
    start = _State(world.now, {}, {}, (), budgets)
    found = search.after(start) or search.at_once(budgets)
    if found is None:
        return None
    return Carried(
        [{"dataset": d, "region": r, "ready": at} for (d, r), at in found.creates.items()],
        [{"dataset": d, "region": r, "at": at} for (d, r), at in found.drops.items()],
        sorted(found.flows, key=lambda flow: int(flow["start"])),
    )


class _Search:
    def __init__(self, world: World, creates: set[Replica], drops: set[Replica]) -> None:
        self.world, self.steps = world, 0
        # In one order, whatever the hashes of names.
        self.creates, self.drops = sorted(creates), sorted(drops)
        self.limits = world.limits()

    def after(self, state: _State) -> _State | None:
        """Return what all is done in, from a state on."""
        self.steps += 1
        if self.steps > MOST:
            return None
        left = [copy for copy in self.creates if copy not in state.creates]
        if not left:
            return self._dropped_in_the_end(state)
        for copy in left:
            for dropped in self._with_room(state, copy):
                for following in self._copied(dropped, copy):
                    if (found := self.after(following)) is not None:
                        return found
        later = min((at for at in self.world.coming.values() if at > state.at), default=None)
        if later is not None and later < self.world.end:
            return self.after(state._replace(at=later))
        return None

    def at_once(self, budgets: Budgets) -> _State | None:
        """Return all copies side by side, from what is there now, for the whole window."""
        world = self.world
        state = _State(world.now, {}, {}, (), budgets)
        lacking = self._used(state, self.creates)
        for replica in self.drops:
            if lacking.get(replica[1], 0) > self.limits.get(replica[1], lacking.get(replica[1], 0)):
                if not self._may_go(state, replica):
                    return None
                state = state._replace(drops=state.drops | {replica: world.now})
                lacking = self._used(state, self.creates)
        if any(lacking.get(region, 0) > limit for region, limit in self.limits.items()):
            return None
        for dataset, region in self.creates:
            parts = next(self._parts(state, (dataset, region)), None)
            if parts is None:
                return None
            state = self._flown(state, (dataset, region), parts, world.end - world.now)
        return self._dropped_in_the_end(state._replace(at=world.end))

    def _complete(self, state: _State) -> frozenset[Replica]:
        """Return the replicas that can be read."""
        ready = {replica for replica, at in self.world.coming.items() if at <= state.at}
        made = {replica for replica, at in state.creates.items() if at <= state.at}
        return (self.world.held | ready | made) - state.drops.keys()

    def _used(self, state: _State, more: list[Replica]) -> dict[str, int]:
        there = self.world.held | self.world.coming.keys() | state.creates.keys()
        return self.world.used((there - state.drops.keys()) | set(more))

    def _may_go(self, state: _State, replica: Replica) -> bool:
        complete = self._complete(state)
        return replica in complete and any(
            other != replica and other[0] == replica[0] for other in complete
        )

    def _with_room(self, state: _State, copy: Replica) -> Iterator[_State]:
        """Yield the state once there is room for a copy, by as few deletions as will do."""
        region = copy[1]
        mine = [r for r in self.drops if r[1] == region and r not in state.drops]
        for number in range(len(mine) + 1):
            fits = False
            for chosen in combinations(mine, number):
                dropped = state
                for replica in chosen:
                    if not self._may_go(dropped, replica):
                        break
                    dropped = dropped._replace(drops=dropped.drops | {replica: state.at})
                else:
                    used = self._used(dropped, [copy])
                    if used[region] <= self.limits.get(region, used[region]):
                        fits = True
                        yield dropped
            if fits:
                return

    def _copied(self, state: _State, copy: Replica) -> Iterator[_State]:
        for parts in self._parts(state, copy):
            seconds = 1
            for road, link in self.world.links.items():
                gib = sum(part for path, part in parts if road in pairwise(path))
                seconds = max(seconds, _seconds(gib, link))
            if state.at + seconds <= self.world.end:
                following = self._flown(state, copy, parts, seconds)
                yield following._replace(at=state.at + seconds)

    def _flown(self, state: _State, copy: Replica, parts: tuple[Part, ...], seconds: int) -> _State:
        """Return a state with the flows of a copy, at even rates."""
        budgets, end = dict(state.budgets), state.at + seconds
        for path, gib in parts:
            for road in pairwise(path):
                budgets[road] -= gib
        flows = tuple(
            {"dataset": copy[0], "path": list(path), "gib": gib, "start": state.at, "end": end}
            for path, gib in parts
        )
        return state._replace(
            creates=state.creates | {copy: end}, flows=state.flows + flows, budgets=budgets
        )

    def _parts(self, state: _State, copy: Replica) -> Iterator[tuple[Part, ...]]:
        """Yield the ways to split a copy: each path in turn takes all that it can, or nothing."""
        paths = list(self._paths(state, copy))

        def split(gib: int, budgets: Budgets, number: int) -> Iterator[tuple[Part, ...]]:
            if not gib:
                yield ()
            elif number < len(paths):
                path = paths[number]
                most = min(gib, *(budgets[road] for road in pairwise(path)))
                if most:
                    left = dict(budgets)
                    for road in pairwise(path):
                        left[road] -= most
                    for rest in split(gib - most, left, number + 1):
                        yield ((path, most), *rest)
                yield from split(gib, budgets, number + 1)

        yield from split(self.world.size[copy[0]], state.budgets, 0)

    def _paths(self, state: _State, copy: Replica) -> Iterator[tuple[str, ...]]:
        """Yield the paths to a region from those that hold its data, the shortest first."""
        dataset, region = copy
        may = self.world.may[dataset]
        sources = [r for d, r in sorted(self._complete(state)) if d == dataset]
        between = [r for r in self.world.regions if r in may and r != region]
        for number in range(len(between)):
            for source in sources:
                for stops in permutations((r for r in between if r != source), number):
                    path = (source, *stops, region)
                    if region in may and all(road in self.world.links for road in pairwise(path)):
                        yield path

    def _dropped_in_the_end(self, state: _State) -> _State | None:
        """Return a state in which all that is to go has gone."""
        while True:
            for replica in self.drops:
                if replica not in state.drops and self._may_go(state, replica):
                    state = state._replace(drops=state.drops | {replica: state.at})
            if len(state.drops) == len(self.drops):
                return state
            later = min((at for at in self.world.coming.values() if at > state.at), default=None)
            if later is None or later > self.world.end:
                return None
            state = state._replace(at=later)


def _seconds(gib: int, link: Link) -> int:
    """Return how long a link is busy with so many GiB."""
    return -(-gib * GIBIT // (link.bandwidth * MEGABIT))
