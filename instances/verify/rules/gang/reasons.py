"""The rule about reasons for waiting: none that a simple feasibility check refutes, and true facts.

Whether an option fits is judged by a first fit, which proves that it does, and by counting places
of one group, which proves that it does not; what neither proves is believed. Guaranteed
jobs, which are for cells, are left to the rule about these.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import takewhile

import numpy as np

from placewright.instances.derived.phrases import of_hosts
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.arrangement import HostCount
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Decision, DecisionKind, Detail, Reason
from placewright.instances.verify.reading import Reading, demand
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.gang.accounts import Account, Resource, asked_by, asked_in
from placewright.instances.verify.rules.gang.free_hosts import FreeHosts, is_plain
from placewright.instances.verify.rules.gang.pool_shortage import wrong_pool
from placewright.instances.verify.rules.gang.reason_tests import ReasonTests
from placewright.topology.units import WHOLE_GPU

_TESTS = (
    Reason.NEVER_FITS,
    Reason.QUOTA,
    Reason.HOSTS_AWAY,
    Reason.CAPACITY,
    Reason.DISPLACED_BY_PRIORITY,
)
"""The tests of an option, in their order; one that passes all waits as `not_chosen`."""
_PASSED = {
    Reason.NEVER_FITS: "fits the empty, healthy cluster",
    Reason.QUOTA: "fits what the plan leaves of quotas and caps",
    Reason.HOSTS_AWAY: "fits the empty hosts that are open",
    Reason.CAPACITY: "fits beside the jobs that go on running",
    Reason.DISPLACED_BY_PRIORITY: "fits beside the started jobs of higher precedence",
}
_FAILED = {
    Reason.NEVER_FITS: "does not fit the empty, healthy cluster",
    Reason.QUOTA: "exceeds what the plan leaves of a quota or a cap",
    Reason.HOSTS_AWAY: "does not fit the empty hosts that are open",
    Reason.CAPACITY: "does not fit beside the jobs that go on running",
    Reason.DISPLACED_BY_PRIORITY: "does not fit beside the started jobs of higher precedence",
}


def gang_reason(reading: Reading) -> Iterator[Finding]:
    """Refuse a reason that is not that of the option which comes furthest, and facts not true."""
    judgement = _Judgement(reading)
    for index, job, decision in _given(reading):
        reason, detail = decision.reason or Reason.NOT_CHOSEN, decision.detail or Detail()
        if detail.option is not None and detail.option >= len(job.options):
            problem = f"by its option {detail.option}, of {len(job.options)}"
        else:
            problem = judgement.refuted(job, reason, detail)
        if problem:
            yield Finding(
                ("decisions", index, "reason"),
                f"reason {reason!s} of job {job.name!r}, {problem}; expected another",
            )
        elif wrong := judgement.wrong_facts(job, reason, detail):
            yield Finding(
                ("decisions", index, "detail"),
                f"job {job.name!r} waits for {reason!s}, {reason_text(reason, detail)!r}: {wrong}",
            )


def _given(reading: Reading) -> Iterator[tuple[int, Job, Decision]]:
    """Yield the position, the job and the decision of each reason of gangs."""
    owners = {tenant.name for tenant in reading.round.tenants if tenant.cells}
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        if (
            job is not None
            and job.running is None
            and (job.opportunistic or job.tenant not in owners)
            and decision.decision is DecisionKind.WAIT
            and decision.reason in (*_TESTS, Reason.NOT_CHOSEN)
        ):
            yield index, job, decision


class _Judgement:
    """What is wrong with reasons and their facts; equal ones are judged once."""

    def __init__(self, reading: Reading) -> None:
        self._parted = reading.parted
        self._tests = ReasonTests(reading)
        self._wrong: dict[Hashable, str] = {}

    def refuted(self, job: Job, reason: Reason, detail: Detail) -> str:
        """Say what refutes a reason, "" if nothing does."""
        before = list(takewhile(lambda test: test is not reason, _TESTS))
        regions = self._tests.regions(job)
        ways = [(o, region) for o in range(len(job.options)) for region in regions]
        meant = [
            (o, region)
            for o, region in ways
            if detail.option in (None, o) and detail.region in (None, region)
        ]
        if not meant:
            return f"of which it may start now in {', '.join(map(str, regions)) or 'no region'}"
        problems = [self._of_option(job, o, region, reason, detail) for o, region in meant]
        if all(problems):
            return problems[0]
        for o, region in ways if reason is not Reason.NOT_CHOSEN else ():
            tests = (*before, reason)
            if all(self._tests.passes(test, job, o, region) for test in tests):
                where = "" if region is None else f" in region {region!r}"
                return f"whose option {o}{where} {_PASSED[reason]}"
        return ""

    def _of_option(
        self, job: Job, option: int, region: str | None, reason: Reason, detail: Detail
    ) -> str:
        """Say why a reason is not that of an option in a region, "" if it may be."""
        asked = job, option, region
        if reason is not Reason.NOT_CHOSEN and self._tests.passes(reason, *asked):
            return f"which {_PASSED[reason]}"
        for test in takewhile(lambda test: test is not reason, _TESTS):
            # A search may leave open what counts decide.
            if (test is Reason.QUOTA or not detail.unproven) and self._tests.fails(test, *asked):
                return f"which {_FAILED[test]}"
        return ""

    def wrong_facts(self, job: Job, reason: Reason, detail: Detail) -> str:
        """Say which fact of a reason is not true, "" if none is known to be wrong."""
        if reason is Reason.QUOTA:
            return self._wrong_quota(job, detail)
        if reason is not Reason.NOT_CHOSEN:
            return self._wrong_places(job, reason, detail)
        if detail.startable and self._tests.fails(reason, job, detail.option or 0, detail.region):
            return "it has no place beside all started jobs; expected not startable"
        return ""

    def _wrong_quota(self, job: Job, detail: Detail) -> str:
        if not detail.resource:
            return ""
        account = Account("tenant", detail.tenant or "", detail.region)
        name: Resource = detail.resource
        if detail.cap is not None:
            account, name = (
                Account("cap", detail.cap),
                Measure.named(detail.resource, detail.gpu_model),
            )
        known = account in self._tests.accounts(job, detail.region)
        if not known or name not in self._tests.limits(account):
            return f"{account} does not limit {name!r} of it; expected one of its limits"
        asked = asked_in(account, job.options[detail.option or 0]).get(name, 0)
        used_by = self._tests.used(job, detail.option or 0, account)
        limit = self._tests.limits(account)[name]
        if (detail.job or "") not in used_by:
            return f"job {detail.job!r} gave back no quota that is kept from the job"
        used = used_by[detail.job or ""][name]
        said = detail.asked, detail.used, detail.limit, detail.excess
        if said != (true := (asked, used, limit, used + asked - limit)) or true[-1] <= 0:
            return f"asked, used, limit and excess are {said}; expected {true}, too many"
        return ""

    def _wrong_places(self, job: Job, reason: Reason, detail: Detail) -> str:
        option = job.options[detail.option or 0]
        if (detail.group or 0) >= len(option.groups):
            return f"group {detail.group}; expected one of the option's {len(option.groups)}"
        group = option.groups[detail.group or 0]
        if detail.tasks is not None and detail.tasks != group.count:
            return f"{detail.tasks} tasks; expected the {group.count} of the group"
        if detail.apart is not None and (group.apart is None or group.apart.level != detail.apart):
            return f"apart by {detail.apart!r}; expected the level of the group's field apart"
        if detail.num_hosts is not None and detail.num_hosts != (true := _asked(option, detail)):
            asked = "any number" if true is None else of_hosts(true)
            return f"needs {of_hosts(detail.num_hosts)}; expected {asked}, what is asked"
        if not is_plain(option) or job.anti_affinity is not None or self._parted:
            return ""
        state = self._tests.state(reason, job, detail.option or 0, detail.region)
        key = id(state), self._tests.class_key(option), detail
        if key not in self._wrong:
            self._wrong[key] = self._wrong_in(state, option, group, detail)
        return self._wrong[key]

    def _wrong_in(self, state: FreeHosts, option: Option, group: TaskGroup, detail: Detail) -> str:
        """Say which fact is not true of the hosts in a state, "" if all are."""
        if detail.limit is not None:
            return wrong_pool(state, option, detail)
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
            if detail.host is None:
                each = each * group.count if detail.tasks is not None else asked_by(option)[name]
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
        return asked_by(option)[name], state.free(share, name, allowed & inside)


def _asked(option: Option, detail: Detail) -> HostCount | None:
    """Return on how many hosts a group, or the whole option, has to be; None: on any number."""
    several = len(option.groups) > 1
    groups = option.groups[detail.group :][:1] if detail.group is not None else option.groups
    asks = [] if several and detail.group is not None else [option.hosts]
    asks += [] if several and detail.group is None else [groups[0].num_hosts]
    least = max((one.min for one in asks if one), default=0)
    tasks = sum(group.count for group in groups)
    limits = [one.max for one in asks if one and one.max and one.max < tasks]
    return HostCount(min=least, max=min(limits, default=None)) if least else None


RULES_OF_REASONS: tuple[Rule[Reading], ...] = (Rule("gang_reason", gang_reason),)
