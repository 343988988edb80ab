"""From a round to ways and capacity: the arrays of `problem.py`, and what each way stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from placewright.formulations.deadline.problem import Ints, Problem
from placewright.formulations.gang.quotas import held_by
from placewright.instances.deadline import Deadline, Due, Pace, finish, gain, least_hosts, need
from placewright.instances.documents import WHOLE_GPU
from placewright.instances.hardware import Hardware
from placewright.instances.job import Job, Option
from placewright.instances.ranges import expand
from placewright.instances.references import hosts_by_name
from placewright.instances.round import Round

Models = frozenset[str]

MAX_ROWS = 64
"""Unions of sets of GPU models beyond these are left out: a row less relaxes."""


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """What there is to promise in a round.

    Attributes
    ----------
    jobs : tuple of int
        Index in the round of each job of `problem`.
    option : Ints
        (ways,): the option of each way.
    due : tuple of Due
        What each way promises.
    gains : Ints
        (ways,): work per lease, thousandths of a work-second, at the option's least hosts.
    hosts : Ints
        (ways,): the least hosts of the way's option; of a pinned job those on which it runs.
    """

    round: Round
    problem: Problem
    jobs: tuple[int, ...]
    option: Ints
    due: tuple[Due, ...]
    gains: Ints
    hosts: Ints

    def after_now(self, way: int, hosts: int) -> tuple[int, int, int, bool]:
        """Return what a way needs after the current lease on some hosts.

        Leases that are still needed, the first of them that can be used, the one after the last,
        and whether that is in time.
        """
        leases, now, at = self.round.leases, self.round.now, self.due[way].at
        deadline, pace = self._of(way)
        left = deadline.work - gain(pace, leases.length_s, hosts)
        if left <= 0:
            return 0, 1, 1, finish(now, deadline.work, pace, hosts) <= at
        each = int(self.gains[way])
        count = -(-left // each)
        last = finish(now, left - (count - 1) * each, pace, int(self.hosts[way]))
        return count, 1, min((at - last) // leases.length_s + 1, leases.horizon), True

    def finish(self, way: int, leases: Sequence[int] | Ints, hosts: int | None) -> int:
        """Return when a job is done that runs in these leases, in the current one on `hosts`."""
        section, now = self.round.leases, self.round.now
        deadline, pace = self._of(way)
        left, least = deadline.work, int(self.hosts[way])
        for lease in leases[:-1]:
            there = hosts if lease == 0 and hosts is not None else least
            left -= gain(pace, section.length_s, there)
        last = int(leases[-1])
        there = hosts if last == 0 and hosts is not None else least
        return finish(section.start(now, last), left, pace, there)

    def _of(self, way: int) -> tuple[Deadline, Pace]:
        deadline = self.round.jobs[self.jobs[self.problem.job[way]]].deadline
        if deadline is None:
            raise AssertionError("a way is of a job with a deadline")
        return deadline, deadline.pace(int(self.option[way]))


def compile_admission(round_: Round) -> Admission:
    """Return the ways to promise something to the jobs of a round, and what its leases have."""
    hosts = hosts_by_name(round_.cluster)
    largest = largest_of(hosts)
    models = [Models(group) for group in _asked_models(round_, hosts)]
    rows = _unions(models)
    quotas = {
        tenant.name: tenant.quota["gpu"] for tenant in round_.tenants if "gpu" in tenant.quota
    }
    asks = _Asks(rows, list(quotas), hosts)
    jobs = tuple(j for j, job in enumerate(round_.jobs) if dues_of(job))
    ways = [way for number, j in enumerate(jobs) for way in _ways(round_, number, j, largest)]
    columns = np.array([way.numbers for way in ways], dtype=np.int64).reshape(-1, 8)
    problem = Problem(
        capacity=_capacity(round_, hosts, asks, quotas),
        loss=np.array([_loss(round_.jobs[j]) for j in jobs], dtype=np.int64),
        job=columns[:, 0],
        need=columns[:, 1],
        first=columns[:, 2],
        end=columns[:, 3],
        value=columns[:, 4],
        demand=np.array(
            [asks.of(round_.jobs[jobs[way.numbers[0]]], way.option) for way in ways],
            dtype=np.int64,
        ).reshape(len(ways), asks.count),
    )
    due = tuple(way.due for way in ways)
    return Admission(round_, problem, jobs, columns[:, 5], due, columns[:, 6], columns[:, 7])


@dataclass(frozen=True, slots=True)
class _Way:
    numbers: tuple[int, int, int, int, int, int, int, int]
    option: int
    due: Due


def _ways(round_: Round, number: int, j: int, largest: Mapping[str, int]) -> Iterator[_Way]:
    """Yield the ways of one job that its deadline, the horizon and its running option allow."""
    job, leases = round_.jobs[j], round_.leases
    deadline = job.deadline
    if deadline is None:
        return
    first = 0 if job.running else leases.first_usable(deadline.ready, round_.now)
    for o, option in enumerate(job.options):
        if job.running is not None and job.running.option != o:
            continue
        pace, hosts = deadline.pace(o), _hosts(job, option, largest)
        count = need(deadline.work, pace, leases.length_s, hosts)
        if count is None:
            continue
        each = gain(pace, leases.length_s, hosts)
        # The last lease need not be over when the job is done.
        last = finish(round_.now, deadline.work - (count - 1) * each, pace, hosts)
        known: dict[int, Due] = {}
        for due in dues_of(job):
            end = min((due.at - last) // leases.length_s + 1, leases.horizon)
            if job.running is not None and job.running.pinned:
                end = min(end, count)
            if end - first >= count and (end not in known or known[end].value < due.value):
                known[end] = due
        for end, due in known.items():
            yield _Way((number, count, first, end, due.value, o, each, hosts), o, due)


def largest_of(hosts: Mapping[str, Hardware]) -> dict[str, int]:
    """Return the GPUs of the largest host of each GPU model."""
    largest: dict[str, int] = {}
    for one in hosts.values():
        if one.gpu_model is not None:
            largest[one.gpu_model] = max(one.gpus, largest.get(one.gpu_model, 0))
    return largest


def dues_of(job: Job) -> list[Due]:
    """Return the times that a job may be promised, the earliest first: its own, and its promise."""
    deadline = job.deadline
    if deadline is None:
        return []
    times = {due.at: due for due in deadline.due}
    promise = deadline.promise
    if promise is not None and (promise.at not in times or times[promise.at].value < promise.value):
        times[promise.at] = promise
    return [times[at] for at in sorted(times)]


def _loss(job: Job) -> int:
    return job.deadline.promise.value if job.deadline and job.deadline.promise else 0


def _asked_models(round_: Round, hosts: Mapping[str, Hardware]) -> set[Models]:
    """Return the sets of GPU models that task groups allow."""
    every = Models(one.gpu_model for one in hosts.values() if one.gpu_model is not None)
    return {
        every if group.gpu_models is None else Models(group.gpu_models) & every
        for job in round_.jobs
        for option in (job.options if dues_of(job) else ())
        for group in option.groups
        if group.gpu
    }


def _unions(sets: Sequence[Models]) -> list[Models]:
    """Return the sets and the unions of those that overlap, the smallest first."""
    known = set(sets)
    growing = True
    while growing and len(known) < MAX_ROWS:
        more = {a | b for a, b in combinations(known, 2) if a & b} - known
        growing = bool(more)
        known |= more
    return sorted(known, key=lambda one: (len(one), sorted(one)))[-MAX_ROWS:]


class _Asks:
    """What options ask of each row."""

    def __init__(
        self, rows: list[Models], tenants: list[str], hosts: Mapping[str, Hardware]
    ) -> None:
        self.rows, self.tenants = rows, tenants
        self.count = len(rows) + len(tenants)
        self._every = Models(one.gpu_model for one in hosts.values() if one.gpu_model is not None)

    def of(self, job: Job, option: int) -> list[int]:
        """Return the milli-GPU that a job asks of each row with an option.

        A pinned job asks nothing: the rows are without what it holds.
        """
        chosen = job.options[option]
        asked = [0] * self.count
        if job.running is not None and job.running.pinned:
            return asked
        for group in chosen.groups:
            models = self._every if group.gpu_models is None else Models(group.gpu_models)
            for r, row in enumerate(self.rows):
                if models & self._every <= row:
                    asked[r] += group.milli_gpu
        for t, tenant in enumerate(self.tenants, len(self.rows)):
            if job.tenant == tenant:
                asked[t] = held_by(chosen)["gpu"]
        return asked


def _capacity(
    round_: Round, hosts: Mapping[str, Hardware], asks: _Asks, quotas: Mapping[str, int]
) -> Ints:
    """Return what each row has in each lease (rows, horizon), without what is pinned."""
    horizon = round_.leases.horizon
    healthy = {name: entry.healthy for entry in round_.cluster.hosts for name in expand(entry.name)}
    models = sorted({one.gpu_model for one in hosts.values() if one.gpu_model is not None})
    number = {model: m for m, model in enumerate(models)}
    there = np.zeros((len(models), horizon), dtype=np.int64)
    for name, one in hosts.items():
        if healthy[name] and one.gpu_model is not None:
            there[number[one.gpu_model]] += WHOLE_GPU * one.gpus
    away = away_in(round_)
    for name, leases in away.items():
        model = hosts[name].gpu_model
        if healthy[name] and model is not None:
            there[number[model], list(leases)] -= WHOLE_GPU * hosts[name].gpus
    _correct_now(round_, hosts, healthy, away, number, there)
    pinned = [job for job in round_.jobs if job.running is not None and job.running.pinned]
    for job in pinned:
        left = _leases_left(round_, job)
        for host, milli in _held_on(job):
            model = hosts[host].gpu_model
            if model is not None:
                stays = np.full(horizon, healthy[host])
                stays[0] = True
                stays[list(away.get(host, ()))] = False
                there[number[model], :left] -= milli * stays[:left]
    capacity = np.zeros((asks.count, horizon), dtype=np.int64)
    for r, row in enumerate(asks.rows):
        capacity[r] = there[[number[model] for model in sorted(row)]].sum(axis=0)
    held = dict.fromkeys(quotas, 0)
    for job in round_.jobs:
        if job.running is not None and job.tenant in held:
            held[job.tenant] += held_by(job.options[job.running.option])["gpu"]
    for t, tenant in enumerate(asks.tenants, len(asks.rows)):
        capacity[t] = quotas[tenant]
        capacity[t, 0] = max(quotas[tenant], held[tenant])
    for job in pinned:
        if job.running is not None and job.tenant in asks.tenants:
            t = len(asks.rows) + asks.tenants.index(job.tenant)
            milli = held_by(job.options[job.running.option])["gpu"]
            capacity[t, : _leases_left(round_, job)] -= milli
    return np.maximum(capacity, 0)


def away_in(round_: Round) -> dict[str, set[int]]:
    """Return the leases of the horizon in which each host is away, for hosts that ever are."""
    away: dict[str, set[int]] = {}
    for outage in round_.leases.outages:
        leases = range(*round_.leases.overlapped(outage, round_.now))
        for host in expand(outage.host) if leases else ():
            away.setdefault(host, set()).update(leases)
    return away


def _hosts(job: Job, option: Option, largest: Mapping[str, int]) -> int:
    """Return the fewest hosts that can hold an option; a pinned job stays on those that it has."""
    if job.running is not None and job.running.pinned:
        return len({task.host for task in job.running.tasks})
    return least_hosts(option, largest)


def _held_on(job: Job) -> Iterator[tuple[str, int]]:
    """Yield the host of each task of a running job, and the milli-GPU that it holds there."""
    if job.running is not None:
        groups = job.options[job.running.option].groups
        for task in job.running.tasks:
            yield task.host, groups[task.group].gpu


def _leases_left(round_: Round, job: Job) -> int:
    """Return how many leases a pinned job still needs, at most the horizon."""
    leases, count = round_.leases, None
    if job.deadline is not None and job.running is not None:
        option = job.running.option
        pace, hosts = job.deadline.pace(option), _hosts(job, job.options[option], {})
        count = need(job.deadline.work, pace, leases.length_s, hosts)
    return leases.horizon if count is None else min(count, leases.horizon)


def _correct_now(
    round_: Round,
    hosts: Mapping[str, Hardware],
    healthy: Mapping[str, bool],
    away: Mapping[str, set[int]],
    number: Mapping[str, int],
    there: Ints,
) -> None:
    """Count in the current lease what runs on unhealthy hosts, and nothing new where reserved."""
    reserved: dict[str, set[int]] = {}
    for reservation in round_.reservations:
        for host in expand(reservation.host):
            every = tuple(range(hosts[host].gpus))
            reserved.setdefault(host, set()).update(reservation.gpus or every)
    for job in round_.jobs:
        if job.running is None:
            continue
        groups = job.options[job.running.option].groups
        for task in job.running.tasks:
            model = hosts[task.host].gpu_model
            if model is None or 0 in away.get(task.host, ()):
                continue
            kept = [gpu for gpu in task.gpus if gpu in reserved.get(task.host, ())]
            if not healthy[task.host] or kept:
                share = groups[task.group].gpu / max(1, len(task.gpus))
                counted = len(task.gpus) if not healthy[task.host] else len(kept)
                there[number[model], 0] += round(share * counted)
    for host, gpus in reserved.items():
        model = hosts[host].gpu_model
        if model is not None and healthy[host] and 0 not in away.get(host, ()):
            there[number[model], 0] -= WHOLE_GPU * len(gpus)
