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

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from benchmarks.region_deciding import Deciding, Holding, Site
from benchmarks.region_hosts import Need
from placewright.topology.units import WHOLE_GPU

MOST_VICTIMS = 32
"""Of one job at one site."""

__all__ = ["RULES", "Rule", "cheapest", "data_region", "least_loaded", "scan"]

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
