"""Rows of capacity: what sets of GPU models, quotas and caps have in each lease.

Unhealthy hosts have nothing, hosts that are away nothing while they are, and what pinned jobs hold
is not there for others until their work is done. Reservations are of the current lease; it also has
what jobs hold already where nothing new may arrive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.problem.quotas import accounts_of, limits_of
from placewright.instances.checks.deadlines import unions
from placewright.instances.checks.round import hosts_by_name
from placewright.instances.derived.lease_arithmetic import leases_needed
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.topology.units import WHOLE_GPU

Models = frozenset[str]
Leases = tuple[int, int]
"""An interval of leases: the first one, and the one after the last."""


class CapacityRows:
    """Capacity rows of a round: sets of GPU models, quotas and caps.

    Of quotas and caps GPUs count, GPUs of a model and jobs.

    Parameters
    ----------
    asking
        Jobs that may ask for leases.
    """

    def __init__(self, round_: Round, asking: Iterable[Job]) -> None:
        self._round = round_
        self._hosts = hosts_by_name(round_.cluster)
        self._all_models = Models(one.gpu_model for one in self._hosts.values() if one.gpu_model)
        asking = list(asking)
        sets = unions(
            {
                self._allowed(group.gpu_models)
                for job in asking
                for option in job.options
                for group in option.groups
                if group.gpu
            }
        )
        self._sets = sorted(sets, key=lambda one: (len(one), sorted(one)))
        limits = limits_of(round_)
        owners = {account for job in asking for account in accounts_of(job)} if limits else set()
        self._limits = [
            (account, measure, most)
            for account, measures in limits.items()
            for measure, most in measures.items()
            if account in owners and measure.kind != "resources"
        ]

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self._sets) + len(self._limits)

    def demand(self, job: Job, option: int) -> list[int]:
        """Return what a job asks of each row with an option; 0 if it is pinned."""
        if job.running is not None and job.running.pinned:
            return [0] * self.count
        asked = [0] * len(self._sets)
        for group in job.options[option].groups:
            models = self._allowed(group.gpu_models)
            for r, row in enumerate(self._sets):
                if models <= row:
                    asked[r] += group.milli_gpu
        mine = accounts_of(job) if self._limits else ()
        return asked + [
            measure.asked_by(job.options[option]) if account in mine else 0
            for account, measure, _ in self._limits
        ]

    def capacity(self) -> Ints:
        """Return the capacity of each row in each lease, milli-GPU or jobs (rows, horizon)."""
        capacity = self._capacity_by_model()
        none = np.zeros(self._round.leases.horizon, dtype=np.int64)
        rows = [sum((capacity[model] for model in sorted(row)), none) for row in self._sets]
        for account, measure, most in self._limits:
            left = np.full_like(none, most)
            mine = [
                (job, measure.asked_by(job.options[job.running.option]))
                for job in self._round.jobs
                if job.running is not None and account in accounts_of(job)
            ]
            left[0] = max(most, sum(held for _, held in mine))
            for job, held in mine:
                if job.running is not None and job.running.pinned:
                    left[: self._leases_left(job)] -= held
            rows.append(np.maximum(left, 0))
        return np.array(rows, dtype=np.int64).reshape(self.count, len(none))

    def current_milli_gpu(self) -> int:
        """Return the milli-GPU of all models in the current lease."""
        return sum(int(row[0]) for row in self._capacity_by_model().values())

    def has_closed_running_gpus(self) -> bool:
        """Whether something runs on GPUs on which nothing new may arrive now."""
        closed, away = self._closed(), _away(self._round)
        return any(
            gpu in closed.get(task.host, ()) and not _is_away_now(away, task.host)
            for job in self._round.jobs
            if job.running is not None
            for task in job.running.tasks
            for gpu in task.gpus
        )

    def _allowed(self, models: Sequence[str] | None) -> Models:
        return self._all_models if models is None else self._all_models & Models(models)

    def _capacity_by_model(self) -> dict[str, Ints]:
        """Return the milli-GPU of each model in each lease (horizon,)."""
        horizon, away, closed = self._round.leases.horizon, _away(self._round), self._closed()
        healthy = {
            host: entry.healthy
            for entry in self._round.cluster.hosts
            for host in expand(entry.name)
        }
        change = {model: np.zeros(horizon + 1, dtype=np.int64) for model in self._all_models}
        for host, one in self._hosts.items():
            if one.gpu_model is None or not healthy[host]:
                continue
            mine, kept = change[one.gpu_model], WHOLE_GPU * len(closed.get(host, ()))
            _add(mine, 0, horizon, WHOLE_GPU * one.gpus)
            for first, end in away.get(host, ()):
                _add(mine, first, end, -WHOLE_GPU * one.gpus)
            if not _is_away_now(away, host):
                _add(mine, 0, 1, -kept)
        for job in self._round.jobs:
            running = job.running
            for task in () if running is None else running.tasks:
                model = self._hosts[task.host].gpu_model
                if model is None or running is None:
                    continue
                each = min(WHOLE_GPU, job.options[running.option].groups[task.group].gpu)
                stays = sum(gpu in closed.get(task.host, ()) for gpu in task.gpus)
                if not _is_away_now(away, task.host):
                    _add(change[model], 0, 1, each * stays)
                if running.pinned:
                    leases_left, held = self._leases_left(job), each * len(task.gpus)
                    leases_left = leases_left if healthy[task.host] else min(leases_left, 1)
                    _add(change[model], 0, leases_left, -held)
                    for first, end in away.get(task.host, ()):
                        _add(change[model], min(first, leases_left), min(end, leases_left), held)
        return {model: each[:-1].cumsum() for model, each in change.items()}

    def _closed(self) -> dict[str, set[int]]:
        """Return the GPUs of each host on which nothing new may arrive now."""
        closed = {
            host: set(range(self._hosts[host].gpus))
            for entry in self._round.cluster.hosts
            if not entry.healthy
            for host in expand(entry.name)
        }
        for reservation in self._round.reservations:
            for host in expand(reservation.host):
                every = tuple(range(self._hosts[host].gpus))
                closed.setdefault(host, set()).update(reservation.gpus or every)
        return closed

    def _leases_left(self, job: Job) -> int:
        """Return the number of leases that a pinned job still needs, at most the horizon."""
        leases, count = self._round.leases, None
        if job.deadline is not None and job.running is not None:
            hosts = len({task.host for task in job.running.tasks})
            pace = job.deadline.pace(job.running.option)
            count = leases_needed(job.deadline.work, pace, leases.length_s, hosts)
        return leases.horizon if count is None else min(count, leases.horizon)


def largest_host_gpus(round_: Round) -> dict[str, int]:
    """Return the GPUs of the largest host of each GPU model."""
    largest: dict[str, int] = {}
    for one in hosts_by_name(round_.cluster).values():
        if one.gpu_model is not None:
            largest[one.gpu_model] = max(one.gpus, largest.get(one.gpu_model, 0))
    return largest


def _away(round_: Round) -> Mapping[str, list[Leases]]:
    """Return the intervals of leases in which each host is away: sorted, disjoint."""
    every: defaultdict[str, list[Leases]] = defaultdict(list)
    for outage in round_.leases.outages:
        first, end = round_.leases.overlapped(outage, round_.now)
        for host in expand(outage.host) if first < end else ():
            every[host].append((first, end))
    return {host: _merge(sorted(leases)) for host, leases in every.items()}


def _merge(sorted_: list[Leases]) -> list[Leases]:
    """Return sorted intervals with those merged that touch."""
    merged = sorted_[:1]
    for first, end in sorted_[1:]:
        start, so_far = merged[-1]
        if first > so_far:
            merged.append((first, end))
        else:
            merged[-1] = start, max(so_far, end)
    return merged


def _is_away_now(away: Mapping[str, list[Leases]], host: str) -> bool:
    """Whether a host is away in the current lease."""
    return host in away and away[host][0][0] == 0


def _add(change: Ints, first: int, end: int, amount: int) -> None:
    """Add an amount from one lease to before another, in the changes from lease to lease."""
    change[first] += amount
    change[end] -= amount
