"""CPU and memory shared out without a solver: proportional shares, and Synergy-TUNE.

Written from the description in Mohan et al., OSDI 2022, section 4. Every job of the round is
seated, or waits only where no host has the GPUs. A job of several tasks has a host for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from placewright import Plan, Round
from placewright.array_types import Ints
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.speed import speed
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Decision, DecisionKind, Task
from placewright.topology.units import WHOLE_GPU

__all__ = ["proportional", "tuned"]

Hosts: TypeAlias = list[int]

SHARE = 0
"""The option that is a job's proportional share."""


@dataclass(slots=True)
class _Seats:
    """Who is where: `free` is int64 (hosts, 3), milli-GPU, millicores and MiB."""

    round_: Round
    free: Ints
    seated: dict[int, tuple[int, Hosts]] = field(default_factory=dict)

    @classmethod
    def of(cls, round_: Round) -> _Seats:
        rows = [
            (1000 * (entry.gpus or 0), entry.cpu, entry.memory)
            for entry in round_.cluster.hosts
            for _ in expand(entry.name)
        ]
        return cls(round_, np.array(rows, dtype=np.int64))

    def asks(self, job: int, option: int) -> tuple[Ints, int]:
        """Return what a task of a job takes of its host, and how many tasks there are."""
        (group,) = self.round_.jobs[job].options[option].groups
        return np.array([group.gpu, group.cpu, group.memory], dtype=np.int64), group.count

    def seat(self, job: int, option: int) -> bool:
        """Seat a job on the hosts that have least left, GPUs before CPU before memory."""
        amount, count = self.asks(job, option)
        fitting = np.flatnonzero((self.free >= amount).all(axis=1))
        if len(fitting) < count:
            return False
        left = self.free[fitting]
        hosts = fitting[np.lexsort((left[:, 2], left[:, 1], left[:, 0]))][:count]
        self.free[hosts] -= amount
        self.seated[job] = option, hosts.tolist()
        return True

    def give_back(self, job: int) -> None:
        """Let a seated job have its proportional share and no more, where it is."""
        option, hosts = self.seated[job]
        before, _ = self.asks(job, option)
        share, _ = self.asks(job, SHARE)
        self.free[hosts] += before - share
        self.seated[job] = SHARE, hosts

    def rich(self) -> list[int]:
        """Return who has more than its share: fewest hosts, most CPU, most memory per GPU first."""
        found = []
        for job, (option, hosts) in self.seated.items():
            amount, _ = self.asks(job, option)
            share, _ = self.asks(job, SHARE)
            if (amount >= share).all() and (amount > share).any():
                found.append((len(hosts), *(-amount[1:] / amount[0]).tolist(), job))
        return [int(one[-1]) for one in sorted(found)]

    def take_back(self, job: int, option: int) -> bool:
        """Seat a job where others have more than their share, once some of them give it back."""
        amount, _ = self.asks(job, option)
        rich = self.rich()
        while not self.seat(job, option):
            able = self.free[:, 0] >= amount[0]
            short = {*np.flatnonzero(able & (self.free < amount).any(axis=1)).tolist()}
            peer = next((one for one in rich if short & {*self.seated[one][1]}), None)
            if peer is None:
                return False
            self.give_back(peer)
            rich.remove(peer)
        return True

    def plan(self) -> Plan:
        """Return where all are, GPUs from the lowest up; whoever has no seat waits."""
        names = [name for entry in self.round_.cluster.hosts for name in expand(entry.name)]
        used = [0] * len(names)
        decisions = []
        for i, job in enumerate(self.round_.jobs):
            if i not in self.seated:
                waits = {"decision": DecisionKind.WAIT}
                decisions.append(Decision(job=job.name, **waits))
                continue
            option, hosts = self.seated[i]
            gpus = job.options[option].groups[0].gpu // WHOLE_GPU
            tasks = []
            for index, host in enumerate(hosts):
                taken = tuple(range(used[host], used[host] + gpus))
                used[host] += gpus
                tasks.append(Task(index=index, host=names[host], gpus=taken))
            decisions.append(
                Decision(
                    job=job.name, decision=DecisionKind.START, option=option, tasks=tuple(tasks)
                )
            )
        return Plan(decisions=tuple(decisions))


def proportional(round_: Round) -> Plan:
    """Give every job its proportional share, most GPUs first, on the hosts with least left."""
    seats = _Seats.of(round_)
    for job in sorted(range(len(round_.jobs)), key=lambda i: -round_.jobs[i].options[0].milli_gpu):
        seats.seat(job, SHARE)
    return seats.plan()


def tuned(round_: Round) -> Plan:
    """Give every job the least with which it is fastest, and take back what others then lack.

    Jobs that ask most come first: GPUs, CPU, memory. One that does not fit has no more than its
    share, and if it still does not fit, those that have more than theirs give it back.
    """
    seats = _Seats.of(round_)
    wanted = [_fastest(round_, i) for i in range(len(round_.jobs))]

    def demand(i: int) -> tuple[int, ...]:
        (group,) = round_.jobs[i].options[wanted[i]].groups
        return -group.milli_gpu, -group.count * group.cpu, -group.count * group.memory

    for job in sorted(range(len(round_.jobs)), key=demand):
        if seats.seat(job, wanted[job]):
            continue
        modest = bool((seats.asks(job, wanted[job])[0] <= seats.asks(job, SHARE)[0]).all())
        seats.take_back(job, wanted[job] if modest else SHARE)
    return seats.plan()


def _fastest(round_: Round, job: int) -> int:
    """Return the option with which a job is fastest, of these the one that asks least."""

    def key(option: int) -> tuple[int, int, int]:
        chosen: Option = round_.jobs[job].options[option]
        (group,) = chosen.groups
        return -speed(round_.jobs[job], option), group.cpu, group.memory

    return min(range(len(round_.jobs[job].options)), key=key)
