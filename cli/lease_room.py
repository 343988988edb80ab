"""What leases have of GPUs, and what promises use of it: what messages and charts count with.

GPUs are counted by sets of models, and by tenants with a quota; where in the cluster tasks would
lie is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placewright.instances.documents import WHOLE_GPU
from placewright.instances.hardware import hardware
from placewright.instances.ranges import expand

if TYPE_CHECKING:
    from placewright.instances.job import Job, Option
    from placewright.instances.round import Round

MAX_SETS = 64

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Interval = tuple[int, int]


@dataclass(frozen=True, eq=False, slots=True)
class Room:
    """Rows of GPUs that promises share, lease by lease.

    Parameters
    ----------
    models
        All GPU models of the cluster.
    sets
        The first rows: sets of models, with the unions of those that overlap.
    tenants
        The other rows: tenants that have a quota of GPUs.
    capacity, used
        (rows, horizon): milli-GPU that each row has in each lease, and that promises hold of it.
    total
        milli-GPU of all hosts.
    away
        (horizon,): milli-GPU on hosts that are unhealthy or away.
    """

    models: frozenset[str]
    sets: tuple[frozenset[str], ...]
    tenants: tuple[str, ...]
    capacity: Ints
    used: Ints
    total: int
    away: Ints

    def demand(self, job: Job, option: Option) -> Ints:
        """Return what an option of a job asks of each row, milli-GPU (rows,)."""
        asked = np.zeros(len(self.capacity), dtype=np.int64)
        for group in option.groups:
            wanted = _wanted(group.gpu_models, self.models)
            for row, models in enumerate(self.sets):
                asked[row] += group.milli_gpu if wanted <= models else 0
        if job.tenant in self.tenants:
            asked[len(self.sets) + self.tenants.index(job.tenant)] = option.milli_gpu
        return asked

    def fits(self, demand: Ints, *, empty: bool = False) -> Bools:
        """Whether each lease has room for this beside the promises, or for it alone (horizon,)."""
        used = np.zeros_like(self.used) if empty else self.used
        asks = demand > 0
        return np.asarray((used[asks] + demand[asks, None] <= self.capacity[asks]).all(axis=0))


def room_of(round_: Round, promised: Sequence[Mapping[str, Any]]) -> Room:
    """Count what the leases of a round have and the promises of a valid plan use.

    Parameters
    ----------
    promised
        The entries `jobs` of the plan's section `leases`.
    """
    horizon = round_.leases.horizon
    total, usable = _gpus(round_)
    models = frozenset(total)
    sets = _closed(
        {
            _wanted(group.gpu_models, models)
            for job in round_.jobs
            for option in job.options
            for group in option.groups
            if group.gpu
        }
    )
    tenants = tuple(t.name for t in round_.tenants if "gpu" in t.quota)
    quotas = [t.quota["gpu"] for t in round_.tenants if "gpu" in t.quota]
    nothing = np.zeros(horizon, dtype=np.int64)
    capacity = [sum((usable[model] for model in sorted(s)), nothing) for s in sets]
    capacity += [np.full(horizon, quota, dtype=np.int64) for quota in quotas]
    rows = np.stack(capacity) if capacity else np.zeros((0, horizon), dtype=np.int64)
    away = sum((total[model] - usable[model] for model in sorted(models)), nothing)
    room = Room(models, sets, tenants, rows, np.zeros_like(rows), sum(total.values()), away)
    jobs = {job.name: job for job in round_.jobs}
    change = np.zeros((len(rows), horizon + 1), dtype=np.int64)
    for entry in promised:
        job = jobs[entry["job"]]
        demand = room.demand(job, job.options[entry["option"]])
        for first, end in entry["leases"]:
            change[:, first] += demand
            change[:, end] -= demand
    return replace(room, used=change[:, :-1].cumsum(axis=1))


def _gpus(round_: Round) -> tuple[dict[str, int], dict[str, Ints]]:
    """Return milli-GPU by model: of all hosts, and of those that are there in each lease."""
    horizon = round_.leases.horizon
    gone = _gone(round_)
    total: dict[str, int] = {}
    change: dict[str, Ints] = {}
    for entry in round_.cluster.hosts:
        has = hardware(entry)
        if has.gpu_model is None:
            continue
        names, milli = expand(entry.name), has.gpus * WHOLE_GPU
        total[has.gpu_model] = total.get(has.gpu_model, 0) + milli * len(names)
        there = change.setdefault(has.gpu_model, np.zeros(horizon + 1, dtype=np.int64))
        if entry.healthy:
            there[0] += milli * len(names)
            for name in names:
                for first, end in gone.get(name, ()):
                    there[first] -= milli
                    there[end] += milli
    return total, {model: there[:-1].cumsum() for model, there in change.items()}


def _gone(round_: Round) -> dict[str, list[Interval]]:
    """Return the leases in which hosts are away, disjoint."""
    spans: dict[str, list[Interval]] = {}
    for outage in round_.leases.outages:
        for name in expand(outage.host):
            spans.setdefault(name, []).append(round_.leases.overlapped(outage, round_.now))
    gone: dict[str, list[Interval]] = {}
    for name, intervals in spans.items():
        done = 0
        for first, end in sorted(intervals):
            if end > done:
                gone.setdefault(name, []).append((max(first, done), end))
                done = end
    return gone


def _wanted(gpu_models: Iterable[str] | None, models: frozenset[str]) -> frozenset[str]:
    return models if gpu_models is None else models.intersection(gpu_models)


def _closed(sets: set[frozenset[str]]) -> tuple[frozenset[str], ...]:
    """Add the unions of sets that overlap, as many as are worth counting with."""
    found = sorted(sets, key=sorted)
    for one in found:
        for other in found:
            union = one | other
            if one & other and union not in found and len(found) < MAX_SETS:
                found.append(union)
    return tuple(found)
