"""Rules that choose a region for one job after the other, by priority and then age.

Written from their descriptions. All of a job's tasks get GPUs of one model; a rule names regions
and models in the order in which they are tried, and hosts come by best fit (`region_hosts.py`).

- `data's region`: the first region that holds most of what the job reads, and no other.
- `least loaded`: regions by the share of their GPUs that is idle, the largest first.
- `cheapest`: by the price of a GPU-hour.
- `scan`: MAST's. Every region that has or can read the data makes a plan, victims of lower priority
  included; the best wins: least value lost, then least read over links, then most idle. It
  preempts only where that gains value, which MAST does for any higher priority.

References
----------
Choudhury et al., "MAST: global scheduling of ML training across geo-distributed datacenters at
hyperscale", OSDI'24: exhaustive search over regions for each workload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

import numpy as np

from benchmarks.region_hosts import Hosts, Need, Placed, need_of
from placewright import Plan, Round
from placewright.formulations.wan.compile import NONE, Bools, Ints, Wan, compile_wan
from placewright.instances.documents import WHOLE_GPU
from placewright.instances.geo_section import Reader, ReadsSection, RemoteRead
from placewright.instances.job import Job
from placewright.instances.plan import Decision, Task

MOST_VICTIMS = 32
"""Of one job at one site."""

__all__ = ["RULES", "Rule", "cheapest", "data_region", "least_loaded", "plan_of", "scan"]

Site: TypeAlias = tuple[int, int]
"""Region and GPU model."""


@dataclass(slots=True)
class Holding:
    """What a job holds."""

    option: int
    region: int
    placed: Placed
    value: int


@dataclass(slots=True)
class Deciding:
    """A round while a rule decides it.

    Attributes
    ----------
    holds : Bools
        (datasets, regions): where data can be read now.
    may : Bools
        (jobs, regions): where a job may run with its data as it is now.
    remote : Ints
        (jobs, regions): GiB that it would read from elsewhere.
    price : Ints
        (regions, models): micro-dollars per GPU-hour.
    movable
        Running jobs that may be preempted, by site: (value per milli-GPU, priority, job), sorted.
    lowest
        The lowest priority of a running job.
    """

    wan: Wan
    hosts: Hosts
    holds: Bools
    may: Bools
    remote: Ints
    price: Ints
    running: dict[int, Holding]
    movable: Mapping[Site, Sequence[tuple[float, int, int]]]
    lowest: float
    started: dict[int, Holding] = field(default_factory=dict)
    preempted: dict[int, int] = field(default_factory=dict)

    @property
    def jobs(self) -> Sequence[Job]:
        """Those of the round."""
        return self.wan.round.jobs

    def sites(self, job: int, option: int, regions: Iterable[int]) -> list[Site]:
        """Return the regions, in this order, with each model that the option may have."""
        allowed = [group.gpu_models for group in self.jobs[job].options[option].groups]
        models = [
            m
            for m, name in enumerate(self.wan.models)
            if all(names is None or name in names for names in allowed)
        ]
        return [(r, m) for r in regions for m in models if self.wan.supply[r, m]]

    def start(self, job: int, option: int, site: Site, need: Need) -> bool:
        """Start a job at a site if it fits there, within quotas."""
        document = self.jobs[job]
        asked = document.options[option].milli_gpu
        if not self.hosts.quotas.admits(document.tenant, site[0], asked):
            return False
        placed = self.hosts.take(need, *site, document.priority)
        if placed is None:
            return False
        self.hosts.quotas.add(document.tenant, site[0], asked)
        self.started[job] = Holding(option, site[0], placed, document.value_of(option))
        return True

    def stop(self, job: int) -> None:
        """Take back what a job that runs or has started holds."""
        holding = self.running.pop(job, None) or self.started.pop(job)
        self.hosts.give(holding.placed)
        asked = self.jobs[job].options[holding.option].milli_gpu
        self.hosts.quotas.add(self.jobs[job].tenant, holding.region, -asked)


Rule: TypeAlias = Callable[[Deciding, int, int, Need], bool]
"""Start a job (by index) with an option, or say that it does not fit."""


def data_region(deciding: Deciding, job: int, option: int, need: Need) -> bool:
    """Try the first region that holds most of what the job reads."""
    region = int(np.argmin(deciding.remote[job]))
    if not deciding.may[job, region]:
        return False
    sites = deciding.sites(job, option, [region])
    sites.sort(key=lambda site: -deciding.hosts.idle[site])
    return any(deciding.start(job, option, site, need) for site in sites)


def least_loaded(deciding: Deciding, job: int, option: int, need: Need) -> bool:
    """Try the sites with the largest share of idle GPUs first."""
    sites = deciding.sites(job, option, np.flatnonzero(deciding.may[job]).tolist())
    sites.sort(key=lambda site: -deciding.hosts.idle[site] / deciding.wan.supply[site])
    return any(deciding.start(job, option, site, need) for site in sites)


def cheapest(deciding: Deciding, job: int, option: int, need: Need) -> bool:
    """Try the sites with the cheapest GPUs first."""
    sites = deciding.sites(job, option, np.flatnonzero(deciding.may[job]).tolist())
    sites.sort(key=lambda site: deciding.price[site])
    return any(deciding.start(job, option, site, need) for site in sites)


def scan(deciding: Deciding, job: int, option: int, need: Need) -> bool:
    """Try all sites, and where the job fits nowhere, all with victims."""
    sites = deciding.sites(job, option, np.flatnonzero(deciding.may[job]).tolist())
    sites.sort(
        key=lambda site: (
            deciding.remote[job, site[0]],
            -deciding.hosts.idle[site] / deciding.wan.supply[site],
        )
    )
    if any(deciding.start(job, option, site, need) for site in sites):
        return True
    plans = [
        (lost, int(deciding.remote[job, site[0]]), site, victims)
        for site in sites
        for lost, victims in [_victims(deciding, job, option, site, need)]
        if victims
    ]
    if not plans:
        return False
    _, _, site, victims = min(plans)
    return _displace(deciding, job, option, site, need, victims)


RULES: Mapping[str, Rule] = {
    "data's region": data_region,
    "least loaded": least_loaded,
    "cheapest": cheapest,
    "scan": scan,
}


def plan_of(rule: Rule, round_: Round) -> Plan:
    """Return the plan of a rule, without a certificate."""
    deciding = _prepared(compile_wan(round_))
    jobs, levels = deciding.jobs, deciding.hosts.cluster.levels
    pending = [j for j, job in enumerate(jobs) if job.running is None]
    for j in sorted(pending, key=lambda j: -jobs[j].priority):
        for option in range(len(jobs[j].options)):
            if rule(deciding, j, option, need_of(jobs[j], option, levels)):
                break
    return _document(deciding)


def _prepared(wan: Wan) -> Deciding:
    """Return the round before anybody starts."""
    round_, hosts = wan.round, Hosts(wan)
    holds = wan.holds | (wan.arriving & (wan.ready <= round_.now))
    linked = np.array([(holds[d][:, None] & wan.within(d)).any(axis=0) for d in range(len(holds))])
    local = holds[wan.read_dataset]
    reach = local | (wan.read_remote[:, None] & linked.reshape(holds.shape)[wan.read_dataset])
    may = wan.may_run.copy()
    remote = np.zeros(may.shape, dtype=np.int64)
    np.logical_and.at(may, wan.read_job, reach)
    np.add.at(remote, wan.read_job, np.where(local, 0, wan.read_gib[:, None]))
    price = np.zeros((len(wan.regions), len(wan.models)), dtype=np.int64)
    index = {name: r for r, name in enumerate(wan.regions)}
    for region in round_.geo.regions:
        for m, model in enumerate(wan.models):
            price[index[region.name], m] = region.prices.get(model, 0)
    running = {}
    for j, job in enumerate(round_.jobs):
        if job.running is None:
            continue
        placed = [(t.group, hosts.cluster.host_index[t.host], t.gpus) for t in job.running.tasks]
        region = hosts.region[placed[0][1]]
        running[j] = Holding(job.running.option, region, placed, job.value_of(job.running.option))
        hosts.quotas.add(job.tenant, region, job.options[job.running.option].milli_gpu)
    movable = _movable(round_.jobs, hosts, running)
    lowest = min((round_.jobs[j].priority for j in running), default=inf)
    return Deciding(wan, hosts, holds, may, remote, price, running, movable, lowest)


def _victims(
    deciding: Deciding, job: int, option: int, site: Site, need: Need
) -> tuple[int, list[int]]:
    """Return what is lost, and whom to preempt at a site so that the job fits; or nobody."""
    hosts, document = deciding.hosts, deciding.jobs[job]
    asked = document.options[option].milli_gpu
    if not document.priority > deciding.lowest:
        return 0, []
    if not hosts.quotas.admits(document.tenant, site[0], asked):
        return 0, []
    missing = asked - WHOLE_GPU * int(hosts.idle[site])
    chosen: list[int] = []
    lost, found = 0, False
    for worth, priority, victim in deciding.movable.get(site, ()):
        if missing * worth >= document.value_of(option):
            break
        if priority >= document.priority or victim not in deciding.running:
            continue
        lost += deciding.running[victim].value
        if lost >= document.value_of(option) or len(chosen) == MOST_VICTIMS:
            break
        chosen.append(victim)
        hosts.give(deciding.running[victim].placed)
        if hosts.fits(need, *site):
            found = True
            break
    for victim in chosen:
        hosts.retake(deciding.running[victim].placed)
    return (lost, chosen) if found else (0, [])


def _movable(
    jobs: Sequence[Job], hosts: Hosts, running: Mapping[int, Holding]
) -> dict[Site, list[tuple[float, int, int]]]:
    """Return the running jobs that may stop, by the region and model that they are on."""
    found: dict[Site, list[tuple[float, int, int]]] = {}
    for j, holding in running.items():
        models = {hosts.model[host] for _, host, _ in holding.placed}
        document = jobs[j].running
        if document is None or document.pinned or len(models) > 1:
            continue
        worth = holding.value / jobs[j].options[holding.option].milli_gpu
        entry = worth, jobs[j].priority, j
        found.setdefault((holding.region, models.pop()), []).append(entry)
    return {site: sorted(entries) for site, entries in found.items()}


def _displace(
    deciding: Deciding, job: int, option: int, site: Site, need: Need, victims: list[int]
) -> bool:
    """Start a job in the place of others; those on whose hosts it does not come go on."""
    hosts = deciding.hosts
    held = {victim: deciding.running[victim] for victim in victims}
    for victim in victims:
        deciding.stop(victim)
    if not deciding.start(job, option, site, need):
        for victim in victims:
            _resume(deciding, victim, held[victim])
        return False
    mine = deciding.started[job]
    came = {host for _, host, _ in mine.placed}
    for victim in victims:
        where = {host for _, host, _ in held[victim].placed}
        if came.isdisjoint(where):
            _resume(deciding, victim, held[victim])
            continue
        deciding.preempted[victim] = job
        for host in where:
            floor = deciding.jobs[victim].priority
            hosts.floor[host] = max(hosts.floor.get(host, floor), floor)
    return True


def _resume(deciding: Deciding, job: int, holding: Holding) -> None:
    """Let a job go on where it was."""
    deciding.hosts.retake(holding.placed)
    asked = deciding.jobs[job].options[holding.option].milli_gpu
    deciding.hosts.quotas.add(deciding.jobs[job].tenant, holding.region, asked)
    deciding.running[job] = holding


def _document(deciding: Deciding) -> Plan:
    names = deciding.hosts.cluster.hosts
    decisions, readers = [], []
    for j, job in enumerate(deciding.jobs):
        mine = deciding.started.get(j, deciding.running.get(j))
        if j in deciding.started:
            holding = deciding.started[j]
            decision = {
                "decision": "start",
                "option": holding.option,
                "tasks": _tasks(holding, names),
            }
        elif j in deciding.preempted:
            by = deciding.jobs[deciding.preempted[j]].name
            decision = {"decision": "preempt", "displaced_by": by}
        elif job.running is not None:
            tasks = job.running.tasks
            decision = {"decision": "keep", "option": job.running.option, "tasks": tasks}
        else:
            decision = {"decision": "wait"}
        decisions.append(Decision.model_validate({"job": job.name, **decision}))
        if mine is not None and deciding.remote[j, mine.region]:
            readers.append((j, mine.region))
    sections: list[dict[str, object]] = []
    if deciding.preempted:
        steps = [deciding.jobs[j].name for j in deciding.preempted]
        sections.append({"kind": "moves", "steps": steps, "needs_spare": []})
    reads = ReadsSection(readers=tuple(_readers(deciding, readers)))
    sections.append(reads.model_dump(mode="json"))
    return Plan(decisions=tuple(decisions), sections=tuple(sections))


def _tasks(holding: Holding, names: Sequence[str]) -> list[Task]:
    counted: dict[int, int] = {}
    tasks = []
    for group, host, gpus in holding.placed:
        index = counted[group] = counted.get(group, NONE) + 1
        tasks.append(Task(group=group, index=index, host=names[host], gpus=gpus))
    return tasks


def _readers(deciding: Deciding, jobs: Iterable[tuple[int, int]]) -> Iterator[Reader]:
    """Yield what jobs read from elsewhere, from where that is cheapest."""
    wan = deciding.wan
    first = np.searchsorted(wan.read_job, np.arange(len(wan.demand) + 1))
    for j, region in jobs:
        reads = []
        for read in range(first[j], first[j + 1]):
            dataset = int(wan.read_dataset[read])
            if deciding.holds[dataset, region] or not wan.read_remote[read]:
                continue
            able = np.flatnonzero(deciding.holds[dataset] & wan.within(dataset)[:, region])
            if len(able):
                source = able[np.argmin(wan.egress[able, region])]
                names = wan.datasets[dataset], wan.regions[source]
                reads.append(RemoteRead(dataset=names[0], source=names[1]))
        if reads:
            yield Reader(job=wan.round.jobs[j].name, reads=tuple(reads))
