"""Who holds each GPU before and after a plan, and its shares and MIG instances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.running_groups import running_groups
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import DecisionKind, Plan, Task
from placewright.instances.documents.round import Round
from placewright.report.facts.jobs import MOVES, OUTCOMES, Condition, conditions_of
from placewright.report.facts.turns import groups_in
from placewright.topology import Cluster
from placewright.topology.mig import MEMORY_SLICES, NO_MIG, PRODUCTS, SLICES
from placewright.topology.units import WHOLE_GPU

# Parts of GPUs: which rectangle of each GPU each job holds.
#
# Shares are stacked from below in proportion to their milli-GPU, a MIG slice lies where its memory
# slices are, and jobs that take turns on a GPU stand side by side on it.


ALONE = -1
NO_SLOT = -1


class SharingKind(StrEnum):
    """How jobs share a GPU: by shares of it, by its MIG slices, or by taking turns."""

    SHARES = "shares"
    SLICES = "slices"
    TURNS = "turns"


class Held(NamedTuple):
    """What one task holds of one GPU; sorts by the order in which parts of a GPU are drawn.

    Parameters
    ----------
    gpu
        Index in the order of `Cluster.gpu_start`.
    slot, slices
        First memory slice of a MIG slice, and how many it takes; else `NO_SLOT` and 0.
    turns
        Number of the group that takes turns on the GPU, or `ALONE`.
    arrives
        Whether the job starts or migrates: what was there before is drawn below it.
    job, milli
        Index of the job, and milli-GPU.
    """

    gpu: int
    slot: int
    turns: int
    arrives: bool
    job: int
    milli: int
    slices: int


@dataclass(frozen=True, eq=False, slots=True)
class Parts:
    """Rectangles of GPUs that jobs hold, by GPU, from below and from the left.

    Parameters
    ----------
    gpu, job : int64 arrays (parts,)
        Index of the GPU in the order of `Cluster.gpu_start`, and of the job in `Occupancy.jobs`.
    milli : int64 array (parts,)
        Milli-GPU that the part adds to what is used of the GPU. A group that takes turns holds its
        GPUs once: its first member has all of it.
    left, right, low, high : float64 arrays (parts,)
        Sides of the rectangle as fractions of the GPU, `low` and `high` from below.
    """

    gpu: Ints
    job: Ints
    milli: Ints
    left: Floats
    right: Floats
    low: Floats
    high: Floats

    def used(self, gpus: int) -> Ints:
        """Return the milli-GPU in use of each of so many GPUs (gpus,)."""
        return np.bincount(self.gpu, weights=self.milli, minlength=gpus).astype(np.int64)

    @property
    def sharing(self) -> tuple[SharingKind, ...]:
        """The ways in which GPUs are shared."""
        height = self.high - self.low
        turns = self.right - self.left < 1
        slices = ~turns & (np.abs(WHOLE_GPU * height - self.milli) > 1)
        shares = ~turns & ~slices & (height < 1)
        found = {SharingKind.SHARES: shares, SharingKind.SLICES: slices, SharingKind.TURNS: turns}
        return tuple(way for way in SharingKind if found[way].any())


def parts_of(held: Iterable[Held]) -> Parts:
    """Return the rectangles of what tasks hold."""
    rows: list[tuple[float, ...]] = []
    for gpu, tasks in groupby(sorted(held), key=lambda task: task.gpu):
        bottom = 0
        for turns, members in groupby(tasks, key=lambda task: task.turns):
            sharing = list(members)
            if turns != ALONE:
                milli, size = sharing[0].milli, len(sharing)
                low, high = bottom / WHOLE_GPU, min((bottom + milli) / WHOLE_GPU, 1.0)
                rows += [
                    (gpu, task.job, 0 if i else milli, i / size, (i + 1) / size, low, high)
                    for i, task in enumerate(sharing)
                ]
                bottom += milli
                continue
            for task in sharing:
                if task.slot == NO_SLOT:
                    low, high = bottom / WHOLE_GPU, min((bottom + task.milli) / WHOLE_GPU, 1.0)
                    bottom += task.milli
                else:
                    low = task.slot / MEMORY_SLICES
                    high = (task.slot + task.slices) / MEMORY_SLICES
                rows.append((gpu, task.job, task.milli, 0.0, 1.0, low, high))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 7).T
    gpus, jobs, milli = columns[:3].astype(np.int64)
    return Parts(gpus, jobs, milli, *columns[3:])


def memory_slices(product: int, profile: str | None) -> int:
    """Return how many memory slices a MIG profile takes of such a GPU; 0 for what is none."""
    if profile is None or product == NO_MIG:
        return 0
    return SLICES[PRODUCTS[product].profiles[profile]].size


# Occupancy: which jobs hold which GPUs, and where nothing may arrive, as arrays.
#
# Trees, maps and pictures draw these facts.


LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Marks of jobs, without the letters that look like digits."""


class Use(StrEnum):
    """What a plan does with a job that holds GPUs; without a plan all such jobs run."""

    STARTED = "started"
    MIGRATED = "migrated"
    RESIZED = "resized"
    PREEMPTED = "preempted"
    KEPT = "kept"
    RUNNING = "running"

    @property
    def arrives(self) -> bool:
        """Whether the job gets GPUs by the plan."""
        return self in (Use.STARTED, Use.MIGRATED, Use.RESIZED)


class Holder(NamedTuple):
    """A job that holds GPUs before the plan, or after it.

    Parameters
    ----------
    name, tenant
        Of the job.
    milli_gpu, hosts
        What it holds, and on how many hosts: after the plan, or before it if it is preempted.
    use
        What the plan does with it.
    mark
        A letter that nobody else has: a capital for what arrives, a small one for what was there.
        Empty where all are given to larger jobs.
    rank
        Number of larger jobs that arrive, or of those with the same use.
    """

    name: str
    tenant: str | None
    milli_gpu: int
    hosts: int
    use: Use
    mark: str
    rank: int


@dataclass(frozen=True, eq=False, slots=True)
class Occupancy:
    """The use of a cluster's GPUs in a round, or before and after a plan of it.

    Parameters
    ----------
    cluster : Cluster
        The cluster as arrays.
    host_condition, gpu_condition : int64 arrays (hosts,) and (gpus,)
        A `Condition` of each host, and of each GPU in the order of `Cluster.gpu_start`.
    jobs : tuple of Holder
        Jobs that arrive, then those that are preempted, then those that stay, largest first.
    parts : Parts
        Who holds what: after the plan, if there is one.
    before : Parts or None
        Who held what before the plan, if the plan moves or preempts a job.
    without_gpus : int
        How many jobs hold no GPUs, and so have no parts.
    """

    cluster: Cluster
    host_condition: Ints
    gpu_condition: Ints
    jobs: tuple[Holder, ...]
    parts: Parts
    before: Parts | None
    without_gpus: int

    @property
    def used(self) -> Ints:
        """Milli-GPU in use of each GPU (gpus,)."""
        return self.parts.used(self.cluster.num_gpus)

    @property
    def free(self) -> Ints:
        """Milli-GPU of each GPU that nobody holds and that jobs may get (gpus,)."""
        return np.where(self.gpu_condition == Condition.AVAILABLE, WHOLE_GPU - self.used, 0)

    @property
    def maps(self) -> tuple[Parts, ...]:
        """What there is to draw: who holds what, of a plan that moves jobs before that too."""
        return (self.parts,) if self.before is None else (self.before, self.parts)

    @property
    def sharing(self) -> tuple[SharingKind, ...]:
        """The ways in which GPUs are shared."""
        return tuple(way for way in SharingKind if any(way in parts.sharing for parts in self.maps))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions of hosts and GPUs that occur, without `AVAILABLE`."""
        found = {*self.host_condition.tolist(), *self.gpu_condition.tolist()}
        return tuple(c for c in Condition if c and c in found)


class _Placed(NamedTuple):
    """A job with the option and the tasks that it has before or after the plan."""

    job: Job
    option: Option
    tasks: Sequence[Task]


def occupancy_of(round_: Round, plan: Plan | None = None, *, both: bool = False) -> Occupancy:
    """Return who uses each GPU of a round, or of a round and a valid plan for it.

    `both` keeps who held what before the plan even if that moves nobody.
    """
    cluster = build_cluster(round_.cluster)
    jobs = {job.name: job for job in round_.jobs}
    running = {
        job.name: _Placed(job, job.options[job.running.option], job.running.tasks)
        for job in round_.jobs
        if job.running is not None
    }
    if plan is None:
        uses, after = dict.fromkeys(running, Use.RUNNING), running
    else:
        uses = {
            d.job: Use(OUTCOMES[d.decision])
            for d in plan.decisions
            if d.decision is not DecisionKind.WAIT
        }
        after = {
            d.job: _Placed(jobs[d.job], jobs[d.job].options[d.option or 0], d.tasks)
            for d in plan.decisions
            if d.tasks
        }
    placed = {**running, **after}
    seen = {name: use for name, use in uses.items() if placed[name].option.milli_gpu}
    holders = _holders(seen, placed)
    index = {holder.name: i for i, holder in enumerate(holders)}
    names = [job.name for job in round_.jobs]
    together = [[names[i] for i in group] for group in running_groups(round_)]
    before = parts_of(_held(cluster, holders, index, running, together))
    if plan is None:
        parts, moved = before, False
    else:
        together = [[m["job"] for m in group["members"]] for group in groups_in(plan)]
        parts = parts_of(_held(cluster, holders, index, after, together))
        moved = both or any(d.decision in MOVES for d in plan.decisions)
    host, gpu = conditions_of(round_, cluster)
    return Occupancy(
        cluster,
        host,
        gpu,
        holders,
        parts,
        before if moved else None,
        len(uses) - len(seen),
    )


def _holders(uses: Mapping[str, Use], placed: Mapping[str, _Placed]) -> tuple[Holder, ...]:
    """Return the jobs in their order, with their marks."""
    arriving: list[str] = []
    others: dict[Use, list[str]] = {Use.PREEMPTED: [], Use.KEPT: [], Use.RUNNING: []}
    for name in sorted(uses, key=lambda name: -placed[name].option.milli_gpu):
        (arriving if uses[name].arrives else others[uses[name]]).append(name)
    holders = []
    for letters, groups in ((LETTERS, [arriving]), (LETTERS.lower(), others.values())):
        marks = iter(letters)
        for group in groups:
            for rank, name in enumerate(group):
                job, option, tasks = placed[name]
                hosts = len({task.host for task in tasks})
                holders.append(
                    Holder(
                        name,
                        job.tenant,
                        option.milli_gpu,
                        hosts,
                        uses[name],
                        next(marks, ""),
                        rank,
                    )
                )
    return tuple(holders)


def _held(
    cluster: Cluster,
    holders: Sequence[Holder],
    index: Mapping[str, int],
    placed: Mapping[str, _Placed],
    together: Iterable[Sequence[str]],
) -> Iterator[Held]:
    """Yield what each task holds of each of its GPUs; `together` are the groups that take turns."""
    group_of = {name: number for number, names in enumerate(together) for name in names}
    for name, (_, option, tasks) in placed.items():
        number = index.get(name)
        if number is None:
            continue
        turns, arrives = group_of.get(name, ALONE), holders[number].use.arrives
        for task in tasks:
            host = cluster.host_index[task.host]
            start, group = int(cluster.gpu_start[host]), option.groups[task.group]
            milli, slot = min(group.gpu, WHOLE_GPU), NO_SLOT if task.slot is None else task.slot
            slices = memory_slices(int(cluster.product[host]), group.mig)
            for gpu in task.gpus:
                yield Held(start + gpu, slot, turns, arrives, number, milli, slices)
