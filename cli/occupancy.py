"""Who uses each GPU, as arrays: what trees, maps and pictures are drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.instances.arrays import build_cluster, build_state
from placewright.instances.documents import WHOLE_GPU
from placewright.instances.plan import DecisionKind, Plan
from placewright.instances.round import Round
from placewright.topology import Cluster

NOBODY = -1


@dataclass(frozen=True, eq=False, slots=True)
class Occupancy:
    """The use of a cluster's GPUs before a round, or after a plan of it.

    Parameters
    ----------
    cluster : Cluster
        The cluster as arrays.
    healthy : bool array (hosts,)
        False where nothing may be placed.
    running : int32 array (gpus,)
        Milli-GPU that running jobs hold, in the order of `Cluster.gpu_start`.
    started : int32 array (gpus,)
        Milli-GPU that started jobs hold.
    owner : int32 array (gpus,)
        Index in `jobs` of the largest started job on the GPU, `NOBODY` where there is none.
    jobs : tuple of (str, int, int)
        The started jobs, largest first: name, milli-GPU, hosts.
    """

    cluster: Cluster
    healthy: NDArray[np.bool_]
    running: NDArray[np.int32]
    started: NDArray[np.int32]
    owner: NDArray[np.int32]
    jobs: tuple[tuple[str, int, int], ...]

    @property
    def free_milli(self) -> int:
        """Milli-GPU on healthy hosts that nobody holds."""
        usable = np.repeat(self.healthy, self.cluster.gpu_count)
        return int((WHOLE_GPU - self.running - self.started)[usable].sum())


def occupancy_of(round_: Round, plan: Plan | None = None) -> Occupancy:
    """Return who uses each GPU of a round, or of a round and a valid plan for it."""
    cluster = build_cluster(round_.cluster)
    state = build_state(round_, cluster)
    started = np.zeros(cluster.num_gpus, dtype=np.int32)
    owner = np.full(cluster.num_gpus, NOBODY, dtype=np.int32)
    jobs = {job.name: job for job in round_.jobs}
    placed = [
        (decision, jobs[decision.job].options[decision.option])
        for decision in (plan.decisions if plan else ())
        if decision.decision is DecisionKind.START and decision.option is not None
    ]
    placed.sort(key=lambda pair: -pair[1].milli_gpu)
    # Smallest first, so that a shared GPU ends up with its largest job.
    for index in range(len(placed) - 1, -1, -1):
        decision, option = placed[index]
        for task in decision.tasks:
            held = cluster.gpu_start[cluster.host_index[task.host]] + np.array(task.gpus, dtype=int)
            started[held] += min(option.groups[task.group].gpu, WHOLE_GPU)
            owner[held] = index
    return Occupancy(
        cluster=cluster,
        healthy=state.healthy,
        running=WHOLE_GPU - state.gpu_free,
        started=started,
        owner=owner,
        jobs=tuple(
            (decision.job, option.milli_gpu, len({task.host for task in decision.tasks}))
            for decision, option in placed
        ),
    )
