"""Reservations of the first waiting jobs, and the round in which nothing delays them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.problem.jobs import Choice
from placewright.formulations.gang.problem.limits import resources_held
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate
from placewright.instances.derived.hardware import hardware, pooled_resources
from placewright.instances.derived.names import AllowedHosts
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.waiting import (
    aged_value,
    eligible,
    expected_end,
    hosts_away,
    queue,
)
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.caps import Cap
from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Reason
from placewright.instances.documents.policy import Tenant
from placewright.instances.documents.quantities import CORE_RESOURCES, MAX_GPU
from placewright.instances.documents.round import Round
from placewright.rounds.backfill.profile import (
    NEVER,
    SOURCE,
    PoolProfile,
    Profile,
    QueuePlaces,
    Reservation,
)
from placewright.rounds.decisions import Why
from placewright.topology.units import WHOLE_GPU

MOST_JOBS = 500
"""Of a round in which the reservation that a job would delay is looked for among several; in larger
ones it is the first that begins before the job has ended."""

MAY_START = (Reason.NOT_CHOSEN, Reason.DISPLACED_BY_PRIORITY)


class BesideSome:
    """Which jobs wait beside some of the reservations, under one candidate.

    `reasons`: why jobs wait beside some reservations alone.
    """

    def __init__(self, reasons: Callable[[Sequence[Reservation]], dict[int, Why]]) -> None:
        self._reasons = reasons
        self._known: dict[tuple[int, ...], dict[int, Why]] = {}

    def fits(self, job: int, reservations: Sequence[Reservation], whole: Why) -> bool:
        """Whether some reservations leave a job its place, which `whole` says that it has."""
        key = tuple(r.job for r in reservations)
        if key not in self._known:
            self._known[key] = self._reasons(reservations)
        return not is_kept_off(whole, self._known[key][job])

    def first_delayed(
        self, job: int, reservations: Sequence[Reservation], whole: Why
    ) -> Reservation:
        """Return the first of some reservations beside which, with those before it, none is left.

        All of them together leave no place.
        """
        least, most = 1, len(reservations)
        while least < most:
            middle = (least + most) // 2
            if self.fits(job, reservations[:middle], whole):
                least = middle + 1
            else:
                most = middle
        return reservations[least - 1]


def is_kept_off(whole: Why, restricted: Why) -> bool:
    """Whether a job that might start in the whole round may not in a restricted one."""
    may_start = restricted.reason in MAY_START
    return not may_start or (_is_startable(whole) and not _is_startable(restricted))


def _is_startable(why: Why) -> bool:
    return why.detail is not None and why.detail.startable


class Queue:
    """Jobs of the queue, taken in its order."""

    def __init__(self, problem: Problem, last: Mapping[str, Mapping[str, Any]]) -> None:
        self._problem = problem
        self.profile = Profile(problem)
        self._places = QueuePlaces(problem, self.profile)
        self._last = {
            j: found
            for j, job in enumerate(problem.round.jobs)
            if job.name in last and j in self._places.class_of
            if (found := self._of_last(j, last[job.name])) is not None
        }
        self._newcomers = False
        self._waiting_rank: tuple[bool, int] | None = None  # the highest of the jobs that wait
        self._may_stop = any(j.running and not j.running.pinned for j in problem.round.jobs)
        self._full: dict[int, int] = {}  # by class, until when one does not fit from now

    def add(self, job: int) -> None:
        """Start a job now if it fits, or reserve for it; do nothing if no time is known.

        A job that had a reservation in the last round leaves the others of that round as they are,
        and keeps its own if it finds no earlier one.
        """
        before = self._last.pop(job, None)
        self.profile.kept = [] if before is None else list(self._last.values())
        number = len(self.profile.reservations)
        added = self._add(job, before)
        if not added and self.profile.kept:
            self.profile.kept = []
            added = self._add(job, before)
        has_reservation = len(self.profile.reservations) > number
        if has_reservation and before is not None:
            found = self.profile.reservations[-1]
            cause = self._cause() if found.at > before.at else None
            self.profile.reservations[-1] = found._replace(was=before.at, cause=cause)
        self._newcomers |= added and before is None
        if has_reservation or not added:
            self._note_waiting(job)

    def _add(self, job: int, before: Reservation | None) -> bool:
        """Start a job or reserve for it; False if no time is known."""
        c = self._places.class_of[job]
        choices = self._choices(c)
        document = self._problem.round.jobs[job]
        runtime = document.expected_runtime_s
        times = self.profile.times()
        if before is not None:
            times = sorted({*times, before.at})
        least = min(sum(group.milli_gpu for group in choice.groups) for choice in choices)
        now, short_until = self._problem.round.now, dict.fromkeys(range(len(choices)), -1)
        for at, most in zip(times, self.profile.most_gpus(times).tolist(), strict=True):
            if at > now and most * WHOLE_GPU < least:
                continue
            end = NEVER if runtime is None else at + runtime
            for k, choice in enumerate(choices):
                if at > max(now, short_until[k]):
                    short_until[k] = self._places.short_until(choice, at, end)
                if now < at <= short_until[k]:
                    continue
                option = document.options[choice.index]
                if not self.profile.within_quota(document, option, at, end):
                    continue
                if at == now:
                    if self._places.start(job, choice, end):
                        return True
                elif found := self._places.reservation(job, choice, at, end):
                    self.profile.reserve(found)
                    return True
            if before is not None and at == before.at and self._places.still_fits(before):
                self.profile.reserve(before)
                return True
        return False

    def order(self) -> list[int]:
        """Return the jobs of the queue by precedence, time of submission, and order in the round.

        By priority where all are entitled; those that could only borrow come after all others.
        """
        found = queue(self._problem.round)
        if self._problem.round.policy.as_listed:
            return found
        return sorted(found, key=lambda job: not self._rank(job)[0])

    def outranked(self, job: int) -> bool:
        """Whether a job of higher precedence waits that may start where running jobs move or stop.

        The search decides between them.
        """
        waits = self._waiting_rank
        return self._may_stop and waits is not None and self._rank(job) < waits

    def backfill_order(self, jobs: Sequence[int]) -> list[int]:
        """Return jobs further back in the order in which they may start.

        Of those of one precedence first the ones that end before any reservation begins, which cost
        no reserved job anything. As the round lists them where the policy says so.
        """
        if self._problem.round.policy.as_listed:
            return list(jobs)
        first = min((r.at for r in self.profile.reservations), default=NEVER)

        def turn(job: int) -> tuple[bool, int, bool]:
            entitled, priority = self._rank(job)
            return not entitled, -priority, self._end_of_start(job) > first

        return sorted(jobs, key=turn)

    def backfill(self, job: int) -> None:
        """Start a job now if it fits beside all reservations."""
        self.profile.kept = []
        document, now = self._problem.round.jobs[job], self._problem.round.now
        c, end = self._places.class_of[job], self._end_of_start(job)
        if end >= self._full.get(c, NEVER + 1):
            return
        for choice in self._choices(c):
            option = document.options[choice.index]
            within = self.profile.within_quota(document, option, now, end)
            if within and self._places.start(job, choice, end):
                return
        self._full[c] = end
        self._note_waiting(job)

    def candidate(self) -> Candidate:
        """Return the starts of now as a candidate."""
        return self._places.candidate()

    def _end_of_start(self, job: int) -> int:
        """Return when a job is expected to end if it starts now."""
        end = expected_end(self._problem.round.jobs[job], self._problem.round.now)
        return NEVER if end is None else end

    def _rank(self, job: int) -> tuple[bool, int]:
        """Return the precedence of a job: whether it is entitled with some option, its priority."""
        choices = self._problem.classes[self._places.class_of[job]].choices
        return any(choice.entitled for choice in choices), self._problem.round.jobs[job].priority

    def _note_waiting(self, job: int) -> None:
        rank = self._rank(job)
        self._waiting_rank = max(rank, self._waiting_rank or rank)

    def _choices(self, c: int) -> list[Choice]:
        return sorted(self._problem.classes[c].choices, key=lambda choice: -choice.value)

    def _cause(self) -> str:
        """Say why a reservation of the last round cannot be kept."""
        if self._newcomers:
            return "arrival"
        jobs, now = self._problem.round.jobs, self._problem.round.now
        overran = any(
            job.running.started + job.expected_runtime_s <= now
            for job in jobs
            if job.running and job.running.started is not None and job.expected_runtime_s
        )
        return "overrun" if overran else "capacity"

    def _of_last(self, job: int, entry: Mapping[str, Any]) -> Reservation | None:
        """Return a reservation of the last round; None if its time has come or a host is gone."""
        document, index = self._problem.round.jobs[job], self._problem.cluster.host_index
        if entry["at"] <= self._problem.round.now or entry.get("option", 0) >= len(
            document.options
        ):
            return None
        if any(task["host"] not in index for task in entry["tasks"]):
            return None
        return self._places.of_entry(job, entry)


# Reservations: the first waiting jobs start now, or get the earliest time at which they fit.
#
# Those behind them start in the order of the queue where they delay no reservation. With depth 1
# this is EASY backfilling (Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995), with all jobs
# conservative backfilling (Mu'alem and Feitelson, IEEE TPDS 12, 2001).
NOTHING: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reserved:
    """The jobs of the queue that start in their turn, those with a reservation, and the pools."""

    starts: Candidate
    pools: PoolProfile
    reservations: list[Reservation] = field(default_factory=list)


def reserve(problem: Problem, last: Mapping[str, Mapping[str, Any]] = NOTHING) -> Reserved:
    """Return which jobs of the queue start in their turn, and the reservations of the first others.

    `problem`: a round whose policy has `backfill`, compiled. `last`: the reservations of the last
    round, by the name of the job, as its plan has them. Where the order is another scheduler's
    (`listed`) they do not count: it has none, and whoever comes first in the queue would have to
    leave them to jobs behind.
    """
    policy = problem.round.policy
    backfill = policy.backfill
    if backfill is None:
        pools = PoolProfile(problem.round, problem.cluster)
        return Reserved(Candidate({}, SOURCE), pools)
    taken = Queue(problem, NOTHING if policy.as_listed else last)
    order = taken.order()
    depth = len(order) if backfill.depth == "all" else backfill.depth
    head = 0
    while head < len(order) and len(taken.profile.reservations) < depth:
        taken.add(order[head])
        head += 1
    for job in taken.backfill_order(order[head:]):
        if not taken.outranked(job):
            taken.backfill(job)
    taken.profile.kept = []
    return Reserved(taken.candidate(), taken.profile.pools, taken.profile.reservations)


def reserved_before(
    problem: Problem, entries: Mapping[str, Mapping[str, Any]], starts: Candidate
) -> Reserved:
    """Return starts and reservations as a plan has them; these are by the name of the job."""
    profile = Profile(problem)
    places = QueuePlaces(problem, profile)
    number = {job.name: j for j, job in enumerate(problem.round.jobs)}
    reservations = [places.of_entry(number[name], entry) for name, entry in entries.items()]
    return Reserved(starts, profile.pools, reservations)


KIND = "reservations"


def reservation_section(
    round_: Round, hosts: tuple[str, ...], reserved: Reserved
) -> dict[str, Any]:
    """Return the section; jobs are in the order of the queue."""

    def entry(reservation: Reservation) -> dict[str, Any]:
        last: dict[str, Any] = {} if reservation.was is None else {"was": reservation.was}
        if reservation.cause is not None:
            last["cause"] = reservation.cause
        return last | {
            "job": round_.jobs[reservation.job].name,
            "option": reservation.option,
            "at": reservation.at,
            "end": None if reservation.end == NEVER else reservation.end,
            "tasks": [
                {"group": group, "host": hosts[host], "tasks": number}
                for group, host, number in reservation.tasks
            ],
        }

    return {
        "kind": KIND,
        "starts": [round_.jobs[job].name for job in reserved.starts.starts],
        "jobs": [entry(reservation) for reservation in reserved.reservations],
    }


def in_turn(sections: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names of the jobs that start in their turn by a plan's sections."""
    return {
        name
        for section in sections
        if section["kind"] == KIND
        for name in section.get("starts", ())
    }


def reservations_of(sections: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the reservations of a plan's sections, by the name of the job."""
    return {
        entry["job"]: entry
        for section in sections
        if section["kind"] == KIND
        for entry in section.get("jobs", ())
    }


def without_reservations(round_: Round) -> Round:
    """Return a round that asks no plan for reservations of jobs that wait."""
    policy = round_.policy.model_copy(update={"backfill": None})
    return round_.model_copy(update={"policy": policy})


# The restricted round: what may start or move without delaying a reservation, as more resources.
#
# For the time `at` of each reservation a host has further resources, which only jobs ask that would
# not have ended by then: the GPUs and other resources that no reservation takes, and of tenants
# what their quotas leave. What reservations leave of a cap or of pools is a further cap, and are
# further pools, of such jobs. Tasks of a part of a GPU do not come to hosts of which a reservation
# takes GPUs. Hosts that maintenance takes are not among those of jobs that would not have ended by
# then.
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

    `round_`: the round in which the jobs at the head of the queue run already. `whole`: the round
    itself, with the same jobs. `resources`: names of the cluster's resources, as in the
    reservations' `demand`.
    """
    asked, maintenance = _Asked(round_.now), _Maintenance(round_)
    times = _times(reservations)
    limits = [_Limit(at, round_, whole, reservations, resources, pools) for at in times]
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
        end = expected_end(before, round_.now)
        away = hosts_away(round_, round_.now, end)
        # Those of the times at which it would not have ended.
        mine = limits[: len(times) if end is None else bisect_left(times, end)]
        options = tuple(asked.of(maintenance.of(option, away), mine) for option in options)
        more = tuple(name for limit in mine for name in limit.caps_of(job))
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
