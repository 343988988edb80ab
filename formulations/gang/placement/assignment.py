"""Assignment: which jobs of a class start, and which GPUs each task of a placement gets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from placewright.formulations.gang.placement.placement import Placement, task_indices
from placewright.formulations.gang.placement.preemption import (
    levels_of_displaced,
    running_host_groups,
)
from placewright.formulations.gang.problem.gpu_links import LinkDemands, bits, set_of
from placewright.formulations.gang.problem.jobs import ANY_JOB, Choice, JobPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate, Place, Slots
from placewright.topology.units import WHOLE_GPU

Arrivals: TypeAlias = Mapping[int, Sequence[tuple[bool, int, int]]]
"""By host, who arrives there: (entitled, priority, minus the job's index)."""


class Assignment(NamedTuple):
    """What starts or moves, as in a `Candidate`, and which jobs arrive on each host."""

    starts: dict[int, tuple[int, tuple[Place, ...]]]
    slots: dict[int, Slots]
    arrivals: Arrivals


def assign(placement: Placement, source: str, *, final: bool = False) -> Candidate:
    """Return a placement as a candidate plan: which jobs start, and which GPUs each task has.

    The placement is only read. Its stopped jobs must be lawful victims already
    (`repair_preemptions`).
    """
    starts, slots, arrived = assign_gpus(placement)
    return Candidate(starts, source, _preempted(placement, arrived), final, slots)


def assign_gpus(placement: Placement) -> Assignment:
    """Return which jobs of a placement start or move, and the GPUs of their tasks."""
    problem = placement.problem
    pools = _FreeGpus(placement)
    # Running jobs go first, so that their tasks find the GPUs that they had.
    changed = sorted(placement.changed(), key=lambda s: s[1].job == ANY_JOB)
    pools.join([start for _, start in changed])
    for _, start in changed:
        if start.job != ANY_JOB and start.choice:
            pools.keep(start)
    waiting = [iter(() if c.running else c.jobs) for c in problem.classes]
    starts: dict[int, tuple[int, tuple[Place, ...]]] = {}
    slots: dict[int, Slots] = {}
    # Of equal precedence the first in the round is the preemptor.
    arrived: defaultdict[int, list[tuple[bool, int, int]]] = defaultdict(list)
    for _, start in changed:
        choice = problem.classes[start.job_class].choices[start.choice]
        job = next(waiting[start.job_class]) if start.job == ANY_JOB else start.job
        tasks = list(_tasks(problem, pools, start, choice))
        starts[job] = (choice.index, tuple(place for place, _ in tasks))
        if any(slot is not None for _, slot in tasks):
            slots[job] = tuple(slot for _, slot in tasks)
        ran = set() if start.choice and start.job != ANY_JOB else running_host_groups(problem, job)
        for host, _ in {(put.host, put.group) for put in start.tasks} - ran:
            arrived[host].append((choice.entitled, problem.round.jobs[job].priority, -job))
    # A running job may come back to just where it was.
    home = [
        j
        for j in starts
        if j in problem.running
        and starts[j][0] == problem.choice_of(j).index
        and _is_in_place(problem, j, starts[j][1], slots.get(j, ()))
    ]
    for job in home:
        del starts[job]
        slots.pop(job, None)
    return Assignment(starts, slots, arrived)


class _FreeGpus:
    """Free GPUs of each host not assigned yet, and places of arriving MIG slices."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._free: dict[int, list[int]] = {}
        self._had = _displaced_from(placement)
        self._starts: dict[tuple[int, int], list[tuple[int, int]]] = {}
        # By host whose GPUs are joined differently, and shape: sets of GPUs for such tasks.
        self._joined: defaultdict[tuple[int, int], list[tuple[int, ...]]] = defaultdict(list)
        # By job that resizes and host: the whole GPUs that it keeps, for whichever of its tasks.
        self._kept: defaultdict[tuple[int, int], list[int]] = defaultdict(list)

    def keep(self, start: JobPlacement) -> None:
        """Set aside the whole GPUs that a job had which resizes, as many as it needs on a host."""
        problem = self._placement.problem
        job_class = problem.classes[start.job_class]
        needed: Counter[int] = Counter()
        for put in start.tasks:
            shape = job_class.choices[start.choice].groups[put.group].shape
            if not put.gpus and (put.host, shape) not in self._joined:
                needed[put.host] += put.count * (int(problem.shape_gpu[shape]) // WHOLE_GPU)
        for group, _, host, gpus in problem.running[start.job].places:
            whole = int(problem.shape_gpu[job_class.choices[0].groups[group].shape]) >= WHOLE_GPU
            for gpu in gpus if whole else ():
                free = self._free_of(host)
                if needed[host] and gpu in free:
                    free.remove(gpu)
                    self._kept[start.job, host].append(gpu)
                    needed[host] -= 1

    def _free_of(self, host: int) -> list[int]:
        if host not in self._free:
            self._free[host] = self._placement.free_gpu_ids(host)
        return self._free[host]

    def join(self, starts: Sequence[JobPlacement]) -> None:
        """Choose the sets of GPUs of all tasks on hosts whose GPUs are joined differently."""
        links, problem = self._placement.problem.link_demands, self._placement.problem
        coming: defaultdict[int, list[int]] = defaultdict(list)
        if links is None or not links.differ.any():
            return
        for start in starts:
            groups = problem.classes[start.job_class].choices[start.choice].groups
            for put in start.tasks:
                shape = groups[put.group].shape
                if links.differ[put.host] and links.gpus[shape] and not put.gpus:
                    coming[put.host] += [shape] * put.count
        for host, shapes in coming.items():
            self._join(links, host, sorted(shapes))

    def _join(self, links: LinkDemands, host: int, shapes: list[int]) -> None:
        free = self._placement.free_gpu_ids(host)
        mine, had = set_of(free), self._had.get(host)
        tables = links.tables[links.of_host[host]]
        for ruled in (True, False) if had else (False,):
            tasks = []
            for shape in shapes:
                rank = int(self._placement.problem.shape_rank[shape])
                # What a job had that it does not displace it leaves to others, if it can.
                may = [gpu for gpu in free if not ruled or not had or had.get(gpu, 0) <= rank]
                tasks.append(links.task(shape, set_of(may) & mine))
            found = tables.pack(mine, tuple(tasks))
            if found is not None:
                for shape, gpus in zip(shapes, found.sets, strict=True):
                    self._joined[host, shape].append(tuple(bits(gpus)))
                return

    def slot(self, shape: int, host: int, gpus: tuple[int, ...]) -> int | None:
        """Take a place for a MIG slice that arrived on a GPU; None for any other task."""
        parts = self._placement.part_state
        if parts is None:
            return None
        kind = parts.demands.slice_kind_on(shape, host)
        if kind < 0:
            return None
        if not parts.demands.is_slice[shape]:
            return 0  # it is as large as the GPU
        key = host, gpus[0]
        if key not in self._starts:
            self._starts[key] = list(parts.demands.layouts.starts(int(parts.layout[key])))
        named = next(start for start in self._starts[key] if start[0] == kind)
        self._starts[key].remove(named)
        return named[1]

    def take(
        self, host: int, shape: int, wanted: tuple[int, ...] = (), job: int = ANY_JOB
    ) -> tuple[int, ...]:
        """Take free GPUs of a host for a task: the `wanted` ones if all of them are free.

        A task of a job that resizes takes first what `keep` has set aside for the job.
        A task takes rather what a job below its rank had, the highest of them, than what nobody
        had, and that rather than what a job had that it does not displace.
        """
        problem = self._placement.problem
        count, rank = int(problem.shape_gpu[shape]) // WHOLE_GPU, int(problem.shape_rank[shape])
        if not count:
            return ()
        if joined := self._joined.get((host, shape)):
            return joined.pop(joined.index(wanted) if wanted in joined else -1)
        free_gpus = self._free_of(host)
        kept = self._kept[job, host] if job != ANY_JOB else []
        mine = [kept.pop() for _ in range(min(count, len(kept)))]
        if wanted and all(gpu in free_gpus for gpu in wanted):
            for gpu in wanted:
                free_gpus.remove(gpu)
            return wanted
        had = self._had.get(host)
        if had is not None:
            level = {gpu: had.get(gpu, 0) for gpu in free_gpus}
            free_gpus.sort(
                key=lambda gpu: (level[gpu] if level[gpu] <= rank else -level[gpu], -gpu)
            )
        return (*mine, *(free_gpus.pop() for _ in range(count - len(mine))))


def _displaced_from(placement: Placement) -> Mapping[int, Mapping[int, int]]:
    """Return, by host and GPU, the least rank that may have what a displaced job had there."""
    found: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for job, level in levels_of_displaced(placement).items():
        for _, _, host, gpus in placement.problem.running[job].places:
            for gpu in gpus:
                found[host][gpu] = max(found[host].get(gpu, 0), level + 1)
    return found


def _tasks(
    problem: Problem, pools: _FreeGpus, start: JobPlacement, choice: Choice
) -> Iterator[tuple[Place, int | None]]:
    """Yield place and MIG slot of each task; tasks of a running job that stay keep their index.

    In a group with slices of tasks, a task that returns to its GPUs gets the index that suits the
    others.
    """
    before: defaultdict[tuple[int, int], list[tuple[int, tuple[int, ...], int | None]]]
    before = defaultdict(list)
    if start.job != ANY_JOB and not start.choice:
        running = problem.running[start.job]
        at = running.slots or (None,) * len(running.places)
        for (group, index, host, had), slot in zip(running.places, at, strict=True):
            before[group, host].append((index, had, slot))
    free = [set(range(group.count)) for group in choice.groups]
    kept: list[dict[int, int]] = [{} for _ in choice.groups]  # host by index
    open_tasks: list[tuple[int, int, tuple[int, ...] | None, int | None]] = []
    for put in start.tasks:
        shape = choice.groups[put.group].shape
        gpu = int(problem.shape_gpu[shape])
        for k in range(put.count):
            mine = before[put.group, put.host]
            gpus: tuple[int, ...] | None = None
            if put.stays or (put.gpus and gpu >= WHOLE_GPU):
                gpus = put.gpus
            elif gpu < WHOLE_GPU:
                gpus = put.gpus[k : k + 1]
            elif mine:
                gpus = pools.take(put.host, shape, mine[-1][1])
            slot = put.slot if put.stays else pools.slot(shape, put.host, gpus or ())
            same = next(
                (i for i, g, s in mine if gpus is not None and set(g) == set(gpus) and s == slot),
                None,
            )
            sliced = choice.groups[put.group].slices is not None
            if same is None or (sliced and not put.stays):
                open_tasks.append((put.group, put.host, gpus, slot))
            else:
                mine.remove(next(m for m in mine if m[0] == same))
                free[put.group].remove(same)
                kept[put.group][same] = put.host
                yield (put.group, same, put.host, gpus or ()), slot
    index_of = [iter(sorted(left)) for left in free]
    for k, asked in enumerate(choice.groups):
        if asked.is_ordered:
            hosts = [host for number, host, _, _ in open_tasks if number == k]
            index_of[k] = iter(task_indices(problem.cluster, asked, hosts, kept[k]))
    for number, host, named, slot in open_tasks:
        index = next(index_of[number])
        shape = choice.groups[number].shape
        gpus = pools.take(host, shape, job=start.job) if named is None else named
        yield (number, index, host, gpus), slot


def _is_in_place(problem: Problem, job: int, places: tuple[Place, ...], slots: Slots) -> bool:
    """Whether places are just those where a running job was."""
    running = problem.running[job]
    if slots != running.slots and sorted(zip(places, slots, strict=False)) != sorted(
        zip(running.places, running.slots, strict=False)
    ):
        return False

    def order(tasks: tuple[Place, ...]) -> list[tuple[int, int, int, list[int]]]:
        return sorted((g, i, h, sorted(gpus)) for g, i, h, gpus in tasks)

    return order(places) == order(running.places)


def _preempted(placement: Placement, arrived: Arrivals) -> dict[int, int]:
    """Return the preemptor of each stopped job."""
    return {
        job: preemptor_of(placement.problem, job, arrived)
        for stopped in placement.stopped
        for job in stopped
    }


def preemptor_of(problem: Problem, job: int, arrived: Arrivals) -> int:
    """Return the job of highest precedence that arrives on the hosts of a running job.

    -1 if none does, where a quota or a label displaces it.
    """
    places = problem.running[job].places
    there = [a for _, _, host, _ in places for a in arrived.get(host, ())]
    return -max(there)[-1] if there else -1
