"""Why a job waits, computed against the final plan; docs/plans.md has the definitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.feasibility import fits, group_fits, is_single
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import Choice, Group, HostRange
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.plan import Detail, Reason
from placewright.rounds.decisions import Why
from placewright.rounds.sections.fixed_states import FixedStates, Precedence, StateKey
from placewright.rounds.sections.pool_shortage import beyond_whole_cluster, pool_shortage
from placewright.rounds.sections.pool_states import PoolsLeft
from placewright.rounds.sections.quota_use import QuotaUse
from placewright.rounds.sections.shortage import shortage, unknown_resource

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

    Parameters
    ----------
    names
        Of all regions.
    host_region
        The region of each host (hosts,).
    of_job
        The regions in which a job may start now.
    quotas
        The use of quotas in a region.
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

    Parameters
    ----------
    foremost
        Jobs that come before all others.
    states
        The hosts in the states that reasons speak of, if they are not the usual ones.
    regions
        Where jobs may start; a job that may start in none has no reason.
    startable
        Say of jobs that are not chosen whether they fit even beside all started jobs: where nothing
        but hosts and quotas decides who may start.
    """
    states = states or FixedStates(problem, candidate, foremost)
    leave = states.leave
    waiting: dict[_Kind, list[int]] = {}
    for c, job_class in enumerate(problem.classes):
        for job in () if job_class.running else job_class.jobs:
            if job not in candidate.starts:
                where = (None,) if regions is None else regions.of_job(job)
                one = problem.round.jobs[job]
                who = (one.tenant, one.preempts) if leave.ruled else None
                kind = _Kind(c, job in foremost, one.priority, where, who)
                waiting.setdefault(kind, []).append(job)
    if not waiting:
        return {}
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
