"""Occupancy: who uses each GPU, as arrays, for trees, maps and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.cli.format.text import count
from placewright.cli.views.interleaving.facts import groups_in
from placewright.instances.derived.arrays import build_cluster, build_state
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

NOBODY = -1
OUTCOMES = {
    DecisionKind.START: "started",
    DecisionKind.MIGRATE: "migrated",
    DecisionKind.PREEMPT: "preempted",
    DecisionKind.KEEP: "kept",
    DecisionKind.WAIT: "waiting",
}
MOVES = (DecisionKind.MIGRATE, DecisionKind.PREEMPT)
"""Decisions that only some plans have; what counts them leaves them out where there are none."""

Ints = NDArray[np.int32]


class PlacedJob(NamedTuple):
    """A job that a plan starts or migrates: its name, milli-GPU, hosts, and which of the two.

    Jobs that arrive on the same GPUs, to take turns there, are one with the name of the first.
    """

    name: str
    milli_gpu: int
    hosts: int
    migrated: bool


@dataclass(frozen=True, eq=False, slots=True)
class Occupancy:
    """The use of a cluster's GPUs before a round, or after a plan of it.

    Parameters
    ----------
    cluster : Cluster
        The cluster as arrays.
    healthy : bool array (hosts,)
        False where nothing may be placed: on unhealthy hosts and those that are away now.
    away : bool array (hosts,)
        Whether the current lease has nothing of the host.
    running : int32 array (gpus,)
        Milli-GPU of running jobs in the order of `Cluster.gpu_start`; after a plan, of kept jobs.
    placed : int32 array (gpus,)
        Milli-GPU of started and migrated jobs, where the plan has them.
    owner : int32 array (gpus,)
        Index in `jobs` of the largest placed job on the GPU, `NOBODY` where there is none.
    jobs : tuple of PlacedJob
        The started and migrated jobs, largest first.
    """

    cluster: Cluster
    healthy: NDArray[np.bool_]
    away: NDArray[np.bool_]
    running: Ints
    placed: Ints
    owner: Ints
    jobs: tuple[PlacedJob, ...]

    @property
    def unusable(self) -> str:
        """Word for the hosts on which nothing may be placed: unhealthy, away, or both."""
        if not self.away.any():
            return "unhealthy"
        return "away" if (self.healthy | self.away).all() else "unhealthy or away"

    @property
    def free_milli(self) -> int:
        """Milli-GPU on healthy hosts that nobody holds."""
        usable = np.repeat(self.healthy, self.cluster.gpu_count)
        return int((WHOLE_GPU - self.running - self.placed)[usable].sum())


def occupancy_of(round_: Round, plan: Plan | None = None) -> Occupancy:
    """Return who uses each GPU of a round, or of a round and a valid plan for it."""
    cluster = build_cluster(round_.cluster)
    state = build_state(round_, cluster)
    running = WHOLE_GPU - state.gpu_free if plan is None else np.zeros_like(state.gpu_free)
    placed = np.zeros(cluster.num_gpus, dtype=np.int32)
    owner = np.full(cluster.num_gpus, NOBODY, dtype=np.int32)
    jobs = {job.name: job for job in round_.jobs}
    arrived: dict[str, list[Decision]] = {}
    first_of = _first_members(plan)
    for decision in plan.decisions if plan else ():
        if decision.decision is DecisionKind.KEEP:
            for gpus, milli in _held(cluster, _option(jobs, decision), decision.tasks):
                running[gpus] += milli
        elif decision.decision in (DecisionKind.START, DecisionKind.MIGRATE):
            arrived.setdefault(first_of.get(decision.job, decision.job), []).append(decision)
    arrivals = sorted(
        ((members, _option(jobs, members[0])) for members in arrived.values()),
        key=lambda pair: -pair[1].milli_gpu,
    )
    # Smallest first, so that a shared GPU ends up with its largest job.
    for index in range(len(arrivals) - 1, -1, -1):
        members, option = arrivals[index]
        for gpus, milli in _held(cluster, option, members[0].tasks):
            placed[gpus] += milli
            owner[gpus] = index
    # Members of one group hold the same GPUs.
    np.minimum(running, WHOLE_GPU - placed, out=running)
    away = _away(round_, cluster)
    return Occupancy(
        cluster=cluster,
        healthy=state.healthy & ~away,
        away=away,
        running=running,
        placed=placed,
        owner=owner,
        jobs=tuple(
            PlacedJob(
                name=members[0].job
                + (f" and {count(len(members) - 1, 'other')}" if len(members) > 1 else ""),
                milli_gpu=option.milli_gpu,
                hosts=len({task.host for task in members[0].tasks}),
                migrated=all(d.decision is DecisionKind.MIGRATE for d in members),
            )
            for members, option in arrivals
        ),
    )


def _away(round_: Round, cluster: Cluster) -> NDArray[np.bool_]:
    """Return whether an outage has begun before the current lease ends (hosts,)."""
    away = np.zeros(cluster.num_hosts, dtype=np.bool_)
    for outage in round_.leases.outages:
        first, end = round_.leases.overlapped(outage, round_.now)
        if first == 0 < end:
            away[[cluster.host_index[name] for name in expand(outage.host)]] = True
    return away


def _first_members(plan: Plan | None) -> dict[str, str]:
    """Return of each job that shares its GPUs the first member of its group."""
    return {
        member["job"]: group["members"][0]["job"]
        for group in groups_in(plan)
        for member in group["members"]
    }


def _option(jobs: Mapping[str, Job], decision: Decision) -> Option:
    """Return the option of a job that holds something after the plan."""
    return jobs[decision.job].options[decision.option or 0]


def _held(
    cluster: Cluster, option: Option, tasks: Iterable[Task]
) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Yield the GPUs of each task, and the milli-GPU that it holds of each."""
    for task in tasks:
        start = cluster.gpu_start[cluster.host_index[task.host]]
        gpus = start + np.array(task.gpus, dtype=np.int64)
        yield gpus, min(option.groups[task.group].gpu, WHOLE_GPU)
