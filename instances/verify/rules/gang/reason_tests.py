"""The tests of options that reasons to wait speak of, as far as this plan's facts prove them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property
from operator import attrgetter

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Reason, Task
from placewright.instances.verify.precedence import Precedence
from placewright.instances.verify.reading import Placed, Reading, demand
from placewright.instances.verify.rules.gang.entitlement import Entitlement
from placewright.instances.verify.rules.gang.free_hosts import FreeHosts, is_plain


class ReasonTests:
    """The tests of options against a plan; equal ones are done once."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._entitlement = Entitlement(reading.round)
        self._states: dict[Hashable, FreeHosts] = {}
        self._known: dict[Hashable, bool] = {}
        self._numbers_known: dict[Precedence, tuple[int, int]] = {}
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
        reading = self._reading
        if test is Reason.NEVER_FITS:
            if test not in self._states:
                self._states[test] = FreeHosts(reading)
            return self._states[test]
        above, victims = self._numbers(self._entitlement.of(job, option))
        if test is Reason.CAPACITY:
            above = 0
        elif test is Reason.NOT_CHOSEN:
            above = len(self._started)
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
        if not (limits := self.limits[job.tenant].items()):
            return None
        asked, used = asked_by(job.options[option]), self.used[job.tenant]
        return next((name for name, most in limits if used[name] + asked[name] > most), None)

    @cached_property
    def used(self) -> dict[str, Counter[str]]:
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


def _held(*placed: Placed) -> Iterator[tuple[Task, TaskGroup]]:
    """Yield the tasks of jobs, and their groups."""
    return ((task.task, task.group) for one in placed for task in one.tasks)


def asked_by(option: Option) -> Counter[str]:
    """Return what a job holds with an option, by resource (`gpu` in milli-GPU)."""
    asked = Counter[str]()
    for group in option.groups:
        asked["gpu"] += group.milli_gpu
        for name, amount in demand(group):
            asked[name] += group.count * amount
    return asked
