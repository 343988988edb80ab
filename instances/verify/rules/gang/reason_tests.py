"""The tests of options that reasons to wait speak of, as far as this plan's facts prove them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from operator import attrgetter

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Reason
from placewright.instances.verify.data_facts import bits
from placewright.instances.verify.reading import Placed, Reading, demand
from placewright.instances.verify.rules.gang.accounts import (
    Account,
    Held,
    Resource,
    accounts_of,
    asked_in,
    limits_of,
)
from placewright.instances.verify.rules.gang.free_hosts import FreeHosts, is_plain
from placewright.instances.verify.rules.gang.preemption import Rank
from placewright.instances.verify.rules.gang.reason_states import ReasonStates


class ReasonTests:
    """The tests of options against a plan; equal ones are done once."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._states = ReasonStates(reading)
        self._known: dict[Hashable, bool] = {}
        self._within: dict[tuple[int, str], FreeHosts] = {}
        self._quotas = limits_of(reading.round, by_region=reading.data is not None)
        self._used_back: dict[tuple[Account, Rank, frozenset[str]], Held] = {}
        self._victims: dict[Account, list[tuple[Rank, str]]] = {}
        self._after: dict[Account, Held] = {}
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
        return [account for account in accounts_of(job, region) if account in self._quotas]

    def used(self, job: Job, option: int, account: Account) -> dict[str, Held]:
        """Return what the jobs of an account of a job use, as an option of the job sees it.

        By name of a preempted job that it may not preempt: as if that and those above it had stayed
        that no others may preempt, and the starts that may had not come. By "" what they hold after
        the round.
        """
        found = {"": self._used_after(account)}
        for rank, name in self._victims_of(account):
            if self._states.keeps_place(name, job, option):
                found[name] = self._used_with(account, rank, self._states.starts_over(name))
        return found

    def _victims_of(self, account: Account) -> list[tuple[Rank, str]]:
        """Return the preempted jobs that count in an account."""
        if account not in self._victims:
            self._victims[account] = [
                (rank, name) for rank, name in self._states.victims if self._ran_in(name, account)
            ]
        return self._victims[account]

    def limits(self, account: Account) -> dict[Resource, int]:
        """Return what the jobs of an account may hold: its limits, or what they held if more."""
        if account not in self._limits:
            reading, quotas = self._reading, self._quotas.get(account, {})
            held: Held = Counter()
            for name in reading.running if quotas else ():
                if self._ran_in(name, account):
                    held.update(asked_in(account, reading.option_run(name)))
            self._limits[account] = {name: max(most, held[name]) for name, most in quotas.items()}
        return self._limits[account]

    def _ran_in(self, job: str, account: Account) -> bool:
        """Whether a running job counts in an account."""
        asking, host = self._reading.jobs[job], self._reading.running[job].tasks[0].host
        return account in accounts_of(asking, account.region) and self._is_in(host, account.region)

    def _is_in(self, host: str, region: str | None) -> bool:
        data = self._reading.data
        if region is None or data is None:
            return True
        return data.facts.regions[data.facts.region_of(self._reading.cluster.hosts[host])] == region

    def _used_with(self, account: Account, least: Rank, over: frozenset[str]) -> Held:
        """Return what an account uses with preempted jobs back that only some others may preempt.

        These are of at least some precedence, and the others have not come.
        """
        key = account, least, over
        if key not in self._used_back:
            reading = self._reading
            stay = [*reading.kept, *reading.migrated]
            stay += [one for one in reading.started if one.job.name not in over]
            used: Held = Counter()
            for placed in stay:
                if self._counts_in(placed, account):
                    used.update(asked_in(account, placed.option))
            for rank, name in self._victims_of(account):
                if rank >= least and self._states.starts_over(name) <= over:
                    used.update(asked_in(account, reading.option_run(name)))
            self._used_back[key] = used
        return self._used_back[key]

    def _counts_in(self, placed: Placed, account: Account) -> bool:
        """Whether a job that runs after the round counts in an account."""
        return (
            account in accounts_of(placed.job, account.region)
            and bool(placed.tasks)
            and self._is_in(placed.tasks[0].host.name, account.region)
        )

    def _used_after(self, account: Account) -> Held:
        """Return what the jobs of an account hold after the round."""
        if account not in self._after:
            of_region = {one for one in self._quotas if one.region == account.region}
            self._after |= {one: Counter() for one in of_region}
            for placed in self._reading.placed:
                for mine in accounts_of(placed.job, account.region):
                    if mine in of_region and self._counts_in(placed, mine):
                        self._after[mine].update(asked_in(mine, placed.option))
        return self._after[account]
