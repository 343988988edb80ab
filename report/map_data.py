"""The map of a page as columns: hosts in their domains, and who holds each GPU in each state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Plan, Task
from placewright.instances.documents.round import Round
from placewright.instances.errors import printable
from placewright.report.columns import ranges, runs
from placewright.report.facts.conditions import Condition, conditions_of
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

FREE, SAME = -1, -2
"""Of a GPU that nobody holds, and of one that is held as in the first state."""

FIRST_SHARED = -3
"""Of a GPU that is held as the first entry of `shared` says; the next ones count down."""

Held: TypeAlias = tuple[int, Option, Sequence[Task]]


def map_data(round_: Round, cluster: Cluster, plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the map of a round before and after each of its plans."""
    host, gpu = conditions_of(round_, cluster)
    shared: dict[tuple[tuple[int, int], ...], int] = {}
    states = [list(_running(round_)), *(list(_placed(round_, plan)) for plan in plans)]
    cells = [_cells(cluster, held, shared) for held in states]
    later = [
        [SAME if a == b else b for a, b in zip(cells[0], after, strict=True)] for after in cells[1:]
    ]
    return {
        "levels": list(cluster.levels),
        "hosts": _names(cluster.names[-1]),
        "domains": [_names(names) for names in cluster.names[:-1]],
        "domain": [runs(row) for row in cluster.domain[:-1]],
        "gpus": runs(cluster.gpu_count),
        "models": [printable(name) for name in cluster.gpu_models],
        "model": runs(cluster.gpu_model),
        "conditions": [condition.word for condition in Condition],
        "condition": runs(host),
        "gpuCondition": runs(gpu),
        "states": [runs(state) for state in (cells[0], *later)],
        "shared": [list(map(list, parts)) for parts in shared],
    }


def _names(names: Iterable[str]) -> list[str | list[str | int]]:
    return ranges([printable(name) for name in names])


def _running(round_: Round) -> Iterator[Held]:
    for number, job in enumerate(round_.jobs):
        if job.running is not None:
            yield number, job.options[job.running.option], job.running.tasks


def _placed(round_: Round, plan: Plan) -> Iterator[Held]:
    index = {job.name: number for number, job in enumerate(round_.jobs)}
    for decision in plan.decisions:
        if decision.tasks:
            number = index[decision.job]
            yield number, round_.jobs[number].options[decision.option or 0], decision.tasks


def _cells(
    cluster: Cluster, held: Iterable[Held], shared: dict[tuple[tuple[int, int], ...], int]
) -> list[int]:
    """Return who holds each GPU; what several jobs or a part of one hold goes into `shared`."""
    cells, parts = [FREE] * cluster.num_gpus, dict[int, list[tuple[int, int]]]()
    start: list[int] = cluster.gpu_start.tolist()
    index: Mapping[str, int] = cluster.host_index
    for job, option, tasks in held:
        milli = [min(group.gpu, WHOLE_GPU) for group in option.groups]
        for task in tasks:
            first, part = start[index[task.host]], milli[task.group]
            for gpu in task.gpus:
                at = first + gpu
                if part == WHOLE_GPU and cells[at] == FREE and at not in parts:
                    cells[at] = job
                    continue
                if cells[at] != FREE:
                    parts[at] = [(cells[at], WHOLE_GPU)]
                    cells[at] = FREE
                parts.setdefault(at, []).append((job, part))
    for at, several in parts.items():
        number = shared.setdefault(tuple(sorted(several)), len(shared))
        cells[at] = FIRST_SHARED - number
    return cells
