"""Holders: who holds each GPU of a cluster, before a round and after plans of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Ints
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Plan, Task
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

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
