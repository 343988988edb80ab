"""The plan sections of cells, collectives, shares, replicas and flows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.feasibility import fits
from placewright.formulations.gang.problem.jobs import Choice
from placewright.formulations.gang.problem.limits import SCALE, TenantShare, resources_held
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate, DataPlan
from placewright.instances.derived.arrays import places_of
from placewright.instances.derived.cell_trees import (
    EntryKey,
    HostChain,
    chains_of,
    guaranteed,
    owned_cells,
)
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import Reason
from placewright.instances.documents.round import Round
from placewright.rounds.decisions import Why
from placewright.rounds.sections.reasons import QuotaUse, Verdict, best_verdict, shortage
from placewright.rounds.sections.states import (
    FixedStates,
    PoolsLeft,
    Precedence,
    beyond_whole_cluster,
)
from placewright.topology import Cluster
from placewright.topology.chain import Cell
from placewright.topology.collectives import bottleneck, time_us
from placewright.topology.units import WHOLE_GPU

if TYPE_CHECKING:
    from placewright.formulations.common.wan.arrays import Wan


def collective_section(
    round_: Round, cluster: Cluster, candidate: Candidate
) -> dict[str, Any] | None:
    """Return the section for a candidate, or None if no group that it places has a collective.

    Groups go in the order in which a plan is read: migrated jobs, then started ones, each in the
    round's order. `bottleneck_mbit` is rounded down, and None where no link limits the group.
    """
    jobs, groups = round_.jobs, []
    for index in sorted(candidate.starts, key=lambda j: (jobs[j].running is None, j)):
        option, places = candidate.starts[index]
        for number, group in enumerate(jobs[index].options[option].groups):
            asked = group.communication
            if asked is None or asked.data_mib is None:
                continue
            mine = sorted(place for place in places if place[0] == number)
            ranks = [(host, gpu) for _, _, host, named in mine for gpu in named]
            hosts, gpus = np.array(ranks, dtype=np.int64).T
            slowest = bottleneck(cluster, hosts, gpus, asked.pattern)
            entry: Mapping[str, Any] = {
                "job": jobs[index].name,
                "group": number,
                "bottleneck_mbit": None if slowest is None else int(slowest),
                "time_us": time_us(asked.pattern, len(ranks), asked.data_mib, slowest),
            }
            groups.append(entry)
    return {"kind": "communication", "groups": groups} if groups else None


def share_section(problem: Problem, candidate: Candidate) -> dict[str, Any] | None:
    """Return the section of a candidate; None if the policy does not ask for shares.

    A tenant's `share` is in units of 1 / 100,000 of the cluster, its weight taken into account, and
    `resource` its dominant resource.
    """
    if "share" not in problem.terms:
        return None
    held = {share.tenant: share for share in problem.shares}
    for job_class in problem.classes:
        if job_class.tenant not in held:
            continue
        for job in job_class.jobs:
            if job in candidate.starts:
                option = candidate.starts[job][0]
            elif job_class.running and job not in candidate.preempted:
                option = job_class.choices[0].index
            else:
                continue
            choice = next(c for c in job_class.choices if c.index == option)
            mine = held[job_class.tenant]
            held[job_class.tenant] = mine.plus(problem.amounts_of(choice))
    return {"kind": "shares", "tenants": [_entry(problem, share) for share in held.values()]}


def _entry(problem: Problem, share: TenantShare) -> dict[str, Any]:
    names = {-1: "gpu", **dict(enumerate(problem.cluster.resources))}
    of = {names[r]: SCALE * share.held[r] // per for r, per in share.denominator.items()}
    return {
        "tenant": problem.round.tenants[share.tenant].name,
        "share": max(of.values(), default=0),
        "resource": max(of, key=lambda name: (of[name], name), default=None),
    }


def replica_section(wan: Wan, data: DataPlan) -> dict[str, Any]:
    """Return the section `replicas`."""
    jobs = wan.round.jobs
    return {
        "kind": "replicas",
        "creates": [
            {"dataset": wan.datasets[d], "region": wan.regions[r], "ready": ready}
            for d, r, ready in data.creates
        ],
        "drops": [
            {"dataset": wan.datasets[d], "region": wan.regions[r], "at": at}
            for d, r, at in data.drops
        ],
        "homes": [
            {"job": jobs[j].name, "region": wan.regions[r], "gpu_model": wan.models[m]}
            for j, (r, m) in sorted(data.homes.items())
        ],
    }


def flow_section(wan: Wan, data: DataPlan) -> dict[str, Any]:
    """Return the section `flows`, in the order of their start."""
    return {
        "kind": "flows",
        "flows": [
            {
                "dataset": wan.datasets[flow.dataset],
                "path": [wan.regions[r] for r in flow.path],
                "gib": flow.gib,
                "start": flow.start,
                "end": flow.end,
            }
            for flow in sorted(data.flows, key=lambda f: (f.start, f.dataset, f.path))
        ],
    }


def cell_section(
    round_: Round,
    bound: Iterable[tuple[int, int, str, str, Iterable[str]]],
    hosts_of: Callable[[int], Iterable[str]],
) -> dict[str, Any]:
    """Return the section: each cell in use with the jobs inside.

    `round_`: a round in which some tenant owns cells. `bound`: tenant, cell, level, domain and
    hosts of each cell in use. `hosts_of`: returns the hosts that a guaranteed job is on after the
    round.
    """
    jobs_on: defaultdict[str, set[int]] = defaultdict(set)
    for index in guaranteed(round_):
        for host in hosts_of(index):
            jobs_on[host].add(index)
    bindings = []
    for tenant, cell, level, domain, hosts in bound:
        inside = sorted(set().union(*(jobs_on[host] for host in hosts)))
        bindings.append(
            {
                "tenant": round_.tenants[tenant].name,
                "cell": cell,
                "level": level,
                "domain": domain,
                "jobs": [round_.jobs[index].name for index in inside],
            }
        )
    return {"kind": "cells", "bindings": bindings}


BoundCells = Sequence[tuple[int, int, str, str, tuple[str, ...]]]
"""The cells in use: tenant, entry, level, domain and hosts."""


class CellReasons:
    """The reasons of guaranteed jobs that a plan lets wait.

    `problem`: the whole round as a gang problem. `bound`: the cells in use after the round.
    """

    def __init__(self, problem: Problem, candidate: Candidate, bound: BoundCells) -> None:
        self._problem, round_ = problem, problem.round
        self._preempted, self._mine = candidate.preempted, set(guaranteed(round_))
        self._states = _beside_guaranteed(problem, candidate, self._mine)
        self._quota = QuotaUse(round_, candidate, self._states, candidate.preempted)
        self._cells = _FreeCells(problem, bound)
        runs = [(j, option) for j, (option, _) in candidate.starts.items() if j in self._mine]
        runs += [
            (j, job.running.option)
            for j, job in enumerate(round_.jobs)
            if j in self._mine and job.running is not None
        ]
        self._used = Counter[str]()
        for j, option in runs:
            self._used[round_.jobs[j].tenant or ""] += _milli_gpu(problem, j, option)
        self._known: dict[int, Why] = {}

    @cached_property
    def exempt(self) -> frozenset[int]:
        """The preempted jobs that may stop for guaranteed ones, whoever has their places."""
        return frozenset(_beyond_room(self._problem, self._states, self._preempted))

    def of(self, job: int, job_class: int) -> Why:
        """Return the reason of a guaranteed job, which is that of all of its class."""
        if job_class not in self._known:
            choices = self._problem.classes[job_class].choices
            verdicts = [(choice, self._verdict(job, choice)) for choice in choices]
            self._known[job_class] = best_verdict(verdicts)
        return self._known[job_class]

    def _verdict(self, job: int, choice: Choice) -> Verdict:
        most = parameters.PARAMETERS.placement.max_feasibility_steps
        empty, beside = (
            self._states.placement(Reason.NEVER_FITS),
            self._states.placement(self._states.all_started),
        )
        doubt: dict[str, Any] = {}
        asking, tenant = self._problem.round.jobs[job], self._problem.round.jobs[job].tenant or ""
        option = asking.options[choice.index]
        if lack := beyond_whole_cluster(self._states.pools(Reason.NEVER_FITS), option):
            return Verdict(Reason.NEVER_FITS, lack)
        if (fitting := fits(empty, choice, most)) is False:
            return Verdict(Reason.NEVER_FITS, shortage(empty, choice))
        doubt |= {} if fitting else {"unproven": True}
        precedence = Precedence(True, choice.entitled, asking.priority)
        if lack := self._quota.excess(asking, choice.index, precedence):
            return Verdict(Reason.QUOTA, lack | doubt)
        facts = {"tenant": tenant, "cells": self._cells.unused(tenant)}
        asked, used = _milli_gpu(self._problem, job, choice.index), self._used[tenant]
        limit = self._cells.owned_gpus(tenant)
        if used + asked > limit:
            amounts = {"asked": asked, "used": used, "limit": limit, "excess": used + asked - limit}
            return Verdict(Reason.QUOTA, {**facts, "resource": "gpu", **amounts, **doubt})
        pools = self._states.pools(self._states.all_started)
        with beside.only_on(self._cells.inside(tenant)):
            full = bool(beyond_whole_cluster(pools, option))
            fitting = False if full else fits(beside, choice, most)
        if fitting is not False:
            doubt |= {} if fitting else {"unproven": True}
            return Verdict(Reason.NOT_CHOSEN, facts | doubt)
        if short := self._cells.short(tenant):
            return Verdict(Reason.CAPACITY, {**facts, **short, **doubt})
        return Verdict(Reason.QUOTA, facts | doubt)


class _Entry(NamedTuple):
    """An entry of cells: how many of it are not in use, its chain, its level there."""

    left: int
    chain: HostChain
    level: int


class _FreeCells:
    """What tenants own, and which cells are free: usable, and not in use in any part."""

    def __init__(self, problem: Problem, bound: BoundCells) -> None:
        round_, self._cluster = problem.round, problem.cluster
        self._index = problem.cluster.host_index
        self._gpus = np.diff(problem.cluster.gpu_start)
        self._bound: dict[str, set[str]] = {tenant.name: set() for tenant in round_.tenants}
        names = [tenant.name for tenant in round_.tenants]
        in_use = Counter[EntryKey]()
        for tenant, number, _, _, hosts in bound:
            self._bound[names[tenant]].update(hosts)
            in_use[tenant, number] += 1
        chains = chains_of(round_.cluster, round_.tenants)
        self._of: dict[str, list[tuple[int, _Entry]]] = {name: [] for name in names}
        for key, entry in owned_cells(round_.tenants):
            chain = chains[key]
            level = chain.levels.index(entry.level)
            found = _Entry(entry.count - in_use[key], chain, level)
            self._of[names[key[0]]].append((entry.count, found))
        taken = set().union(*self._bound.values())
        taken.update(host for host, at in self._index.items() if not problem.open[at])
        taken.update(host for one in round_.reservations for host in expand(one.host))
        mine = set(guaranteed(round_))
        for j, job in enumerate(round_.jobs):
            if job.running is not None and job.running.pinned and j not in mine:
                taken.update(task.host for task in job.running.tasks)
        self._taken = taken
        self._known: dict[tuple[int, int], list[tuple[str, ...]]] = {}

    def unused(self, tenant: str) -> int:
        """Return how many cells of a tenant are not in use."""
        return sum(entry.left for _, entry in self._of[tenant])

    def owned_gpus(self, tenant: str) -> int:
        """Return the milli-GPU of all cells that a tenant owns."""
        return sum(count * self._size(entry) for count, entry in self._of[tenant])

    def inside(self, tenant: str) -> Bools:
        """Return the hosts that a tenant uses, and those of free cells that it may claim."""
        inside = np.zeros(self._cluster.num_hosts, dtype=np.bool_)
        hosts = set(self._bound[tenant])
        for _, entry in self._of[tenant]:
            if entry.left:
                hosts.update(*self._free(entry.chain, entry.level))
        inside[[self._index[host] for host in hosts]] = True
        return inside

    def short(self, tenant: str) -> dict[str, Any]:
        """Return at which level a tenant may claim more than is free, nothing if at none."""
        worst: dict[str, Any] = {}
        for _, entry in self._of[tenant]:
            claimed = sum(
                other.left * self._size(other)
                for _, other in self._of[tenant]
                if other.chain is entry.chain and other.level >= entry.level
            )
            there = sum(map(self._milli_gpu, self._free(entry.chain, entry.level)))
            if claimed > there and (not worst or claimed - there > worst["asked"] - worst["free"]):
                level = entry.chain.levels[entry.level]
                worst = {"level": level, "resource": "gpu", "asked": claimed, "free": there}
        return worst

    def _size(self, entry: _Entry) -> int:
        return self._milli_gpu(entry.chain.hosts(Cell(entry.level, 0)))

    def _milli_gpu(self, hosts: Iterable[str]) -> int:
        return WHOLE_GPU * sum(int(self._gpus[self._index[host]]) for host in hosts)

    def _free(self, chain: HostChain, level: int) -> list[tuple[str, ...]]:
        """Return the hosts of each free cell of a level."""
        key = id(chain), level
        if key not in self._known:
            cells = (chain.hosts(Cell(level, n)) for n in range(len(chain.names[level])))
            self._known[key] = [hosts for hosts in cells if self._taken.isdisjoint(hosts)]
        return self._known[key]


def _beside_guaranteed(
    problem: Problem, candidate: Candidate, mine: Collection[int]
) -> FixedStates:
    """Return the states of a plan in which guaranteed and pinned jobs are alone."""
    alone = Candidate(
        {j: start for j, start in candidate.starts.items() if j in mine},
        candidate.source,
        preempted=dict.fromkeys((j for j in problem.running if j not in mine), -1),
        slots=candidate.slots,
    )
    return FixedStates(problem, alone, exempt=alone.preempted)


def _beyond_room(problem: Problem, states: FixedStates, jobs: Iterable[int]) -> Iterator[int]:
    """Yield running jobs that do not fit, where they are, beside guaranteed and pinned ones.

    Those do not, too, that are on a GPU with a started job of which one takes a part.
    """
    state, start = states.placement(states.all_started).problem.state, problem.cluster.gpu_start
    parts, pools = problem.part_demands, states.pools(states.all_started)
    arrived = dict(states.arrivals())

    def takes_part(shape: int) -> bool:
        return parts is not None and bool(parts.is_slice[shape] or parts.memory[shape])

    for j in jobs:
        held = problem.running[j]
        groups = problem.classes[held.job_class].choices[0].groups
        demand: dict[int, Ints] = {}
        gpus, parted = Counter[int](), False
        for group, _, host, mine in held.places:
            shape = groups[group].shape
            demand[host] = demand.get(host, 0) + problem.shape_demand[shape]
            for gpu in (int(start[host]) + g for g in mine):
                gpus[gpu] += min(int(problem.shape_gpu[shape]), WHOLE_GPU)
                if gpu in arrived:
                    parted |= takes_part(shape) or takes_part(arrived[gpu])
        full = any(milli > state.gpu_free[g] for g, milli in gpus.items() if problem.usable[g])
        full |= any((asked > state.free[h]).any() for h, asked in demand.items())
        if parted or full or _lacks_pools(pools, problem, j):
            yield j


def _lacks_pools(pools: PoolsLeft, problem: Problem, job: int) -> bool:
    """Whether a running job takes more of a pool than it has left."""
    running = problem.round.jobs[job].running
    if running is None or not pools.pools:
        return False
    option = problem.round.jobs[job].options[running.option]
    places = places_of(running.tasks, problem.cluster)
    return any(
        amount > left[domain]
        for pool, left in zip(pools.pools, pools.left, strict=True)
        for domain, amount in pool.taken(option, places).items()
    )


def _milli_gpu(problem: Problem, job: int, option: int) -> int:
    return resources_held(problem.round.jobs[job].options[option])["gpu"]
