"""All plans of a round, job by job and task by task, each as one choice per job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from fuzz.book.arrangement import arrangement
from fuzz.book.facts import Facts, Job, Place
from fuzz.book.room import Room
from fuzz.policy import TooManyPlansError

START, WAIT, KEEP, MIGRATE, PREEMPT = "start", "wait", "keep", "migrate", "preempt"
RESIZE = "resize"
MAX_STEPS = 60_000
"""Tasks placed in one enumeration; beyond it a round is too large."""


class Choice(NamedTuple):
    """What a plan does with a job; `option` and `places` of those that run afterwards."""

    kind: str
    option: int = -1
    places: tuple[Place, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether the job runs after the round."""
        return self.option >= 0

    @property
    def anew(self) -> bool:
        """Whether the plan chooses the job's places."""
        return self.kind in (START, MIGRATE, RESIZE)


Choices: TypeAlias = tuple[Choice, ...]
"""Of each job of the round, in its order."""

IDLE, STOPPED = Choice(WAIT), Choice(PREEMPT)


class Enumeration:
    """Every plan that fits and in which each job by itself is where it may be.

    Rules between jobs (quotas, who is preempted, labels) are for the caller to judge. Two plans
    that differ only in which of some equal tasks of a group, or of some interchangeable GPUs, is
    which are one. `admits` may refuse a job's choice.
    """

    def __init__(
        self, facts: Facts, admits: Callable[[Job, Choice], bool] = lambda _job, _choice: True
    ) -> None:
        self.facts, self.admits = facts, admits
        self.room = Room(facts)
        self.steps = 0
        self.order = sorted(
            facts.jobs,
            key=lambda job: (job.running is None, job.running is None or not job.running.pinned),
        )
        self.chosen: list[Choice] = [IDLE] * len(facts.jobs)

    def __iter__(self) -> Iterator[Choices]:
        return self._from(0)

    def _from(self, number: int) -> Iterator[Choices]:
        if number == len(self.order):
            yield tuple(self.chosen)
            return
        job = self.order[number]
        for choice in self._choices(job):
            self.chosen[job.number] = choice
            yield from self._from(number + 1)

    def _choices(self, job: Job) -> Iterator[Choice]:
        """Yield the choices for a job; while the caller looks at one, its room is taken."""
        if job.running is None:
            yield from self._admitted(job, IDLE)
            for number in range(0 if job.ineligible else len(job.options)):
                for places in self._placed(job, number, ()):
                    yield from self._admitted(job, Choice(START, number, places))
            return
        yield from self._kept(job)
        if not (job.running.pinned or job.running.stays):
            yield from self._admitted(job, STOPPED)
            for places in self._placed(job, job.running.option, ()):
                if places != job.running.places:
                    yield from self._admitted(job, Choice(MIGRATE, job.running.option, places))
        for number in job.running.sizes:
            for places in self._placed(job, number, ()):
                choice = Choice(RESIZE, number, places)
                if not (job.running.stays and swaps(job, choice)):
                    yield from self._admitted(job, choice)

    def _admitted(self, job: Job, choice: Choice) -> Iterator[Choice]:
        lawful = not choice.anew or not arrangement(self.facts, job, choice.option, choice.places)
        if lawful and self.admits(job, choice):
            yield choice

    def _kept(self, job: Job) -> Iterator[Choice]:
        assert job.running is not None
        groups = job.options[job.running.option].groups
        taken: list[Place] = []
        for place in job.running.places:
            if not self.room.holds(groups[place[0]], place):
                break
            self.room.take(groups[place[0]], place)
            taken.append(place)
        else:
            yield from self._admitted(job, Choice(KEEP, job.running.option, job.running.places))
        for place in taken:
            self.room.take(groups[place[0]], place, -1)

    def _placed(
        self, job: Job, number: int, before: tuple[Place, ...]
    ) -> Iterator[tuple[Place, ...]]:
        """Yield all places of a job's tasks from the next one on, with these before."""
        option = job.options[number]
        tasks = list(option.tasks())
        if len(before) == len(tasks):
            yield before
            return
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooManyPlansError
        g, index = tasks[len(before)]
        group = option.groups[g]
        stays, fresh = None, job.running is None or number != job.running.option
        if job.running is not None and not fresh:
            stays = job.running.places[len(before)]
            if self.facts.hosts[stays[2]].healthy and self.room.holds(group, stays):
                yield from self._with(job, number, before, stays)
        ascending = fresh and index > 0 and not group.ordered
        for place in list(self.room.places(group, g, index)):
            if place != stays and not (ascending and _key(place) < _key(before[-1])):
                yield from self._with(job, number, before, place)

    def _with(
        self, job: Job, number: int, before: tuple[Place, ...], place: Place
    ) -> Iterator[tuple[Place, ...]]:
        group = job.options[number].groups[place[0]]
        self.room.take(group, place)
        yield from self._placed(job, number, (*before, place))
        self.room.take(group, place, -1)


def swaps(job: Job, choice: Choice) -> bool:
    """Whether a job that goes on at another size leaves GPUs of a host, and comes to others."""
    assert job.running is not None
    more: dict[int, int] = {}
    for sign, number, places in (
        (-1, job.running.option, job.running.places),
        (1, choice.option, choice.places),
    ):
        groups = job.options[number].groups
        for place in places:
            more[place[2]] = more.get(place[2], 0) + sign * groups[place[0]].gpu
    return min(more.values()) < 0 < max(more.values())


def _key(place: Place) -> tuple[int, tuple[int, ...], int]:
    return place[2], place[3], place[4] or 0
