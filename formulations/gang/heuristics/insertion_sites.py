"""Candidate hosts for gang insertion: hosts of one domain that jobs leave.

`by_moving_jobs`: only one-task jobs leave. `by_stopping_gangs`: gangs of lower precedence are
preempted, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.ejection import EjectionMoves
from placewright.formulations.gang.heuristics.movable_jobs import Accounts
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Group

HostCounts: TypeAlias = list[tuple[int, int]]
"""Hosts, each with a number of tasks."""


class InsertionSites:
    """Candidate hosts for gangs of one group.

    `accounts` are those that are exceeded, so that jobs of them have to stop.
    """

    def __init__(self, moves: EjectionMoves) -> None:
        self.moves, self.placement, self.problem = moves, moves.placement, moves.problem
        classes = self.problem.classes
        self._gangs = [
            job
            for job, running in self.problem.running.items()
            for choice in classes[running.job_class].choices
            if len(choice.groups) == 1 and choice.groups[0].count > 1 and not choice.is_tied
        ]

    def by_moving_jobs(self, group: Group, accounts: Accounts) -> Iterator[HostCounts]:
        """Yield hosts for all tasks of a gang, those from which the fewest GPUs move first.

        GPUs of accounts that are exceeded do not count: their jobs have to stop anyway.
        """
        each, cost = self._capacity_if_moved(group)
        if accounts:
            cost -= self.moves.preemptable_gpus(accounts, group.shape)
        hosts = np.flatnonzero(each)
        hosts = hosts[np.argsort(cost[hosts] / each[hosts], kind="stable")]
        domains = [hosts]
        if group.required != NO_LEVEL:
            domain = self.problem.cluster.domain[group.required][hosts]
            order = np.argsort(domain, kind="stable")
            domains = np.split(hosts[order], np.flatnonzero(np.diff(domain[order])) + 1)
        sites = []
        for in_domain in domains:
            tasks = np.cumsum(each[in_domain])
            if len(in_domain) and tasks[-1] >= group.count:
                chosen = in_domain[: int(np.searchsorted(tasks, group.count)) + 1]
                count = each[chosen].copy()
                count[-1] -= tasks[len(chosen) - 1] - group.count
                sites.append((int(cost[chosen].sum()), chosen.tolist(), count.tolist()))
        most = parameters.PARAMETERS.insertion.max_insertion_domains
        for _, chosen, count in sorted(sites, key=lambda site: site[0])[:most]:
            yield list(zip(chosen, count, strict=True))

    def _capacity_if_moved(self, group: Group) -> tuple[Ints, Ints]:
        """Return the tasks that fit once movable jobs have left, and the GPUs to move (hosts,)."""
        size, whole = self.moves.gpus_of(group.shape), self.placement.whole
        each = np.minimum((whole + self.moves.movable.gpus_on_host) // size, group.count)
        each[~self.moves.eligible_hosts(group.shape)] = 0
        return each, np.maximum(0, each * size - whole)

    def by_stopping_gangs(
        self, group: Group, accounts: Accounts
    ) -> Iterator[tuple[HostCounts, list[int]]]:
        """Yield, by domain, hosts and the gangs of lower precedence to be preempted there.

        Free hosts come first, then those of gangs of least value per host, of the accounts alone if
        one is given. If these are too few, one-task jobs move, the fewest GPUs first.
        """
        if group.required == NO_LEVEL:
            return
        whole, size = self.placement.whole, self.moves.gpus_of(group.shape)
        domain = self.problem.cluster.domain[group.required]
        eligible = self.moves.eligible_hosts(group.shape)
        for inside, gangs in self._lower_gangs(group.shape, accounts, eligible, domain).items():
            here = np.flatnonzero(eligible & (domain == inside) & (whole >= size)).tolist()
            free = {host: int(whole[host]) for host in here}
            stopped = []
            for _, number in sorted(gangs):
                if sum(gpus // size for gpus in free.values()) >= group.count:
                    break
                stopped.append(number)
                start = self.moves.get(self.moves.current_number(number))
                held = self.moves.gpus_of(self.moves.shape_of(start))
                for put in start.tasks:
                    free[put.host] = free.get(put.host, int(whole[put.host])) + held * put.count
            capacity = {host: gpus // size for host, gpus in free.items()}
            if sum(capacity.values()) < group.count:
                each, cost = self._capacity_if_moved(group)
                others = np.flatnonzero((each > 0) & (domain == inside))
                for host in others[np.argsort(cost[others], kind="stable")].tolist():
                    capacity[host] = capacity.get(host) or int(each[host])
            left, chosen = group.count, []
            for host, count in capacity.items():
                if left and count:
                    chosen.append((host, min(left, count)))
                    left -= min(left, count)
            if stopped and not left:
                yield chosen, stopped

    def _lower_gangs(
        self, shape: int, accounts: Accounts, eligible: NDArray[np.bool_], domain: NDArray[np.int32]
    ) -> dict[int, list[tuple[float, int]]]:
        """Return (value per host, number) of the gangs that a shape may preempt, by domain.

        Only gangs whose hosts are all in one domain and `eligible` (hosts,). `domain` is (hosts,).
        """
        sites: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
        for job in self._gangs:
            victim = self.problem.running[job]
            if self.placement.is_running(job) and self.problem.over(shape, victim):
                number = self.placement.start_of(job)
                start = self.moves.get(number)
                hosts = [put.host for put in start.tasks]
                inside = set(domain[hosts].tolist())
                counts = self.problem.classes[start.job_class].accounts
                if accounts and accounts.isdisjoint(counts):
                    continue
                if eligible[hosts].all() and len(inside) == 1:
                    value = self.problem.classes[start.job_class].choices[0].value
                    sites[inside.pop()].append((value / len(hosts), number))
        return sites
