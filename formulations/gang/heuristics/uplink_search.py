"""Simulated annealing for `contention`: tasks of equal size change places.

A move empties two or three domains of one level of the tasks of one size, and fills them with the
same tasks in another order: gangs change places whole or in part, and may come to free places. One
of the domains has an overloaded link, or some more of them (Kirkpatrick, Gelatt and Vecchi 1983).
After an episode of moves the terms are no worse, in their order, or all moves are undone. Only
tasks of jobs that start take part; the loads are those of all jobs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import exp
from typing import NamedTuple, TypeVar

import numpy as np

from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.equal_places import EqualPlaces, equal_sizes
from placewright.formulations.gang.heuristics.link_cutting import cut_anew
from placewright.formulations.gang.heuristics.link_loads import Link, LinkLoads
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.terms import CONTENTION
from placewright.formulations.session import Session

Item = TypeVar("Item")


def relieve_links(placement: Placement, session: Session, least: float = 0.0) -> bool:
    """Let tasks of equal size change places until no link is overloaded; return whether it helped.

    It ends at the least contention that there can be, after a number of moves, or its share of the
    time left. Nothing moves if `proximity` comes first.
    """
    problem = placement.problem
    loads = LinkLoads(placement)
    before = loads.excess
    earlier = problem.terms[: problem.terms.index(CONTENTION)]
    enough = loads.least + least
    if before <= enough or "proximity" in earlier:
        return False
    rng = np.random.default_rng(session.seed)
    reserve = (1 - parameters.PARAMETERS.neighbourhood.refill_share) * session.remaining()
    for shapes in equal_sizes(placement, earlier):
        places = EqualPlaces(placement, shapes, earlier)
        search = _Search(places, loads, rng, spread_first="spread" in earlier)
        cut_anew(places, loads, session, reserve)
        search.run(session, reserve, enough)
        places.apply()
        if loads.excess <= enough:
            break
    return loads.excess < before


class _Undo(NamedTuple):
    """What a move has changed: who was on hosts, where gangs were with which spread, the loads."""

    held: Mapping[int, list[int]]
    gangs: Mapping[int, tuple[list[int], int]]
    changes: Mapping[Link, int]


class _Search:
    """Moves of tasks between their places."""

    def __init__(
        self, places: EqualPlaces, loads: LinkLoads, rng: np.random.Generator, *, spread_first: bool
    ) -> None:
        self._places, self._loads, self._rng = places, loads, rng
        self._spread_first = spread_first
        self._spread = 0  # more than at first
        self._moves: list[_Undo] = []
        cluster = places.problem.cluster
        hosts = np.array(sorted(places.room), dtype=np.int64)
        # In the order of the tree, so that neighbours are filled one after the other.
        hosts = hosts[np.lexsort(cluster.domain[::-1][:, hosts])]
        self._hosts_of: list[dict[int, list[int]]] = []
        self._domain_of: list[list[int]] = []
        for level in loads.levels:
            inside: defaultdict[int, list[int]] = defaultdict(list)
            for host, d in zip(hosts.tolist(), cluster.domain[level][hosts].tolist(), strict=True):
                inside[d].append(host)
            self._hosts_of.append(dict(inside))
            self._domain_of.append(cluster.domain[level].tolist())
        self._every = [list(hosts_of) for hosts_of in self._hosts_of]
        groups = [gang.group for gang in places.gangs]
        self._rate = max(float(np.mean([g.rate_mbps for g in groups] or [0])), 1.0)
        steps = [g.milli_gpu * weight for g in groups for _, weight in g.weights]
        self._step = max(float(np.mean(steps or [0])), 1.0)

    def run(self, session: Session, reserve: float, enough: float) -> None:
        """Move tasks until `enough` is beyond links, or the moves or the time are used up."""
        tuning = parameters.PARAMETERS.neighbourhood
        left, idle = tuning.max_refills, 0
        while self._loads.excess > enough and self._overloaded():
            if left <= 0 or idle >= tuning.max_idle_refills or session.expired(reserve):
                return
            before = self._loads.excess
            hottest = float(self._rng.random() * tuning.max_temperature)
            moves = self._episode(tuning.refills_per_episode, hottest)
            left -= moves
            idle = idle + moves if self._loads.excess == before else 0

    def _episode(self, moves: int, hottest: float) -> int:
        """Make some moves, ever less willing to lose; return how many, and undo them if for worse.

        The temperature is in average rates, and in average costs of one more domain in `spread`.
        """
        self._moves.clear()
        first = self._key()
        for k in range(moves):
            self._move(hottest * (1 - k / moves))
            if self._key() < first:
                return k + 1
        if self._key() > first:
            while self._moves:
                self._undo(self._moves.pop())
        return moves

    def _key(self) -> tuple[int, int]:
        excess = self._loads.excess
        return (self._spread, excess) if self._spread_first else (excess, self._spread)

    def _move(self, temperature: float) -> None:
        """Empty some domains and fill them anew; keep that if it loses no more than allowed."""
        drawn = self._domains()
        if drawn is None:
            return
        places, (at, domains) = self._places, drawn
        hosts = [host for d in domains for host in self._hosts_of[at][d]]
        inside = Counter(g for host in hosts for g in places.held[host])
        new: defaultdict[int, list[int]] = defaultdict(list)
        for g, host in self._fill([self._hosts_of[at][d] for d in domains], inside):
            new[g].append(host)
        after = places.rearranged(new, set(hosts))
        if after is None:
            return
        changes = self._loads.change(after.moves)
        loss = self._loads.gain(changes) / self._rate + after.spread / self._step
        if loss > 0 and not self._rng.random() < exp(-loss / max(temperature, 1e-9)):
            return
        before = {g: (places.gangs[g].hosts, places.gangs[g].spread) for g in new}
        self._moves.append(_Undo({host: places.held[host] for host in hosts}, before, changes))
        self._loads.apply(changes)
        for host in hosts:
            places.held[host] = []
        for g, taken in new.items():
            for host in taken:
                places.held[host].append(g)
        self._set(after.gangs)

    def _undo(self, move: _Undo) -> None:
        self._places.held.update(move.held)
        self._set(move.gangs)
        self._loads.apply({link: -change for link, change in move.changes.items()})

    def _set(self, gangs: Mapping[int, tuple[list[int], int]]) -> None:
        for g, (hosts, spread) in gangs.items():
            gang = self._places.gangs[g]
            self._spread += spread - gang.spread
            gang.hosts, gang.spread = hosts, spread

    def _overloaded(self) -> list[Link]:
        """Return the overloaded links of domains with places."""
        return [(at, d) for at, d in self._loads.overloaded if d in self._hosts_of[at]]

    def _domains(self) -> tuple[int, list[int]] | None:
        """Draw two or three domains of a level, most often an overloaded one and some of its gangs.

        None if the level has no two domains with places.
        """
        places, rng = self._places, self._rng
        overloaded = list(self._loads.overloaded)
        at, first = _pick(rng, overloaded) if overloaded else (0, -1)
        if first not in self._hosts_of[at] or rng.random() >= 0.7:
            at = int(rng.integers(len(self._hosts_of)))
            first = _pick(rng, self._every[at])
        hosts_of, domain_of = self._hosts_of[at], self._domain_of[at]
        chosen = [first]
        for _ in range(_pick(rng, (1, 1, 2))):
            others = self._every[at]
            if rng.random() < 0.5:
                inside = {g for host in hosts_of[first] for g in places.held[host]}
                near = {domain_of[h] for g in inside for h in places.gangs[g].hosts}
                others = sorted(near & hosts_of.keys()) or others
            other = _pick(rng, others)
            if other not in chosen:
                chosen.append(other)
        rng.shuffle(chosen)
        return (at, chosen) if len(chosen) > 1 else None

    def _fill(self, domains: list[list[int]], inside: Counter[int]) -> Iterator[tuple[int, int]]:
        """Yield (gang, host) of tasks, as many of each gang as it has in the domains.

        A domain is filled with gangs that fit whole, or with the next in line. What is free is
        distributed at random.
        """
        rng, room = self._rng, self._places.room
        rooms = [sum(room[host] for host in hosts) for hosts in domains]
        gaps = sum(rooms) - inside.total()
        each = list(inside.items())
        order = [list(each[i]) for i in rng.permutation(len(each)).tolist()]
        behind = sum(rooms)
        for hosts, size in zip(domains, rooms, strict=True):
            behind -= size
            gap = int(rng.integers(max(0, gaps - behind), min(gaps, size) + 1))
            gaps -= gap
            left = size - gap
            taken: list[int] = []
            while left:
                whole = next((i for i, (_, n) in enumerate(order) if n <= left), 0)
                i = whole if rng.random() < 0.8 else 0
                some = min(left, order[i][1])
                taken += [order[i][0]] * some
                left -= some
                order[i][1] -= some
                if not order[i][1]:
                    del order[i]
            spots = (host for host in hosts for _ in range(room[host]))
            yield from zip(taken, spots, strict=False)


def _pick(rng: np.random.Generator, items: Sequence[Item]) -> Item:
    return items[int(rng.integers(len(items)))]
