"""The plan section `moves`: the order of preemptions and migrations.

Preempted jobs stop first. Those that need a spare place are stopped or parked before anything
migrates, and take their new places last; the capacity rules say that they fit by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.quantities import amount_text, memory_in_gi
from placewright.instances.errors import Path, value_text
from placewright.instances.verify.reading import Placed, Reading, demand
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.gang.gpu_parts import slice_on
from placewright.instances.verify.rules.gang.pools import Pools
from placewright.topology.mig import MEMORY_SLICES
from placewright.topology.units import WHOLE_GPU

KIND = "moves"
_LISTS = ("steps", "needs_spare")
_MEMORY, _MEDIA = "memory", "media"

# A resource of a host, by name, one of its GPUs, by index, or a memory slice or "memory" of it.
Slot = tuple[str, str | int | tuple[int, int | str]]


class Listed(NamedTuple):
    """The first `moves` section of a plan, if its lists are lists of names, and its path."""

    path: Path
    steps: tuple[str, ...]
    needs_spare: tuple[str, ...]


def form(_: Reading, entry: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Require the two lists of names, and nothing else; `sections.section` applies it."""
    for name in _LISTS:
        if not _are_names(entry.get(name)):
            yield Finding(
                (*path, name),
                f"{name} {value_text(entry.get(name))} is no list of names; "
                "expected a list of job names",
            )
    for name in entry:
        if name not in ("kind", *_LISTS):
            yield Finding(
                (*path, name),
                f"field {value_text(name)} of section {KIND!r} is unknown; "
                f"expected kind, {' and '.join(_LISTS)}",
            )


def moves(reading: Reading) -> Iterator[Finding]:
    """Require one section if anything moves or stops, which names each such job once.

    Preempted jobs come first, and cannot need a spare place. Where jobs take turns, all
    that migrate stop first: what one holds beside others changes as groups form and part.
    """
    given = [i for i, entry in enumerate(reading.plan.sections) if entry.get("kind") == KIND]
    for index in given[1:]:
        yield Finding(
            ("sections", index), f"section {KIND!r} is given more than once; expected one"
        )
    listed = _listed(reading)
    if listed is not None:
        yield from _named_once(reading, listed)
    elif not given and (count := len(reading.migrated) + len(reading.preempted)):
        yield Finding(
            ("sections",),
            f"no section {KIND!r} with {count} jobs migrated or preempted; expected one",
        )


def move_order(reading: Reading) -> Iterator[Finding]:
    """Replay the moves: the target of each migration is free, but for what the job itself holds.

    That holds of the hosts, and of the pools around them.
    """
    listed = _listed(reading)
    taking_turns = "sharing" in reading.round.policy.spec.sections
    if listed is None or not reading.migrated or taking_turns:
        return
    waiting = {placed.job.name: placed for placed in reading.migrated}
    targets = {arrival.host.name for placed in reading.migrated for arrival in placed.arrivals}
    absent = {victim.job.name for victim in reading.preempted}
    absent.update(name for name in listed.needs_spare if name in waiting)
    held: defaultdict[Slot, int] = defaultdict(int)
    near = {
        name
        for name, running in reading.running.items()
        for task in running.tasks
        if task.host in targets
    }
    for name in near - absent:
        for slot, amount in _held_before(reading, name, targets):
            held[slot] += amount
    pools = Pools(reading)
    taken = pools.held(reading.running.keys() - absent)
    for number, name in enumerate(listed.steps):
        placed = waiting.pop(name, None)
        if placed is None or name in absent:
            continue
        for slot, amount in _held_before(reading, name, targets):
            held[slot] -= amount
        for task in placed.tasks:
            for slot, amount in _slots(reading, task.task, task.group):
                held[slot] += amount
        over = next(
            (slot for slot in _taken(reading, placed) if held[slot] > _limit(reading, slot)), None
        )
        if over is not None:
            host, what = over
            yield Finding(
                (*listed.path, "steps", number),
                f"job {name!r} makes {_amount_of(what, held[over])} held on host {host!r} in its "
                f"turn; expected at most {_amount_of(what, _limit(reading, over))}",
            )
        mine, before = pools.taken_by(placed), pools.held_by(name)
        taken.update(mine)
        taken.subtract(before)
        fuller = pools.overfull(taken, mine - before)
        if fuller is not None:
            yield Finding(
                (*listed.path, "steps", number),
                f"after the turn of job {name!r} {pools.text(fuller, taken)}; expected at most "
                f"{pools.limit_text(fuller)}",
            )


def _are_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def _listed(reading: Reading) -> Listed | None:
    for index, entry in enumerate(reading.plan.sections):
        if entry.get("kind") == KIND:
            if not all(_are_names(entry.get(name)) for name in _LISTS):
                return None
            return Listed(("sections", index), *(tuple(entry[name]) for name in _LISTS))
    return None


def _named_once(reading: Reading, listed: Listed) -> Iterator[Finding]:
    stopped = {victim.job.name for victim in reading.preempted}
    movable = {placed.job.name for placed in reading.migrated}
    policy = reading.round.policy
    taking_turns = "sharing" in policy.spec.sections
    seen: set[str] = set()
    first_move = next((i for i, name in enumerate(listed.steps) if name in movable), None)
    for field, names in zip(_LISTS, (listed.steps, listed.needs_spare), strict=True):
        for number, name in enumerate(names):
            problem: str | None
            if name in seen:
                problem = "is named twice; expected each job once"
            elif name not in stopped and name not in movable:
                problem = "neither migrates nor is preempted; expected jobs that do"
            elif name in movable and field == "steps" and taking_turns:
                problem = (
                    f"migrates under policy {policy.formulation!r}; expected it in needs_spare"
                )
            elif name in stopped and field == "needs_spare":
                problem = "is preempted and takes no place; expected it among the steps"
            elif name in stopped and first_move is not None and number > first_move:
                problem = "is preempted after a migration; expected preempted jobs first"
            else:
                problem = None
            seen.add(name)
            if problem is not None:
                yield Finding((*listed.path, field, number), f"job {value_text(name)} {problem}")
    for name in sorted((stopped | movable) - seen):
        yield Finding(
            listed.path,
            f"job {name!r} is not named; expected each migrated or preempted job once",
        )


def _held_before(reading: Reading, job: str, hosts: Collection[str]) -> Iterator[tuple[Slot, int]]:
    """Yield what a running job holds on some hosts before the round."""
    groups = reading.option_run(job).groups
    for task in reading.running[job].tasks:
        if task.host in hosts:
            yield from _slots(reading, task, groups[task.group])


def _slots(reading: Reading, task: Task, group: TaskGroup) -> Iterator[tuple[Slot, int]]:
    for resource, amount in demand(group):
        if amount:
            yield (task.host, resource), amount
    for gpu in task.gpus:
        yield (task.host, gpu), min(group.gpu, WHOLE_GPU)
        if group.gpu_memory:
            yield (task.host, (gpu, _MEMORY)), group.gpu_memory
    if reading.sliced:
        yield from _memory_slices(reading, task, group)


def _memory_slices(reading: Reading, task: Task, group: TaskGroup) -> Iterator[tuple[Slot, int]]:
    """Yield what a task holds of memory slices: a MIG slice all of its own, others of each a part.

    So no other task fits beside MIG slices.
    """
    kind = None if group.mig is None else slice_on(reading.cluster.hosts[task.host], group.mig)
    for gpu in task.gpus:
        if kind is None or task.slot is None:
            for i in range(MEMORY_SLICES):
                yield (task.host, (gpu, i)), min(group.gpu, WHOLE_GPU)
            continue
        for i in range(task.slot, task.slot + kind.size):
            yield (task.host, (gpu, i)), WHOLE_GPU
        if kind.media:
            yield (task.host, (gpu, _MEDIA)), WHOLE_GPU


def _taken(reading: Reading, placed: Placed) -> Iterator[Slot]:
    """Yield what the arrivals of a job hold."""
    for arrival in placed.arrivals:
        for slot, _ in _slots(reading, arrival.task, arrival.group):
            yield slot


def _amount_of(what: str | int | tuple[int, int | str], amount: int) -> str:
    if isinstance(what, str):
        return amount_text(what, amount)
    if isinstance(what, int):
        return f"{amount_text('gpu', amount)} of GPU {what}"
    gpu, part = what
    if isinstance(part, int):
        return f"{amount_text('gpu', amount)} of memory slice {part} of GPU {gpu}"
    if part == _MEMORY:
        return f"{memory_in_gi(amount)} of the memory of GPU {gpu}"
    return f"{amount // WHOLE_GPU} media extensions of GPU {gpu}"


def _limit(reading: Reading, slot: Slot) -> int:
    host, what = slot
    hardware = reading.cluster.hosts[host].hardware
    if isinstance(what, str):
        return hardware.capacity.get(what, 0)
    if isinstance(what, tuple) and what[1] == _MEMORY:
        return hardware.gpu_memory or 0
    return WHOLE_GPU


RULES_OF_MOVES: tuple[Rule[Reading], ...] = (
    Rule("moves", moves),
    Rule("move_order", move_order),
)
