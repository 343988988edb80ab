"""In which order the running jobs of a plan can move, and which of them need a spare place.

A *slot* is what can run out: a resource of a host, or one GPU. A migrated job changes what it holds
of some slots in one step, so only the net change counts; in which order they do is for `knots.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from placewright.instances.cluster import ClusterDocument
from placewright.instances.documents import WHOLE_GPU
from placewright.instances.hardware import hardware
from placewright.instances.job import Option
from placewright.instances.plan import Decision, DecisionKind, Task
from placewright.instances.ranges import expand
from placewright.instances.round import Round
from placewright.rounds.knots import Move, Yard, sums

Slot: TypeAlias = tuple[str, str | int]
"""A host with the name of a resource or the index of a GPU."""


def order_of_moves(
    round: Round,  # noqa: A002
    decisions: Sequence[Decision],
) -> dict[str, Any] | None:
    """Return the plan section `moves`, or None if no job migrates or is preempted.

    Parameters
    ----------
    round
        A round that `references.check_round` accepts.
    decisions
        Those of a valid plan for it.

    Returns
    -------
    dict or None
        `{"kind": "moves", "steps": [...], "needs_spare": [...]}` with names of jobs. `steps`: the
        preempted jobs stop, then the others move one at a time, and no host or GPU is overcommitted
        at any moment, if those in `needs_spare` are stopped or parked elsewhere before; they take
        their places at the end, in any order. Equal inputs give equal sections.

    Notes
    -----
    As few jobs as possible need a spare if no knot has more than `EXACT_JOBS` jobs and searching
    them all takes at most `EXACT_TRIES` tries. Other knots follow a rule: whoever can move does,
    first those who give more than they take of what others wait for; when nobody can, the job
    parks that most GPUs wait for. What is left after a share of the jobs is taken apart into knots
    again. All in all that takes time in proportion to the slots touched, times a logarithm.
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
    moves = [_move(*running[decision.job], decision.tasks, numbers) for decision in migrated]
    for stopped in preempted:
        del running[stopped]
    yard = Yard(moves, _free(round.cluster, running.values(), numbers))
    yard.clear()
    return {
        "kind": "moves",
        "steps": preempted + [migrated[job].job for job in yard.steps],
        "needs_spare": [migrated[job].job for job in sorted(yard.parked)],
    }


def _move(
    option: Option, places: Iterable[Task], new_places: Iterable[Task], numbers: dict[Slot, int]
) -> Move:
    """Compare a job's places before and after; new slots get the next number."""
    before, after = (
        sums((numbers.setdefault(slot, len(numbers)), n) for slot, n in _asked(option, tasks))
        for tasks in (places, new_places)
    )
    return Move(
        before,
        after,
        takes={s: new - before.get(s, 0) for s, new in after.items() if new > before.get(s, 0)},
        gives={s: old - after.get(s, 0) for s, old in before.items() if old > after.get(s, 0)},
        weight=option.milli_gpu + 1,
    )


def _asked(option: Option, tasks: Iterable[Task]) -> Iterator[tuple[Slot, int]]:
    """Yield what tasks ask of their slots, if anything."""
    for task in tasks:
        group = option.groups[task.group]
        for gpu in task.gpus:
            yield (task.host, gpu), min(group.gpu, WHOLE_GPU)
        for name, amount in (("cpu", group.cpu), ("memory", group.memory)):
            if amount:
                yield (task.host, name), amount
        for name, amount in group.resources.items():
            if amount:
                yield (task.host, name), amount


def _free(
    cluster: ClusterDocument,
    running: Iterable[tuple[Option, Iterable[Task]]],
    numbers: Mapping[Slot, int],
) -> list[int]:
    """Return what the running jobs leave of each slot, by its number."""
    touched = {host for host, _ in numbers}
    capacity: dict[str, Mapping[str, int]] = {}
    for entry in cluster.hosts:
        names = touched.intersection(expand(entry.name))
        capacity.update(dict.fromkeys(names, hardware(entry).capacity))
    free = [
        WHOLE_GPU if isinstance(what, int) else capacity[host].get(what, 0)
        for host, what in numbers
    ]
    for option, tasks in running:
        here = [task for task in tasks if task.host in touched]
        for slot, amount in _asked(option, here) if here else ():
            if slot in numbers:
                free[numbers[slot]] -= amount
    return free
