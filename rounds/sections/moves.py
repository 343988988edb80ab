"""The order in which running jobs can move, and which of them have to park elsewhere first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import chain, combinations
from math import inf
from typing import Any, NamedTuple, TypeAlias

from placewright.array_types import Ints
from placewright.instances.derived.arrays import build_cluster, places_of, pools_of, running_places
from placewright.instances.derived.hardware import Hardware, hardware, pooled_resources
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Decision, DecisionKind, Task
from placewright.instances.documents.round import Round
from placewright.topology.mig import MEMORY_SLICES, PRODUCTS, SLICES
from placewright.topology.units import WHOLE_GPU


class PoolSlot(NamedTuple):
    """The number of a pool, and of one of its domains."""

    pool: int
    domain: int


class PoolSlots:
    """The domains of a round's pools as slots."""

    def __init__(self, round_: Round) -> None:
        self._jobs = round_.jobs
        self._cluster = build_cluster(round_.cluster) if round_.cluster.pools else None
        self._pools = () if self._cluster is None else pools_of(round_, self._cluster)

    def __call__(self, option: Option, tasks: Iterable[Task]) -> Iterator[tuple[PoolSlot, int]]:
        """Yield what a job with these tasks takes of pools, if anything."""
        if self._cluster is None:
            return
        places = places_of(tasks, self._cluster)
        for number, pool in enumerate(self._pools):
            for domain, amount in pool.taken(option, places).items():
                yield PoolSlot(number, domain), amount

    def limit(self, slot: PoolSlot) -> int:
        """Return what jobs may hold: the capacity, or what they held before if that is more."""
        return int(self._limits[slot.pool][slot.domain])

    @cached_property
    def _limits(self) -> list[Ints]:
        """What jobs may hold of each pool, int64 (domains,)."""
        if self._cluster is None:
            return []
        running = running_places(self._jobs, self._cluster)
        return [pool.limit(running) for pool in self._pools]


# Strongly connected components of the move graph: an order of moves, and which jobs must park.
#
# A slot (this file) is *tight* for a set of jobs if what is free of it now is less than all
# that they will take from it; no other slot can ever stop one of them.
#
# A job waits for those that now hold some of a tight slot that it will hold some of. The strongly
# connected components of this relation can be carried out one after the other, those first that
# wait for no other, and how one of them is solved changes nothing for the next: once all who held
# a slot have moved or parked, the final plan says that all fit. So a job alone in its component
# finds its place, and only components of several jobs, *cycles*, have to be searched. Nor may the
# relation be smaller: a job that holds some of a slot before and after may free it only by
# parking, so those who need it must be solved together with it.
EXACT_JOBS = 10
"""Jobs up to which a cycle gets the fewest spare places that are possible."""
EXACT_TRIES = 300_000
"""Steps that the search may try, in all cycles of a plan together."""
BATCH_SHARE = 8
"""One job in this many of a cycle moves or parks greedily before components are found anew."""


@dataclass(frozen=True, slots=True)
class Move:
    """A migrated job, its slots by number.

    `before`, `after`: what it holds. `takes`, `gives`: how much more or less that is afterwards.
    `weight`: milli-GPU and 1, so that jobs without GPUs count.
    """

    before: Mapping[int, int]
    after: Mapping[int, int]
    takes: Mapping[int, int]
    gives: Mapping[int, int]
    weight: int


def sums(amounts: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Add up the amounts of each slot."""
    total: defaultdict[int, int] = defaultdict(int)
    for slot, amount in amounts:
        total[slot] += amount
    return dict(total)


class MoveSequencer:
    """Sequences migrations; keeps what is free of each slot, and the steps so far.

    `steps` and `parked` grow; no other state but `free` changes.
    """

    def __init__(self, moves: Sequence[Move], free: list[int]) -> None:
        self.moves, self.free = moves, free
        self.steps: list[int] = []
        self.parked: list[int] = []
        self.tries = EXACT_TRIES

    def sequence(self) -> None:
        """Have every job carry out its move or park, component by component."""
        waiting = [list(range(len(self.moves)))]
        while waiting:
            jobs = waiting.pop()
            if len(jobs) == 1:
                self._carry_out(jobs[0])
                continue
            tight = self._tight(jobs)
            parts = list(self._strong_components(jobs, tight))
            if len(parts) > 1:
                waiting += reversed(parts)
            elif jobs and not self._search(jobs):
                waiting.append(self._step_greedily(jobs, tight))

    def _tight(self, jobs: Sequence[int]) -> set[int]:
        taken = sums(entry for job in jobs for entry in self.moves[job].takes.items())
        return {slot for slot, amount in taken.items() if amount > self.free[slot]}

    def _strong_components(self, jobs: Sequence[int], tight: set[int]) -> Iterator[list[int]]:
        """Yield the components of jobs, each after those that it waits for.

        The graph has the jobs as nodes j, and tight slots of several holders as nodes ~s, which
        takes far fewer edges than all pairs of jobs.
        """
        holders: defaultdict[int, list[int]] = defaultdict(list)
        for job in jobs:
            for slot in tight.intersection(self.moves[job].before):
                holders[slot].append(job)
        node_of = {s: held_by[0] if len(held_by) == 1 else ~s for s, held_by in holders.items()}
        waits_for = {~slot: held_by for slot, held_by in holders.items()}
        for job in jobs:
            nodes = (node_of[s] for s in self.moves[job].after if s in node_of)
            waits_for[job] = list(dict.fromkeys(nodes))
        for component in _components(jobs, waits_for):
            part = sorted(node for node in component if node >= 0)
            if part:
                yield part

    def _fits(self, job: int) -> bool:
        return all(amount <= self.free[slot] for slot, amount in self.moves[job].takes.items())

    def _apply(self, job: int, sign: int) -> None:
        """Carry out a move (1) or take it back (-1)."""
        for slot, amount in self.moves[job].takes.items():
            self.free[slot] -= sign * amount
        for slot, amount in self.moves[job].gives.items():
            self.free[slot] += sign * amount

    def _remove(self, job: int, sign: int) -> None:
        """Take a job off (1) or put it back where it was (-1)."""
        for slot, amount in self.moves[job].before.items():
            self.free[slot] += sign * amount

    def _carry_out(self, job: int) -> None:
        self._apply(job, 1)
        self.steps.append(job)

    def _park(self, job: int) -> None:
        self._remove(job, 1)
        self.parked.append(job)

    def _search(self, jobs: Sequence[int]) -> bool:
        """Sequence a cycle with the fewest parked jobs, small ones first; False if too large."""
        if len(jobs) > EXACT_JOBS:
            return False
        by_weight = sorted(jobs, key=lambda job: self.moves[job].weight)
        for spares in (s for count in range(len(jobs)) for s in combinations(by_weight, count)):
            for job in spares:
                self._remove(job, 1)
            if self._order_without_parking(tuple(job for job in jobs if job not in spares), set()):
                self.parked += spares
                return True
            for job in spares:
                self._remove(job, -1)
            if self.tries <= 0:
                break
        return False

    def _order_without_parking(self, jobs: tuple[int, ...], dead: set[tuple[int, ...]]) -> bool:
        """Carry out all jobs in some order, or leave all where they are and return False.

        `dead` collects those sets of jobs still to move from which there is no way on.
        """
        self.tries -= 1
        if not jobs:
            return True
        if jobs in dead:
            return False
        for job in jobs:
            if self.tries > 0 and self._fits(job):
                self._apply(job, 1)
                at = len(self.steps)
                self.steps.append(job)
                if self._order_without_parking(
                    tuple(other for other in jobs if other != job), dead
                ):
                    return True
                del self.steps[at:]
                self._apply(job, -1)
        dead.add(jobs)
        return False

    def _step_greedily(self, jobs: Sequence[int], tight: set[int]) -> list[int]:
        """Carry out or park some jobs of a cycle, greedily; return the others.

        A job's stake is its weight, divided among the tight slots that it takes from. The stakes in
        a slot only shrink, so an old claim to be parked is never too low, and is corrected when it
        comes up.
        """
        waiting = set(jobs)
        taken = {job: [s for s in self.moves[job].takes if s in tight] for job in jobs}
        stake = {job: 1000 * self.moves[job].weight // max(1, len(taken[job])) for job in jobs}
        takers: defaultdict[int, list[int]] = defaultdict(list)
        wanted: defaultdict[int, int] = defaultdict(int)  # stakes of the takers that still wait
        for job in jobs:
            for slot in taken[job]:
                takers[slot].append(job)
                wanted[slot] += stake[job]

        def loss(job: int) -> tuple[int, int]:
            given = sum(wanted[slot] for slot in self.moves[job].gives if slot in tight)
            return sum(wanted[slot] for slot in taken[job]) - given, job

        def claim(job: int) -> tuple[int, int]:
            return -sum(wanted[slot] for slot in self.moves[job].before if slot in tight), job

        able = [loss(job) for job in jobs if self._fits(job)]
        parkable = [claim(job) for job in jobs]
        heapify(able)
        heapify(parkable)
        while len(jobs) - len(waiting) < max(1, len(jobs) // BATCH_SHARE):
            if able:
                _, job = heappop(able)
                if job not in waiting or not self._fits(job):
                    continue
                self._carry_out(job)
            else:
                _, job = entry = heappop(parkable)
                if job not in waiting:
                    continue
                now = claim(job)
                if now > entry:
                    heappush(parkable, now)
                    continue
                self._park(job)
            waiting.remove(job)
            for slot in taken[job]:
                wanted[slot] -= stake[job]
            freed = tight.intersection(self.moves[job].before)
            for taker in dict.fromkeys(other for slot in freed for other in takers[slot]):
                if taker in waiting and self._fits(taker):
                    heappush(able, loss(taker))
        return sorted(waiting)


def _components(
    roots: Iterable[int], successors: Mapping[int, Sequence[int]]
) -> Iterator[list[int]]:
    """Yield the strongly connected components that can be reached, each after those it leads to.

    Source: R. Tarjan, Depth-first search and linear graph algorithms, SIAM J. Comput. 1(2), 1972.
    """
    low: dict[int, float] = {}  # the number of a node reached; `inf` once its component is known
    number: dict[int, int] = {}
    unseen: dict[int, Iterator[int]] = {}
    open_nodes: list[int] = []
    for root in roots:
        path = [root] if root not in number else []
        while path:
            node = path[-1]
            if node not in number:
                number[node] = low[node] = len(number)
                unseen[node] = iter(successors[node])
                open_nodes.append(node)
            following = next((n for n in unseen[node] if n not in number), None)
            if following is not None:
                path.append(following)
                continue
            path.pop()
            low[node] = min([number[node], *(low[n] for n in successors[node])])
            if low[node] == number[node]:
                component = [open_nodes.pop()]
                while component[-1] != node:
                    component.append(open_nodes.pop())
                low.update(dict.fromkeys(component, inf))
                yield component


# A *slot* is what can run out: a resource of a host, one GPU, or what a domain has of a pool. A
# migrated job changes what it holds of some slots in one step, so only the net change counts; in
# which order they do is for `this file`.
HostSlot: TypeAlias = tuple[str, str | int | tuple[int, int | str]]
"""A host with the name of a resource, the index of a GPU, or that of a GPU and of a memory slice.

Beside its memory slices a GPU has its `MEMORY` and its `MEDIA` extensions.
"""
Slot: TypeAlias = HostSlot | PoolSlot
MEMORY, MEDIA = "memory", "media"


def move_section(
    round: Round,  # noqa: A002
    decisions: Sequence[Decision],
) -> dict[str, Any] | None:
    """Return the plan section `moves`, or None if no job migrates, resizes or is preempted.

    Returns `{"kind": "moves", "steps": [...], "needs_spare": [...]}` with names of jobs. `steps`:
    the preempted jobs stop, then the others move one at a time, and no host, GPU or pool is
    overcommitted at any moment, if those in `needs_spare` are stopped or parked elsewhere before;
    they take their places at the end, in any order. Equal inputs give equal sections. `round`: a
    round that `check_round` accepts. `decisions`: those of a valid plan for it.

    As few jobs as possible need a spare if no cycle has more than `EXACT_JOBS` jobs and searching
    them all takes at most `EXACT_TRIES` steps. Other cycles follow a greedy rule: whoever can move
    does, first those who give more than they take of what others wait for; when nobody can, the job
    parks that most GPUs wait for. After a share of the jobs the components of the rest are found
    anew. All in all that takes time in proportion to the slots touched, times a logarithm.
    """
    preempted = [d.job for d in decisions if d.decision is DecisionKind.PREEMPT]
    migrated = [d for d in decisions if d.decision.moves]
    if not migrated:
        steps: dict[str, Any] = {"kind": "moves", "steps": preempted, "needs_spare": []}
        return steps if preempted else None
    running = {
        job.name: (job.options[job.running.option], job.running.tasks)
        for job in round.jobs
        if job.running is not None
    }
    numbers: dict[Slot, int] = {}
    asked, options = Asked(round), {job.name: job.options for job in round.jobs}
    moves = [
        _move(
            asked,
            running[d.job],
            (options[d.job][d.option or 0], d.tasks),
            numbers,
        )
        for d in migrated
    ]
    for stopped in preempted:
        del running[stopped]
    sequencer = MoveSequencer(moves, free_amounts(asked, round, running.values(), numbers))
    sequencer.sequence()
    return {
        "kind": "moves",
        "steps": preempted + [migrated[job].job for job in sequencer.steps],
        "needs_spare": [migrated[job].job for job in sorted(sequencer.parked)],
    }


def _move(
    asked: Asked,
    then: tuple[Option, Sequence[Task]],
    now: tuple[Option, Sequence[Task]],
    numbers: dict[Slot, int],
) -> Move:
    """Compare a job's option and places before and after; new slots get the next number."""
    before, after = (
        sums((numbers.setdefault(slot, len(numbers)), n) for slot, n in asked(option, tasks))
        for option, tasks in (then, now)
    )
    return Move(
        before,
        after,
        takes={s: new - before.get(s, 0) for s, new in after.items() if new > before.get(s, 0)},
        gives={s: old - after.get(s, 0) for s, old in before.items() if old > after.get(s, 0)},
        weight=now[0].milli_gpu + 1,
    )


class Asked:
    """The demands of tasks on the slots of their hosts, and of jobs on those of pools.

    Where there are MIG slices, all other tasks take a part of every memory slice, and a MIG slice
    takes its own whole: so nothing else fits beside it.
    """

    def __init__(self, round_: Round) -> None:
        groups = [g for job in round_.jobs for option in job.options for g in option.groups]
        self.pools = PoolSlots(round_)
        self._product: dict[str, int] = {}
        if any(group.mig for group in groups):
            for entry in round_.cluster.hosts:
                self._product.update(dict.fromkeys(expand(entry.name), hardware(entry).product))

    def __call__(self, option: Option, tasks: Sequence[Task]) -> Iterator[tuple[Slot, int]]:
        """Yield what a job with these tasks asks of its slots, if anything."""
        yield from self.of_hosts(option, tasks)
        yield from self.pools(option, tasks)

    def of_hosts(self, option: Option, tasks: Iterable[Task]) -> Iterator[tuple[HostSlot, int]]:
        """Yield what tasks ask of the slots of their hosts, if anything."""
        for task in tasks:
            group = option.groups[task.group]
            for gpu in task.gpus:
                yield (task.host, gpu), min(group.gpu, WHOLE_GPU)
                if group.gpu_memory:
                    yield (task.host, (gpu, MEMORY)), group.gpu_memory
                if self._product:
                    yield from self._slices(task, group, gpu)
            for name, amount in (("cpu", group.cpu), ("memory", group.memory)):
                if amount:
                    yield (task.host, name), amount
            for name, amount in group.resources.items():
                if amount:
                    yield (task.host, name), amount

    def _slices(self, task: Task, group: TaskGroup, gpu: int) -> Iterator[tuple[HostSlot, int]]:
        if group.mig is None or task.slot is None:
            for i in range(MEMORY_SLICES):
                yield (task.host, (gpu, i)), min(group.gpu, WHOLE_GPU)
            return
        kind = SLICES[PRODUCTS[self._product[task.host]].profiles[group.mig]]
        for i in range(task.slot, task.slot + kind.size):
            yield (task.host, (gpu, i)), WHOLE_GPU
        if kind.media:
            yield (task.host, (gpu, MEDIA)), WHOLE_GPU


def free_amounts(
    asked: Asked,
    round_: Round,
    running: Iterable[tuple[Option, Sequence[Task]]],
    numbers: Mapping[Slot, int],
) -> list[int]:
    """Return what the running jobs leave of each slot, by its number."""
    touched = {slot[0] for slot in numbers if not isinstance(slot, PoolSlot)}
    has: dict[str, Hardware] = {}
    pooled = pooled_resources(round_.cluster)
    for entry in round_.cluster.hosts:
        mine = touched.intersection(expand(entry.name))
        has.update(dict.fromkeys(mine, hardware(entry, pooled)))
    free = [
        asked.pools.limit(slot) if isinstance(slot, PoolSlot) else _has(has[slot[0]], slot[1])
        for slot in numbers
    ]
    for option, tasks in running:
        here = [task for task in tasks if task.host in touched]
        of_hosts = asked.of_hosts(option, here) if here else ()
        of_pools = asked.pools(option, tasks)
        held: Iterator[tuple[Slot, int]] = chain(of_hosts, of_pools)
        for slot, amount in held:
            if slot in numbers:
                free[numbers[slot]] -= amount
    return free


def _has(host: Hardware, what: str | int | tuple[int, int | str]) -> int:
    if isinstance(what, str):
        return host.capacity.get(what, 0)
    if isinstance(what, tuple) and what[1] == MEMORY:
        return host.gpu_memory or 0
    return WHOLE_GPU
