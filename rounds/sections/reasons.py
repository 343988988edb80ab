"""Why a job waits, computed against the final plan; docs/plans.md has the definitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.feasibility import (
    fits,
    group_fits,
    is_single,
    most_places,
)
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, NOBODY, Choice, Group, HostRange
from placewright.formulations.gang.problem.limits import Account, accounts_of, limits_of
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.arrangement import HostCount
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Detail, Reason
from placewright.instances.documents.round import Round
from placewright.rounds.decisions import Why
from placewright.rounds.sections.states import (
    FixedStates,
    PoolsLeft,
    Precedence,
    StateKey,
    beyond_whole_cluster,
    pool_shortage,
)
from placewright.topology import Cluster
from placewright.topology.gpu_links import LINK_KINDS
from placewright.topology.units import WHOLE_GPU

Amounts: TypeAlias = dict[Measure, int]


class RegionQuotas(NamedTuple):
    """The quotas of a region, and which jobs they are about."""

    name: str
    quotas: Mapping[str, int]
    jobs: Collection[int]


class _GivenBack(NamedTuple):
    """What is used if a preempted job and those of at least its precedence had stayed."""

    victim: int
    used: Amounts


class QuotaUse:
    """What is used of quotas and caps after a plan, and what may be used.

    What a preempted job gave back is for starts alone that may preempt it. So for any other job
    what is used counts as if it and the preempted jobs above it had stayed that no others may
    preempt, and the starts that may preempt it had not come, if that is more.

    `states`: says who may preempt whom. `exempt`: preempted jobs whose quota anybody may have.
    `region`: for the quotas of a region: its name, these by tenant, and which jobs run there before
    the round or start there.
    """

    def __init__(
        self,
        round_: Round,
        candidate: Candidate,
        states: FixedStates,
        exempt: Collection[int] = (),
        region: RegionQuotas | None = None,
    ) -> None:
        self._where = {} if region is None else {"region": region.name}
        limits = limits_of(round_)
        if region is not None:
            of = region.quotas.items()
            limits = {("tenant", tenant): {Measure("gpus"): quota} for tenant, quota in of}
        before = {account: dict.fromkeys(measures, 0) for account, measures in limits.items()}
        self._stay = {account: dict(none) for account, none in before.items()}
        self._jobs, self._states = round_.jobs, states
        starts: dict[Account, list[tuple[int, Option]]] = {account: [] for account in limits}
        stopped: dict[Account, list[tuple[int, Option]]] = {account: [] for account in limits}
        for j, job in enumerate(round_.jobs if limits else ()):
            for account in accounts_of(job):
                if account not in limits or not (region is None or j in region.jobs):
                    continue
                if job.running is not None:
                    option = job.options[job.running.option]
                    _add(before[account], option)
                    if j not in candidate.preempted:
                        after = candidate.starts.get(j, (job.running.option,))[0]
                        _add(self._stay[account], job.options[after])
                    elif j not in exempt:
                        stopped[account].append((j, option))
                elif j in candidate.starts:
                    starts[account].append((j, job.options[candidate.starts[j][0]]))
        self.limit = {
            account: {measure: max(most, before[account][measure]) for measure, most in of.items()}
            for account, of in limits.items()
        }
        self.used = {account: dict(stay) for account, stay in self._stay.items()}
        for account, mine in starts.items():
            for _, option in mine:
                _add(self.used[account], option)
        self._given_back = {
            account: list(self._with_victims(account, starts[account], mine))
            for account, mine in stopped.items()
        }

    def _with_victims(
        self,
        account: Account,
        starts: list[tuple[int, Option]],
        stopped: list[tuple[int, Option]],
    ) -> Iterator[_GivenBack]:
        """Yield what is used once preempted jobs are back, one for all that are alike."""
        states = self._states
        ranks = {j: states.precedence(j) for j, _ in stopped}
        over = {j: states.over(j) for j, _ in stopped}
        first = {(ranks[j], over[j], states.kind(j)): j for j, _ in reversed(stopped)}
        for victim in first.values():
            used = dict(self._stay[account])
            for j, option in stopped:
                if ranks[j] >= ranks[victim] and over[j] <= over[victim]:
                    _add(used, option)
            for j, option in starts:
                if j not in over[victim]:
                    _add(used, option)
            yield _GivenBack(victim, used)

    def excess(
        self, job: Job, option: int, precedence: Precedence, leave: int = NOBODY
    ) -> dict[str, Any]:
        """Return by how much an option exceeds a quota or cap, nothing if none; the worst."""
        worst: dict[str, Any] = {}
        for account in accounts_of(job) if self.limit else ():
            uses: list[tuple[dict[str, str], Amounts]] = [({}, self.used.get(account, {}))]
            uses += [
                ({"job": self._jobs[one.victim].name}, one.used)
                for one in self._given_back.get(account, ())
                if self._states.stays(one.victim, precedence, leave)
            ]
            for victim, used in uses:
                for measure, limit in self.limit.get(account, {}).items():
                    asked = measure.asked_by(job.options[option])
                    excess = used[measure] + asked - limit
                    if excess > 0 and (
                        not worst or excess * worst["asked"] > worst["excess"] * asked
                    ):
                        worst = {
                            account[0]: account[1],
                            **measure.facts,
                            "asked": asked,
                            "used": used[measure],
                            "limit": limit,
                            "excess": excess,
                            **victim,
                            **self._where,
                        }
        return worst


def _add(sums: Amounts, option: Option) -> None:
    for measure in sums:
        sums[measure] += measure.asked_by(option)


GPU, GPU_MEMORY, MIG = "gpu", "gpu_memory", "mig"
"""Resources beside those that hosts have; of MIG slices one is asked, and none has a place."""


def shortage(placement: Placement, choice: Choice) -> dict[str, Any]:
    """Return the fields of a `Detail` that say what an option lacks; it does not fit."""
    open_ = placement.open_to(choice.label)
    several = len(choice.groups) > 1
    for k in sorted(range(len(choice.groups)), key=lambda k: -choice.groups[k].milli_gpu):
        lack = _of_group(placement, choice.groups[k], open_)
        if lack:
            return {"group": k, **lack} if several else lack
    return _of_num_hosts(placement, choice) or _of_all_groups(placement, choice, open_)


def unknown_resource(cluster: Cluster, groups: Sequence[TaskGroup]) -> dict[str, Any]:
    """Return what groups ask that no host and no pool of the cluster has, nothing if none."""
    for k, group in enumerate(groups):
        for name, amount in group.resources.items():
            if amount and name not in cluster.resources:
                asked = {"resource": name, "asked": amount * group.count, "free": 0}
                several = {"group": k} if len(groups) > 1 else {}
                return {**several, "tasks": group.count, "places": 0, **asked}
    return {}


def _of_group(placement: Placement, group: Group, open_: Bools) -> dict[str, Any]:
    """Return what a group alone lacks, nothing if it fits."""
    fitting = np.where(open_, placement.fits(group.shape), 0)
    allowed = open_ & placement.problem.shape_hosts[group.shape]
    places, best = most_places(placement, group, fitting, group.required)
    if places == group.count:
        return {}
    links, unlinked = placement.problem.link_demands, fitting
    if links is not None and links.required[group.shape] and not places:
        best = None  # no domain has more than others
    inside, where = _inside(placement, group.required, best)
    lack: dict[str, Any] = {**where, "tasks": group.count, "places": places}
    if links is not None and (asked := links.asked[group.shape]) and asked.is_required:
        unlinked = np.where(open_, placement.fits(group.shape, linked=False), 0)
        if most_places(placement, group, unlinked, group.required)[0] > places:
            return {**lack, "gpu_links": asked.required or LINK_KINDS[0]}
    if not unlinked.any():
        return _of_task(placement, group, allowed)
    if group.num_hosts is not None:
        free = replace(group, num_hosts=None)
        if most_places(placement, free, fitting, group.required)[0] == group.count:
            return {**lack, "num_hosts": _numbers(group.num_hosts, group.count)}
    if group.domain_limit is not None:
        free = replace(group, domain_limit=None)
        if most_places(placement, free, fitting, group.required)[0] == group.count:
            return {**lack, "apart": placement.problem.cluster.levels[group.domain_limit.level]}
    return lack | scarce(placement, group, allowed & inside)


def _inside(placement: Placement, level: int, domain: int | None) -> tuple[Bools, dict[str, Any]]:
    """Return the hosts of a domain, and its name and level; all hosts without a domain."""
    cluster = placement.problem.cluster
    if domain is None:
        return np.ones(cluster.num_hosts, dtype=np.bool_), {}
    where = {"level": cluster.levels[level], "domain": cluster.names[level][domain]}
    return cluster.domain[level] == domain, where


def _of_task(placement: Placement, group: Group, allowed: Bools) -> dict[str, Any]:
    """Return the host that comes closest to holding a task of a group, and what it lacks."""
    return {"tasks": group.count, "places": 0, **shortage_of_task(placement, group, allowed)}


def shortage_of_task(placement: Placement, group: Group, allowed: Bools) -> dict[str, Any]:
    """Return what the host lacks that comes closest to holding a task, of those that could.

    Nothing without hosts, or for a task that asks for nothing.
    """
    cluster, shape = placement.problem.cluster, group.shape
    able = allowed & (cluster.gpu_count * WHOLE_GPU >= placement.problem.shape_gpu[shape])
    able &= (cluster.capacity >= placement.problem.shape_demand[shape]).all(axis=1)
    hosts = np.flatnonzero(able if able.any() else allowed)
    names, asked, free = _per_task(placement, group, hosts)
    if not len(hosts) or not names:
        return {}
    short = free < asked
    least = np.where(short, free / asked, 2.0).min(axis=1)
    best = int(np.lexsort((-least, short.sum(axis=1)))[0])
    r = int(np.where(short[best], free[best] / asked, 2.0).argmin())
    return {
        "host": cluster.hosts[hosts[best]],
        "resource": names[r],
        "asked": int(asked[r]),
        "free": int(free[best, r]),
    }


def _per_task(placement: Placement, group: Group, hosts: Ints) -> tuple[list[str], Ints, Ints]:
    """Return the resources that a task asks, how much of each, and what is free on each host."""
    problem, shape = placement.problem, group.shape
    gpu, names = int(problem.shape_gpu[shape]), list[str]()
    asked: list[int] = []
    free: list[Ints] = []
    if gpu >= WHOLE_GPU:
        names, asked, free = [GPU], [gpu], [placement.whole[hosts] * WHOLE_GPU]
    elif gpu:
        largest = np.where(placement.whole[hosts] > 0, WHOLE_GPU, 0)
        most = np.maximum(largest, placement.partial_free[hosts].max(axis=1))
        names, asked, free = [GPU], [gpu], [most]
        parts = placement.part_state
        if parts is not None and parts.demands.is_slice[shape]:
            places = (placement.fits_partial_gpus(shape, hosts) > 0).any(axis=1)
            slices = places | (placement.whole[hosts] > 0)
            names, asked, free = [MIG], [1], [slices.astype(np.int64)]
        elif parts is not None and parts.demands.memory[shape]:
            able = np.where(placement.partial_free[hosts] >= gpu, parts.memory[hosts], 0)
            whole = np.where(placement.whole[hosts] > 0, problem.cluster.gpu_memory[hosts], 0)
            memory = np.maximum(able.max(axis=1), whole)
            names.append(GPU_MEMORY)
            asked.append(int(parts.demands.memory[shape]))
            # Where no GPU has the share, its memory is not what is missing.
            free.append(np.where(most >= gpu, memory, asked[-1]))
    for r in problem.shape_demand[shape].nonzero()[0].tolist():
        names.append(problem.cluster.resources[r])
        asked.append(int(problem.shape_demand[shape, r]))
        free.append(placement.free[hosts, r].clip(min=0))
    return names, np.array(asked), np.array(free).T.reshape(len(hosts), len(names))


def scarce(placement: Placement, group: Group, hosts: Bools) -> dict[str, Any]:
    """Return the resource for which alone too few tasks of a group have places, if there is one."""
    problem, shape = placement.problem, group.shape
    gpu, count = int(problem.shape_gpu[shape]), group.count
    places: dict[str, tuple[int, int, int]] = {}
    if gpu >= WHOLE_GPU:
        whole = placement.whole[hosts]
        places[GPU] = int((whole // (gpu // WHOLE_GPU)).sum()), gpu, int(whole.sum()) * WHOLE_GPU
    elif gpu:
        each = placement.partial_free[hosts] // gpu
        number = int(each.sum()) + int(placement.whole[hosts].sum()) * (WHOLE_GPU // gpu)
        free_whole = int(placement.whole[hosts].sum()) * WHOLE_GPU
        places[GPU] = number, gpu, int(placement.partial_free[hosts].sum()) + free_whole
    for r in problem.shape_demand[shape].nonzero()[0].tolist():
        free, asked = placement.free[hosts, r].clip(min=0), int(problem.shape_demand[shape, r])
        places[problem.cluster.resources[r]] = int((free // asked).sum()), asked, int(free.sum())
    short = {name: entry for name, entry in places.items() if entry[0] < count}
    if not short:
        return {}
    name = min(short, key=lambda name: short[name][0])
    _, asked, has = short[name]
    return {"resource": name, "asked": asked * count, "free": has}


def _of_num_hosts(placement: Placement, choice: Choice) -> dict[str, Any]:
    """Return on how many hosts an option has to be that fits any number, nothing if it does not."""
    asked: dict[int | None, HostRange | None] = {None: choice.num_hosts}
    asked |= {k: group.num_hosts for k, group in enumerate(choice.groups)}
    for k, range_ in asked.items():
        tasks = choice.num_tasks if k is None else choice.groups[k].count
        groups = tuple(replace(group, num_hosts=None) for group in choice.groups)
        free = replace(choice, num_hosts=None, groups=groups)
        most = parameters.PARAMETERS.placement.max_feasibility_steps
        if range_ is not None and fits(placement, free, most):
            group = {} if k is None or len(groups) == 1 else {"group": k}
            return {**group, "num_hosts": _numbers(range_, tasks)}
    return {}


def _numbers(asked: HostRange, tasks: int) -> HostCount:
    """Return numbers of hosts as a document has them."""
    return HostCount(min=asked.least, max=asked.most if asked.most < tasks else None)


def _of_all_groups(placement: Placement, choice: Choice, open_: Bools) -> dict[str, Any]:
    """Return the sum that is too large in the domain that comes closest to holding all groups."""
    problem, cluster = placement.problem, placement.problem.cluster
    allowed = open_ & np.any([problem.shape_hosts[g.shape] for g in choice.groups], axis=0)
    shapes = np.array([group.shape for group in choice.groups])
    count = np.array([group.count for group in choice.groups])
    asked = count @ np.column_stack([problem.shape_gpu[shapes], problem.shape_demand[shapes]])
    free = np.column_stack([placement.free_milli_gpu, placement.free.clip(min=0)])
    free[~allowed] = 0
    level = choice.joint_level
    best: int | None = None
    has = free.sum(axis=0)
    if level != NO_LEVEL:
        sums = np.zeros((len(cluster.names[level]), free.shape[1]), dtype=np.int64)
        np.add.at(sums, cluster.domain[level], free)
        has_hosts = np.bincount(cluster.domain[level][allowed], minlength=len(sums)) > 0
        covered = (sums / np.maximum(asked, 1)).min(axis=1, initial=1.0)
        best = int(np.lexsort((-np.arange(len(sums)), covered, has_hosts))[-1])
        has = sums[best]
    _, where = _inside(placement, level, best)
    short = has < asked
    if not short.any():
        return where
    r = int(np.where(short, has / np.maximum(asked, 1), 2.0).argmin())
    name = (GPU, *cluster.resources)[r]
    return {**where, "resource": name, "asked": int(asked[r]), "free": int(has[r])}


TESTS = (
    Reason.NEVER_FITS,
    Reason.QUOTA,
    Reason.HOSTS_AWAY,
    Reason.CAPACITY,
    Reason.DISPLACED_BY_PRIORITY,
    Reason.NOT_CHOSEN,
)
"""The reasons of an option in the order of their tests; the last has none."""


_State: TypeAlias = tuple[StateKey, int | None]
"""A state of the hosts, and the region to which the tasks may come; None is the cluster."""

_Uses: TypeAlias = tuple[tuple[int, int], ...]

_Asked: TypeAlias = tuple[_State, tuple[Group, ...], int, HostRange | None, int, _Uses]
"""A state; groups, joint level, number of hosts, label and uses of an option."""


class Verdict(NamedTuple):
    """The reason of one option, and its facts."""

    reason: Reason
    facts: Mapping[str, Any]


class Regions(NamedTuple):
    """The regions in one of which all tasks of a job have to be.

    `names`: of all regions. `host_region`: the region of each host (hosts,). `of_job`: the regions
    in which a job may start now. `quotas`: the use of quotas in a region.
    """

    names: Sequence[str]
    host_region: Ints
    of_job: Callable[[int], tuple[int, ...]]
    quotas: Callable[[int], QuotaUse]


def reasons_of(
    problem: Problem,
    candidate: Candidate,
    foremost: Collection[int] = (),
    states: FixedStates | None = None,
    regions: Regions | None = None,
    *,
    startable: bool = False,
) -> dict[int, Why]:
    """Return why each pending job waits that the candidate does not start.

    `foremost`: jobs that come before all others. `states`: the hosts in the states that reasons
    speak of, if they are not the usual ones. `regions`: where jobs may start; a job that may start
    in none has no reason. `startable`: say of jobs that are not chosen whether they fit even beside
    all started jobs: where nothing but hosts and quotas decides who may start.
    """
    pending = [
        (c, job)
        for c, job_class in enumerate(problem.classes)
        for job in (() if job_class.running else job_class.jobs)
        if job not in candidate.starts
    ]
    if not pending:
        return {}
    states = states or FixedStates(problem, candidate, foremost)
    leave = states.leave
    waiting: dict[_Kind, list[int]] = {}
    for c, job in pending:
        where = (None,) if regions is None else regions.of_job(job)
        one = problem.round.jobs[job]
        who = (one.tenant, one.preempts) if leave.ruled else None
        kind = _Kind(c, job in foremost, one.priority, where, who)
        waiting.setdefault(kind, []).append(job)
    tests = _Tests(problem, candidate, states, regions, startable=startable)
    options = [
        _Asking(
            Precedence(kind.foremost, choice.entitled, kind.priority),
            leave.number(problem.round.jobs[jobs[0]], entitled=choice.entitled),
            jobs[0],
            choice,
            region,
        )
        for kind, jobs in waiting.items()
        for choice in problem.classes[kind.job_class].choices
        for region in kind.regions
    ]
    verdicts: dict[int, list[tuple[Choice, Verdict]]] = {}
    for asking in sorted(options, key=lambda asking: asking.precedence, reverse=True):
        verdicts.setdefault(asking.job, []).append((asking.choice, tests.of(asking)))
    reasons: dict[int, Why] = {}
    for kind, jobs in waiting.items():
        if kind.regions:
            reasons |= dict.fromkeys(jobs, best_verdict(verdicts[jobs[0]]))
    return reasons


class _Kind(NamedTuple):
    """What jobs have in common that wait for one reason; of the regions, None is the cluster.

    `who` is what rules of preemption look at, None if there are none.
    """

    job_class: int
    foremost: bool
    priority: int
    regions: tuple[int | None, ...]
    who: tuple[str | None, tuple[str, ...] | None] | None


class _Asking(NamedTuple):
    """An option of a job that waits, in a region: its precedence, and whom it may preempt."""

    precedence: Precedence
    leave: int
    job: int
    choice: Choice
    region: int | None


def best_verdict(verdicts: list[tuple[Choice, Verdict]]) -> Why:
    """Return the reason of the option that comes furthest, then asks the fewest GPUs.

    Of several regions it is the one with the most places.
    """

    def far(found: tuple[Choice, Verdict]) -> tuple[int, int, int, int]:
        choice, (reason, facts) = found
        asked = sum(group.milli_gpu for group in choice.groups)
        return TESTS.index(reason), -asked, -choice.index, facts.get("places", 0)

    choice, (reason, facts) = max(verdicts, key=far)
    if len({choice.index for choice, _ in verdicts}) > 1:
        facts = {"option": choice.index, **facts}
    return Why(reason, Detail.model_construct(**facts) if facts else None)


class _Tests:
    """The tests of options against one plan."""

    def __init__(
        self,
        problem: Problem,
        candidate: Candidate,
        states: FixedStates,
        regions: Regions | None,
        *,
        startable: bool,
    ) -> None:
        self._startable, self._states, self._regions = startable, states, regions
        self._jobs = problem.round.jobs
        self._quota = QuotaUse(problem.round, candidate, states, states.exempt)
        self._steps = parameters.PARAMETERS.placement.max_reason_steps
        self._known: dict[_Asked, bool | None] = {}
        self._shortages: dict[_Asked, dict[str, Any]] = {}
        self._within = WeakKeyDictionary[Placement, dict[int, Placement]]()
        self._fitting = WeakKeyDictionary[Placement, dict[int, Ints]]()
        self._hosts = WeakKeyDictionary[Placement, Placement]()
        self._pools_known: dict[StateKey, PoolsLeft] = {}

    def of(self, asking: _Asking) -> Verdict:
        """Return the first test that an option fails; one that is not decided counts as passed."""
        precedence, leave, job, choice, region = asking
        where = {}
        if region is not None and self._regions is not None:
            where = {"region": self._regions.names[region]}
        doubt: dict[str, Any] = {}
        for reason in TESTS[:-1]:
            if reason is Reason.QUOTA:
                lack = self._excess(asking) or None
            else:
                state = self._states.key(reason, precedence, leave), region
                fitting = self._fits(state, job, choice)
                doubt = {"unproven": True} if fitting is None else doubt
                lack = None if fitting is not False else self._shortage(state, job, choice) | where
            if lack is not None:
                return Verdict(reason, {**lack, **doubt})
        if self._startable and not doubt:
            state = self._states.key(Reason.NOT_CHOSEN, precedence, leave), region
            fitting = self._fits(state, job, choice)
            doubt = (
                {"unproven": True} if fitting is None else {"startable": True} if fitting else {}
            )
        return Verdict(Reason.NOT_CHOSEN, doubt | where)

    def _excess(self, asking: _Asking) -> dict[str, Any]:
        precedence, leave, job, choice, region = asking
        mine = self._jobs[job], choice.index, precedence, leave
        lack = self._quota.excess(*mine)
        if lack or region is None or self._regions is None:
            return lack
        return self._regions.quotas(region).excess(*mine)

    def _fits(self, state: _State, job: int, choice: Choice) -> bool | None:
        key = _asked(state, choice)
        if key not in self._known:
            option = self._jobs[job].options[choice.index]
            beyond = choice.pools and beyond_whole_cluster(self._pools(state), option)
            self._known[key] = False if beyond else self._fits_hosts(state, choice)
        return self._known[key]

    def _fits_hosts(self, state: _State, choice: Choice) -> bool | None:
        """Return whether an option fits hosts and the pools of levels; None if not decided."""
        if is_single(choice):
            return self._group_fits(state, choice.groups[0])
        most = min(parameters.PARAMETERS.placement.max_feasibility_steps, self._steps)
        fitting = fits(self._placement(state), choice, most)
        if fitting is None:
            self._steps -= most
        return fitting

    def _group_fits(self, state: _State, group: Group) -> bool:
        """Return whether the group of a single option fits, from what hosts of the cluster take."""
        key, region = state
        whole = self._states.placement(key)
        known = self._fitting.setdefault(whole, {})
        if group.shape not in known:
            known[group.shape] = whole.fits(group.shape)
        fitting = known[group.shape]
        if region is not None and self._regions is not None:
            fitting = np.where(self._regions.host_region == region, fitting, 0)
        return group_fits(whole.problem.cluster, group, fitting)

    def _shortage(self, state: _State, job: int, choice: Choice) -> dict[str, Any]:
        key = _asked(state, choice)
        if key not in self._shortages:
            hosts, option = self._placement(state), self._jobs[job].options[choice.index]
            lack = unknown_resource(hosts.problem.cluster, option.groups)
            if choice.pools and not lack:
                hosts = self._without_pools(hosts)
                choice = replace(choice, pools=(), pooled=False, uses=())
                most = parameters.PARAMETERS.placement.max_feasibility_steps
                if fits(hosts, choice, most) is not False:
                    lack = pool_shortage(hosts, choice, self._pools(state), option)
            self._shortages[key] = lack or shortage(hosts, choice)
        return self._shortages[key]

    def _pools(self, state: _State) -> PoolsLeft:
        key, _ = state
        if key not in self._pools_known:
            self._pools_known[key] = self._states.pools(key)
        return self._pools_known[key]

    def _without_pools(self, placement: Placement) -> Placement:
        """Return the hosts of a placement alone."""
        if placement not in self._hosts:
            self._hosts[placement] = Placement(replace(placement.problem, pools=()))
        return self._hosts[placement]

    def _placement(self, state: _State) -> Placement:
        """Return the hosts in a state, those of a region alone if one is given."""
        key, region = state
        whole = self._states.placement(key)
        if region is None or self._regions is None:
            return whole
        known = self._within.setdefault(whole, {})
        if region not in known:
            inside = self._regions.host_region == region
            known[region] = Placement(replace(whole.problem, open=whole.problem.open & inside))
        return known[region]


def _asked(state: _State, choice: Choice) -> _Asked:
    return state, choice.groups, choice.joint_level, choice.num_hosts, choice.label, choice.uses
