"""Who runs where in a replay: what deciders do to jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placewright.instances.traces.trace import FULL_SPEED, NEVER
from placewright.rounds.errors import InternalError
from placewright.rounds.replay.ledger import Place
from placewright.rounds.replay.progress import Progress


class Group(NamedTuple):
    """Jobs of the same number of GPUs that share one place, each at its speed."""

    jobs: tuple[int, ...]
    place: Place
    speeds: tuple[int, ...]


class Book(Progress):
    """Starts, stops and moves jobs, with what that costs."""

    def start(self, job: int, place: Place, speed: int = FULL_SPEED) -> None:
        """Start a waiting job on free GPUs."""
        self.ledger.take(place)
        self._begin(job, place, speed)

    def _begin(self, job: int, place: Place, speed: int) -> None:
        if job in self.place or job not in self.alive:
            raise InternalError(f"job {self.trace.names[job]} cannot start")
        if sum(gpus for _, gpus in place) != self.gpus[job]:
            raise InternalError(f"job {self.trace.names[job]} starts on {place}")
        self.place[job] = place
        self.busy_gpus += self.gpus[job]
        self.running[job] = 1
        self.since[job] = self.started[job] = self.now
        self.speed[job] = speed
        self.other_speed[job] |= speed != FULL_SPEED
        if self.first_start[job] == NEVER:
            self.first_start[job] = self.now
        if not self.charges_events:
            self.overhead_due[job] += self._start_us[job]
        self._predict(job)

    def stop(self, job: int) -> None:
        """Preempt a running job."""
        self.ledger.release(self._preempt(job))

    def withdraw(self, job: int) -> None:
        """Let a job leave undone, whether it runs or waits."""
        if job in self.place:
            self._settle(job)
            self.ledger.release(self._release(job))
        del self.alive[job]

    def move(self, job: int, place: Place) -> None:
        """Migrate a running job to a place that is free, its own GPUs counted as free."""
        self.ledger.release(self.place[job])
        self.ledger.take(place)
        self._moved(job, place)

    def set_speed(self, job: int, speed: int) -> None:
        """Let a running job go on at another speed; its work so far is saved."""
        if speed != self.speed[job]:
            self._settle(job)
            self.unsaved_us[job] = 0
            self.speed[job] = speed
            self.other_speed[job] = 1
            self._predict(job)

    def move_all(self, places: Mapping[int, Place]) -> None:
        """Migrate running jobs to places that are free once all of them have left theirs."""
        for job in places:
            self.ledger.release(self.place[job])
        for job, place in places.items():
            self.ledger.take(place)
            self._moved(job, place)

    def resize(self, job: int, gpus: int) -> None:
        """Let a job ask for another number of GPUs; one that runs is moved next."""
        self.busy_gpus += (gpus - self.gpus[job]) * int(self.running[job])
        self.gpus[job] = gpus

    def replace_all(self, places: dict[int, Place]) -> None:
        """Let exactly these jobs run, in these places; the ledger has been cleared and taken."""
        before = self.place
        for job in [job for job in before if job not in places]:
            self._preempt(job)
        for job, place in places.items():
            if job not in before:
                self._begin(job, place, FULL_SPEED)
            elif before[job] != place:
                self._moved(job, place)

    def share_all(self, groups: Sequence[Group]) -> None:
        """Let exactly these groups run; the ledger has been cleared and taken, once a group."""
        running = {job for group in groups for job in group.jobs}
        for job in list(self.place):
            self._settle(job)
            if job not in running:
                self._preempt(job)
        self.together = {}
        for jobs, place, speeds in groups:
            for job, speed in zip(jobs, speeds, strict=True):
                if job not in self.place:
                    self._begin(job, place, speed)
                    continue
                if self.place[job] != place:
                    self._moved(job, place)
                self.set_speed(job, speed)
            if len(jobs) > 1:
                self.together.update(dict.fromkeys(jobs, jobs))
        self.busy_gpus = sum(self.gpus[group.jobs[0]] for group in groups)

    def _preempt(self, job: int) -> Place:
        """Stop a job; return the place that it had, which the ledger still holds."""
        self._settle(job)
        self.stops[job] += 1
        self.unsaved_us[job] = 0
        self.overhead_due[job] = self._stop_us[job]
        return self._release(job)

    def _moved(self, job: int, place: Place) -> None:
        self._settle(job)
        self.place[job] = place
        self.moves[job] += 1
        self.overhead_due[job] += self._move_us[job]
        self._predict(job)

    def _release(self, job: int) -> Place:
        """Take a job from its place; return the GPUs that are free then."""
        place = self.place.pop(job)
        self.running[job] = 0
        self.due[job] = NEVER
        if self._leave_others(job):
            return ()
        self.busy_gpus -= self.gpus[job]
        return place

    def _leave_others(self, job: int) -> tuple[int, ...]:
        """Take a job from those that share its place; return the others."""
        others = tuple(other for other in self.together.pop(job, ()) if other != job)
        for other in others:
            self._settle(other)
        for other in others:
            if len(others) > 1:
                self.together[other] = others
            else:
                del self.together[other]
        return others
