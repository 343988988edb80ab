"""Preemptive insertion: tasks arrive on hosts in use, where the cheapest victims stop for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.class_packing import StartCounts, single_jobs
from placewright.formulations.gang.heuristics.displacement_cost import (
    NO_QUOTA,
    DisplacementCost,
    Quota,
)
from placewright.formulations.gang.heuristics.victim_sets import (
    NO_QUOTA_PRICES,
    QuotaPrices,
    net_value,
)
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.gang_hosts import ChooseHosts
from placewright.formulations.gang.placement.gang_tree import cheapest_hosts_of_tree
from placewright.formulations.gang.problem.jobs import (
    NO_LABEL,
    NO_LEVEL,
    Choice,
    Group,
    TaskPlacement,
)


class PreemptiveInsertion:
    """Preemptive insertion on hosts in use.

    Parameters
    ----------
    cost
        What victims cost on each host of its placement.
    starts
        Counts the waiting jobs to start per (class, choice).
    choose_hosts
        Chooses the hosts of gangs.
    prices
        What a unit of each quota or cap is worth.
    """

    def __init__(
        self,
        cost: DisplacementCost,
        starts: StartCounts,
        choose_hosts: ChooseHosts,
        prices: QuotaPrices = NO_QUOTA_PRICES,
    ) -> None:
        self.cost, self.placement, self.starts = cost, cost.placement, starts
        self.problem = self.placement.problem
        self.choose_hosts, self.prices = choose_hosts, prices
        self.quota = self.placement.quota_left()

    def insert_gang(self, c: int, o: int, within: NDArray[np.bool_] | None) -> bool:
        """Start a gang of one group on hosts of least displacement cost, if that gains value."""
        choice = self.problem.classes[c].choices[o]
        placed = len(choice.groups) == 1 and self._try_gang(c, o, choice, within)
        self.starts[c, o] -= placed
        return placed

    def _try_gang(self, c: int, o: int, choice: Choice, within: NDArray[np.bool_] | None) -> bool:
        group = choice.groups[0]
        accounts = self.problem.classes[c].accounts
        may = bool(self.prices) or self.problem.within_quota(self.quota, accounts, choice)
        quota = NO_QUOTA if may else self._quota_use(accounts, group.shape)
        loss, each = self.cost.of_count(group.shape, group.count, quota)
        if within is not None:
            loss = np.where(within, loss, np.inf)
        if choice.label != NO_LABEL:
            loss = np.where(self.placement.open_to(choice.label), loss, np.inf)
        if choice.uses:
            open_ = self.placement.pools.open_to(choice, len(loss))
            loss = np.where(open_, loss, np.inf)
        worth = self._net_value(c, o)
        for _ in range(parameters.PARAMETERS.insertion.max_hosts_short_of_pools):
            chosen = self._chosen(group, loss, each)
            if not chosen or worth <= sum(loss[h] for h, _ in chosen):
                return False
            asked = [self._asked(group.shape, *place, quota) for place in chosen]
            short = self.cost.beyond_pools(asked)
            if short is None:
                break
            loss = np.where(np.arange(len(loss)) == short, np.inf, loss)
        else:
            return False
        if not self.cost.within_budget(asked):
            return False
        tasks = []
        for host, count in chosen:
            self._release_quota(self.cost.preempt_for_count(host, group.shape, count, quota))
            tasks.append(
                TaskPlacement(0, host, count, self.placement.put(group.shape, host, count))
            )
        self._start(c, o, tasks)
        return True

    def _chosen(self, group: Group, loss: NDArray[np.float64], each: Ints) -> list[tuple[int, int]]:
        """Return hosts of a group, with the tasks on each; [] if it does not fit."""
        if group.is_arranged:
            return cheapest_hosts_of_tree(self.problem.cluster, group, loss, each)
        if group.required != NO_LEVEL:
            loss = self._cheapest_domain(group, loss, each)
        return self.choose_hosts(self.problem.cluster, group, loss, each)

    def _asked(self, shape: int, host: int, count: int, quota: Quota) -> tuple[int, Ints, Quota]:
        """Return a host, tasks of a shape as (shapes,), and what these must free of quotas."""
        wanted = np.zeros(len(self.problem.shape_gpu), dtype=np.int64)
        wanted[shape] = count
        return host, wanted, {key: count * amount for key, amount in quota.items()}

    def _start(self, c: int, o: int, tasks: list[TaskPlacement]) -> None:
        self.placement.start(c, o, tasks)
        started = self.problem.classes[c]
        self.problem.charge_quota(self.quota, started.accounts, started.choices[o])

    def _quota_use(self, accounts: tuple[int, ...], shape: int) -> Quota:
        """Return what one task takes of the quotas and caps of its job."""
        keys = self.problem.quota_keys.get(accounts, ())
        return {key: self.problem.task_amount(shape, key[1]) for key in keys}

    def _release_quota(self, jobs: list[int]) -> None:
        """Give back what stopped jobs took of quotas and caps."""
        for job in jobs if self.quota else ():
            stopped = self.problem.classes[self.problem.running[job].job_class]
            self.problem.charge_quota(self.quota, stopped.accounts, stopped.choices[0], -1)

    def _cheapest_domain(
        self, group: Group, loss: NDArray[np.float64], each: Ints
    ) -> NDArray[np.float64]:
        """Return the loss (hosts,), inf outside the cheapest domain of the required level."""
        domain = self.problem.cluster.domain[group.required]
        hosts = np.flatnonzero(np.isfinite(loss) & (each > 0))
        hosts = hosts[np.lexsort((loss[hosts], domain[hosts]))]
        best, least = -1, np.inf
        for part in np.split(hosts, np.flatnonzero(np.diff(domain[hosts])) + 1):
            needed = int(np.searchsorted(np.cumsum(each[part]), group.count)) + 1
            if needed <= len(part) and (cost := float(loss[part[:needed]].sum())) < least:
                best, least = int(domain[part[0]]), cost
        return np.where(domain == best, loss, np.inf)

    def insert_columns(self, counts: AggregateModel, patterns: HostPatterns, number: Ints) -> None:
        """Insert patterns of one-task jobs, the fullest first, on the hosts of least cost."""
        if not len(counts.host_classes):
            return
        waiting = self._waiting_by_shape()
        of_host = counts.host_classes.of_host
        same_hosts = np.where(of_host >= 0, patterns.same_key[of_host], -1)
        for kind, cut, times in patterns.in_use(number):
            while times:
                wanted = np.minimum(cut, [len(w) for w in waiting])
                wanted[self.problem.shape_rank == 0] = 0
                if not wanted.any():
                    break
                # As many hosts as all these tasks can fill.
                some = np.flatnonzero(wanted)
                most = min(times, *(len(waiting[s]) // int(wanted[s]) for s in some.tolist()))
                loss = np.where(
                    same_hosts == patterns.same_key[kind],
                    self.cost.of(wanted),
                    np.inf,
                )
                for host in _cheapest_hosts(loss, most):
                    self._insert_on_host(host, wanted, waiting)
                    times -= 1
                    most -= 1
                if most:
                    break

    def insert_remaining(self) -> None:
        """Insert one-task jobs that no pattern took, in the order of value per GPU."""
        waiting = self._waiting_by_shape()
        worth = {
            s: max(self._net_value(c, o) for c, o in jobs)
            for s, jobs in enumerate(waiting)
            if jobs and self.problem.shape_rank[s]
        }
        for s in sorted(worth, key=lambda s: -worth[s] / max(int(self.problem.shape_gpu[s]), 1)):
            wanted = np.zeros(len(waiting), dtype=np.int64)
            wanted[s] = 1
            loss = self.cost.of(wanted)
            for host in _cheapest_hosts(loss, self._most(len(waiting[s]))):
                if loss[host] >= worth[s] or not waiting[s]:
                    break
                self._insert_on_host(host, wanted, waiting)

    def insert_singles(self, c: int, o: int) -> None:
        """Insert one-task jobs of a class; beyond a quota or cap they displace others in it."""
        job_class = self.problem.classes[c]
        choice, shape = job_class.choices[o], job_class.choices[o].groups[0].shape
        wanted = np.zeros(len(self.problem.shape_gpu), dtype=np.int64)
        wanted[shape] = 1
        used = self._quota_use(job_class.accounts, shape)
        for quota in (NO_QUOTA, used):
            loss = self.cost.of(wanted, quota)
            for host in _cheapest_hosts(loss, self._most(self.starts[c, o])):
                if loss[host] >= choice.value or not self.starts[c, o]:
                    break
                may = self.problem.within_quota(self.quota, job_class.accounts, choice)
                if not quota and not may:
                    break
                asked = [(host, wanted, quota)]
                if not self.cost.within_budget(asked) or self.cost.beyond_pools(asked) is not None:
                    continue
                self._release_quota(self.cost.preempt_for(host, wanted, quota))
                self._start(c, o, [TaskPlacement(0, host, 1, self.placement.put(shape, host))])
                self.starts[c, o] -= 1
            if not used:
                break

    def _most(self, starts: int) -> int:
        """Return how many hosts so many starts may look at: in pools some find too little."""
        return len(self.placement.whole) if self.problem.pools else starts

    def _net_value(self, c: int, o: int) -> float:
        job_class = self.problem.classes[c]
        return net_value(self.problem, job_class, job_class.choices[o], self.prices)

    def _waiting_by_shape(self) -> list[list[tuple[int, int]]]:
        """(class, choice) of the one-task jobs still to start, by shape, least valuable first."""
        by_shape = single_jobs(self.problem, self.starts)
        waiting = [by_shape[s] for s in range(len(self.problem.shape_gpu))]
        for jobs in waiting:
            jobs.sort(key=lambda job: self._net_value(*job))
        return waiting

    def _insert_on_host(
        self, host: int, wanted: Ints, waiting: list[list[tuple[int, int]]]
    ) -> None:
        asked = [(host, wanted, NO_QUOTA)]
        if not self.cost.within_budget(asked) or self.cost.beyond_pools(asked) is not None:
            return
        self._release_quota(self.cost.preempt_for(host, wanted))
        for s in np.flatnonzero(wanted).tolist():
            for _ in range(int(wanted[s])):
                c, o = waiting[s].pop()
                self._start(c, o, [TaskPlacement(0, host, 1, self.placement.put(s, host))])
                self.starts[c, o] -= 1


def _cheapest_hosts(loss: NDArray[np.float64], most: int) -> Iterator[int]:
    """Yield at most `most` hosts of finite loss, the least first."""
    order = np.argsort(loss, kind="stable")[:most]
    yield from order[np.isfinite(loss[order])].tolist()
