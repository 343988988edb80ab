"""The profile: what is free at later times, and places of the jobs of the queue."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import Choice, TaskPlacement
from placewright.formulations.gang.problem.limits import Account, accounts_of, limits_of
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.subproblem import residual
from placewright.formulations.plan_messages import Candidate
from placewright.instances.derived.arrays import Places, pools_of
from placewright.instances.derived.waiting import expected_end, hosts_away
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.round import Round
from placewright.topology import Cluster, State
from placewright.topology.units import WHOLE_GPU

Amounts: TypeAlias = tuple[Ints, ...]
"""An amount of each domain of each pool of a round, in its order; int64 (domains,)."""


class PoolProfile:
    """The pools of a round, and what jobs take of them until they are expected to end.

    Nothing comes to a pool that jobs hold more of than it has until it is within its capacity.
    """

    def __init__(self, round_: Round, cluster: Cluster) -> None:
        self._pools = pools_of(round_, cluster) if round_.cluster.pools else ()
        self._rows: list[list[tuple[int, int, int]]] = [[] for _ in self._pools]
        self._tables: list[Ints] | None = None

    def taken(self, option: Option, places: Places) -> Amounts:
        """Return what a job takes with tasks in some places; nothing without pools."""
        return tuple(pool.held([(option, places)]) for pool in self._pools)

    def run(self, end: int, option: Option, places: Places) -> None:
        """Add a job that runs from now until its end."""
        for pool, rows in zip(self._pools, self._rows, strict=True):
            rows += [(end, domain, n) for domain, n in pool.taken(option, places).items()]
        self._tables = None

    def free(self, at: int, reserved: Iterable[Amounts]) -> Amounts:
        """Return what is free at a time, at least 0, beside what is reserved then."""
        if self._tables is None:
            self._tables = [np.array(r, dtype=np.int64).reshape(-1, 3) for r in self._rows]
        left = [pool.capacity.copy() for pool in self._pools]
        for mine, table in zip(left, self._tables, strict=True):
            end, domain, amount = table.T
            np.subtract.at(mine, domain[end > at], amount[end > at])
        for taken in reserved if left else ():
            for mine, amounts in zip(left, taken, strict=True):
                mine -= amounts
        return tuple(np.maximum(mine, 0) for mine in left)

    def within_whole(self, option: Option, free: Amounts) -> bool:
        """Whether the pools of the whole cluster have enough for an option."""
        for pool, mine in zip(self._pools, free, strict=True):
            if pool.pool.level is None:
                each = pool.asked(option)
                numbers = [group.count for group in option.groups]
                asked = max(each) if pool.pool.per == "job" else np.dot(each, numbers)
                if asked > mine[0]:
                    return False
        return True

    def reserved(
        self, taken: Sequence[Amounts], name: Callable[[str], str]
    ) -> Iterator[tuple[Pool, Pool]]:
        """Yield pools of which reservations take something, and with what these leave of them.

        Domains of which they take nothing have no limit then.

        `name`: renames a resource.
        """
        for k, pool in enumerate(self._pools):
            mine = sum((amounts[k] for amounts in taken), np.zeros_like(pool.capacity))
            some = np.flatnonzero(mine).tolist()
            if not some:
                continue
            left = {pool.names[d]: max(int(pool.capacity[d] - mine[d]), 0) for d in some}
            held = sum(amount for _, _, amount in self._rows[k])
            change: dict[str, Any] = {
                "resource": name(pool.pool.resource),
                # Elsewhere what there is, or is held, or more.
                "capacity": left.pop(None, int(pool.capacity.max()) + held),
                "domains": left,
            }
            yield pool.pool, pool.pool.model_copy(update=change)

    def of_levels(self, amounts: Sequence[Ints]) -> Iterator[Ints]:
        """Yield the amounts of the pools of levels, in the order of `Problem.pools`."""
        for pool, mine in zip(self._pools, amounts, strict=True):
            if pool.pool.level is not None:
                yield mine


def fit(taken: Amounts, free: Amounts) -> bool:
    """Whether what is taken of each domain is free."""
    return all(bool((mine <= left).all()) for mine, left in zip(taken, free, strict=True))


def least(first: Amounts, second: Amounts) -> Amounts:
    """Return the smaller amount of each domain."""
    return tuple(np.minimum(a, b) for a, b in zip(first, second, strict=True))


# The profile: what is free on each host at later times, as running jobs are expected to end.
#
# Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in
# Scheduling the IBM SP2 with Backfilling", IEEE TPDS 12, 2001, section 3.
NEVER = 1 << 60


class Reservation(NamedTuple):
    """A job, by its index in the round, that is to start at a time, with an option, on hosts.

    - `at`, `end`: seconds on the round's clock; `end` is `NEVER` for a job of unknown run time.
    - `tasks`: tuple of (group, host, tasks).
    - `gpus` (int64 (hosts,)): whole GPUs that it takes of each host.
    - `demand` (int64 (hosts, resources)): other resources, in the cluster's order.
    - `pools` (tuple of int64 (domains,)): what it takes of each pool.
    - `was`: its time in the last round.
    - `cause`: why it is later now.
    """

    job: int
    option: int
    at: int
    end: int
    tasks: tuple[tuple[int, int, int], ...]
    gpus: Ints
    demand: Ints
    pools: Amounts = ()
    was: int | None = None
    cause: str | None = None


MOST_KNOWN = 20_000_000
"""Amounts of hosts that are kept for later questions, over all times."""


def gpus_taken(group: TaskGroup, tasks: int) -> int:
    """Return the whole GPUs that tasks of a group take of a host; shares fill GPU after GPU."""
    if group.mig:
        return tasks
    if group.gpu >= WHOLE_GPU:
        return tasks * (group.gpu // WHOLE_GPU)
    return 0 if not group.gpu else -(-tasks // (WHOLE_GPU // group.gpu))


class Profile:
    """Free GPUs and resources of each host over time, less what reservations take.

    A GPU that jobs share is free once the last of them has ended. Beside `reservations` those of
    the last round that are `kept` take what they had.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem, self._round = problem, problem.round
        cluster, self._now = problem.cluster, problem.round.now
        self._host_of_gpu = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
        self._gpu_end = np.where(problem.usable, 0, NEVER)
        self._rows: list[tuple[int, int, int, Ints]] = []  # end, host, whole GPUs, demand
        self._tables: tuple[Ints, ...] | None = None
        self._limits = limits_of(self._round)
        self.pools = PoolProfile(self._round, cluster)
        self._held: defaultdict[Account, list[tuple[int, Option]]] = defaultdict(list)  # with ends
        self._away: dict[tuple[int, int], Bools] = {}
        self._known: dict[int, tuple[Ints, Ints]] = {}  # by time, beside kept reservations
        self._ends = {outage.end for outage in self._round.maintenance if outage.end is not None}
        self._begins: list[int] = []  # of reservations, each time once
        self.reservations: list[Reservation] = []
        self.kept: list[Reservation] = []
        for job in self._round.jobs:
            if job.running is not None:
                on = [(t.group, cluster.host_index[t.host], 1, t.gpus) for t in job.running.tasks]
                self.run(job, job.options[job.running.option], on)

    def run(
        self, job: Job, option: Option, tasks: Iterable[tuple[int, int, int, Sequence[int]]]
    ) -> None:
        """Add a job that runs from now on, with (group, host, tasks, GPUs) of its tasks.

        Without GPUs, tasks of whole GPUs take any that are free.
        """
        end, tasks = _or_never(expected_end(job, self._now)), list(tasks)
        self._ends.add(end)
        self.pools.run(end, option, places_of(tasks))
        for group, host, number, gpus in tasks:
            ids = int(self._problem.cluster.gpu_start[host]) + np.array(gpus, dtype=np.int64)
            self._gpu_end[ids] = np.maximum(self._gpu_end[ids], end)
            asked = option.groups[group]
            whole = 0 if gpus else gpus_taken(asked, number)
            self._rows.append((end, host, whole, number * self.demand_of(asked)))
        self._tables = None
        self._known.clear()
        for account in accounts_of(job) if self._limits else ():
            self._held[account].append((end, option))

    def reserve(self, reservation: Reservation) -> None:
        """Add a reservation."""
        self.reservations.append(reservation)
        self._ends.add(reservation.end)
        if reservation.at not in self._begins:
            insort(self._begins, reservation.at)
        for at, (gpus, resources) in self._known.items():
            if reservation.at <= at < reservation.end:
                self._known[at] = gpus - reservation.gpus, resources - reservation.demand

    def _all(self) -> list[Reservation]:
        return [*self.reservations, *self.kept]

    def begins(self, at: int, end: int) -> list[int]:
        """Return the times after `at` and before `end` at which reservations begin, in order."""
        times = self._begins
        found = times[bisect_right(times, at) : bisect_left(times, end)]
        if self.kept:
            found = sorted({*found, *(r.at for r in self.kept if at < r.at < end)})
        return found

    def free_gpus(self, times: Sequence[int]) -> Ints:
        """Return the whole GPUs that are free on hosts at some times, int64 (times, hosts)."""
        return np.maximum([self._free_at(at)[0] for at in times], 0)

    def demand_of(self, group: TaskGroup) -> Ints:
        """Return what a task asks besides GPUs, int64 (resources,)."""
        wanted = {"cpu": group.cpu, "memory": group.memory, **group.resources}
        names = self._problem.cluster.resources
        return np.array([wanted.get(name, 0) for name in names], dtype=np.int64)

    def times(self) -> list[int]:
        """Return the times, from now on, at which something is expected to end."""
        return [self._now, *sorted(end for end in self._ends if self._now < end < NEVER)]

    def most_gpus(self, times: list[int]) -> Ints:
        """Return how many GPUs may be free at each of some times at most, int64 (times,)."""
        usable = self._gpu_end[np.repeat(self._problem.open, self._problem.cluster.gpu_count)]
        return np.searchsorted(np.sort(usable), np.array(times), side="right")

    def open(self, at: int, end: int) -> Bools:
        """Return the hosts where tasks may arrive that run from `at` to `end`, bool (hosts,)."""
        if not self._round.maintenance:
            return self._problem.open
        if (at, end) not in self._away:
            index = self._problem.cluster.host_index
            away = hosts_away(self._round, at, None if end == NEVER else end)
            hosts = self._problem.open.copy()
            hosts[[index[name] for name in away]] = False
            self._away[at, end] = hosts
        return self._away[at, end]

    def free(self, at: int, end: int) -> tuple[Ints, Ints]:
        """Return the whole GPUs, (hosts,), and resources, (hosts, resources), free all the time.

        That is from `at` to `end`; nothing is free on hosts where nothing may arrive.
        """
        each = [self._free_at(time) for time in (at, *self.begins(at, end))]
        gpus = np.minimum.reduce([gpus for gpus, _ in each])
        resources = np.minimum.reduce([resources for _, resources in each])
        open_ = self.open(at, end)
        gpus = np.where(open_, np.maximum(gpus, 0), 0)
        return gpus, np.where(open_[:, None], np.maximum(resources, 0), 0)

    def free_of_pools(self, at: int, end: int) -> Amounts:
        """Return what is free of each pool all the time from `at` to `end`."""
        free = self._pools_at(at)
        for other in self.begins(at, end) if free else ():
            free = least(free, self._pools_at(other))
        return free

    def _pools_at(self, at: int) -> Amounts:
        return self.pools.free(at, (r.pools for r in self._all() if r.at <= at < r.end))

    def _free_at(self, at: int) -> tuple[Ints, Ints]:
        """Return what is free at a time; less than nothing where kept reservations overlap."""
        if at not in self._known:
            found = self._free_beside_reserved(at)
            if len(self._known) * found[1].size <= MOST_KNOWN:
                self._known[at] = found
        else:
            found = self._known[at]
        gpus, resources = found
        for reservation in self.kept:
            if reservation.at <= at < reservation.end:
                gpus, resources = gpus - reservation.gpus, resources - reservation.demand
        return gpus, resources

    def _free_beside_reserved(self, at: int) -> tuple[Ints, Ints]:
        """Return what is free at a time beside jobs and reservations, not those that are kept."""
        cluster = self._problem.cluster
        gpus = np.bincount(self._host_of_gpu[self._gpu_end <= at], minlength=cluster.num_hosts)
        resources = cluster.capacity.copy()
        if self._rows and self._tables is None:
            ends, hosts, whole, demands = map(np.array, zip(*self._rows, strict=True))
            self._tables = ends, hosts, whole, demands
        if self._tables is not None:
            ends, hosts, whole, demands = self._tables
            alive = ends > at
            np.subtract.at(gpus, hosts[alive], whole[alive])
            np.subtract.at(resources, hosts[alive], demands[alive])
        for reservation in self.reservations:
            if reservation.at <= at < reservation.end:
                gpus, resources = gpus - reservation.gpus, resources - reservation.demand
        return gpus, resources

    def within_quota(self, job: Job, option: Option, at: int, end: int) -> bool:
        """Whether a job stays within quotas, caps and pools of the cluster from `at` to `end`."""
        if not self.pools.within_whole(option, self.free_of_pools(at, end)):
            return False
        for account in accounts_of(job) if self._limits else ():
            limits = self._limits.get(account)
            for time in (at, *self.begins(at, end)) if limits else ():
                held = [option, *self._holders(account, time)]
                if any(sum(map(m.asked_by, held)) > most for m, most in (limits or {}).items()):
                    return False
        return True

    def _holders(self, account: Account, at: int) -> Iterator[Option]:
        """Yield the options of the jobs that count in an account at a time."""
        yield from (option for end, option in self._held[account] if end > at)
        for r in self._all():
            job = self._round.jobs[r.job]
            if r.at <= at < r.end and account in accounts_of(job):
                yield job.options[r.option]


def places_of(tasks: Iterable[tuple[int, int, int, Sequence[int]]]) -> list[tuple[int, int]]:
    """Return group and host of each task, of (group, host, tasks, GPUs)."""
    return [(group, host) for group, host, number, _ in tasks for _ in range(number)]


def _or_never(end: int | None) -> int:
    return NEVER if end is None else end


SOURCE = "reservations"


class QueuePlaces:
    """Where jobs start now, and where there is room for them later, beside a profile.

    `class_of`: the class of each pending job.
    """

    def __init__(self, problem: Problem, profile: Profile) -> None:
        self._problem, self._profile = problem, profile
        self._now = Placement(problem)
        self._later = replace(residual(problem, {}), classes=())
        self._started: dict[int, list[int]] = {}  # by class, in the order of their starts
        self.class_of = {
            j: c for c, k in enumerate(problem.classes) if not k.running for j in k.jobs
        }

    def candidate(self) -> Candidate:
        """Return the starts of now as a candidate."""
        found = assign(self._now, SOURCE)
        starts, slots = {}, {}
        for c, jobs in self._started.items():
            # Those of a class are interchangeable, and named in the order of their starts.
            for job, named in zip(jobs, self._problem.classes[c].jobs, strict=False):
                starts[job] = found.starts[named]
                if named in found.slots:
                    slots[job] = found.slots[named]
        return replace(found, starts=starts, slots=slots)

    def start(self, job: int, choice: Choice, end: int) -> bool:
        """Start a job now beside all reservations; False if it does not fit."""
        c, placement, document = self.class_of[job], self._now, self._problem.round.jobs[job]
        now = self._problem.round.now
        gpus, resources = self._profile.free(now, end)
        reservations = [*self._profile.reservations, *self._profile.kept]
        held = any(r.at < end for r in reservations)
        keep = np.maximum(placement.whole - gpus, 0) if held else np.zeros_like(gpus)
        spare = np.maximum(placement.free - resources, 0) if held else np.zeros_like(resources)
        within = self._within(choice, end)
        pools = self._profile.pools.of_levels(self._profile.free_of_pools(now, end))
        placement.whole -= keep
        placement.free -= spare
        with placement.pools.no_more_than(pools):
            puts = place_choice(placement, choice, within)
        placement.whole += keep
        placement.free += spare
        if puts is None:
            return False
        placement.start(c, self._problem.classes[c].choices.index(choice), puts)
        self._started.setdefault(c, []).append(job)
        option = document.options[choice.index]
        on = [(p.group, p.host, p.count, p.gpus) for p in puts]
        self._profile.run(document, option, on)
        return True

    def _within(self, choice: Choice, end: int) -> dict[int, Bools]:
        """Return the hosts to which groups may come until `end`, by group, bool (hosts,).

        Parts of GPUs do not come to hosts of which a reservation takes GPUs before `end`.
        """
        open_ = self._profile.open(self._problem.round.now, end)
        reservations = [*self._profile.reservations, *self._profile.kept]
        taken = np.asarray(sum(r.gpus for r in reservations if r.at < end))
        shared: Bools = open_ & (np.broadcast_to(taken, open_.shape) == 0)
        return {
            k: shared if 0 < int(self._problem.shape_gpu[group.shape]) < WHOLE_GPU else open_
            for k, group in enumerate(choice.groups)
        }

    def reservation(self, job: int, choice: Choice, at: int, end: int) -> Reservation | None:
        """Return the reservation of a job at a time, None if it does not fit then.

        It takes hosts that have few free GPUs now, and so leaves the others to longer jobs.
        """
        gpus, resources = self._profile.free(at, end)
        pools = self._profile.free_of_pools(at, end)
        found = self._reservation_within(job, choice, at, gpus, resources, pools)
        if found is None:
            return None
        now, _ = self._profile.free(self._problem.round.now, self._problem.round.now + 1)
        for most in np.unique(now[gpus > 0])[:-1].tolist():
            few = self._reservation_within(
                job, choice, at, np.where(now <= most, gpus, 0), resources, pools
            )
            if few is not None:
                return few
        return found

    def _reservation_within(
        self, job: int, choice: Choice, at: int, gpus: Ints, resources: Ints, pools: Amounts
    ) -> Reservation | None:
        """Return the reservation of a job with these GPUs, resources and pools; None if none."""
        if not self._may_fit(choice, gpus).all():
            return None
        puts = place_choice(self._placement(gpus, resources, pools), choice)
        if puts is None:
            return None
        places = tuple((group, host, n) for (group, host), n in sorted(_per_host(puts).items()))
        found = self.reserved(job, choice.index, at, places)
        return None if (found.gpus > gpus).any() or not fit(found.pools, pools) else found

    def short_until(self, choice: Choice, at: int, end: int) -> int:
        """Return the last time from `at` on, before `end`, at which an option lacks GPUs.

        No start from `at` until then fits either, as a later one would run at that time, too. It is
        before `at` if there is no such time.
        """
        times = (at, *self._profile.begins(at, end))
        short = np.flatnonzero(~self._may_fit(choice, self._profile.free_gpus(times)))
        return times[int(short[-1])] if len(short) else at - 1

    def _may_fit(self, choice: Choice, gpus: Ints) -> Bools:
        """Whether each group alone has enough of some GPUs, (..., hosts); bool (...)."""
        fits = np.ones(gpus.shape[:-1], dtype=np.bool_)
        for group in choice.groups:
            each = max(int(self._problem.shape_gpu[group.shape]), 1)
            if each > 1:
                allowed = self._problem.shape_allowed[group.shape]
                fits &= (gpus[..., allowed] * WHOLE_GPU // each).sum(axis=-1) >= group.count
        return fits

    def _placement(self, gpus: Ints, resources: Ints, pools: Amounts) -> Placement:
        """Return a placement with these GPUs and resources free on hosts, and these pools."""
        cluster = self._problem.cluster
        bare = State.empty(cluster) if self._later.part_demands is None else State.shared(cluster)
        number = np.arange(cluster.num_gpus) - np.repeat(cluster.gpu_start[:-1], cluster.gpu_count)
        bare.gpu_free[number >= np.repeat(gpus, cluster.gpu_count)] = 0
        state = replace(bare, free=resources)
        limits = self._profile.pools.of_levels(pools)
        left = tuple(
            replace(pool, limit=limit)
            for pool, limit in zip(self._later.pools, limits, strict=True)
        )
        return Placement(replace(self._later, state=state, cleared=state, pools=left))

    def reserved(
        self, job: int, option: int, at: int, places: tuple[tuple[int, int, int], ...]
    ) -> Reservation:
        """Return a reservation with (group, host, tasks) of its places."""
        document, cluster = self._problem.round.jobs[job], self._problem.cluster
        chosen, runtime = document.options[option], document.expected_runtime_s
        groups = chosen.groups
        taken = np.zeros(cluster.num_hosts, dtype=np.int64)
        demand = np.zeros_like(cluster.capacity)
        for group, host, number in places:
            taken[host] += gpus_taken(groups[group], number)
            demand[host] += number * self._profile.demand_of(groups[group])
        end = NEVER if runtime is None else at + runtime
        each = [(group, host) for group, host, number in places for _ in range(number)]
        pools = self._profile.pools.taken(chosen, each)
        return Reservation(job, option, at, end, places, taken, demand, pools)

    def of_entry(self, job: int, entry: Mapping[str, Any]) -> Reservation:
        """Return a reservation that a plan's section has; its hosts are still there."""
        index = self._problem.cluster.host_index
        tasks = tuple((t.get("group", 0), index[t["host"]], t["tasks"]) for t in entry["tasks"])
        return self.reserved(job, entry.get("option", 0), entry["at"], tasks)

    def still_fits(self, before: Reservation) -> bool:
        """Whether a reservation of the last round fits as it was."""
        gpus, resources = self._profile.free(before.at, before.end)
        open_ = self._profile.open(before.at, before.end)
        job = self._problem.round.jobs[before.job]
        return (
            bool((before.gpus <= gpus).all() and (before.demand <= resources).all())
            and fit(before.pools, self._profile.free_of_pools(before.at, before.end))
            and all(bool(open_[host]) for _, host, _ in before.tasks)
            and self._profile.within_quota(job, job.options[before.option], before.at, before.end)
        )


def _per_host(puts: list[TaskPlacement]) -> dict[tuple[int, int], int]:
    """Return the tasks of each group on each host."""
    number: dict[tuple[int, int], int] = {}
    for put in puts:
        key = put.group, put.host
        number[key] = number.get(key, 0) + put.count
    return number
