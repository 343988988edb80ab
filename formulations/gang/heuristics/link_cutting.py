"""Gangs cut anew for less `contention`, by the cutting stock of `models/link_patterns.py`.

The domains of a level inside one domain of the level above are emptied of the tasks of one size and
filled as the integer program says; the result is kept if it is better.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np

from placewright.formulations.gang.heuristics.equal_places import EqualPlaces
from placewright.formulations.gang.heuristics.link_loads import LinkLoads
from placewright.formulations.gang.models.link_patterns import (
    Cut,
    DomainKind,
    GangKind,
    LinkPatterns,
    Pattern,
    Piece,
    cut_of,
    piece_of,
)
from placewright.formulations.session import Session


def cut_anew(places: EqualPlaces, loads: LinkLoads, session: Session, reserve: float) -> None:
    """Cut gangs anew around overloaded links, if that is better and costs no spread.

    It ends `reserve` seconds before the deadline.
    """
    domain = places.problem.cluster.domain
    for at, level in enumerate(loads.levels):
        families: defaultdict[int, dict[int, list[int]]] = defaultdict(dict)
        for host in places.room:
            outer = int(domain[level - 1][host]) if level else 0
            families[outer].setdefault(int(domain[level][host]), []).append(host)
        for hosts_of in families.values():
            if session.expired(reserve):
                return
            if len(hosts_of) > 1 and any((at, d) in loads.overloaded for d in hosts_of):
                _Family(places, loads, at, hosts_of).cut(session)


class _Family:
    """The domains of a level inside one domain of the level above, with their hosts."""

    def __init__(
        self, places: EqualPlaces, loads: LinkLoads, at: int, hosts_of: Mapping[int, list[int]]
    ) -> None:
        self._places, self._loads, self._hosts_of = places, loads, hosts_of
        held = {
            d: Counter(g for host in hosts for g in places.held[host])
            for d, hosts in hosts_of.items()
        }
        sizes: defaultdict[int, list[int]] = defaultdict(list)
        for gangs in held.values():
            for g, n in gangs.items():
                sizes[g].append(n)
        self._gangs: dict[int, Cut] = {}
        for g, inside in sizes.items():
            gang = places.gangs[g]
            step = gang.group.milli_gpu * dict(gang.group.weights).get(loads.levels[at], 0)
            n = sum(inside)
            kind = GangKind(n, n < len(gang.hosts), gang.group.rate_mbps, step)
            self._gangs[g] = kind, cut_of(kind, inside)
        self._domains: dict[int, Pattern] = {}
        for d, gangs in held.items():
            pieces = [piece_of(self._gangs[g][0], n) for g, n in gangs.items()]
            room = sum(places.room[host] for host in hosts_of[d])
            spare = loads.spare((at, d)) + sum(piece.rate for piece in pieces)
            self._domains[d] = DomainKind(room, spare), tuple(sorted(pieces, reverse=True))

    def cut(self, session: Session) -> None:
        """Choose cuts and patterns, and move the tasks if that is better."""
        gangs, domains = self._gangs.values(), self._domains.values()
        program = LinkPatterns(
            Counter(kind for kind, _ in gangs),
            Counter(kind for kind, _ in domains),
            sum(kind.step * (len(cut) - 1) for kind, cut in gangs),
        )
        if not program.enumerate_columns():
            return
        outcome = program.solve(session, (Counter(gangs), Counter(domains)))
        if outcome is None or outcome.values is None:
            return
        times = np.rint(outcome.values).astype(int).tolist()
        number = len(program.cuts)
        cuts = Counter(dict(zip(program.cuts, times[:number], strict=True)))
        patterns = Counter(dict(zip(program.patterns, times[number:], strict=True)))
        self._move(self._dealt(cuts, patterns))

    def _dealt(self, cuts: Counter[Cut], patterns: Counter[Pattern]) -> dict[int, list[int]]:
        """Return the gangs of each domain, one entry per task."""
        domains: defaultdict[DomainKind, list[int]] = defaultdict(list)
        for d, (of_domain, _) in self._domains.items():
            domains[of_domain].append(d)
        spots: defaultdict[Piece, list[int]] = defaultdict(list)
        for of_domain, pieces in patterns.elements():
            d = domains[of_domain].pop()
            for piece in pieces:
                spots[piece].append(d)
        gangs: defaultdict[GangKind, list[int]] = defaultdict(list)
        for g, (kind, _) in self._gangs.items():
            gangs[kind].append(g)
        inside: dict[int, list[int]] = {d: [] for d in self._hosts_of}
        for kind, pieces in cuts.elements():
            g = gangs[kind].pop()
            for piece in pieces:
                inside[spots[piece].pop()] += [g] * piece.tasks
        return inside

    def _move(self, inside: Mapping[int, list[int]]) -> None:
        """Move the tasks, if a level that gangs require allows it and no term before loses."""
        places = self._places
        held: dict[int, list[int]] = {}
        new: defaultdict[int, list[int]] = defaultdict(list)
        for d, hosts in self._hosts_of.items():
            tasks = iter(inside[d])
            for host in hosts:
                held[host] = [g for _, g in zip(range(places.room[host]), tasks, strict=False)]
                for g in held[host]:
                    new[g].append(host)
        after = places.rearranged(new, held)
        if after is None:
            return
        changes = self._loads.change(after.moves)
        if after.spread > 0 or self._loads.gain(changes) >= 0:
            return
        self._loads.apply(changes)
        places.held.update(held)
        for g, (there, costs) in after.gangs.items():
            places.gangs[g].hosts, places.gangs[g].spread = there, costs
