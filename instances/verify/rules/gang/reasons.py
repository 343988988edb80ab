"""Rules about reasons for waiting: none that a simple feasibility check refutes, and true facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from operator import attrgetter

import numpy as np

from placewright.instances.derived.phrases import of_hosts
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.arrangement import HostCount
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Decision, DecisionKind, Detail, Reason, Task
from placewright.instances.verify.reading import Group, Member, Placed, Reading, bits, demand
from placewright.instances.verify.result import Finding, rules
from placewright.instances.verify.rules.gang.free_hosts import FreeHosts, is_plain
from placewright.instances.verify.rules.gang.limits import (
    Account,
    Changed,
    Held,
    Ledger,
    Pools,
    Resource,
    accounts_of,
    asked_by,
    asked_in,
)
from placewright.instances.verify.rules.gang.preemption import PutBack, Rank, Victims
from placewright.instances.verify.rules.gang.timeline import KIND
from placewright.instances.verify.rules.gang.waiting import end_of, may_start
from placewright.instances.verify.shared_gpus import held, ran_together
from placewright.topology.gpu_links import LINK_KINDS
from placewright.topology.units import WHOLE_GPU

# What is wrong with the facts of a reason that names a pool.


def wrong_pool(state: FreeHosts, option: Option, detail: Detail) -> str:
    """Say why a detail does not name a pool domain that has too little, "" if it does.

    An option asks there what its job uses, or what its tasks ask for which hosts have places.
    """
    pools = state.pools
    numbers = (
        number
        for number, pool in enumerate(pools.pools)
        if (pool.resource, pool.level) == (detail.resource, detail.level)
        and detail.domain in pools.names[number]
    )
    number = next(numbers, None)
    if number is None:
        where = "the whole cluster" if detail.domain is None else repr(detail.domain)
        return f"{where} has no pool of {detail.resource!r}; expected a pool and its domain"
    pool, domain = pools.pools[number], pools.names[number][detail.domain]
    hosts = pools.of_host[number] == domain
    asked = option.uses.get(pool.resource, 0)
    if pool.per == "task":
        asked = 0
        for group in option.groups:
            places = int(np.minimum(state.fitting(group)[hosts], group.count).sum())
            asked += group.resources.get(pool.resource, 0) * min(places, group.count)
    free, limit = int(pools.left[number][domain]), int(pools.limit[number][domain])
    said, true = (detail.asked, detail.free, detail.limit), (asked, free, limit)
    if said != true or asked <= free:
        return f"asked, free and limit are {said}; expected {true}, with more asked than free"
    return ""


# The hosts that the tests of reasons to wait look at: beside which jobs an option has to fit.


class ReasonStates:
    """What is left of the hosts beside the jobs that a test counts."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._victims, self._pools = Victims(reading), Pools(reading)
        self._known: dict[Hashable, FreeHosts] = {}
        self._beside: dict[Hashable, tuple[int, int]] = {}
        self._sets: dict[tuple[str, ...], int] = {}

    def of(self, test: Reason, job: Job, option: int) -> FreeHosts:
        """Return the hosts that a test looks at, for an option of a job."""
        if test is Reason.HOSTS_AWAY:
            return self._open
        if test is Reason.NEVER_FITS:
            if test not in self._known:
                self._known[test] = FreeHosts(self._reading)
            return self._known[test]
        above, victims = self._counted(job, option)
        if test is Reason.CAPACITY:
            above = 0
        elif test is Reason.NOT_CHOSEN:
            above = len(self.started)
        key = above, victims
        if key not in self._known:
            self._known[key] = self._state(above, list(self._sets)[victims])
        return self._known[key]

    def rank(self, job: Job, option: int) -> Rank:
        """Return the precedence of a job that waits, with an option."""
        return self._victims.rank(job, option)

    @cached_property
    def started(self) -> list[tuple[Rank, Placed]]:
        """The started jobs with their precedence, the highest first."""
        found = [(self._victims.rank_after(one), one) for one in self._reading.started]
        return sorted(found, key=lambda pair: pair[0], reverse=True)

    @cached_property
    def victims(self) -> list[tuple[Rank, str]]:
        """The preempted jobs whose place is not for all, with their precedence, highest first."""
        names = [victim.job.name for victim in self._victims.judged]
        jobs, running = self._reading.jobs, self._reading.running
        found = [(self.rank(jobs[name], running[name].option), name) for name in names]
        return sorted(found, key=lambda pair: pair[0], reverse=True)

    def keeps_place(self, name: str, job: Job, option: int) -> bool:
        """Whether what a preempted job held is not for a waiting one with an option."""
        return self._victims.keeps_place(self._reading.jobs[name], job, option)

    def starts_over(self, name: str) -> frozenset[str]:
        """Return the started jobs that may preempt a preempted one."""
        return self._victims.starts_over(self._reading.jobs[name])

    def _counted(self, job: Job, option: int) -> tuple[int, int]:
        """Return how many started jobs are above an option, and whose places are not for it.

        The latter by the number of the set.
        """
        mine = self.rank(job, option)
        # Without further rules precedence alone says who keeps a place, whatever the tenant.
        key = (mine, job.tenant, job.preempts) if self._victims.has_leave else mine
        if key not in self._beside:
            back = tuple(name for _, name in self.victims if self.keeps_place(name, job, option))
            number = self._sets.setdefault(back, len(self._sets))
            self._beside[key] = sum(rank > mine for rank, _ in self.started), number
        return self._beside[key]

    def _state(self, above: int, victims: tuple[str, ...]) -> FreeHosts:
        """Return the hosts beside the first started jobs, and preempted ones that still count."""
        reading = self._reading
        state = self._open.copy()
        stay = (*reading.kept, *reading.migrated)
        together = [[m.placed.job.name for m in group.members] for group in reading.groups]
        stay = (*stay, *(one for _, one in self.started[:above]))
        state.take(self._held(stay, together))
        state.pools.beside(self._pools.taken_by_all(stay))
        if victims:
            back, plan = self._open.copy(), PutBack(reading)
            homes = [plan.home(name) for name in victims]
            back.take(self._held([*reading.kept, *homes], self._together_before))
            back.pools.beside(self._pools.taken_by_all([*reading.kept, *homes]))
            state.keep_least(back)
        return state

    @cached_property
    def _open(self) -> FreeHosts:
        """The hosts where tasks may arrive, with all that they have."""
        state = FreeHosts(self._reading)
        state.close(self._reading)
        return state

    @cached_property
    def _together_before(self) -> list[set[str]]:
        takes_turns = "groups" in self._reading.round.policy.spec.plan_sections
        return list(ran_together(self._reading).values()) if takes_turns else []

    def _held(
        self, placed: Sequence[Placed], together: Iterable[Collection[str]]
    ) -> Iterator[tuple[Task, TaskGroup]]:
        """Yield the tasks of jobs with what they hold, of which some take turns on GPUs."""
        by_name = {one.job.name: one for one in placed}
        teams = [[by_name[name] for name in team if name in by_name] for team in together]
        groups = [Group((), tuple(Member(one, 0) for one in t), None, True) for t in teams if t]
        tasks = [task for one in placed for task in one.tasks]
        if groups:
            local = replace(self._reading, kept=tuple(placed), migrated=(), started=(), held=None)
            tasks = list(held(local, groups))
        return ((task.task, task.group) for task in tasks)


# The tests of options that reasons to wait speak of, as far as this plan's facts prove them.


class ReasonTests:
    """The tests of options against a plan; equal ones are done once."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._states = ReasonStates(reading)
        self._known: dict[Hashable, bool] = {}
        self._within: dict[tuple[int, str], FreeHosts] = {}
        self._ledger = Ledger(reading)
        self._used_back: dict[tuple[Account, Rank, frozenset[str]], Held] = {}
        self._victims: dict[Account, list[tuple[Rank, str]]] = {}
        self._limits: dict[Account, dict[Resource, int]] = {}
        self._class_keys: dict[int, Hashable] = {}  # by option, each of which the round keeps alive

    def passes(self, test: Reason, job: Job, option: int, region: str | None = None) -> bool:
        """Whether it is proven that an option passes a test, in a region if one is given."""
        if test is Reason.QUOTA:
            return not self._beyond_quota(job, option, region)
        if not is_plain(job.options[option]) or job.anti_affinity is not None:
            return False
        return self._decide("fits", self.state(test, job, option, region), job.options[option])

    def fails(self, test: Reason, job: Job, option: int, region: str | None = None) -> bool:
        """Whether it is proven that an option fails a test, in a region if one is given."""
        if test is Reason.QUOTA:
            return self._beyond_quota(job, option, region)
        return self._decide("lacks", self.state(test, job, option, region), job.options[option])

    def _decide(self, how: str, state: FreeHosts, chosen: Option) -> bool:
        key = how, id(state), self.class_key(chosen)
        if key not in self._known:
            self._known[key] = state.fits(chosen) if how == "fits" else state.lacks(chosen)
        return self._known[key]

    def class_key(self, option: Option) -> Hashable:
        """Return the class key of an option: options of equal keys fit the same hosts."""
        if id(option) not in self._class_keys:
            asks = attrgetter("count", "gpu", "gpu_models", "required", "mig", "gpu_memory")
            named = self._reading.named
            key = (
                option.required,
                tuple(option.uses.items()),
                tuple((asks(group), named.key(group), demand(group)) for group in option.groups),
            )
            self._class_keys[id(option)] = key
        return self._class_keys[id(option)]

    def state(self, test: Reason, job: Job, option: int, region: str | None = None) -> FreeHosts:
        """Return the hosts that a test looks at, for an option of a job."""
        state = self._states.of(test, job, option)
        if region is None:
            return state
        key = id(state), region
        if key not in self._within:
            self._within[key] = state.copy()
            self._within[key].open &= state.inside(self._reading.round.geo.level, region)
        return self._within[key]

    def regions(self, job: Job) -> list[str | None]:
        """Return the regions in which a job may start now; None is the whole cluster."""
        if (data := self._reading.data) is None:
            return [None]
        facts, can = data.facts, data.facts.allowed(job)
        for read in job.reads:
            holders = facts.datasets[read.dataset].now
            can &= holders | (facts.served(read.dataset, holders) if read.remote else 0)
        return [facts.regions[region] for region in bits(can)]

    def _beyond_quota(self, job: Job, option: int, region: str | None) -> bool:
        """Whether an option exceeds a quota, of the cluster or of a region, or a cap of its job."""
        for account in self.accounts(job, region):
            asked, limits = asked_in(account, job.options[option]), self.limits(account)
            for used in self.used(job, option, account).values():
                if any(used[name] + asked.get(name, 0) > most for name, most in limits.items()):
                    return True
        return False

    def accounts(self, job: Job, region: str | None = None) -> list[Account]:
        """Return the accounts with limits that a job counts in."""
        return [account for account in accounts_of(job, region) if account in self._ledger.limits]

    def used(self, job: Job, option: int, account: Account) -> dict[str, Held]:
        """Return what the jobs of an account of a job use, as an option of the job sees it.

        By name of a preempted job that it may not preempt: as if that and those above it had stayed
        that no others may preempt, and the starts that may had not come. By "" what they hold after
        the round.
        """
        found = {"": self._ledger.after.get(account, Counter())}
        for rank, name in self._victims_of(account):
            if self._states.keeps_place(name, job, option):
                found[name] = self._used_with(account, rank, self._states.starts_over(name))
        return found

    def _victims_of(self, account: Account) -> list[tuple[Rank, str]]:
        """Return the preempted jobs that count in an account."""
        if account not in self._victims:
            mine = self._ledger.changes.get(account, Changed.none()).victims
            self._victims[account] = [one for one in self._states.victims if one[1] in mine]
        return self._victims[account]

    def limits(self, account: Account) -> dict[Resource, int]:
        """Return what the jobs of an account may hold: its limits, or what they held if more."""
        if account not in self._limits:
            self._limits[account] = self._ledger.most(account)
        return self._limits[account]

    def _used_with(self, account: Account, least: Rank, over: frozenset[str]) -> Held:
        """Return what an account uses with preempted jobs back that only some others may preempt.

        These are of at least some precedence, and the others have not come.
        """
        key = account, least, over
        if key not in self._used_back:
            starts, victims, _ = self._ledger.changes.get(account, Changed.none())
            used: Held = Counter(self._ledger.after.get(account, Counter()))
            for name in over & starts.keys():
                used.subtract(starts[name])
            for rank, name in self._victims_of(account):
                if rank >= least and self._states.starts_over(name) <= over:
                    used.update(victims[name])
            self._used_back[key] = used
        return self._used_back[key]


# Rules about jobs that may not start yet, and about those that wait for a reservation.


_MINE = (
    Reason.HELD,
    Reason.NOT_BEFORE,
    Reason.RESERVED,
    Reason.HELD_FOR_RESERVATION,
    Reason.HELD_FOR_MAINTENANCE,
)


def eligible(reading: Reading) -> Iterator[Finding]:
    """Refuse the start of a job that is held, or whose eligible time has not come."""
    for placed in reading.started:
        if not may_start(placed.job, reading.round.now):
            when = "it is held" if placed.job.held else f"before {placed.job.not_before} s"
            yield Finding(
                (*placed.path, "decision"),
                f"job {placed.job.name!r} starts, {when}; expected it to wait",
            )


def waiting_reason(reading: Reading) -> Iterator[Finding]:
    """Require that a job which waits by itself or for a reservation does so, with the right facts.

    A job held back for a reservation, or for maintenance, would not have ended by its time.
    """
    at = {
        str(job.get("job")): job.get("at")
        for entry in reading.plan.sections
        if entry.get("kind") == KIND
        for job in entry.get("jobs") or ()
    }
    now = reading.round.now
    begins = {
        max(outage.start or 0, now)
        for outage in reading.round.maintenance
        if outage.end is None or outage.end > now
    }
    for index, decision in enumerate(reading.plan.decisions):
        job, reason, detail = reading.jobs.get(decision.job), decision.reason, decision.detail
        if job is None or reason not in _MINE:
            continue
        time, other = (None, None) if detail is None else (detail.at, detail.job)
        true = {
            Reason.HELD: job.held,
            Reason.NOT_BEFORE: not may_start(job, now) and time == job.not_before,
            Reason.RESERVED: job.name in at and time == at[job.name],
            Reason.HELD_FOR_RESERVATION: other in at
            and time == at[other or ""]
            and end_of(job, now) > (time or 0),
            Reason.HELD_FOR_MAINTENANCE: time in begins and end_of(job, now) > (time or 0),
        }
        if not true[reason]:
            yield Finding(
                ("decisions", index, "reason"),
                f"job {job.name!r} waits for {reason!s}, {reason_text(reason, detail)!r}, "
                "which is not so; expected another reason",
            )


RULES_OF_WAITING_REASONS = rules(eligible, waiting_reason)


# The rule about reasons for waiting: none that a simple feasibility check refutes, and true facts.
#
# Whether an option fits is judged by a first fit, which proves that it does, and by counting places
# of one group, which proves that it does not; what neither proves is believed. Guaranteed
# jobs, which are for cells, are left to the rule about these.


_TESTS = (
    Reason.NEVER_FITS,
    Reason.QUOTA,
    Reason.HOSTS_AWAY,
    Reason.CAPACITY,
    Reason.DISPLACED_BY_PRIORITY,
)
"""The tests of an option, in their order; one that passes all waits as `not_chosen`."""
_PLACES = {
    Reason.NEVER_FITS: "the empty, healthy cluster",
    Reason.QUOTA: "what the plan leaves of quotas and caps",
    Reason.HOSTS_AWAY: "the empty hosts that are open",
    Reason.CAPACITY: "beside the jobs that go on running",
    Reason.DISPLACED_BY_PRIORITY: "beside the started jobs of higher precedence",
}
_PASSED = {test: f"fits {place}" for test, place in _PLACES.items()}
_FAILED = {test: f"does not fit {place}" for test, place in _PLACES.items()}
_FAILED[Reason.QUOTA] = "exceeds what the plan leaves of a quota or a cap"


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
        if detail.places is not None and detail.places >= group.count:
            return f"{detail.places} places; expected fewer than the group's {group.count} tasks"
        if detail.apart is not None and (group.apart is None or group.apart.level != detail.apart):
            return f"apart by {detail.apart!r}; expected the level of the group's field apart"
        least = None if group.gpu_links is None else group.gpu_links.required or LINK_KINDS[0]
        if detail.gpu_links is not None and detail.gpu_links != least:
            return f"GPUs joined by {detail.gpu_links}; expected {least or 'any'}, what is asked"
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
            if detail.places != places:
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


RULES_OF_REASONS = rules(gang_reason)
