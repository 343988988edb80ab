"""The hosts that the tests of reasons to wait look at: beside which jobs an option has to fit."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Reason, Task
from placewright.instances.verify.reading import Group, Member, Placed, Reading
from placewright.instances.verify.rules.gang.free_hosts import FreeHosts
from placewright.instances.verify.rules.gang.pools import Pools
from placewright.instances.verify.rules.gang.preemption import Rank, Victims
from placewright.instances.verify.rules.gang.put_back import PutBack
from placewright.instances.verify.shared_gpus import held, ran_together


class ReasonStates:
    """What is left of the hosts beside the jobs that a test counts."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._victims, self._pools = Victims(reading), Pools(reading)
        self._known: dict[Hashable, FreeHosts] = {}
        self._beside: dict[Hashable, tuple[int, tuple[str, ...]]] = {}

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
            self._known[key] = self._state(above, victims)
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

    def _counted(self, job: Job, option: int) -> tuple[int, tuple[str, ...]]:
        """Return how many started jobs are above an option, and whose place is not for it."""
        mine = self.rank(job, option)
        key = mine, job.tenant, job.preempts
        if key not in self._beside:
            back = (name for _, name in self.victims if self.keeps_place(name, job, option))
            self._beside[key] = sum(rank > mine for rank, _ in self.started), tuple(back)
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
