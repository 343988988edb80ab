"""The order in which running jobs can move, and which of them have to park elsewhere first.

A *slot* is what can run out: a resource of a host, one GPU, or what a domain has of a pool. A
migrated job changes what it holds of some slots in one step, so only the net change counts; in
which order they do is for `move_components.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

from placewright.instances.derived.hardware import Hardware, hardware, pooled_resources
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Decision, DecisionKind, Task
from placewright.instances.documents.round import Round
from placewright.rounds.sections.move_components import Move, MoveSequencer, sums
from placewright.rounds.sections.pool_slots import PoolSlot, PoolSlots
from placewright.topology.mig import MEMORY_SLICES, PRODUCTS, SLICES
from placewright.topology.units import WHOLE_GPU

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
    """Return the plan section `moves`, or None if no job migrates or is preempted.

    Parameters
    ----------
    round
        A round that `check_round` accepts.
    decisions
        Those of a valid plan for it.

    Returns
    -------
    dict or None
        `{"kind": "moves", "steps": [...], "needs_spare": [...]}` with names of jobs. `steps`: the
        preempted jobs stop, then the others move one at a time, and no host, GPU or pool is
        overcommitted at any moment, if those in `needs_spare` are stopped or parked elsewhere
        before; they take their places at the end, in any order. Equal inputs give equal sections.

    Notes
    -----
    As few jobs as possible need a spare if no cycle has more than `EXACT_JOBS` jobs and searching
    them all takes at most `EXACT_TRIES` steps. Other cycles follow a greedy rule: whoever can move
    does, first those who give more than they take of what others wait for; when nobody can, the job
    parks that most GPUs wait for. After a share of the jobs the components of the rest are found
    anew. All in all that takes time in proportion to the slots touched, times a logarithm.
    """
    preempted = [d.job for d in decisions if d.decision is DecisionKind.PREEMPT]
    migrated = [d for d in decisions if d.decision is DecisionKind.MIGRATE]
    if not preempted and not migrated:
        return None
    running = {
        job.name: (job.options[job.running.option], job.running.tasks)
        for job in round.jobs
        if job.running is not None
    }
    numbers: dict[Slot, int] = {}
    asked = Asked(round)
    moves = [_move(asked, *running[decision.job], decision.tasks, numbers) for decision in migrated]
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
    option: Option,
    places: Sequence[Task],
    new_places: Sequence[Task],
    numbers: dict[Slot, int],
) -> Move:
    """Compare a job's places before and after; new slots get the next number."""
    before, after = (
        sums((numbers.setdefault(slot, len(numbers)), n) for slot, n in asked(option, tasks))
        for tasks in (places, new_places)
    )
    return Move(
        before,
        after,
        takes={s: new - before.get(s, 0) for s, new in after.items() if new > before.get(s, 0)},
        gives={s: old - after.get(s, 0) for s, old in before.items() if old > after.get(s, 0)},
        weight=option.milli_gpu + 1,
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
