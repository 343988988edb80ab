"""Jobs of a round and its plan: who holds each GPU, what is decided, who moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Ints
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import DecisionKind, Plan, Task
from placewright.instances.documents.round import Round
from placewright.report.text import place
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

if TYPE_CHECKING:
    from placewright.instances.documents.job import Running
    from placewright.instances.documents.plan import Decision


# Conditions of hosts and GPUs: where nothing may arrive, and why.


class Condition(IntEnum):
    """Why nothing may arrive; of several conditions the last one is shown."""

    AVAILABLE = 0
    RESERVED = 1
    TO_VACATE = 2
    AWAY = 3
    UNHEALTHY = 4

    @property
    def word(self) -> str:
        """The condition in a text: `to vacate`."""
        return self.name.lower().replace("_", " ")


def conditions_of(round_: Round, cluster: Cluster) -> tuple[Ints, Ints]:
    """Return the condition of each host (hosts,) and of each GPU (gpus,).

    A host is reserved if all of it is; else its reserved GPUs are.
    """
    host = np.full(cluster.num_hosts, Condition.AVAILABLE, dtype=np.int64)
    gpu = np.full(cluster.num_gpus, Condition.AVAILABLE, dtype=np.int64)

    def mark(condition: Condition, hosts: list[str]) -> None:
        host[[cluster.host_index[name] for name in hosts]] = condition

    for reservation in round_.reservations:
        if reservation.gpus is None:
            mark(Condition.RESERVED, expand(reservation.host))
            continue
        for name in expand(reservation.host):
            start = cluster.gpu_start[cluster.host_index[name]]
            gpu[start + np.array(reservation.gpus)] = Condition.RESERVED
    for vacated in round_.policy.vacate:
        mark(Condition.TO_VACATE, expand(vacated))
    for outage in round_.maintenance:
        if (outage.start or 0) <= round_.now and (outage.end is None or round_.now < outage.end):
            mark(Condition.AWAY, expand(outage.host))
    for outage in round_.leases.outages:
        first, end = round_.leases.overlapped(outage, round_.now)
        if first == 0 < end:
            mark(Condition.AWAY, expand(outage.host))
    for entry in round_.cluster.hosts:
        if not entry.healthy:
            mark(Condition.UNHEALTHY, expand(entry.name))
    return host, np.maximum(gpu, np.repeat(host, cluster.gpu_count))


# Holders: who holds each GPU of a cluster, before a round and after plans of it.


FREE = -1
"""Of a GPU that nobody holds; one that a single job holds whole has the job's number."""

FIRST_SHARED = -3
"""Of a GPU that is held as the first entry of `shared` says; for the next ones it counts down."""

Parts: TypeAlias = tuple[tuple[int, int], ...]
_Held: TypeAlias = tuple[int, Option, Sequence[Task]]


class Holders(NamedTuple):
    """Who holds each GPU.

    Parameters
    ----------
    states
        An array (gpus,) of before, and one for after each plan.
    shared
        Of GPUs with several jobs, or with a part of one: each job's number and its milli-GPU.
    """

    states: tuple[Ints, ...]
    shared: tuple[Parts, ...]


def holders_of(round_: Round, cluster: Cluster, plans: Sequence[Plan]) -> Holders:
    """Return who holds each GPU before a round and after each of its plans."""
    shared: dict[Parts, int] = {}
    held = [_running(round_), *(_placed(round_, plan) for plan in plans)]
    states = tuple(_state(cluster, jobs, shared) for jobs in held)
    return Holders(states, tuple(shared))


def _running(round_: Round) -> Iterator[_Held]:
    for number, job in enumerate(round_.jobs):
        if job.running is not None:
            yield number, job.options[job.running.option], job.running.tasks


def _placed(round_: Round, plan: Plan) -> Iterator[_Held]:
    index = {job.name: number for number, job in enumerate(round_.jobs)}
    for decision in plan.decisions:
        if decision.tasks:
            number = index[decision.job]
            yield number, round_.jobs[number].options[decision.option or 0], decision.tasks


def _state(cluster: Cluster, held: Iterable[_Held], shared: dict[Parts, int]) -> Ints:
    found, parts = [FREE] * cluster.num_gpus, dict[int, list[tuple[int, int]]]()
    start: list[int] = cluster.gpu_start.tolist()
    for job, option, tasks in held:
        milli = [min(group.gpu, WHOLE_GPU) for group in option.groups]
        for task in tasks:
            first, part = start[cluster.host_index[task.host]], milli[task.group]
            for gpu in task.gpus:
                at = first + gpu
                if part == WHOLE_GPU and found[at] == FREE and at not in parts:
                    found[at] = job
                    continue
                if found[at] != FREE:
                    parts[at] = [(found[at], WHOLE_GPU)]
                    found[at] = FREE
                parts.setdefault(at, []).append((job, part))
    for at, several in parts.items():
        found[at] = FIRST_SHARED - shared.setdefault(tuple(sorted(several)), len(shared))
    return np.array(found, dtype=np.int64)


# What a plan decides, as words, and the GPUs that it decides about.


OUTCOMES = {
    DecisionKind.START: "started",
    DecisionKind.MIGRATE: "migrated",
    DecisionKind.PREEMPT: "preempted",
    DecisionKind.KEEP: "kept",
    DecisionKind.WAIT: "waiting",
    DecisionKind.RESIZE: "resized",
}
MOVES = (DecisionKind.MIGRATE, DecisionKind.RESIZE, DecisionKind.PREEMPT)
"""Decisions that only some plans have; what counts them leaves them out where there are none."""


def milli_gpu_of(jobs: Mapping[str, Job], plan: Plan) -> dict[str, int]:
    """Return what each job holds, or held if it is preempted, or asks at most if it waits."""
    known: dict[int, int] = {}  # by option, each of which the round keeps alive

    def asked(option: Option) -> int:
        if id(option) not in known:
            known[id(option)] = option.milli_gpu
        return known[id(option)]

    found: dict[str, int] = {}
    for decision in plan.decisions:
        job = jobs[decision.job]
        if decision.option is not None:
            found[job.name] = asked(job.options[decision.option])
        elif job.running is not None:
            found[job.name] = asked(job.options[job.running.option])
        else:
            found[job.name] = max(map(asked, job.options))
    return found


# Jobs with the option and the tasks that they have, before a plan and after it.


HOLDING = (
    DecisionKind.START,
    DecisionKind.KEEP,
    DecisionKind.MIGRATE,
    DecisionKind.RESIZE,
)

Placed: TypeAlias = tuple[Option, Sequence[Task]]


def placed_before(jobs: Iterable[Job]) -> Iterator[Placed]:
    """Yield the running jobs."""
    for job in jobs:
        if job.running is not None:
            yield job.options[job.running.option], job.running.tasks


def placed_after(jobs: Mapping[str, Job], plan: Plan) -> Iterator[Placed]:
    """Yield the jobs that a plan starts, keeps or moves; `jobs` are by name."""
    for decision in plan.decisions:
        if decision.decision in HOLDING:
            yield jobs[decision.job].options[decision.option or 0], decision.tasks


# The moves of a plan in their order: which running jobs stop or move, from where and to where.


class Move(NamedTuple):
    """One running job that stops or moves, and the places of those of its tasks that do.

    `milli_gpu` counts those tasks only; `target` names, for a preempted job, who displaces it.
    `spare`: the job reaches its new place only through another one, or by being stopped first.
    """

    job: str
    kind: DecisionKind
    milli_gpu: int
    source: str
    target: str
    spare: bool


def moves_of(jobs: Mapping[str, Job], plan: Plan) -> list[Move]:
    """Return the moves of a valid plan in the order of its section, those by a spare place last."""
    decisions = {decision.job: decision for decision in plan.decisions}
    return [
        _move(jobs[name], running, decisions[name], spare)
        for section in plan.sections
        if section["kind"] == "moves"
        for names, spare in ((section["steps"], False), (section["needs_spare"], True))
        for name in names
        if (running := jobs[name].running) is not None
    ]


def _move(job: Job, running: Running, decision: Decision, spare: bool) -> Move:
    before, after = running.tasks, decision.tasks
    stays = {_identity(task) for task in before} & {_identity(task) for task in after}
    leaving = [task for task in before if _identity(task) not in stays]
    if decision.decision is DecisionKind.PREEMPT:
        by = decision.displaced_by
        target = f"displaced by {', '.join(by)}" if by else "a host is away"
    else:
        target = place([task for task in after if _identity(task) not in stays])
    groups = job.options[running.option].groups
    return Move(
        job=job.name,
        kind=decision.decision,
        milli_gpu=sum(groups[task.group].gpu for task in leaving),
        source=place(leaving),
        target=target,
        spare=spare,
    )


def _identity(task: Task) -> tuple[int, int, str, frozenset[int], int | None]:
    """Key that is equal before and after if a task stays: task, host, GPUs and slot."""
    return task.group, task.index, task.host, frozenset(task.gpus), task.slot
