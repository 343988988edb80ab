"""Compiles a round of policy `geo` to arrays: eligible regions, read costs, running jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.priority_classes import (
    PriorityClass,
    class_terms,
    write_out_terms,
)
from placewright.formulations.common.wan.arrays import NONE, Wan, compile_wan
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import priority_classes
from placewright.formulations.gang.problem.limits import (
    GPUS,
    VALUE,
    QuotaKey,
    accounts_of,
    limits_of,
)
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.geo import Geo
from placewright.instances.documents.round import Round
from placewright.instances.policies import GANG
from placewright.topology import Cluster


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Arrays of a round of policy `geo`, as region assignment needs them."""

    wan: Wan  # Regions, links, datasets and jobs
    # (datasets, regions): whether a complete replica can be read in the region now.
    available: Bools
    # (datasets, regions): the region from which a job in a region without a replica reads the
    # dataset over a direct link, by lowest egress price, then highest bandwidth; NONE without one.
    source: Ints
    # (jobs, regions): whether a pending job may start in a region now, given its data. A running
    # job is eligible in its current region only.
    eligible: Bools
    # remote_gib, egress: (jobs, regions): GiB that a job reads from other regions if it runs there,
    # and their cost in micro-dollars.
    remote_gib: Ints
    egress: Ints
    current_region: Ints  # (jobs,): the region of a running job, NONE for a pending one
    gpu_price: Ints  # (regions, models): micro-dollars per GPU-hour
    quota: dict[tuple[int, str], int]  # Milli-GPU that the jobs of a tenant may hold in a region
    # Highest first, where `value` is decided class by class; else ().
    priority_classes: tuple[PriorityClass, ...]
    # Returns all jobs as one gang problem, wherever they may run; compiled when first asked for.
    gangs: Callable[[], Gangs]

    @property
    def round(self) -> Round:
        """The round."""
        return self.wan.round

    @property
    def cluster(self) -> Cluster:
        """The cluster of all regions."""
        return self.wan.cluster

    @property
    def value_terms(self) -> tuple[str, ...]:
        """`value`, or the terms of the priority classes that it stands for."""
        return class_terms(VALUE, len(self.priority_classes)) or (VALUE,)

    @property
    def terms(self) -> tuple[str, ...]:
        """Objective terms in lexicographic order, `value` written out."""
        return write_out_terms(self.round.policy.terms, {VALUE: len(self.priority_classes)})

    @property
    def read_costs(self) -> Ints:
        """Cost of each job's reads in each region (jobs, regions).

        Micro-dollars if the policy ranks `egress_cost` before `remote_reads`, otherwise GiB.
        """
        known = {"remote_reads": self.remote_gib, "egress_cost": self.egress}
        return next((known[t] for t in self.round.policy.terms if t in known), self.remote_gib)

    def remote_reads_in(self, region: Ints) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return the remote reads of jobs placed in given regions.

        `region` (jobs,): the region of each job, NONE for jobs that do not run. Of each job that
        reads over links these are its (dataset, source region) pairs. A dataset without a source,
        which only running jobs may have, is left out.
        """
        wan = self.wan
        where, data = region[wan.read_job], wan.read_dataset
        source = self.source[data, where]
        remote = (where != NONE) & ~self.available[data, where] & wan.read_remote & (source != NONE)
        found: dict[int, tuple[tuple[int, int], ...]] = {}
        every = (wan.read_job[remote].tolist(), data[remote].tolist(), source[remote].tolist())
        for job, dataset, origin in zip(*every, strict=True):
            found[job] = (*found.get(job, ()), (dataset, origin))
        return found

    def regions_with_supply(self, job: int, amounts: Ints) -> Bools:
        """Return the regions whose GPUs suffice for some option of a job (regions,).

        Task groups are compared with the supply one at a time, so this is a necessary condition
        only. `amounts` (regions, models) is the supply in milli-GPU.
        """
        found = np.zeros(len(self.wan.regions), dtype=np.bool_)
        for option in self.round.jobs[job].options:
            enough = np.ones_like(found)
            for group in option.groups:
                allowed = [
                    group.gpu_models is None or model in group.gpu_models
                    for model in self.wan.models
                ]
                enough &= amounts[:, allowed].sum(axis=1) >= group.milli_gpu
            found |= enough
        return found

    def residual_supply(self, candidate: Candidate) -> Ints:
        """Return the milli-GPU that a plan leaves unused (regions, models)."""
        residual = self.wan.supply.copy()
        index, model = self.cluster.host_index, self.cluster.gpu_model
        for j, job in enumerate(self.round.jobs):
            started = candidate.starts.get(j)
            if started is not None:
                groups = job.options[started[0]].groups
                held = [(groups[g].gpu, host) for g, _, host, _ in started[1]]
            elif job.running is not None and j not in candidate.preempted:
                groups = job.options[job.running.option].groups
                held = [(groups[t.group].gpu, index[t.host]) for t in job.running.tasks]
            else:
                continue
            for gpu, host in held:
                residual[self.wan.host_region[host], model[host]] -= gpu
        return residual


def compile_geo(round_: Round) -> Problem:
    """Return the arrays of a valid round of policy `geo`."""
    wan = compile_wan(round_)
    regions = {name: r for r, name in enumerate(wan.regions)}
    models = {name: m for m, name in enumerate(wan.models)}
    gpu_price = np.zeros((len(regions), len(models)), dtype=np.int64)
    quota: dict[tuple[int, str], int] = {}
    for region in round_.geo.regions:
        for model, amount in region.prices.items():
            if model in models:
                gpu_price[regions[region.name], models[model]] = amount
        quota |= {(regions[region.name], t): amount for t, amount in region.quotas.items()}
    available = wan.holds | (wan.arriving & (wan.ready <= round_.now))
    source = _read_sources(wan, available)
    eligible, remote_gib, egress = _read_costs(wan, available, source)
    current_region = _current_regions(wan)
    running = np.flatnonzero(current_region != NONE)
    eligible[running] = current_region[running, None] == np.arange(len(regions))
    classes = priority_classes(round_)
    return Problem(
        *(wan, available, source, eligible, remote_gib, egress, current_region, gpu_price, quota),
        priority_classes=classes,
        gangs=cache(lambda: _compile_gangs(wan, classes)),
    )


def _compile_gangs(wan: Wan, classes: tuple[PriorityClass, ...]) -> Gangs:
    """Return all jobs as one gang problem, wherever they may run."""
    policy = wan.round.policy.model_copy(update={"formulation": GANG.name, "terms": ("value",)})
    round_ = wan.round.model_copy(update={"policy": policy, "geo": Geo()})
    return compile_round(round_, wan.cluster, classes)


def _read_sources(wan: Wan, available: Bools) -> Ints:
    """Return where each region reads each dataset over a link from (datasets, regions)."""
    source = np.full(available.shape, NONE, dtype=np.int64)
    known: dict[bytes, Ints] = {}
    most = int(wan.bandwidth.max(initial=0)) + 1
    for d in range(len(available)):
        key = available[d].tobytes() + wan.may_hold[d].tobytes()
        if key not in known:
            links = wan.links_of(d) & available[d][:, None]
            np.fill_diagonal(links, val=False)
            cost = np.where(links, wan.egress * most - wan.bandwidth, np.iinfo(np.int64).max)
            known[key] = np.where(links.any(axis=0), cost.argmin(axis=0), NONE)
        source[d] = known[key]
    return source


def _read_costs(wan: Wan, available: Bools, source: Ints) -> tuple[Bools, Ints, Ints]:
    """Return eligibility, GiB read remotely and their egress cost, each (jobs, regions)."""
    data, remote = wan.read_dataset, ~available[wan.read_dataset]
    source_of_read = source[data]
    unreadable = remote & ((source_of_read == NONE) | ~wan.read_remote[:, None])
    # Reads are sorted by job: those of one lie side by side.
    readers, first = np.unique(wan.read_job, return_index=True)
    eligible = wan.may_run.copy()
    eligible[readers] &= ~np.logical_or.reduceat(unreadable, first)
    gib = remote * wan.read_gib[:, None]
    here = np.arange(len(wan.regions))
    served = (source_of_read != NONE) & wan.read_remote[:, None]
    cost = np.where(served, wan.egress[source_of_read, here], 0) * gib
    remote_gib, egress = np.zeros((2, *eligible.shape), dtype=np.int64)
    remote_gib[readers] = np.add.reduceat(gib, first)
    egress[readers] = np.add.reduceat(cost, first)
    return eligible, remote_gib, egress


def _current_regions(wan: Wan) -> Ints:
    """Return the region of each running job, NONE for pending jobs (jobs,)."""
    index = wan.cluster.host_index
    hosts = [None if j.running is None else j.running.tasks[0].host for j in wan.round.jobs]
    return np.array(
        [NONE if host is None else wan.host_region[index[host]] for host in hosts], dtype=np.int64
    )


# Running jobs of a round: which may be preempted, and which are interchangeable.
#
# Running jobs are **equivalent** if no capacity row distinguishes them: they have the same gang
# class, region and preemptibility, and the tasks of each of their groups run on hosts of the same
# GPU models that are equally open to arriving tasks.


LOWEST_RANK = -(2**62)
"""A rank below that of any job."""


class RunningJobs:
    """Facts about the running jobs of a round that every aggregation to job classes uses.

    `problem`: the round, which may restrict where jobs are eligible. `gangs`: all jobs as one gang
    round over the whole cluster.
    """

    def __init__(self, problem: Problem, gangs: Gangs) -> None:
        self.problem, self.gangs = problem, gangs

    @cached_property
    def preemptible(self) -> Bools:
        """Whether some job of higher rank may displace a running job (jobs,).

        It could start in the same region; or anywhere, if it could take a quota of the whole round
        or a cap, or has a label.
        """
        jobs, current_region = self.problem.round.jobs, self.problem.current_region
        rank = np.array(
            [job.priority + 2**31 * (not job.opportunistic) for job in jobs], dtype=np.int64
        )
        pinned = np.array([bool(job.running and job.running.pinned) for job in jobs], dtype=bool)
        incoming_rank = np.where(
            self.problem.eligible & ~pinned[:, None], rank[:, None], LOWEST_RANK
        )
        highest_rank = incoming_rank.max(axis=0, initial=LOWEST_RANK)
        limited = limits_of(self.problem.round).keys()
        anywhere = np.array(
            [
                job.anti_affinity is not None
                or bool(limited and not limited.isdisjoint(accounts_of(job)))
                for job in jobs
            ],
            dtype=np.bool_,
        )
        limit = np.where(anywhere, highest_rank.max(initial=LOWEST_RANK), 0)
        limit[~anywhere] = highest_rank[current_region[~anywhere]]
        preemptible: Bools = (current_region != NONE) & (rank < limit)
        return preemptible

    @cached_property
    def equivalent(self) -> list[list[int]]:
        """Equivalence classes of running jobs that are not pinned, as lists of jobs."""
        return group_equivalent(self.gangs, self.problem.current_region, self.preemptible)

    @cached_property
    def quota_limits(self) -> dict[tuple[QuotaKey, int], int]:
        """What jobs that are not pinned may hold, by account and amount, and region.

        Milli-GPU of quotas, and all that caps limit. The region is NONE for a quota of the whole
        round or a cap. What pinned jobs hold is subtracted.
        """
        problem, jobs = self.problem, self.problem.round.jobs
        tenants = {tenant.name: t for t, tenant in enumerate(problem.round.tenants)}
        quota_limits = {
            (key, NONE): most
            for key, most in self.gangs.quota.items()
            if key[1] == GPUS or key[0] >= len(tenants)
        }
        held: dict[tuple[int, int], int] = {}
        pinned: dict[tuple[int, int], int] = {}
        for j in np.flatnonzero(problem.current_region != NONE).tolist() if problem.quota else ():
            job = jobs[j]
            if job.running is not None and job.tenant is not None:
                key = tenants[job.tenant], int(problem.current_region[j])
                milli = job.options[job.running.option].milli_gpu
                held[key] = held.get(key, 0) + milli
                pinned[key] = pinned.get(key, 0) + milli * job.running.pinned
        for (r, name), most in problem.quota.items():
            key = tenants[name], r
            left = max(most, held.get(key, 0)) - pinned.get(key, 0)
            quota_limits[(tenants[name], GPUS), r] = left
        return quota_limits


def group_equivalent(gangs: Gangs, current_region: Ints, preemptible: Bools) -> list[list[int]]:
    """Return the equivalence classes of running jobs, as lists of jobs.

    `current_region` and `preemptible` are (jobs,).
    """
    _, _, at_host, shape = gangs.running_tasks.T
    code = (gangs.cluster.gpu_model[at_host] + 1) * 4
    code += 2 * gangs.open[at_host] + gangs.shape_hosts[shape, at_host]
    where, stops, codes = current_region.tolist(), preemptible.tolist(), iter(code.tolist())
    every = bool(gangs.usable.all())
    found: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for j, running in gangs.running.items():
        tasks = [
            (group, next(codes), len(gpus) if every else _usable(gangs, host, gpus))
            for group, _, host, gpus in running.places
        ]
        found[running.job_class, where[j], stops[j], *sorted(tasks)].append(j)
    return list(found.values())


def _usable(gangs: Gangs, host: int, gpus: tuple[int, ...]) -> int:
    """Return the number of given GPUs of a host that are not reserved."""
    start = int(gangs.cluster.gpu_start[host])
    return sum(bool(gangs.usable[start + gpu]) for gpu in gpus)
