"""The rule about reasons for waiting: none that a simple feasibility check refutes, and true facts.

Whether an option fits is judged by a first fit, which proves that it does, and by counting places
of one group, which proves that it does not; what neither proves is believed. Rounds in which
tenants own cells are not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property
from itertools import takewhile
from operator import attrgetter

import numpy as np

from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Decision, DecisionKind, Detail, Reason, Task
from placewright.instances.verify.reading import Placed, Reading, demand
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.gang.entitlement import Entitlement, Precedence
from placewright.instances.verify.rules.gang.free_hosts import FreeHosts, is_plain
from placewright.topology.units import WHOLE_GPU

_TESTS = (Reason.NEVER_FITS, Reason.QUOTA, Reason.CAPACITY, Reason.DISPLACED_BY_PRIORITY)
"""The tests of an option, in their order; one that passes all waits as `not_chosen`."""
_PASSED = {
    Reason.NEVER_FITS: "fits the empty, healthy cluster",
    Reason.QUOTA: "fits what the plan leaves of its tenant's quota",
    Reason.CAPACITY: "fits beside the jobs that go on running",
    Reason.DISPLACED_BY_PRIORITY: "fits beside the started jobs of higher precedence",
}
_FAILED = {
    Reason.NEVER_FITS: "does not fit the empty, healthy cluster",
    Reason.QUOTA: "exceeds what the plan leaves of its tenant's quota",
    Reason.CAPACITY: "does not fit beside the jobs that go on running",
    Reason.DISPLACED_BY_PRIORITY: "does not fit beside the started jobs of higher precedence",
}


def gang_reason(reading: Reading) -> Iterator[Finding]:
    """Refuse a reason that is not that of the option which comes furthest, and facts not true."""
    tests = _Tests(reading)
    for index, job, decision in _given(reading):
        reason, detail = decision.reason or Reason.NOT_CHOSEN, decision.detail or Detail()
        if detail.option is not None and detail.option >= len(job.options):
            problem = f"by its option {detail.option}, of {len(job.options)}"
        else:
            problem = tests.refuted(job, reason, detail)
        if problem:
            yield Finding(
                ("decisions", index, "reason"),
                f"reason {reason!s} of job {job.name!r}, {problem}; expected another",
            )
        elif wrong := tests.wrong_facts(job, reason, detail):
            yield Finding(
                ("decisions", index, "detail"),
                f"job {job.name!r} waits for {reason!s}, {reason_text(reason, detail)!r}: {wrong}",
            )


def _given(reading: Reading) -> Iterator[tuple[int, Job, Decision]]:
    """Yield the position, the job and the decision of each reason of gangs."""
    if any(tenant.cells for tenant in reading.round.tenants):
        return
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        if (
            job is not None
            and job.running is None
            and decision.decision is DecisionKind.WAIT
            and decision.reason in (*_TESTS, Reason.NOT_CHOSEN)
        ):
            yield index, job, decision


class _Tests:
    """The tests of options against a plan; equal ones are done once."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._entitlement = Entitlement(reading.round)
        self._states: dict[Hashable, FreeHosts] = {}
        self._known: dict[Hashable, bool] = {}
        self._wrong: dict[Hashable, str] = {}
        self._numbers_known: dict[Precedence, tuple[int, int]] = {}
        self._class_keys: dict[int, Hashable] = {}  # by option, each of which the round keeps alive

    def refuted(self, job: Job, reason: Reason, detail: Detail) -> str:
        """Say what refutes a reason, "" if nothing does."""
        before = list(takewhile(lambda test: test is not reason, _TESTS))
        options = range(len(job.options)) if detail.option is None else [detail.option]
        problems = [self._of_option(job, o, reason, before, detail) for o in options]
        if all(problems):
            return problems[0]
        others = set(range(len(job.options))) - set(options)
        for other in others if reason is not Reason.NOT_CHOSEN else ():
            if all(self._passes(test, job, other) for test in (*before, reason)):
                return f"whose option {other} {_PASSED[reason]}"
        return ""

    def _of_option(
        self, job: Job, option: int, reason: Reason, before: list[Reason], detail: Detail
    ) -> str:
        """Say why a reason is not that of an option, "" if it may be."""
        if reason is not Reason.NOT_CHOSEN and self._passes(reason, job, option):
            return f"which {_PASSED[reason]}"
        for test in before:
            # A search may leave open what counts decide.
            if (test is Reason.QUOTA or not detail.unproven) and self._fails(test, job, option):
                return f"which {_FAILED[test]}"
        return ""

    def _passes(self, test: Reason, job: Job, option: int) -> bool:
        """Whether it is proven that an option passes a test."""
        if test is Reason.QUOTA:
            return self._quota_problem(job, option) is None
        plain = all(is_plain(group) for group in job.options[option].groups)
        return plain and job.anti_affinity is None and self._decide("fits", test, job, option)

    def _fails(self, test: Reason, job: Job, option: int) -> bool:
        """Whether it is proven that an option fails a test."""
        if test is Reason.QUOTA:
            return self._quota_problem(job, option) is not None
        return self._decide("lacks", test, job, option)

    def _decide(self, how: str, test: Reason, job: Job, option: int) -> bool:
        state, chosen = self._state(test, job, option), job.options[option]
        key = how, id(state), self._class_key(chosen)
        if key not in self._known:
            self._known[key] = state.fits(chosen) if how == "fits" else state.lacks(chosen)
        return self._known[key]

    def _class_key(self, option: Option) -> Hashable:
        """Return the class key of an option: options of equal keys fit the same hosts."""
        if id(option) not in self._class_keys:
            asks = attrgetter(
                "count", "gpu", "gpu_models", "hosts", "required", "mig", "gpu_memory"
            )
            key = option.required, tuple((asks(group), demand(group)) for group in option.groups)
            self._class_keys[id(option)] = key
        return self._class_keys[id(option)]

    def _state(self, test: Reason, job: Job, option: int) -> FreeHosts:
        """Return the hosts that a test looks at, for an option of a job."""
        reading = self._reading
        if test is Reason.NEVER_FITS:
            if test not in self._states:
                self._states[test] = FreeHosts(reading)
            return self._states[test]
        above, victims = self._numbers(self._entitlement.of(job, option))
        if test is Reason.CAPACITY:
            above = 0
        key = above, victims
        if key not in self._states:
            state = self._beside_kept.copy()
            started = (placed for _, placed in self._started[:above])
            state.take(_held(*reading.migrated, *started))
            if victims:
                back = self._beside_kept.copy()
                for _, name in self._victims[:victims]:
                    back.take(self._home(name))
                state.keep_least(back)
            self._states[key] = state
        return self._states[key]

    def _numbers(self, mine: Precedence) -> tuple[int, int]:
        """Return how many started jobs are above a precedence, and victims not below it."""
        if mine not in self._numbers_known:
            self._numbers_known[mine] = (
                sum(rank > mine for rank, _ in self._started),
                sum(rank >= mine for rank, _ in self._victims),
            )
        return self._numbers_known[mine]

    @cached_property
    def _beside_kept(self) -> FreeHosts:
        """What the kept jobs leave where tasks may arrive."""
        state = FreeHosts(self._reading)
        state.close(self._reading)
        state.take(_held(*self._reading.kept))
        return state

    def _home(self, name: str) -> Iterator[tuple[Task, TaskGroup]]:
        groups = self._reading.option_run(name).groups
        for task in self._reading.running[name].tasks:
            yield task, groups[task.group]

    @cached_property
    def _started(self) -> list[tuple[Precedence, Placed]]:
        """The started jobs with their precedence, the highest first."""
        found = [(self._entitlement.of(one.job, one.chosen), one) for one in self._reading.started]
        return sorted(found, key=lambda pair: pair[0], reverse=True)

    @cached_property
    def _victims(self) -> list[tuple[Precedence, str]]:
        """The preempted jobs with their precedence, the highest first."""
        running = self._reading.running
        found = [
            (self._entitlement.of(victim.job, running[victim.job.name].option), victim.job.name)
            for victim in self._reading.preempted
        ]
        return sorted(found, key=lambda pair: pair[0], reverse=True)

    def _quota_problem(self, job: Job, option: int) -> str | None:
        """Return a resource of which an option exceeds its tenant's quota, None for none."""
        if job.tenant is None:
            return None
        if not (limits := self._limits[job.tenant].items()):
            return None
        asked, used = _asked(job.options[option]), self._used[job.tenant]
        return next((name for name, most in limits if used[name] + asked[name] > most), None)

    @cached_property
    def _used(self) -> dict[str, Counter[str]]:
        """What the jobs of each tenant hold after the round."""
        return self._held((placed.job, placed.option) for placed in self._reading.placed)

    @cached_property
    def _limits(self) -> dict[str, dict[str, int]]:
        """What the jobs of each tenant may hold: its quota, or what they held if that is more."""
        reading = self._reading
        before = self._held(
            (reading.jobs[name], reading.option_run(name)) for name in reading.running
        )
        return {
            tenant.name: {
                name: max(most, before[tenant.name][name]) for name, most in tenant.quota.items()
            }
            for tenant in reading.round.tenants
        }

    def _held(self, jobs: Iterable[tuple[Job, Option]]) -> dict[str, Counter[str]]:
        held = {tenant.name: Counter[str]() for tenant in self._reading.round.tenants}
        for job, option in jobs:
            if job.tenant is not None:
                held[job.tenant].update(_asked(option))
        return held

    def wrong_facts(self, job: Job, reason: Reason, detail: Detail) -> str:
        """Say which fact of a reason is not true, "" if none is known to be wrong."""
        if reason is Reason.QUOTA:
            return self._wrong_quota(job, detail)
        return "" if reason is Reason.NOT_CHOSEN else self._wrong_places(job, reason, detail)

    def _wrong_quota(self, job: Job, detail: Detail) -> str:
        tenant, name = job.tenant or "", detail.resource or ""
        if not name:
            return ""
        if detail.tenant != job.tenant or name not in self._limits.get(tenant, {}):
            return f"tenant {detail.tenant!r} has no quota of {name!r}; expected one of its quotas"
        asked = _asked(job.options[detail.option or 0])[name]
        used, limit = self._used[tenant][name], self._limits[tenant][name]
        said = detail.asked, detail.used, detail.limit, detail.excess
        if said != (true := (asked, used, limit, used + asked - limit)):
            return f"asked, used, limit and excess are {said}; expected {true}"
        return ""

    def _wrong_places(self, job: Job, reason: Reason, detail: Detail) -> str:
        option = job.options[detail.option or 0]
        if (detail.group or 0) >= len(option.groups):
            return f"group {detail.group}; expected one of the option's {len(option.groups)}"
        group = option.groups[detail.group or 0]
        if detail.tasks is not None and detail.tasks != group.count:
            return f"{detail.tasks} tasks; expected the {group.count} of the group"
        if (
            not all(is_plain(one) for one in option.groups)
            or job.anti_affinity is not None
            or self._reading.parted
        ):
            return ""
        state = self._state(reason, job, detail.option or 0)
        key = id(state), self._class_key(option), detail
        if key not in self._wrong:
            self._wrong[key] = self._wrong_in(state, option, group, detail)
        return self._wrong[key]

    def _wrong_in(self, state: FreeHosts, option: Option, group: TaskGroup, detail: Detail) -> str:
        """Say which fact is not true of the hosts in a state, "" if all are."""
        if detail.domain is not None and not state.inside(detail.level or "", detail.domain).any():
            return f"no host is in {detail.level!r} {detail.domain!r}; expected a domain with hosts"
        if detail.places is not None:
            places = state.places(group, option.required, detail.domain)
            if detail.places != places or places >= group.count:
                return f"{detail.places} places; expected {places} of {group.count}"
        if detail.resource is None:
            return ""
        asked, free = self._amounts(state, option, group, detail)
        scarce = detail.places is None or detail.host is not None
        if (detail.asked, detail.free) != (asked, free) or (scarce and free >= asked):
            return (
                f"{detail.asked} of {detail.resource!r} asked and {detail.free} free; "
                f"expected {asked} and {free}"
            )
        return ""

    def _amounts(
        self, state: FreeHosts, option: Option, group: TaskGroup, detail: Detail
    ) -> tuple[int, int]:
        """Return what is asked and free of the resource of a detail."""
        name = detail.resource or ""
        each = group.gpu if name == "gpu" else dict(demand(group)).get(name, 0)
        if not state.has(name):
            return each, 0
        if detail.host is not None:
            at = state.index.get(detail.host, -1)
            hosts = state.allowed(group) & (np.arange(len(state.open)) == at)
            if name == "gpu" and group.gpu < WHOLE_GPU:
                return each, state.largest_gpu(at) if hosts.any() else 0
            return each, state.free(group, name, hosts)
        inside = np.ones_like(state.open)
        if detail.domain is not None:
            inside = state.inside(detail.level or "", detail.domain)
        if detail.tasks is not None:
            return each * group.count, state.free(group, name, state.allowed(group) & inside)
        allowed = np.any([state.allowed(one) for one in option.groups], axis=0)
        share = group.model_copy(update={"gpu": 0})  # all that is free of GPUs counts
        return _asked(option)[name], state.free(share, name, allowed & inside)


def _held(*placed: Placed) -> Iterator[tuple[Task, TaskGroup]]:
    """Yield the tasks of jobs, and their groups."""
    return ((task.task, task.group) for one in placed for task in one.tasks)


def _asked(option: Option) -> Counter[str]:
    """Return what a job holds with an option, by resource (`gpu` in milli-GPU)."""
    asked = Counter[str]()
    for group in option.groups:
        asked["gpu"] += group.milli_gpu
        for name, amount in demand(group):
            asked[name] += group.count * amount
    return asked


RULES: tuple[Rule[Reading], ...] = (Rule("gang_reason", gang_reason),)
