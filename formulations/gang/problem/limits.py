"""Limits and entitlements: quotas, caps, the disruption budget, guarantees, dominant shares."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.common.priority_classes import class_terms
from placewright.instances.derived.leases import unavailable_hosts
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.policy import DisruptionLimits
from placewright.instances.documents.round import Round
from placewright.instances.policies import POLICIES, Sense
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

# Accounts: quotas of tenants, caps and pools, in which jobs count what they hold.
#
# An **account** is a tenant's quota, a cap, what the whole cluster has of a resource of pools, or
# what all pools of it can give in total. A job counts in that of its tenant, in its caps and in
# the pools that it takes from. Each limits some amounts; every amount is a linear row over the
# options of the jobs in the account.


Account: TypeAlias = tuple[str, str]
"""`tenant`, `cap`, `pool` (of the whole cluster) or `total` (of pools), and name or resource."""

QuotaKey: TypeAlias = tuple[int, int]
"""An account and an amount that it limits.

The amount is a resource index, `GPUS`, `JOBS`, GPUs of a model (`of_model`) or a use (`of_use`).
"""

GPUS, JOBS = -1, -2
_FIRST_MODEL = -3
_FIRST_USE = 1 << 20


def of_model(model: int) -> int:
    """Return the number of the amount that is milli-GPU of a GPU model (an index)."""
    return _FIRST_MODEL - model


def model_of(amount: int) -> int | None:
    """Return the GPU model (an index) of which an amount is the milli-GPU, None if of none."""
    return _FIRST_MODEL - amount if amount <= _FIRST_MODEL else None


def of_use(use: int) -> int:
    """Return the number of the amount that jobs use of a resource (an index) in pools."""
    return _FIRST_USE + use


def use_of(amount: int) -> int | None:
    """Return the resource (an index) of which an amount is what jobs use, None if of none."""
    return amount - _FIRST_USE if amount >= _FIRST_USE else None


def use_numbers(round_: Round) -> dict[str, int]:
    """Return the number of each resource that is counted per job: of pools, or of caps alone."""
    names = dict.fromkeys(p.resource for p in round_.cluster.pools if p.per == "job")
    capped = dict.fromkeys(n for cap in round_.caps.values() for n in cap.resources if "@" in n)
    if capped:
        there = {name for host in round_.cluster.hosts for name in host.resources}
        there |= {pool.resource for pool in round_.cluster.pools}
        names |= {name: None for name in capped if name not in there}
    return {name: k for k, name in enumerate(names)}


def account_numbers(round_: Round) -> dict[Account, int]:
    """Return the number of each account: tenants in the round's order, then caps, then pools."""
    tenants = [("tenant", tenant.name) for tenant in round_.tenants]
    caps = [("cap", name) for name in round_.caps]
    resources = dict.fromkeys(pool.resource for pool in round_.cluster.pools)
    pools = [(kind, name) for name in resources for kind in ("pool", "total")]
    return {account: i for i, account in enumerate([*tenants, *caps, *pools])}


def accounts_of(job: Job) -> list[Account]:
    """Return the accounts that a job counts in."""
    tenant = [] if job.tenant is None else [("tenant", job.tenant)]
    return [*tenant, *(("cap", name) for name in job.caps)]


def limits_of(round_: Round) -> dict[Account, Mapping[Measure, int]]:
    """Return what the jobs of each account may hold together; accounts without a limit are left."""
    limits: dict[Account, Mapping[Measure, int]] = {
        ("tenant", tenant.name): {quota_measure(name): most for name, most in tenant.quota.items()}
        for tenant in round_.tenants
        if tenant.quota
    }
    return limits | {("cap", name): cap.limits for name, cap in round_.caps.items() if cap.limits}


def quota_measure(resource: str) -> Measure:
    """Return what a quota of a resource limits."""
    return Measure("gpus") if resource == "gpu" else Measure("resources", resource)


def quota_of(limits: Mapping[Measure, int]) -> dict[str, int]:
    """Return a tenant's quota with these limits."""
    return {"gpu" if m == Measure("gpus") else m.name: most for m, most in limits.items()}


def held_before(
    round_: Round, limits: Mapping[Account, Mapping[Measure, int]], without: Collection[int] = ()
) -> dict[Account, dict[Measure, int]]:
    """Return what running jobs hold of what is limited; `without` some, by index."""
    held = {account: dict.fromkeys(measures, 0) for account, measures in limits.items()}
    for j, job in enumerate(round_.jobs if limits else ()):
        if job.running is not None and j not in without:
            add_held(held, job, job.options[job.running.option])
    return held


def add_held(
    held: Mapping[Account, dict[Measure, int]], job: Job, option: Option, times: int = 1
) -> None:
    """Add what a job with an option counts in its accounts."""
    for account in accounts_of(job):
        mine = held.get(account, {})
        for measure in mine:
            mine[measure] += times * measure.asked_by(option)


def remaining_quotas(round_: Round, cluster: Cluster) -> dict[QuotaKey, int]:
    """Return what jobs that are not pinned may hold.

    An account that holds more than it may, since it was lowered, may keep what it holds. What
    nothing in the cluster has is left out.
    """
    limits = limits_of(round_)
    if not limits:
        return {}
    pinned = {j for j, job in enumerate(round_.jobs) if job.running and job.running.pinned}
    held, movable = held_before(round_, limits), held_before(round_, limits, pinned)
    numbers, amounts = account_numbers(round_), amount_numbers(cluster, round_)
    return {
        (numbers[account], amounts[measure]): max(most, held[account][measure])
        - (held[account][measure] - movable[account][measure])
        for account, measures in limits.items()
        for measure, most in measures.items()
        if measure in amounts
    }


def amount_numbers(cluster: Cluster, round_: Round) -> dict[Measure, int]:
    """Return the number of each amount of which the cluster has something, or jobs use it."""
    return {
        Measure("gpus"): GPUS,
        Measure("jobs"): JOBS,
        **{Measure("resources", name): r for r, name in enumerate(cluster.resources)},
        **{Measure("resources", name): of_use(use) for name, use in use_numbers(round_).items()},
        **{
            Measure("gpus_by_model", name): of_model(m) for m, name in enumerate(cluster.gpu_models)
        },
    }


def resources_held(option: Option) -> dict[str, int]:
    """Return what a job holds with an option, by resource name (`gpu` in milli-GPU)."""
    held: defaultdict[str, int] = defaultdict(int)
    for group in option.groups:
        wanted = {"gpu": group.gpu, "cpu": group.cpu, "memory": group.memory}
        for name, amount in (wanted | group.resources).items():
            held[name] += amount * group.count
    return held


# Disruption budget: what one round may do to running jobs (docs/formulations/disruption.md).
#
# A stopped job counts with one preempted job, its GPUs and the work it loses, a job that migrates
# or resizes with one migrated or resized job and the work it loses. Jobs on hosts that failed, are
# away now or are to be vacated count with nothing. A protected job, which has not run long enough,
# is not preempted.


class Disruption(NamedTuple):
    """Amounts that a budget limits; milli-GPU, and milli-GPU-seconds of lost work."""

    preempted_jobs: int = 0
    preempted_gpus: int = 0
    migrated_jobs: int = 0
    lost_gpu_s: int = 0
    resized_jobs: int = 0
    left_place: int = 0  # jobs pinned to their place that have left it: none may

    def plus(self, other: Disruption, times: int = 1) -> Disruption:
        """Return the sum with `times` another one."""
        return Disruption(*(a + times * b for a, b in zip(self, other, strict=True)))


NOTHING = Disruption()
BudgetPrices: TypeAlias = tuple[float, ...]
"""What a unit of each limit is worth, in the order of `Disruption`."""
NO_BUDGET_PRICES: BudgetPrices = (0.0,) * len(NOTHING)


class Stop(NamedTuple):
    """What a running job counts with when it stops, moves or resizes, and whether it may stop."""

    preempted: Disruption
    migrated: Disruption
    protected: bool
    pinned: bool = False  # to its place

    @property
    def resized(self) -> Disruption:
        """What it counts with when it resizes."""
        migrated = self.migrated
        return migrated._replace(migrated_jobs=0, resized_jobs=migrated.migrated_jobs, left_place=0)


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """The limits of a round, None for none, and the jobs that count, by index in the round."""

    limits: tuple[int | None, ...]
    stops: Mapping[int, Stop]

    @classmethod
    def of(cls, round_: Round) -> Self | None:
        """Return the budget of a round, None if nothing limits what is done to running jobs."""
        limits = round_.policy.limits
        given = None if limits is None else limits.disruption
        pinned = any(job.running is not None and job.running.pin == "place" for job in round_.jobs)
        if given is None and not pinned:
            return None
        given = given or DisruptionLimits()
        lost = None if given.lost_gpu_s is None else given.lost_gpu_s * WHOLE_GPU
        exempt = _exempt_hosts(round_)
        stops: dict[int, Stop] = {}
        for j, job in enumerate(round_.jobs):
            if job.running is None or job.running.pinned:
                continue
            stays = job.running.pin == "place"
            if exempt.isdisjoint(task.host for task in job.running.tasks):
                stops[j] = _stop(round_, job, given)
            elif stays:
                stops[j] = Stop(NOTHING, NOTHING, protected=True)
            if stays:
                migrated = stops[j].migrated._replace(left_place=1)
                stops[j] = stops[j]._replace(migrated=migrated, protected=True, pinned=True)
        return cls(
            (
                given.preempted_jobs,
                given.preempted_gpus,
                given.migrated_jobs,
                lost,
                given.resized_jobs,
                0 if pinned else None,
            ),
            stops,
        )

    def used(
        self,
        preempted: Iterable[int],
        migrated: Iterable[int],
        resized: Iterable[int] = (),
        left: Iterable[int] = (),
    ) -> Disruption:
        """Return what these jobs count with together; those who `left` their hosts resize, too."""
        uses = [self.stops[job].preempted for job in preempted if job in self.stops]
        uses += [self.stops[job].migrated for job in migrated if job in self.stops]
        uses += [self.stops[job].resized for job in resized if job in self.stops]
        uses += [Disruption(left_place=1) for job in left if self.is_pinned(job)]
        return Disruption(*map(sum, zip(NOTHING, *uses, strict=True)))

    def excess(self, used: Disruption) -> Disruption:
        """Return by how much the limits are exceeded."""
        pairs = zip(used, self.limits, strict=True)
        return Disruption(*(0 if most is None else max(0, has - most) for has, most in pairs))

    def is_protected(self, job: int) -> bool:
        """Whether a running job is not preempted: it has not run long enough, or is pinned."""
        return job in self.stops and self.stops[job].protected

    def is_pinned(self, job: int) -> bool:
        """Whether a running job is pinned to its place."""
        return job in self.stops and self.stops[job].pinned

    def allows(
        self,
        preempted: Collection[int],
        migrated: Collection[int],
        resized: Collection[int] = (),
        left: Collection[int] = (),
    ) -> bool:
        """Whether a plan that preempts, migrates and resizes these jobs is within the budget."""
        within = self.excess(self.used(preempted, migrated, resized, left)) == NOTHING
        return within and not any(self.is_protected(job) for job in preempted)

    def after(self, used: Disruption) -> DisruptionBudget:
        """Return what is left of the budget."""
        pairs = zip(used, self.limits, strict=True)
        left = tuple(None if most is None else max(0, most - has) for has, most in pairs)
        return replace(self, limits=left)


def _exempt_hosts(round_: Round) -> set[str]:
    """Return the hosts that failed, are away now or are to be vacated."""
    failed = {
        name for entry in round_.cluster.hosts if not entry.healthy for name in expand(entry.name)
    }
    failed |= unavailable_hosts(round_.leases, round_.now)
    return failed.union(name for entry in round_.policy.vacate for name in expand(entry))


def _stop(round_: Round, job: Job, limits: DisruptionLimits) -> Stop:
    running = job.running
    if running is None:
        raise ValueError(f"job {job.name!r} is pending; expected a running one")
    milli = job.options[running.option].milli_gpu
    lost = milli * (running.unsaved_s(round_.now) + running.restart_s)
    protected = (
        limits.min_run_s is not None
        and running.started is not None
        and round_.now - running.started < limits.min_run_s
    )
    return Stop(Disruption(1, milli, 0, lost), Disruption(0, 0, 1, lost), protected)


# Dominant resource fairness: the shares of tenants, and the objective terms that they stand for.
#
# The dominant share of a tenant is the largest, over resources, of what its jobs hold after the
# round out of what all healthy hosts have, divided by the tenant's weight (Ghodsi et al.,
# Dominant Resource Fairness, NSDI 2011, sections 4.1 and 4.3). In whole units of 1 / `SCALE`,
# rounded down,
#
#     share(i)  =  max_r  floor(SCALE * held[i,r] / (capacity[r] * weight[i]))
#
# Max-min over tenants, lexicographically: theta_k, the sum of the k smallest shares, is maximised
# for k = 1, 2, ... Such ordered sums are linear, also in whole numbers (Ogryczak and Sliwinski,
# On solving linear programs with the ordered weighted averaging objective, EJOR 148, 2003). The
# policy's term `share` stands for these terms, one per tenant that has jobs in the round, but no
# more than `MAX_ORDERED`.


SHARE = "share"
SCALE = 100_000
MAX_ORDERED = 8
"""With more tenants the last term is the sum of all shares."""

TOTAL_SHARE = "share_all"
ORDERED_SHARES = (SHARE, *(f"share_{k}" for k in range(2, MAX_ORDERED + 1)))
SHARE_TERMS = (*ORDERED_SHARES, TOTAL_SHARE)


@dataclass(frozen=True, slots=True)
class TenantShare:
    """A tenant that counts in the term `share`."""

    tenant: int  # Its index in the round
    # mapping of resource index (-1: milli-GPU) to int: Capacity of the healthy hosts times the
    # tenant's weight; resources of which they have none are left out
    denominator: Mapping[int, int]
    total: Mapping[int, int]  # mapping of resource index to int: Capacity of all hosts
    # mapping of resource index to int: What those of the tenant's jobs hold that are not decided
    # here
    held: Mapping[int, int]

    @property
    def by_resource(self) -> dict[int, int]:
        """Share of each resource that the tenant holds, in units of 1 / `SCALE`."""
        return {r: SCALE * self.held[r] // per for r, per in self.denominator.items()}

    @property
    def upper_bound(self) -> int:
        """Dominant share of what the tenant holds, no more than all hosts have."""
        return max(
            (
                SCALE * min(self.held[r], self.total[r]) // per
                for r, per in self.denominator.items()
            ),
            default=0,
        )

    def plus(self, amounts: Mapping[int, int]) -> Self:
        """Return the tenant holding these amounts, by resource, in addition."""
        return replace(self, held={r: h + amounts[r] for r, h in self.held.items()})


def tenant_shares(round_: Round, cluster: Cluster, healthy: Bools) -> tuple[TenantShare, ...]:
    """Return the tenants that have jobs in a round; () if its policy has no term `share`."""
    if SHARE not in round_.policy.terms:
        return ()
    names = {-1: "gpu", **dict(enumerate(cluster.resources))}
    everywhere = np.ones_like(healthy)
    capacity, everything = (_capacity(cluster, hosts) for hosts in (healthy, everywhere))
    held = {tenant.name: dict.fromkeys(names, 0) for tenant in round_.tenants}
    counts = {job.tenant for job in round_.jobs}
    for job in round_.jobs:
        if job.running is not None and job.running.pinned and job.tenant is not None:
            amounts = resources_held(job.options[job.running.option])
            for r, name in names.items():
                held[job.tenant][r] += amounts.get(name, 0)
    return tuple(
        TenantShare(
            i,
            {r: most * tenant.weight for r, most in capacity.items() if most},
            everything,
            {r: amount for r, amount in held[tenant.name].items() if capacity[r]},
        )
        for i, tenant in enumerate(round_.tenants)
        if tenant.name in counts
    )


def _capacity(cluster: Cluster, hosts: Bools) -> dict[int, int]:
    """Return the capacity of the marked hosts, bool (hosts,), by resource (-1: milli-GPU)."""
    has = cluster.capacity[hosts].sum(axis=0).tolist()
    return {-1: int(cluster.gpu_count[hosts].sum()) * WHOLE_GPU, **dict(enumerate(has))}


def write_out_share(terms: Iterable[str], tenants: int) -> tuple[str, ...]:
    """Replace the term `share` by its ordered sums, for a number of tenants."""
    ordered = (
        ORDERED_SHARES[: max(tenants, 1)]
        if tenants <= MAX_ORDERED
        else (*ORDERED_SHARES[: MAX_ORDERED - 1], TOTAL_SHARE)
    )
    return tuple(t for term in terms for t in (ordered if term == SHARE else (term,)))


def num_smallest(term: str, tenants: int) -> int:
    """Return how many of the smallest shares a term adds up."""
    return tenants if term == TOTAL_SHARE else min(ORDERED_SHARES.index(term) + 1, tenants)


def sum_of_smallest(term: str, shares: Sequence[int]) -> int:
    """Return the value of a term, given the shares of all tenants that count."""
    return sum(sorted(shares)[: num_smallest(term, len(shares))])


# The names of objective terms, and whether more or less of each is better.


VALUE = "value"
CLASS_VALUES = class_terms(VALUE)
"""What `value` stands for under strict priority, the highest class first (jobs.py)."""

PROGRESS = "progress"
BOTTLENECK = "bottleneck"
CONTENTION = "contention"
LINK_TERMS = frozenset({BOTTLENECK, CONTENTION})
"""Terms that count the links that groups cross."""

ENTITLED = "entitled"
OPTION_SUMS = (VALUE, *CLASS_VALUES, ENTITLED, PROGRESS)
"""Terms that are a sum over the options that run: see `Options.amounts`."""

DISRUPTION, SPREAD, FREED = "disruption", "spread", "freed"

PACKED = "packed"
"""Not a term of policies: what the hosts in use are worth (bounds.py)."""
SENSE: dict[str, Sense] = {
    **{term: sense for spec in POLICIES.values() for term, sense in spec.terms.items()},
    PACKED: "min",
    **dict.fromkeys((*SHARE_TERMS, *CLASS_VALUES), "max"),
}


# Entitlement: which jobs a tenant's guarantee covers, and which borrow; it precedes priority.
#
# A tenant's jobs are taken in order: higher priority first, running before pending, then as in the
# round. Opportunistic jobs are left out, since no guarantee covers them.
#
# running    entitled if it fits the guarantee together with the entitled running jobs before it;
#            with another option if it is, and that asks no more of what the guarantee names
# pending    entitled with an option that fits the guarantee with all running jobs before it
#            and the claims of the pending ones before it; its claim is the most, per resource, that
#            such options ask for
#
# Only resources count that the guarantee names and the job asks for. A tenant without a guarantee
# has no limit. So pending jobs take no entitlement from running ones, and the entitled jobs of a
# tenant never hold more than its guarantee, whichever of them run.


Amounts = Mapping[str, int]
BorrowingOptions: TypeAlias = Mapping[int, tuple[int, ...]]
"""By index of a job the options with which it is not entitled."""


def borrowing_options(round_: Round) -> dict[int, tuple[int, ...]]:
    """Return, by index of a job, the options with which it borrows; most jobs have none."""
    borrowed = {
        i: tuple(range(len(job.options))) for i, job in enumerate(round_.jobs) if job.opportunistic
    }
    guarantees = {t.name: t.guarantee for t in round_.tenants if t.guarantee}
    mine: defaultdict[str, list[int]] = defaultdict(list)
    for i, job in enumerate(round_.jobs if guarantees else ()):
        if job.tenant in guarantees and i not in borrowed:
            mine[job.tenant].append(i)
    for tenant, jobs in mine.items():
        borrowed |= _borrowing_options_of_tenant(round_, jobs, guarantees[tenant])
    return borrowed


def _borrowing_options_of_tenant(
    round_: Round, mine: list[int], guarantee: Amounts
) -> dict[int, tuple[int, ...]]:
    """Return the borrowing options of one tenant's jobs (indices `mine`)."""
    jobs = round_.jobs
    entitled, ahead = Counter[str](), Counter[str]()
    borrowed: dict[int, tuple[int, ...]] = {}
    for i in sorted(mine, key=lambda i: (-jobs[i].priority, jobs[i].running is None, i)):
        job = jobs[i]
        asked = [resources_held(option) for option in job.options]
        if job.running is not None:
            option = job.running.option
            if _fits(entitled, asked[option], guarantee):
                entitled.update(asked[option])
                now = asked[option]
                beyond = [
                    o
                    for o in round_.offered(job)
                    if any(asked[o].get(name, 0) > now.get(name, 0) for name in guarantee)
                ]
                if beyond:
                    borrowed[i] = tuple(beyond)
            else:
                borrowed[i] = round_.offered(job)
            ahead.update(asked[option])
            continue
        within = [o for o, amounts in enumerate(asked) if _fits(ahead, amounts, guarantee)]
        if len(within) < len(asked):
            borrowed[i] = tuple(o for o in range(len(asked)) if o not in within)
        claim: Counter[str] = Counter()
        for o in within:
            claim |= Counter(asked[o])
        ahead.update(claim)
    return borrowed


def _fits(before: Amounts, asked: Amounts, guarantee: Amounts) -> bool:
    """Whether the guarantee covers what is asked on top of what comes before."""
    return all(
        before.get(name, 0) + asked[name] <= limit
        for name, limit in guarantee.items()
        if asked.get(name)
    )
