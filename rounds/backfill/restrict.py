"""The restricted round: what may start or move without delaying a reservation, as more resources.

For the time `at` of each reservation a host has further resources, which only jobs ask that would
not have ended by then: the GPUs and other resources that no reservation takes, and of tenants what
their quotas leave. What reservations leave of a cap or of pools is a further cap, and are further
pools, of such jobs. Tasks of a part of a GPU do not come to hosts of which a reservation takes
GPUs. Hosts that maintenance takes are not among those of jobs that would not have ended by then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.problem.limits import resources_held
from placewright.instances.derived.hardware import hardware, pooled_resources
from placewright.instances.derived.names import AllowedHosts
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.waiting import aged_value, eligible, expected_end, hosts_away
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.caps import Cap
from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.policy import Tenant
from placewright.instances.documents.quantities import CORE_RESOURCES, MAX_GPU
from placewright.instances.documents.round import Round
from placewright.rounds.backfill.profile import PoolProfile, Reservation
from placewright.topology.units import WHOLE_GPU

GPUS, PARTS, QUOTA, CAP = "gpus", "parts", "quota", "cap"
_IMPOSSIBLE = Option(value=0, groups=(TaskGroup(gpu=MAX_GPU // WHOLE_GPU),))


def restricted_round(
    round_: Round,
    whole: Round,
    reservations: Sequence[Reservation],
    resources: Sequence[str],
    pools: PoolProfile,
) -> Round:
    """Return a round whose plans delay no reservation.

    Values of waiting jobs are aged, and jobs that are not eligible fit nowhere.

    Parameters
    ----------
    round_
        The round in which the jobs at the head of the queue run already.
    whole
        The round itself, with the same jobs.
    reservations
    resources
        Names of the cluster's resources, as in the reservations' `demand`.
    pools
        Its pools.
    """
    asked, maintenance = _Asked(round_.now), _Maintenance(round_)
    limits = [
        _Limit(at, round_, whole, reservations, resources, pools) for at in _times(reservations)
    ]
    jobs = []
    for job, before in zip(round_.jobs, whole.jobs, strict=True):
        if job.running is None and not eligible(job, round_.now):
            jobs.append(job.model_copy(update={"options": (_IMPOSSIBLE,)}))
            continue
        options = job.options
        if before.running is None and round_.policy.aging is not None:
            options = tuple(
                option.model_copy(update={"value": aged_value(whole, before, o)})
                for o, option in enumerate(options)
            )
        away = hosts_away(round_, round_.now, expected_end(before, round_.now))
        options = tuple(
            asked.of(maintenance.of(option, away), [x for x in limits if x.binds(before)])
            for option in options
        )
        more = tuple(name for x in limits if x.binds(before) for name in x.caps_of(job))
        caps = {"caps": (*job.caps, *more)} if more else {}
        jobs.append(job.model_copy(update={"options": options, **caps}))
    return round_.model_copy(
        update={
            "cluster": _cluster(round_.cluster, limits),
            "jobs": tuple(jobs),
            "tenants": tuple(_tenant(tenant, limits) for tenant in round_.tenants),
            "caps": {**round_.caps, **{n: cap for x in limits for n, cap in x.caps.items()}},
        }
    )


def is_part(group: TaskGroup) -> bool:
    """Whether a task of a group takes a part of a GPU."""
    return group.mig is not None or group.gpu % WHOLE_GPU > 0


def _times(reservations: Iterable[Reservation]) -> list[int]:
    return sorted({reservation.at for reservation in reservations})


class _Limit:
    """What jobs may hold that have not ended at a time at which a reservation begins."""

    def __init__(
        self,
        at: int,
        round_: Round,
        whole: Round,
        reservations: Sequence[Reservation],
        resources: Sequence[str],
        pools: PoolProfile,
    ) -> None:
        self.at, self._now = at, round_.now
        self._pooled = pooled_resources(round_.cluster)
        self.active = [r for r in reservations if r.at <= at < r.end]
        gpus: Ints = np.sum([r.gpus for r in self.active], axis=0)
        demand: Ints = np.sum([r.demand for r in self.active], axis=0)
        self.hosts = set(np.flatnonzero(gpus).tolist())
        self.resources = [
            (name, {int(h): int(demand[h, r]) for h in np.flatnonzero(demand[:, r])})
            for r, name in enumerate(resources)
            if demand[:, r].any()
        ]
        self.gpus = {h: int(gpus[h]) for h in self.hosts}
        found = list(pools.reserved([r.pools for r in self.active], self.name))
        self.pools = [left for _, left in found]
        self._uses = {pool.resource for pool, _ in found if pool.per == "job"}
        self.quota: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        for r in self.active:
            job = round_.jobs[r.job]
            for name, amount in resources_held(job.options[r.option]).items():
                self.quota[job.tenant or ""][name] += amount
        self.quota_names = [
            name
            for name in CORE_RESOURCES
            if any(
                name in tenant.quota and self.quota[tenant.name][name] for tenant in round_.tenants
            )
        ]
        taken: defaultdict[str, list[Option]] = defaultdict(list)
        for r in self.active:
            for name in round_.jobs[r.job].caps:
                taken[name].append(round_.jobs[r.job].options[r.option])
        self._caps = {name: self.name(f"{CAP}-{name}") for name in taken}
        self.caps = {self._caps[n]: _left(round_.caps[n], mine) for n, mine in taken.items()}
        self._closed = _closed_gpus(round_)
        self._parts: defaultdict[str, set[int]] = defaultdict(set)
        self._whole: defaultdict[str, set[int]] = defaultdict(set)
        self._part_tasks: Counter[str] = Counter()
        for job, before in zip(round_.jobs, whole.jobs, strict=True):
            if job.running is None or not self.binds(before):
                continue
            groups = job.options[job.running.option].groups
            for task in job.running.tasks:
                if is_part(groups[task.group]):
                    self._parts[task.host].update(task.gpus)
                    self._part_tasks[task.host] += 1
                else:
                    self._whole[task.host].update(task.gpus)

    def name(self, kind: str) -> str:
        """Return the name of a resource at this time; it comes after those of documents."""
        return f"~{kind}@{self.at}"

    def binds(self, job: Job) -> bool:
        """Whether a job of the whole round, running or started now, would not have ended."""
        end = expected_end(job, self._now)
        return end is None or end > self.at

    def of_host(self, number: int, entry: HostEntry) -> Iterator[tuple[str, int]]:
        """Yield the further resources of a host, by its index, with the amounts that it has."""
        has = hardware(entry, self._pooled)
        if number in self.hosts:
            used = self._parts[entry.name] | (
                self._closed.get(entry.name, set()) - self._whole[entry.name]
            )
            yield self.name(GPUS), max(has.gpus - len(used) - self.gpus[number], 0)
            yield self.name(PARTS), self._part_tasks[entry.name]
        else:
            yield self.name(GPUS), has.gpus
            yield self.name(PARTS), MAX_AMOUNT
        for name, taken in self.resources:
            if name in self._pooled and name not in entry.resources:
                continue
            yield self.name(name), max(has.capacity.get(name, 0) - taken.get(number, 0), 0)
        for name in self.quota_names:
            yield self.name(f"{QUOTA}-{name}"), MAX_AMOUNT

    def of_task(self, group: TaskGroup) -> dict[str, int]:
        """Return what a task of a job that is bound asks."""
        wanted = {"gpu": group.gpu, "cpu": group.cpu, "memory": group.memory, **group.resources}
        asked = {self.name(name): wanted.get(name, 0) for name, _ in self.resources}
        for name in self.quota_names:
            asked[self.name(f"{QUOTA}-{name}")] = wanted[name]
        if is_part(group):
            return asked | {self.name(PARTS): 1}
        return asked | {self.name(GPUS): group.gpu // WHOLE_GPU}

    def of_job(self, option: Option) -> dict[str, int]:
        """Return what a job that is bound uses of pools."""
        return {self.name(name): n for name, n in option.uses.items() if name in self._uses}

    def caps_of(self, job: Job) -> Iterator[str]:
        """Yield the further caps of a job that is bound."""
        return (self._caps[name] for name in job.caps if name in self._caps)

    def of_tenant(self, tenant: Tenant) -> dict[str, int]:
        """Return the further quotas of a tenant."""
        taken: Mapping[str, int] = self.quota.get(tenant.name, {})
        return {
            self.name(f"{QUOTA}-{name}"): max(most - taken[name], 0)
            for name, most in tenant.quota.items()
            if name in self.quota_names and taken.get(name)
        }


def _left(cap: Cap, taken: Iterable[Option]) -> Cap:
    """Return what some options leave of a cap."""
    options = list(taken)
    return Cap.of(
        {m: max(most - sum(map(m.asked_by, options)), 0) for m, most in cap.limits.items()}
    )


class _Maintenance:
    """Options on the hosts that maintenance leaves; equal ones are one object."""

    def __init__(self, round_: Round) -> None:
        self._hosts = [name for entry in round_.cluster.hosts for name in expand(entry.name)]
        self._named = AllowedHosts(round_.host_sets)
        self._known: dict[tuple[int, frozenset[str]], tuple[Option, Option]] = {}

    def of(self, option: Option, away: frozenset[str]) -> Option:
        """Return an option of which no task comes to hosts that are away."""
        if not away:
            return option
        key = id(option), away
        if key not in self._known:
            groups = tuple(
                group.model_copy(update={"hosts": self._left(group, away), "host_sets": ()})
                for group in option.groups
            )
            self._known[key] = option, option.model_copy(update={"groups": groups})
        return self._known[key][1]

    def _left(self, group: TaskGroup, away: frozenset[str]) -> tuple[str, ...]:
        named = self._named.of(group)
        return tuple(
            name for name in self._hosts if name not in away and (named is None or name in named)
        )


class _Asked:
    """Options with what they ask at each time; equal ones are one object."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._known: dict[tuple[int, int, tuple[int, ...]], tuple[Option, Option]] = {}

    def of(self, option: Option, limits: Sequence[_Limit]) -> Option:
        """Return an option that also asks what some times limit."""
        if not limits:
            return option
        key = id(option), option.value or 0, tuple(limit.at for limit in limits)
        if key not in self._known:
            groups = []
            for group in option.groups:
                more = {k: v for limit in limits for k, v in limit.of_task(group).items() if v}
                groups.append(group.model_copy(update={"resources": {**group.resources, **more}}))
            uses = {k: v for limit in limits for k, v in limit.of_job(option).items()}
            more_uses = {"uses": {**option.uses, **uses}} if uses else {}
            made = option.model_copy(update={"groups": tuple(groups), **more_uses})
            self._known[key] = option, made
        return self._known[key][1]


def _cluster(document: ClusterDocument, limits: Sequence[_Limit]) -> ClusterDocument:
    """Return a cluster whose hosts have the further resources; ranges with reservations part."""
    if not limits:
        return document
    special: set[int] = {host for limit in limits for host in limit.hosts}
    special |= {host for limit in limits for _, taken in limit.resources for host in taken}
    entries: list[HostEntry] = []
    number = 0
    for entry in document.hosts:
        names = expand(entry.name)
        apart = any(number + k in special for k in range(len(names)))
        for name in names if apart else [entry.name]:
            one = entry.model_copy(update={"name": name})
            more = dict(pair for limit in limits for pair in limit.of_host(number, one))
            entries.append(one.model_copy(update={"resources": {**entry.resources, **more}}))
            number += 1 if apart else len(names)
    pools = (*document.pools, *(pool for limit in limits for pool in limit.pools))
    return document.model_copy(update={"hosts": tuple(entries), "pools": pools})


def _tenant(tenant: Tenant, limits: Sequence[_Limit]) -> Tenant:
    more = {name: amount for limit in limits for name, amount in limit.of_tenant(tenant).items()}
    return tenant.model_copy(update={"quota": {**tenant.quota, **more}}) if more else tenant


def _closed_gpus(round_: Round) -> Mapping[str, set[int]]:
    """Return the GPUs of hosts that reservations of the round close, by host."""
    closed: defaultdict[str, set[int]] = defaultdict(set)
    for entry in round_.reservations:
        for name in expand(entry.host):
            closed[name] |= set(entry.gpus or ())
    return closed
