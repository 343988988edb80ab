"""The tests of options that reasons to wait speak of, as far as this plan's facts prove them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from operator import attrgetter

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Reason
from placewright.instances.verify.data_facts import bits
from placewright.instances.verify.reading import Placed, Reading, demand
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
        self._used_back: dict[tuple[str, Rank, str | None], Counter[str]] = {}
        self._victims: dict[tuple[str, str | None], list[tuple[Rank, str]]] = {}
        self._after: dict[str | None, dict[str, Counter[str]]] = {}
        self._limits: dict[tuple[str, str | None], dict[str, int]] = {}
        self._class_keys: dict[int, Hashable] = {}  # by option, each of which the round keeps alive

    def passes(self, test: Reason, job: Job, option: int, region: str | None = None) -> bool:
        """Whether it is proven that an option passes a test, in a region if one is given."""
        if test is Reason.QUOTA:
            return not self._beyond_quota(job, option, region)
        plain = all(is_plain(group) for group in job.options[option].groups)
        if not plain or job.anti_affinity is not None:
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
            asks = attrgetter(
                "count", "gpu", "gpu_models", "hosts", "required", "mig", "gpu_memory"
            )
            key = option.required, tuple((asks(group), demand(group)) for group in option.groups)
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
        """Whether an option exceeds its tenant's quota, of the cluster or of a region."""
        asked, tenant = asked_by(job.options[option]), job.tenant or ""
        places = [place for place in dict.fromkeys((None, region)) if self.limits(tenant, place)]
        return any(
            used[name] + asked[name] > most
            for place in places
            for used in self.used(job, option, place).values()
            for name, most in self.limits(tenant, place).items()
        )

    def used(self, job: Job, option: int, region: str | None = None) -> dict[str, Counter[str]]:
        """Return what the jobs of its tenant use of quotas, as an option of a job sees it.

        By name of a preempted job of at least its precedence: as if it and those above it had
        stayed, and the starts above it had not come. By "" what they hold after the round.
        """
        tenant, mine = job.tenant or "", self._states.rank(job, option)
        found = {"": self._used_after(region)[tenant]}
        for rank, name in self._victims_of(tenant, region):
            if rank >= mine:
                found[name] = self._used_with(tenant, rank, region)
        return found

    def _victims_of(self, tenant: str, region: str | None) -> list[tuple[Rank, str]]:
        """Return the preempted jobs of a tenant, in a region if one is given."""
        key, jobs = (tenant, region), self._reading.jobs
        if key not in self._victims:
            self._victims[key] = [
                (rank, name)
                for rank, name in self._states.victims
                if jobs[name].tenant == tenant and self._ran_in(name, region)
            ]
        return self._victims[key]

    def limits(self, tenant: str, region: str | None = None) -> dict[str, int]:
        """Return what the jobs of a tenant may hold: its quota, or what they held if more."""
        key = tenant, region
        if key not in self._limits:
            reading, quotas = self._reading, self._quotas(tenant, region).items()
            held = Counter[str]()
            for name in reading.running if quotas else ():
                if reading.jobs[name].tenant == tenant and self._ran_in(name, region):
                    held.update(asked_by(reading.option_run(name)))
            self._limits[key] = {name: max(most, held[name]) for name, most in quotas}
        return self._limits[key]

    def _quotas(self, tenant: str, region: str | None) -> Mapping[str, int]:
        round_ = self._reading.round
        if region is None:
            return next((one.quota for one in round_.tenants if one.name == tenant), {})
        quotas = (entry.quotas for entry in round_.geo.regions if entry.name == region)
        return next(({"gpu": entry[tenant]} for entry in quotas if tenant in entry), {})

    def _ran_in(self, job: str, region: str | None) -> bool:
        return self._is_in(self._reading.running[job].tasks[0].host, region)

    def _is_in(self, host: str, region: str | None) -> bool:
        data = self._reading.data
        if region is None or data is None:
            return True
        return data.facts.regions[data.facts.region_of(self._reading.cluster.hosts[host])] == region

    def _used_with(self, tenant: str, least: Rank, region: str | None) -> Counter[str]:
        """Return what a tenant uses with its preempted jobs of some precedence back."""
        key = tenant, least, region
        if key not in self._used_back:
            reading = self._reading
            stay = [*reading.kept, *reading.migrated]
            stay += [placed for rank, placed in self._states.started if rank <= least]
            runs = [(p.job, p.option) for p in stay if self._lies_in(p, region)]
            runs += [
                (reading.jobs[name], reading.option_run(name))
                for rank, name in self._states.victims
                if rank >= least and self._ran_in(name, region)
            ]
            self._used_back[key] = self._held(p for p in runs if p[0].tenant == tenant)[tenant]
        return self._used_back[key]

    def _lies_in(self, placed: Placed, region: str | None) -> bool:
        return bool(placed.tasks) and self._is_in(placed.tasks[0].host.name, region)

    def _used_after(self, region: str | None) -> dict[str, Counter[str]]:
        """Return what the jobs of each tenant hold after the round."""
        if region not in self._after:
            placed = (p for p in self._reading.placed if self._lies_in(p, region))
            self._after[region] = self._held((one.job, one.option) for one in placed)
        return self._after[region]

    def _held(self, jobs: Iterable[tuple[Job, Option]]) -> dict[str, Counter[str]]:
        held = {tenant.name: Counter[str]() for tenant in self._reading.round.tenants}
        for job, option in jobs:
            if job.tenant is not None:
                held[job.tenant].update(asked_by(option))
        return held


def asked_by(option: Option) -> Counter[str]:
    """Return what a job holds with an option, by resource (`gpu` in milli-GPU)."""
    asked = Counter[str]()
    for group in option.groups:
        asked["gpu"] += group.milli_gpu
        for name, amount in demand(group):
            asked[name] += group.count * amount
    return asked
