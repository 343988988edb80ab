"""Jobs that may share GPUs as arrays, groups of them on hosts, and those as a plan.

For methods that placewright is compared with. A group takes what its first member asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from placewright import Plan, Round
from placewright.array_types import Ints
from placewright.formulations.interleaving.problem.packing_problem import best_offsets, contended
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import Decision, DecisionKind, Task
from placewright.instances.documents.sharing import Sharing
from placewright.topology.units import MILLION, WHOLE_GPU

__all__ = ["Group", "Measures", "Queue", "measure", "place", "plan_of"]

Group: TypeAlias = tuple[int, ...]
Places: TypeAlias = list[list[tuple[int, int]]]


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """Jobs in the order of their round, and hosts.

    `stages` is (jobs, resources) and `iteration` (jobs,), in microseconds; a job has `tasks` of
    `size` GPUs each; `hosts` counts the GPUs of each host.
    """

    sharing: Sharing
    stages: Ints
    iteration: Ints
    weight: Ints
    tasks: Ints
    size: Ints
    hosts: Ints

    @classmethod
    def of(cls, round_: Round) -> Queue:
        """Read a round of waiting jobs of one option each, one group of whole GPUs.

        The first term says whether weights count.
        """
        assert round_.sharing is not None
        groups = [job.options[0].groups[0] for job in round_.jobs]
        profiles = [job.profile for job in round_.jobs if job.profile is not None]
        assert len(profiles) == len(groups)
        weighted = round_.policy.terms[0] == "weighted_throughput"
        hosts = [host.gpus or 0 for host in round_.cluster.hosts for _ in expand(host.name)]
        return cls(
            sharing=round_.sharing,
            stages=np.array([profile.stages for profile in profiles], dtype=np.int64),
            iteration=np.array([profile.alone for profile in profiles], dtype=np.int64),
            weight=np.array([job.weight if weighted else 1 for job in round_.jobs]),
            tasks=np.array([group.count for group in groups], dtype=np.int64),
            size=np.array([group.gpu // WHOLE_GPU for group in groups], dtype=np.int64),
            hosts=np.array(hosts, dtype=np.int64),
        )

    @property
    def gpus(self) -> Ints:
        """GPUs that each job asks."""
        return self.tasks * self.size

    def fits(self, groups: Sequence[Group]) -> bool:
        """Say whether these groups find hosts together."""
        return place(self, groups) is not None


@dataclass(frozen=True, slots=True, eq=False)
class Measures:
    """Of some groups, each array (groups,).

    `period` in microseconds, contention included; `gamma`, the efficiency, and `throughput`, each
    member's times its weight, in millionths; `lost`: slower than the members taking turns.
    """

    period: Ints
    gamma: Ints
    throughput: Ints
    lost: npt.NDArray[np.bool_]


def measure(queue: Queue, groups: Sequence[Group]) -> Measures:
    """Measure groups of 1 to 4 jobs."""
    lengths = np.array([len(group) for group in groups])
    made = np.zeros((4, len(groups)), dtype=np.int64)
    for members in np.unique(lengths).tolist():
        here = np.flatnonzero(lengths == members)
        these = np.array([groups[i] for i in here.tolist()], dtype=np.int64)
        stages, iteration = queue.stages[these], queue.iteration[these]
        together = iteration.sum(axis=1)
        period = together
        if members > 1:
            shortest, _ = best_offsets(stages, spanning=queue.sharing.spanning)
            period = contended(shortest, queue.sharing.contention[members - 2])
        each = MILLION * iteration // period[:, None]
        gamma = MILLION * stages.sum(axis=(1, 2)) // (queue.sharing.slots * period)
        throughput = (each * queue.weight[these]).sum(axis=1)
        made[:, here] = period, gamma, throughput, period > together
    return Measures(made[0], made[1], made[2], made[3].astype(bool))


def place(queue: Queue, groups: Sequence[Group]) -> Places | None:
    """Place groups, the largest tasks first, each on the fullest host with room.

    That finds places whenever there are any if sizes divide each other.

    Returns
    -------
    Host and first GPU of each task of each group, None if not all fit.
    """
    most = int(queue.hosts.max())
    with_free: list[list[int]] = [[] for _ in range(most + 1)]
    for host, free in enumerate(queue.hosts.tolist()):
        with_free[free].append(host)
    firsts = np.array([group[0] for group in groups], dtype=np.int64)
    places: Places = [[] for _ in groups]
    for i in np.argsort(-queue.size[firsts], kind="stable").tolist():
        size = int(queue.size[firsts[i]])
        for _ in range(int(queue.tasks[firsts[i]])):
            room = next((free for free in range(size, most + 1) if with_free[free]), None)
            if room is None:
                return None
            host = with_free[room].pop()
            with_free[room - size].append(host)
            places[i].append((host, int(queue.hosts[host]) - room))
    return places


def plan_of(round_: Round, queue: Queue, groups: Sequence[Group]) -> Plan:
    """Return the plan in which these groups run and all other jobs wait.

    Raises
    ------
    ValueError
        They do not fit the hosts.
    """
    places = place(queue, groups)
    if places is None:
        raise ValueError(f"{len(groups)} groups do not fit {queue.hosts.sum()} GPUs")
    hosts = [name for entry in round_.cluster.hosts for name in expand(entry.name)]
    names = [job.name for job in round_.jobs]
    tasks: dict[int, tuple[Task, ...]] = {}
    shared: list[dict[str, Any]] = []
    for group, where in zip(groups, places, strict=True):
        size = int(queue.size[group[0]])
        held = tuple(
            Task(index=i, host=hosts[host], gpus=tuple(range(first, first + size)))
            for i, (host, first) in enumerate(where)
        )
        tasks.update(dict.fromkeys(group, held))
        if len(group) > 1:
            _, offsets = best_offsets(queue.stages[[group]], spanning=queue.sharing.spanning)
            members = zip(group, offsets[0].tolist(), strict=True)
            shared.append(
                {
                    "members": [{"job": names[job], "offset": o} for job, o in members],
                    "period": int(measure(queue, [group]).period[0]),
                }
            )
    waits = {"decision": DecisionKind.WAIT}
    return Plan(
        decisions=tuple(
            Decision(job=name, decision=DecisionKind.START, option=0, tasks=tasks[job])
            if job in tasks
            else Decision(job=name, **waits)
            for job, name in enumerate(names)
        ),
        sections=({"kind": "groups", "groups": shared},) if shared else (),
    )
