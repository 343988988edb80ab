"""Region options: the options of jobs in their eligible regions, with the cost of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from placewright.formulations.geo.problem.compile import Problem
from placewright.instances.derived.host_sets import AllowedHosts
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.topology.units import WHOLE_GPU

COSTS = ("remote_reads", "egress_cost", "gpu_cost")


@dataclass(frozen=True, slots=True)
class RegionOption:
    """An option restricted to a region and to GPU models of one price, its value and its costs."""

    number: int
    option: Option
    value: int
    costs: tuple[int, ...]


class RegionOptions:
    """Region options of the jobs of a round.

    `terms` are `value` and the costs that directly follow it in the policy.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.round = problem, problem.round
        self.terms = _scored_terms(problem)
        self._named = AllowedHosts(self.round.host_sets)

    def of(self, j: int, job: Job) -> Iterator[RegionOption]:
        """Yield the region options of a job; a running job has one, in its region."""
        if job.running is not None:
            r, number = int(self.problem.current_region[j]), job.running.option
            paid = self._current_gpu_cost(job, job.running, r)
            costs = self._costs(j, r, paid)
            yield RegionOption(
                number, self._current_option(job, job.running, r), job.value_of(number), costs
            )
            return
        for r in np.flatnonzero(self.problem.eligible[j]).tolist():
            for number, option in enumerate(job.options):
                for part, price in self._price_variants(option, r):
                    yield RegionOption(number, part, job.value_of(number), self._costs(j, r, price))

    def _current_option(self, job: Job, running: Running, r: int) -> Option:
        """Return the option of a running job, which may move within its region."""
        option = job.options[running.option]
        groups = []
        for g, group in enumerate(option.groups):
            hosts = self._hosts_of_group(group, r) or {
                t.host for t in running.tasks if t.group == g
            }
            groups.append(self._restrict_group(group, hosts, r))
        return option.model_copy(update={"groups": tuple(groups)})

    def _hosts_of_group(self, group: TaskGroup, r: int) -> Collection[str]:
        """Return the hosts of a region that a group may use."""
        named = self._named.of(group)
        return self._hosts[r] if named is None else self._hosts[r] & named

    def _restrict_group(self, group: TaskGroup, hosts: Collection[str], r: int) -> TaskGroup:
        """Return a group restricted to hosts of a region, counted in the quotas there."""
        update: dict[str, Any] = {"hosts": tuple(sorted(hosts)), "host_sets": ()}
        if r in self.regions_with_quotas:
            update["resources"] = group.resources | {quota_resource(r): group.gpu}
        return group.model_copy(update=update)

    def _current_gpu_cost(self, job: Job, running: Running, r: int) -> int:
        """Return the GPU cost per hour of a running job on its current GPUs, in micro-dollars."""
        cluster, groups = self.problem.cluster, job.options[running.option].groups
        milli = 0
        for task in running.tasks:
            model = int(cluster.gpu_model[cluster.host_index[task.host]])
            milli += groups[task.group].gpu * int(self.problem.gpu_price[r, model])
        return milli // WHOLE_GPU

    def _costs(self, j: int, r: int, price: int) -> tuple[int, ...]:
        each = {
            "remote_reads": int(self.problem.remote_gib[j, r]),
            "egress_cost": int(self.problem.egress[j, r]),
            "gpu_cost": price,
        }
        return tuple(each[term] for term in self.terms[1:])

    def _price_variants(self, option: Option, r: int) -> Iterator[tuple[Option, int]]:
        """Yield an option in a region with its GPU cost, one per GPU price if that is ranked."""
        variants = []
        for group in option.groups:
            hosts = self._hosts_of_group(group, r)
            if not hosts:
                return
            placed = self._restrict_group(group, hosts, r)
            if "gpu_cost" not in self.terms:
                variants.append([(placed, 0)])
                continue
            prices = self._prices(group.gpu_models, r)
            if group.count > 1 and len(prices) > 1:
                # Its tasks may be on unlike GPUs.
                variants.append([(placed, min(prices))])
                continue
            variants.append(
                [
                    (placed.model_copy(update={"gpu_models": models}), price)
                    for price, models in prices.items()
                ]
            )
        for parts in product(*variants):
            groups = tuple(group for group, _ in parts)
            price = sum(group.milli_gpu * price for group, price in parts) // WHOLE_GPU
            yield option.model_copy(update={"groups": groups}), price

    def _prices(self, allowed: Sequence[str] | None, r: int) -> dict[int, tuple[str, ...]]:
        """Return the GPU models that a group may use in a region, by price."""
        found: dict[int, tuple[str, ...]] = {}
        for m, model in enumerate(self.problem.wan.models):
            if allowed is None or model in allowed:
                price = int(self.problem.gpu_price[r, m])
                found[price] = (*found.get(price, ()), model)
        return found

    @cached_property
    def _hosts(self) -> list[frozenset[str]]:
        names, region = self.problem.cluster.hosts, self.problem.wan.host_region
        return [
            frozenset(names[h] for h in np.flatnonzero(region == r).tolist())
            for r in range(len(self.problem.wan.regions))
        ]

    @cached_property
    def regions_with_quotas(self) -> frozenset[int]:
        """Regions in which tenants have quotas."""
        return frozenset(r for r, _ in self.problem.quota)

    @cached_property
    def costs_are_exact(self) -> bool:
        """Whether costs are whole numbers and every option has GPUs of one price."""
        if (self.problem.gpu_price % WHOLE_GPU).any() and any(
            group.gpu % WHOLE_GPU
            for job in self.round.jobs
            for option in job.options
            for group in option.groups
        ):
            return False
        return not any(self._cost_varies(j, job) for j, job in enumerate(self.round.jobs))

    def _cost_varies(self, j: int, job: Job) -> bool:
        if job.running is None:
            groups = [g for option in job.options for g in option.groups if g.count > 1]
            regions = np.flatnonzero(self.problem.eligible[j]).tolist()
        else:
            groups = [] if job.running.pinned else [*job.options[job.running.option].groups]
            regions = [int(self.problem.current_region[j])]
        return any(len(self._prices(g.gpu_models, r)) > 1 for g in groups for r in regions)


def quota_resource(region: int) -> str:
    """Return the name of the resource whose quotas are those of a region."""
    return f"milli-GPU in region {region}"


def _scored_terms(problem: Problem) -> tuple[str, ...]:
    """Return `value` and the costs that directly follow it in the policy."""
    counted = ["value"]
    for term in problem.round.policy.terms[1:]:
        if term not in COSTS:
            break
        counted.append(term)
    return tuple(counted)
