"""Rules about decisions: one for each job, legal for its state; and the order of moves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import DecisionKind, Reason, Task
from placewright.instances.documents.quantities import amount_text, memory_in_gi
from placewright.instances.errors import Path, value_text
from placewright.instances.verify.policies import given, one_section, unknown_fields
from placewright.instances.verify.reading import Placed, Reading, demand
from placewright.instances.verify.result import Finding, rules
from placewright.instances.verify.rules.gang.limits import Pools
from placewright.instances.verify.rules.gang.places import slice_on
from placewright.topology.mig import MEMORY_SLICES
from placewright.topology.units import WHOLE_GPU

# Rules about decisions: one for each job, legal for its state, with the fields of its kind.
#
# Each rule looks at decisions and jobs; where tasks may be is the matter of other modules.


_PENDING = (DecisionKind.START, DecisionKind.WAIT)
_RUNNING = (DecisionKind.KEEP, DecisionKind.MIGRATE, DecisionKind.PREEMPT)
_SIZED = (*_RUNNING, DecisionKind.RESIZE)
_PINNED = (DecisionKind.KEEP,)
# What waits and what is preempted hold nothing after the round.
_WAIT, _PREEMPT = DecisionKind.WAIT, DecisionKind.PREEMPT
_IDLE = {_WAIT: "waits", _PREEMPT: "is preempted"}


def known_job(reading: Reading) -> Iterator[Finding]:
    """Require that every decision names a job of the round."""
    for index, decision in enumerate(reading.plan.decisions):
        if decision.job not in reading.jobs and decision.job not in reading.given.invalid:
            yield Finding(
                ("decisions", index, "job"),
                f"job {decision.job!r} is not in the round; expected one of its jobs",
            )


def invalid_job(reading: Reading) -> Iterator[Finding]:
    """Require that an invalid job waits."""
    invalid = reading.given.invalid
    for index, decision in enumerate(reading.plan.decisions):
        if decision.job in invalid and decision.decision is not _WAIT:
            yield Finding(
                ("decisions", index, "decision"),
                f"{decision.decision.value!r} is not for job {decision.job!r}, which is invalid "
                f"({invalid[decision.job]}); expected that it waits",
            )


def invalid_reason(reading: Reading) -> Iterator[Finding]:
    """Require that an invalid job is told why it waits, and that no other waits as `invalid`."""
    invalid = reading.given.invalid
    for index, decision in enumerate(reading.plan.decisions):
        name, reason = decision.job, decision.reason
        if name not in invalid:
            if reason is Reason.INVALID:
                yield Finding(
                    ("decisions", index, "reason"),
                    f"reason 'invalid' of job {name!r}, which is valid; expected another",
                )
            continue
        message = None if decision.detail is None else decision.detail.message
        if reason not in {None, Reason.INVALID}:
            yield Finding(
                ("decisions", index, "reason"),
                f"{reason!r} is not for job {name!r}, which is invalid ({invalid[name]}); "
                "expected that it waits for 'invalid'",
            )
        elif message is not None and message != invalid[name]:
            yield Finding(
                ("decisions", index, "detail", "message"),
                f"{message!r} is not what is wrong with job {name!r}; expected {invalid[name]!r}",
            )


def one_decision(reading: Reading) -> Iterator[Finding]:
    """Require one decision at most for every job of the round, and exactly one where it runs."""
    first: dict[str, int] = {}
    for index, decision in enumerate(reading.plan.decisions):
        earlier = first.setdefault(decision.job, index)
        if earlier != index:
            yield Finding(
                ("decisions", index, "job"),
                f"job {decision.job!r} is decided in decisions[{earlier}] already; "
                "expected one decision for each job",
            )
    for name in (*reading.jobs, *reading.given.invalid):
        if name not in first:
            yield Finding(
                ("decisions",),
                f"job {name!r} has no decision; expected one decision for each job",
            )


def legal_decision(reading: Reading) -> Iterator[Finding]:
    """Require a decision that the job's state allows.

    A pending job starts or waits; a running one is kept, migrated or preempted, if pinned kept, and
    resized where the round offers it other options; pinned to its place it is kept or resized.
    """
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        if job is None:
            continue
        state, legal = _legal(job, len(reading.round.offered(job)))
        if decision.decision not in legal:
            yield Finding(
                ("decisions", index, "decision"),
                f"decision {decision.decision.value!r} is not for job {decision.job!r}, "
                f"which is {state}; expected {' or '.join(kind.value for kind in legal)}",
            )


def option(reading: Reading) -> Iterator[Finding]:
    """Require one of its options of a job that is placed, and none of any other."""
    for index, decision in enumerate(reading.plan.decisions):
        path = ("decisions", index, "option")
        chosen = decision.option
        kind = decision.decision
        if kind is _WAIT or kind is _PREEMPT:
            if chosen is not None:
                yield Finding(
                    path,
                    f"option {chosen} of job {decision.job!r}, which {_IDLE[kind]}; expected none",
                )
            continue
        job = reading.jobs.get(decision.job)
        if job is not None and (chosen is None or chosen >= len(job.options)):
            given = "no option" if chosen is None else f"option {chosen}"
            yield Finding(
                path,
                f"{given} chosen for job {job.name!r}; "
                f"expected an index from 0 to {len(job.options) - 1}",
            )


def kept_in_place(reading: Reading) -> Iterator[Finding]:
    """Require that a kept job keeps its option and each task's host and GPUs."""
    keep = DecisionKind.KEEP
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        if job is None or job.running is None or decision.decision is not keep:
            continue
        if decision.option != job.running.option:
            yield Finding(
                ("decisions", index, "option"),
                f"kept job {job.name!r} changes to option {decision.option}; "
                f"expected option {job.running.option}, which it runs",
            )
        if not _same_places(decision.tasks, job.running.tasks):
            yield Finding(
                ("decisions", index, "tasks"),
                f"kept job {job.name!r} does not stay in place; "
                "expected the tasks, hosts and GPUs that it runs on",
            )


def migrated(reading: Reading) -> Iterator[Finding]:
    """Require that a migrated job keeps its option, and that some task of it moves."""
    for placed in reading.migrated:
        running = reading.running[placed.job.name]
        if placed.resizes:
            continue
        if placed.chosen != running.option:
            yield Finding(
                (*placed.path, "option"),
                f"migrated job {placed.job.name!r} changes to option {placed.chosen}; "
                f"expected option {running.option}, which it runs",
            )
        if _same_places(placed.decision.tasks, running.tasks):
            yield Finding(
                (*placed.path, "tasks"),
                f"migrated job {placed.job.name!r} stays in place; "
                "expected another host or other GPUs for some task, or decision 'keep'",
            )


def resized(reading: Reading) -> Iterator[Finding]:
    """Require that a resized job changes to another of its options, if pinned on its hosts."""
    for placed in reading.migrated:
        running = reading.running[placed.job.name]
        if placed.resizes and placed.chosen == running.option:
            yield Finding(
                (*placed.path, "option"),
                f"resized job {placed.job.name!r} has option {placed.chosen}, which it runs; "
                "expected another",
            )
        elif placed.resizes and running.pin == "place" and (hosts := _swapped(reading, placed)):
            yield Finding(
                (*placed.path, "tasks"),
                f"resized job {placed.job.name!r}, which is pinned to its place, has less than "
                f"before on host {hosts[0]} and more on {hosts[1]}; expected only one of both",
            )


def _swapped(reading: Reading, placed: Placed) -> tuple[str, str] | None:
    """Return a host that a resized job has less milli-GPU of, and one that it has more of."""
    groups = reading.option_run(placed.job.name).groups
    more: Counter[str] = Counter()
    for task in placed.tasks:
        more[task.host.name] += task.group.gpu
    for ran in reading.running[placed.job.name].tasks:
        more[ran.host] -= groups[ran.group].gpu
    least, most = min(more, key=more.__getitem__), max(more, key=more.__getitem__)
    return (least, most) if more[least] < 0 < more[most] else None


def holds_nothing(reading: Reading) -> Iterator[Finding]:
    """Refuse tasks of a waiting or preempted job."""
    for index, decision in enumerate(reading.plan.decisions):
        if decision.tasks and decision.decision in _IDLE:
            yield Finding(
                ("decisions", index, "tasks"),
                f"{len(decision.tasks)} tasks of job {decision.job!r}, "
                f"which {_IDLE[decision.decision]}; expected none",
            )


def reason(reading: Reading) -> Iterator[Finding]:
    """Refuse a reason where the job does not wait, and one that plans of the policy do not give.

    Facts without a reason are refused as well.
    """
    policy = reading.round.policy
    legal = (*policy.spec.reasons, Reason.INVALID.value)
    for index, decision in enumerate(reading.plan.decisions):
        if decision.detail is not None and decision.reason is None:
            yield Finding(
                ("decisions", index, "detail"),
                f"a detail of job {decision.job!r}, which has no reason; expected none",
            )
        if decision.reason is not None and decision.decision is not DecisionKind.WAIT:
            yield Finding(
                ("decisions", index, "reason"),
                f"reason {decision.reason.value!r} of job {decision.job!r}, which does not wait; "
                "expected none",
            )
        elif decision.reason is not None and decision.reason.value not in legal:
            yield Finding(
                ("decisions", index, "reason"),
                f"reason {decision.reason.value!r} of job {decision.job!r}, under policy "
                f"{policy.formulation!r}; expected {' or '.join(policy.spec.reasons)}",
            )


def _legal(job: Job, offered: int) -> tuple[str, tuple[DecisionKind, ...]]:
    """Return a job's state, in words, and the decisions that it allows, offered so many options."""
    if job.running is None:
        return "pending", _PENDING
    if job.running.pin == "place":
        return "pinned to its place", (*_PINNED, *_SIZED[-1:] * (offered > 1))
    if offered > 1:
        return "running, of several sizes", _SIZED
    return ("pinned", _PINNED) if job.running.pinned else ("running", _RUNNING)


def _same_places(one: Sequence[Task], other: Sequence[Task]) -> bool:
    # Kept jobs are many and mostly listed as the round does; only the others are worth sorting.
    return one == other or _places(one) == _places(other)


def _places(tasks: Sequence[Task]) -> list[tuple[int, int, str, list[int], int]]:
    return sorted(
        (t.group, t.index, t.host, sorted(t.gpus), -1 if t.slot is None else t.slot) for t in tasks
    )


RULES_OF_DECISIONS = (
    *rules(known_job, invalid_job, invalid_reason, one_decision, legal_decision, option),
    *rules(kept_in_place, migrated, resized, holds_nothing, reason),
)


# The plan section `moves`: the order of preemptions and migrations.
#
# Preempted jobs stop first. Those that need a spare place are stopped or parked before anything
# migrates, and take their new places last; the capacity rules say that they fit by then.


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
    expected = f"kind, {' and '.join(_LISTS)}"
    yield from unknown_fields(entry, ("kind", *_LISTS), path, expected, f" of section {KIND!r}")


def moves(reading: Reading) -> Iterator[Finding]:
    """Require one section if anything moves or stops, which names each such job once.

    Preempted jobs come first, and cannot need a spare place. Where jobs take turns, all
    that migrate stop first: what one holds beside others changes as groups form and part.
    """
    count = len(reading.migrated) + len(reading.preempted)
    missing = f"no section {KIND!r} with {count} jobs migrated or preempted" if count else ""
    yield from one_section(reading, KIND, missing)
    listed = _listed(reading)
    if listed is not None:
        yield from _named_once(reading, listed)


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
            for slot, amount in slots(reading, task.task, task.group):
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
    for index in given(reading, KIND)[:1]:
        entry = reading.plan.sections[index]
        if all(_are_names(entry.get(name)) for name in _LISTS):
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
            yield from slots(reading, task, groups[task.group])


def slots(reading: Reading, task: Task, group: TaskGroup) -> Iterator[tuple[Slot, int]]:
    """Yield what a task holds of its host, its GPUs and parts of these."""
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
        for slot, _ in slots(reading, arrival.task, arrival.group):
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


RULES_OF_MOVES = rules(moves, move_order)
