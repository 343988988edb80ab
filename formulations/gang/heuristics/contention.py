"""Less `contention`: tasks of equal size change places, and gangs are cut anew."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
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
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    NO_LEVEL,
    Group,
    JobPlacement,
    TaskPlacement,
)
from placewright.formulations.gang.problem.limits import BOTTLENECK, CONTENTION
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import STRANDED, pinned_loads
from placewright.formulations.session import Session
from placewright.topology.collectives import NO_LINK_MBPS, uplinks_of
from placewright.topology.units import WHOLE_GPU

# Loads of the links between domains in a placement, and what moves of groups change.


Link: TypeAlias = tuple[int, int]
"""The position of a level among those with links, and a domain."""


class Move(NamedTuple):
    """A group that sends `rate` leaves some hosts for others; hosts are one per task."""

    rate: int
    before: Sequence[int]
    after: Sequence[int]


class LinkLoads:
    """Mbit/s over each link of a placement.

    Attributes
    ----------
    levels : list of int
        The levels whose domains have links, outermost first.
    excess : int
        Load beyond the bandwidth, summed over all links.
    least : int
        That of the kept jobs alone; the term `contention` is what `excess` has beyond.
    overloaded : dict of Link to None
        The links whose load exceeds the bandwidth.
    """

    def __init__(self, placement: Placement) -> None:
        problem = placement.problem
        self._links = uplinks_of(problem.cluster)
        self.levels = [one.level for one in self._links]
        self._domain: list[list[int]] = [one.domain.tolist() for one in self._links]
        self._mbps: list[list[int]] = [one.mbps.tolist() for one in self._links]
        self._exists: list[list[bool]] = [one.exists.tolist() for one in self._links]
        self._load: list[list[int]] = [load.tolist() for load in pinned_loads(problem, self._links)]
        every = [start for _, start in placement.started()]
        self._add(problem, (start for start in every if start.in_place))
        self.least = self._sum()
        self._add(problem, (start for start in every if not start.in_place))
        self.excess = self._sum()
        self.overloaded: dict[Link, None] = dict.fromkeys(
            (at, d)
            for at, (one, load) in enumerate(zip(self._links, self._load, strict=True))
            for d in np.flatnonzero(np.array(load) > one.mbps).tolist()
        )

    def spare(self, link: Link) -> int:
        """Return what a link has left, less than nothing if it is overloaded."""
        at, d = link
        if not self._exists[at][d]:
            return NO_LINK_MBPS
        return self._mbps[at][d] - self._load[at][d]

    def change(self, moves: Iterable[Move]) -> dict[Link, int]:
        """Return by how much the load of each link changes if groups move."""
        changes: defaultdict[Link, int] = defaultdict(int)
        for move in moves:
            if move.rate:
                for link in self._crossed(move.before):
                    changes[link] -= move.rate
                for link in self._crossed(move.after):
                    changes[link] += move.rate
        return changes

    def gain(self, changes: Mapping[Link, int]) -> int:
        """Return by how much `excess` would change."""
        total = 0
        for (at, d), change in changes.items():
            over = self._load[at][d] - self._mbps[at][d]
            total += max(over + change, 0) - max(over, 0)
        return total

    def apply(self, changes: Mapping[Link, int]) -> None:
        """Change the loads."""
        self.excess += self.gain(changes)
        for (at, d), change in changes.items():
            self._load[at][d] += change
            if self._load[at][d] > self._mbps[at][d]:
                self.overloaded[at, d] = None
            else:
                self.overloaded.pop((at, d), None)

    def _crossed(self, hosts: Sequence[int]) -> list[Link]:
        found: list[Link] = []
        for at, (domain, exists) in enumerate(zip(self._domain, self._exists, strict=True)):
            used = {domain[h] for h in hosts}
            if len(used) > 1:
                found += [(at, d) for d in used if exists[d]]
        return found

    def _add(self, problem: Problem, starts: Iterable[JobPlacement]) -> None:
        for start in starts:
            groups = problem.classes[start.job_class].choices[start.choice].groups
            for k, group in enumerate(groups):
                if group.rate_mbps:
                    for at, d in self._crossed([put.host for put in start.tasks if put.group == k]):
                        self._load[at][d] += group.rate_mbps

    def _sum(self) -> int:
        return sum(
            max(sent - most, 0)
            for mbps, load in zip(self._mbps, self._load, strict=True)
            for sent, most in zip(load, mbps, strict=True)
        )


# Places of tasks of equal size in a placement, which such tasks may exchange.


HOST_TERMS = ("freed", "opened", "leftover", STRANDED)
"""Terms that free places matter to."""


@dataclass(slots=True)
class Gang:
    """A group of a started job, by the job's number and the group's index.

    `hosts` has the host of each task, `first` the list from the beginning, and `spread` is what
    they add to that term.
    """

    number: int
    index: int
    group: Group
    first: list[int]
    hosts: list[int]
    spread: int = 0


def equal_sizes(placement: Placement, earlier: Sequence[str]) -> list[list[int]]:
    """Return the shapes of whole GPUs by size: they take as many GPUs on the same hosts."""
    problem = placement.problem
    sizes: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    parts = problem.part_demands
    for s, gpu in enumerate(problem.shape_gpu.tolist()):
        if gpu < WHOLE_GPU or (parts is not None and (parts.is_slice[s] or parts.memory[s])):
            continue
        alone = s if STRANDED in earlier else -1
        sizes[gpu, int(problem.shape_rank[s]), problem.shape_hosts[s].tobytes(), alone].append(s)
    return sorted(sizes.values(), key=lambda shapes: -int(problem.shape_gpu[shapes[0]]))


class Rearranged(NamedTuple):
    """Hosts and spread of gangs some of whose tasks move, the moves, and the spread that is added.

    `gangs` are by their index.
    """

    gangs: dict[int, tuple[list[int], int]]
    moves: list[Move]
    spread: int


class EqualPlaces:
    """The places of tasks of equal size, and the gangs whose tasks hold some of them.

    Attributes
    ----------
    gangs : list of Gang
    held : dict of host to list
        The gangs whose tasks are on each host, one entry per task.
    room : dict of host to int
        How many places each host has, free ones included.
    """

    def __init__(self, placement: Placement, shapes: list[int], earlier: Sequence[str]) -> None:
        self._placement, problem = placement, placement.problem
        self.problem = problem
        self.gangs: list[Gang] = []
        held: defaultdict[int, list[int]] = defaultdict(list)
        for number, start in placement.started():
            choice = problem.classes[start.job_class].choices[start.choice]
            if start.job != ANY_JOB or choice.is_tied or choice.pooled:
                continue
            for k, group in enumerate(choice.groups):
                if group.shape not in shapes or (group.timed and BOTTLENECK in earlier):
                    continue
                hosts = [
                    put.host for put in start.tasks if put.group == k for _ in range(put.count)
                ]
                for host in hosts:
                    held[host].append(len(self.gangs))
                self.gangs.append(Gang(number, k, group, hosts, hosts))
                self.gangs[-1].spread = self.spread(self.gangs[-1], hosts)
        self.room = self._room(shapes, held, not set(HOST_TERMS).intersection(earlier))
        self.held = {host: held[host] for host in self.room}

    def _room(
        self, shapes: list[int], held: dict[int, list[int]], free_places: bool
    ) -> dict[int, int]:
        """Return the places of each host where any task of the shapes may take any of them."""
        placement, problem = self._placement, self.problem
        demand, gpus = problem.shape_demand[shapes], int(problem.shape_gpu[shapes[0]]) // WHOLE_GPU
        most: Ints = demand.max(axis=0)
        # Where jobs stop for others, those stay where they are needed.
        free_places = free_places and not any(placement.stopped)
        room: dict[int, int] = {}
        rank = int(problem.shape_rank[shapes[0]])
        open_ = problem.shape_hosts[shapes[0]] & (placement.least_rank <= rank)
        for host in np.flatnonzero(open_).tolist():
            mine = held.get(host, [])
            if not mine and not free_places:
                continue
            had = problem.shape_demand[[self.gangs[g].group.shape for g in mine]].sum(axis=0)
            left: Ints = placement.free[host] + had - len(mine) * most
            if (left < 0).any():
                continue
            more = int(placement.whole[host]) // gpus if free_places else 0
            for amount, each in zip(left.tolist(), most.tolist(), strict=True):
                more = min(more, amount // each) if each else more
            if mine or more:
                room[host] = len(mine) + more
        return room

    def spread(self, gang: Gang, hosts: Sequence[int]) -> int:
        """Return what a group on some hosts adds to `spread`."""
        domain = self.problem.cluster.domain
        at = np.array(hosts)
        beyond = (
            weight * (len(set(domain[level][at].tolist())) - 1)
            for level, weight in gang.group.weights
        )
        return gang.group.milli_gpu * sum(beyond)

    def allows(self, gang: Gang, hosts: Sequence[int]) -> bool:
        """Whether the hosts lie in one domain of the level that the group requires."""
        level = gang.group.required
        return level == NO_LEVEL or np.ptp(self.problem.cluster.domain[level][list(hosts)]) == 0

    def rearranged(
        self, new: Mapping[int, list[int]], emptied: Container[int]
    ) -> Rearranged | None:
        """Return gangs with their tasks on emptied hosts elsewhere; None if a level forbids it.

        `new` has the hosts that these tasks come to, by gang.
        """
        gangs, moves, spread = {}, [], 0
        for g, taken in new.items():
            gang = self.gangs[g]
            there = taken + [host for host in gang.hosts if host not in emptied]
            if not self.allows(gang, there):
                return None
            gangs[g] = there, self.spread(gang, there)
            spread += gangs[g][1] - gang.spread
            moves.append(Move(gang.group.rate_mbps, gang.hosts, there))
        return Rearranged(gangs, moves, spread)

    def apply(self) -> None:
        """Move the tasks in the placement."""
        placement = self._placement
        new: defaultdict[int, dict[int, Gang]] = defaultdict(dict)
        for gang in self.gangs:
            if gang.hosts is not gang.first:
                new[gang.number][gang.index] = gang
        starts: list[JobPlacement] = []
        for number, gangs in new.items():
            start = placement.get(number)
            if start is None:
                raise KeyError(number)
            placement.stop(number)
            tasks = [put for put in start.tasks if put.group not in gangs]
            for index, gang in gangs.items():
                hosts = sorted(Counter(gang.hosts).items())
                tasks += [TaskPlacement(index, host, count, ()) for host, count in hosts]
            starts.append(start._replace(tasks=tasks))
        for start in starts:
            placement.restart(start)


# Gangs cut anew for less `contention`, by the cutting stock of `models/link_patterns.py`.
#
# The domains of a level inside one domain of the level above are emptied of the tasks of one size
# and filled as the integer program says; the result is kept if it is better.


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


# Simulated annealing for `contention`: tasks of equal size change places.
#
# A move empties two or three domains of one level of the tasks of one size, and fills them with
# the same tasks in another order: gangs change places whole or in part, and may come to free
# places. One of the domains has an overloaded link, or some more of them (Kirkpatrick, Gelatt and
# Vecchi 1983). After an episode of moves the terms are no worse, in their order, or all moves are
# undone. Only tasks of jobs that start take part; the loads are those of all jobs.


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
