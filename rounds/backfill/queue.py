"""The queue of waiting jobs, taken in its order: who starts now, and who gets a reservation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placewright.formulations.gang.problem.jobs import Choice
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate
from placewright.instances.derived.waiting import expected_end, queue
from placewright.rounds.backfill.places import Places
from placewright.rounds.backfill.profile import NEVER, Profile, Reservation
from placewright.topology.units import WHOLE_GPU


class Queue:
    """Jobs of the queue, taken in its order."""

    def __init__(self, problem: Problem, last: Mapping[str, Mapping[str, Any]]) -> None:
        self._problem = problem
        self.profile = Profile(problem)
        self._places = Places(problem, self.profile)
        self._last = {
            j: found
            for j, job in enumerate(problem.round.jobs)
            if job.name in last and j in self._places.class_of
            if (found := self._of_last(j, last[job.name])) is not None
        }
        self._newcomers = False
        self._waiting_rank: tuple[bool, int] | None = None  # the highest of the jobs that wait
        self._may_stop = any(j.running and not j.running.pinned for j in problem.round.jobs)
        self._full: dict[int, int] = {}  # by class, until when one does not fit from now

    def add(self, job: int) -> None:
        """Start a job now if it fits, or reserve for it; do nothing if no time is known.

        A job that had a reservation in the last round leaves the others of that round as they are,
        and keeps its own if it finds no earlier one.
        """
        before = self._last.pop(job, None)
        self.profile.kept = [] if before is None else list(self._last.values())
        number = len(self.profile.reservations)
        added = self._add(job, before)
        if not added and self.profile.kept:
            self.profile.kept = []
            added = self._add(job, before)
        has_reservation = len(self.profile.reservations) > number
        if has_reservation and before is not None:
            found = self.profile.reservations[-1]
            cause = self._cause() if found.at > before.at else None
            self.profile.reservations[-1] = found._replace(was=before.at, cause=cause)
        self._newcomers |= added and before is None
        if has_reservation or not added:
            self._note_waiting(job)

    def _add(self, job: int, before: Reservation | None) -> bool:
        """Start a job or reserve for it; False if no time is known."""
        c = self._places.class_of[job]
        choices = self._choices(c)
        document = self._problem.round.jobs[job]
        runtime = document.expected_runtime_s
        times = self.profile.times()
        if before is not None:
            times = sorted({*times, before.at})
        least = min(sum(group.milli_gpu for group in choice.groups) for choice in choices)
        for at, most in zip(times, self.profile.most_gpus(times).tolist(), strict=True):
            if at > self._problem.round.now and most * WHOLE_GPU < least:
                continue
            end = NEVER if runtime is None else at + runtime
            for choice in choices:
                option = document.options[choice.index]
                if not self.profile.within_quota(document, option, at, end):
                    continue
                if at == self._problem.round.now:
                    if self._places.start(job, choice, end):
                        return True
                elif found := self._places.reservation(job, choice, at, end):
                    self.profile.reserve(found)
                    return True
            if before is not None and at == before.at and self._places.still_fits(before):
                self.profile.reserve(before)
                return True
        return False

    def order(self) -> list[int]:
        """Return the jobs of the queue by precedence, time of submission, and order in the round.

        By priority where all are entitled; those that could only borrow come after all others.
        """
        found = queue(self._problem.round)
        if self._problem.round.policy.as_listed:
            return found
        return sorted(found, key=lambda job: not self._rank(job)[0])

    def outranked(self, job: int) -> bool:
        """Whether a job of higher precedence waits that may start where running jobs move or stop.

        The search decides between them.
        """
        waits = self._waiting_rank
        return self._may_stop and waits is not None and self._rank(job) < waits

    def backfill_order(self, jobs: Sequence[int]) -> list[int]:
        """Return jobs further back in the order in which they may start.

        Of those of one precedence first the ones that end before any reservation begins, which cost
        no reserved job anything. As the round lists them where the policy says so.
        """
        if self._problem.round.policy.as_listed:
            return list(jobs)
        first = min((r.at for r in self.profile.reservations), default=NEVER)

        def turn(job: int) -> tuple[bool, int, bool]:
            entitled, priority = self._rank(job)
            return not entitled, -priority, self._end_of_start(job) > first

        return sorted(jobs, key=turn)

    def backfill(self, job: int) -> None:
        """Start a job now if it fits beside all reservations."""
        self.profile.kept = []
        document, now = self._problem.round.jobs[job], self._problem.round.now
        c, end = self._places.class_of[job], self._end_of_start(job)
        if end >= self._full.get(c, NEVER + 1):
            return
        for choice in self._choices(c):
            option = document.options[choice.index]
            within = self.profile.within_quota(document, option, now, end)
            if within and self._places.start(job, choice, end):
                return
        self._full[c] = end
        self._note_waiting(job)

    def candidate(self) -> Candidate:
        """Return the starts of now as a candidate."""
        return self._places.candidate()

    def _end_of_start(self, job: int) -> int:
        """Return when a job is expected to end if it starts now."""
        end = expected_end(self._problem.round.jobs[job], self._problem.round.now)
        return NEVER if end is None else end

    def _rank(self, job: int) -> tuple[bool, int]:
        """Return the precedence of a job: whether it is entitled with some option, its priority."""
        choices = self._problem.classes[self._places.class_of[job]].choices
        return any(choice.entitled for choice in choices), self._problem.round.jobs[job].priority

    def _note_waiting(self, job: int) -> None:
        rank = self._rank(job)
        self._waiting_rank = max(rank, self._waiting_rank or rank)

    def _choices(self, c: int) -> list[Choice]:
        return sorted(self._problem.classes[c].choices, key=lambda choice: -choice.value)

    def _cause(self) -> str:
        """Say why a reservation of the last round cannot be kept."""
        if self._newcomers:
            return "arrival"
        jobs, now = self._problem.round.jobs, self._problem.round.now
        overran = any(
            job.running.started + job.expected_runtime_s <= now
            for job in jobs
            if job.running and job.running.started is not None and job.expected_runtime_s
        )
        return "overrun" if overran else "capacity"

    def _of_last(self, job: int, entry: Mapping[str, Any]) -> Reservation | None:
        """Return a reservation of the last round; None if its time has come or a host is gone."""
        document, index = self._problem.round.jobs[job], self._problem.cluster.host_index
        if entry["at"] <= self._problem.round.now or entry.get("option", 0) >= len(
            document.options
        ):
            return None
        if any(task["host"] not in index for task in entry["tasks"]):
            return None
        return self._places.of_entry(job, entry)
