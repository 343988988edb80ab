"""The tests of options that reasons to wait speak of, as far as this plan's facts prove them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from functools import cached_property
from operator import attrgetter

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Reason
from placewright.instances.verify.reading import Reading, demand
from placewright.instances.verify.rules.gang.free_hosts import FreeHosts, is_plain
from placewright.instances.verify.rules.gang.preemption import Rank
from placewright.instances.verify.rules.gang.reason_states import ReasonStates


class ReasonTests:
    """The tests of options against a plan; equal ones are done once."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._states = ReasonStates(reading)
        self._known: dict[Hashable, bool] = {}
        self._used_back: dict[tuple[str, Rank], Counter[str]] = {}
        self._class_keys: dict[int, Hashable] = {}  # by option, each of which the round keeps alive

    def passes(self, test: Reason, job: Job, option: int) -> bool:
        """Whether it is proven that an option passes a test."""
        if test is Reason.QUOTA:
            return self._quota_problem(job, option) is None
        plain = all(is_plain(group) for group in job.options[option].groups)
        return plain and job.anti_affinity is None and self._decide("fits", test, job, option)

    def fails(self, test: Reason, job: Job, option: int) -> bool:
        """Whether it is proven that an option fails a test."""
        if test is Reason.QUOTA:
            return self._quota_problem(job, option) is not None
        return self._decide("lacks", test, job, option)

    def _decide(self, how: str, test: Reason, job: Job, option: int) -> bool:
        state, chosen = self.state(test, job, option), job.options[option]
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

    def state(self, test: Reason, job: Job, option: int) -> FreeHosts:
        """Return the hosts that a test looks at, for an option of a job."""
        return self._states.of(test, job, option)

    def _quota_problem(self, job: Job, option: int) -> str | None:
        """Return a resource of which an option exceeds its tenant's quota, None for none."""
        if job.tenant is None:
            return None
        if not (limits := self.limits[job.tenant].items()):
            return None
        asked = asked_by(job.options[option])
        return next(
            (
                name
                for used in self.used(job, option).values()
                for name, most in limits
                if used[name] + asked[name] > most
            ),
            None,
        )

    def used(self, job: Job, option: int) -> dict[str, Counter[str]]:
        """Return what the jobs of its tenant use of quotas, as an option of a job sees it.

        By name of a preempted job of at least its precedence: as if it and those above it had
        stayed, and the starts above it had not come. By "" what they hold after the round.
        """
        tenant, mine = job.tenant or "", self._states.rank(job, option)
        found = {"": self._used_after[tenant]}
        victims = [pair for pair in self._states.victims if self._owner(pair[1]) == tenant]
        for rank, name in victims:
            if rank >= mine:
                found[name] = self._used_with(tenant, rank)
        return found

    def _owner(self, job: str) -> str:
        return self._reading.jobs[job].tenant or ""

    def _used_with(self, tenant: str, least: Rank) -> Counter[str]:
        """Return what a tenant uses with its preempted jobs of some precedence back."""
        key = tenant, least
        if key not in self._used_back:
            reading = self._reading
            stay = [(p.job, p.option) for p in (*reading.kept, *reading.migrated)]
            stay += [(p.job, p.option) for rank, p in self._states.started if rank <= least]
            stay += [
                (reading.jobs[name], reading.option_run(name))
                for rank, name in self._states.victims
                if rank >= least
            ]
            self._used_back[key] = self._held(p for p in stay if p[0].tenant == tenant)[tenant]
        return self._used_back[key]

    @cached_property
    def _used_after(self) -> dict[str, Counter[str]]:
        """What the jobs of each tenant hold after the round."""
        return self._held((placed.job, placed.option) for placed in self._reading.placed)

    @cached_property
    def limits(self) -> dict[str, dict[str, int]]:
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
