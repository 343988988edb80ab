"""Where a waiting gang could come: hosts of one domain that others leave.

First those that one-task jobs leave, so that the fewest GPUs move; then those that whole gangs of
lower precedence give up, and one-task jobs beside them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.heuristics.ejection import Shifts
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Group

Ints = NDArray[np.int64]

Hosts: TypeAlias = list[tuple[int, int]]
"""Hosts, each with a number of tasks."""

NOBODY = -2
"""Instead of a tenant that has to give something back."""

SITES = 3
"""Domains that one gang is tried in, the cheapest first."""


class Sites:
    """Hosts for gangs of one group, as others are now."""

    def __init__(self, shifts: Shifts) -> None:
        self.shifts, self.placement, self.problem = shifts, shifts.placement, shifts.problem
        classes = self.problem.classes
        self._gangs = [
            job
            for job, running in self.problem.running.items()
            for choice in classes[running.job_class].choices
            if len(choice.groups) == 1 and choice.groups[0].count > 1 and not choice.is_tied
        ]

    def cleared(self, group: Group, tenant: int) -> Iterator[Hosts]:
        """Yield hosts for all tasks of a gang, those first from which the fewest GPUs move.

        Of a `tenant` that has to give something back, its own do not count.
        """
        each, cost = self._leaving(group)
        if tenant != NOBODY:
            cost -= self.shifts.held_by(tenant, int(self.problem.shape_rank[group.shape]))
        hosts = np.flatnonzero(each)
        hosts = hosts[np.argsort(cost[hosts] / each[hosts], kind="stable")]
        parts = [hosts]
        if group.required != NO_LEVEL:
            domain = self.problem.cluster.domain[group.required][hosts]
            order = np.argsort(domain, kind="stable")
            parts = np.split(hosts[order], np.flatnonzero(np.diff(domain[order])) + 1)
        found = []
        for part in parts:
            tasks = np.cumsum(each[part])
            if len(part) and tasks[-1] >= group.count:
                chosen = part[: int(np.searchsorted(tasks, group.count)) + 1]
                many = each[chosen].copy()
                many[-1] -= tasks[len(chosen) - 1] - group.count
                found.append((int(cost[chosen].sum()), chosen.tolist(), many.tolist()))
        for _, chosen, many in sorted(found, key=lambda site: site[0])[:SITES]:
            yield list(zip(chosen, many, strict=True))

    def _leaving(self, group: Group) -> tuple[Ints, Ints]:
        """Return how many tasks hosts hold (hosts,) once others have left, and GPUs of these."""
        size, whole = self.shifts.size(group.shape), self.placement.whole
        each = np.minimum((whole + self.shifts.movers.held) // size, group.count)
        each[~self.shifts.may_come(group.shape)] = 0
        return each, np.maximum(0, each * size - whole)

    def ousted(self, group: Group, rank: int, tenant: int) -> Iterator[tuple[Hosts, list[int]]]:
        """Yield hosts that other gangs of lower precedence give up, with these, domain by domain.

        Hosts without anybody come first, then those of the jobs that are worth least on a host;
        only those of a `tenant` that has to give something back. If that is not enough, one-task
        jobs leave others, those first from which the fewest GPUs move.
        """
        if group.required == NO_LEVEL:
            return
        whole, size = self.placement.whole, self.shifts.size(group.shape)
        domain = self.problem.cluster.domain[group.required]
        may = self.shifts.may_come(group.shape)
        for inside, gangs in self._lower(rank, tenant, may, domain).items():
            here = np.flatnonzero(may & (domain == inside) & (whole >= size)).tolist()
            free = {host: int(whole[host]) for host in here}
            ousted = []
            for _, number in sorted(gangs):
                if sum(gpus // size for gpus in free.values()) >= group.count:
                    break
                ousted.append(number)
                start = self.shifts.get(self.shifts.latest(number))
                held = self.shifts.size(self.shifts.shape_of(start))
                for put in start.tasks:
                    free[put.host] = free.get(put.host, int(whole[put.host])) + held * put.count
            room = {host: gpus // size for host, gpus in free.items()}
            if sum(room.values()) < group.count:
                each, cost = self._leaving(group)
                others = np.flatnonzero((each > 0) & (domain == inside))
                for host in others[np.argsort(cost[others], kind="stable")].tolist():
                    room[host] = room.get(host) or int(each[host])
            left, chosen = group.count, []
            for host, many in room.items():
                if left and many:
                    chosen.append((host, min(left, many)))
                    left -= min(left, many)
            if ousted and not left:
                yield chosen, ousted

    def _lower(
        self, rank: int, tenant: int, may: NDArray[np.bool_], domain: NDArray[np.int32]
    ) -> dict[int, list[tuple[float, int]]]:
        """Return gangs of lower precedence on hosts that `may` be used, by the domain of all hosts.

        Each with its value per host, by its number.
        """
        found: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
        for job in self._gangs:
            if self.placement.is_running(job) and self.problem.running[job].level < rank:
                number = self.placement.start_of(job)
                start = self.shifts.get(number)
                hosts = [put.host for put in start.tasks]
                inside = set(domain[hosts].tolist())
                owner = self.problem.classes[start.job_class].tenant
                if tenant not in (NOBODY, owner):
                    continue
                if may[hosts].all() and len(inside) == 1:
                    value = self.problem.classes[start.job_class].choices[0].value
                    found[inside.pop()].append((value / len(hosts), number))
        return found
