"""The queue of waiting jobs, taken in its order: who starts now, and who gets a reservation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from placewright.formulations.gang.problem.jobs import Choice
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate
from placewright.instances.derived.waiting import expected_end, queue
from placewright.instances.documents.plan import Reason
from placewright.instances.documents.round import Round
from placewright.rounds.backfill.places import SOURCE, Places
from placewright.rounds.backfill.profile import NEVER, PoolProfile, Profile, Reservation
from placewright.rounds.decisions import Why
from placewright.topology.units import WHOLE_GPU

# Which reservation a job would delay, of several that begin before it has ended.


MOST_JOBS = 500
"""Of a round in which the reservation that a job would delay is looked for among several; in larger
ones it is the first that begins before the job has ended."""

MAY_START = (Reason.NOT_CHOSEN, Reason.DISPLACED_BY_PRIORITY)


class BesideSome:
    """Which jobs wait beside some of the reservations, under one candidate.

    Parameters
    ----------
    reasons
        Why jobs wait beside some reservations alone.
    """

    def __init__(self, reasons: Callable[[Sequence[Reservation]], dict[int, Why]]) -> None:
        self._reasons = reasons
        self._known: dict[tuple[int, ...], dict[int, Why]] = {}

    def fits(self, job: int, reservations: Sequence[Reservation], whole: Why) -> bool:
        """Whether some reservations leave a job its place, which `whole` says that it has."""
        key = tuple(r.job for r in reservations)
        if key not in self._known:
            self._known[key] = self._reasons(reservations)
        return not is_kept_off(whole, self._known[key][job])

    def first_delayed(
        self, job: int, reservations: Sequence[Reservation], whole: Why
    ) -> Reservation:
        """Return the first of some reservations beside which, with those before it, none is left.

        All of them together leave no place.
        """
        least, most = 1, len(reservations)
        while least < most:
            middle = (least + most) // 2
            if self.fits(job, reservations[:middle], whole):
                least = middle + 1
            else:
                most = middle
        return reservations[least - 1]


def is_kept_off(whole: Why, restricted: Why) -> bool:
    """Whether a job that might start in the whole round may not in a restricted one."""
    may_start = restricted.reason in MAY_START
    return not may_start or (_is_startable(whole) and not _is_startable(restricted))


def _is_startable(why: Why) -> bool:
    return why.detail is not None and why.detail.startable


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


# Reservations: the first waiting jobs start now, or get the earliest time at which they fit.
#
# Those behind them start in the order of the queue where they delay no reservation. With depth 1
# this is EASY backfilling (Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995), with all jobs
# conservative backfilling (Mu'alem and Feitelson, IEEE TPDS 12, 2001).


NOTHING: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reserved:
    """The jobs of the queue that start in their turn, those with a reservation, and the pools."""

    starts: Candidate
    pools: PoolProfile
    reservations: list[Reservation] = field(default_factory=list)


def reserve(problem: Problem, last: Mapping[str, Mapping[str, Any]] = NOTHING) -> Reserved:
    """Return which jobs of the queue start in their turn, and the reservations of the first others.

    Parameters
    ----------
    problem
        A round whose policy has `backfill`, compiled.
    last
        The reservations of the last round, by the name of the job, as its plan has them. Where the
        order is another scheduler's (`listed`) they do not count: it has none, and whoever comes
        first in the queue would have to leave them to jobs behind.
    """
    policy = problem.round.policy
    backfill = policy.backfill
    if backfill is None:
        pools = PoolProfile(problem.round, problem.cluster)
        return Reserved(Candidate({}, SOURCE), pools)
    taken = Queue(problem, NOTHING if policy.as_listed else last)
    order = taken.order()
    depth = len(order) if backfill.depth == "all" else backfill.depth
    head = 0
    while head < len(order) and len(taken.profile.reservations) < depth:
        taken.add(order[head])
        head += 1
    for job in taken.backfill_order(order[head:]):
        if not taken.outranked(job):
            taken.backfill(job)
    taken.profile.kept = []
    return Reserved(taken.candidate(), taken.profile.pools, taken.profile.reservations)


def reserved_before(
    problem: Problem, entries: Mapping[str, Mapping[str, Any]], starts: Candidate
) -> Reserved:
    """Return starts and reservations as a plan has them; these are by the name of the job."""
    profile = Profile(problem)
    places = Places(problem, profile)
    number = {job.name: j for j, job in enumerate(problem.round.jobs)}
    reservations = [places.of_entry(number[name], entry) for name, entry in entries.items()]
    return Reserved(starts, profile.pools, reservations)


# The plan section `reservations`: which jobs start in their turn, and what is reserved.


KIND = "reservations"


def reservation_section(
    round_: Round, hosts: tuple[str, ...], reserved: Reserved
) -> dict[str, Any]:
    """Return the section; jobs are in the order of the queue."""

    def entry(reservation: Reservation) -> dict[str, Any]:
        last: dict[str, Any] = {} if reservation.was is None else {"was": reservation.was}
        if reservation.cause is not None:
            last["cause"] = reservation.cause
        return last | {
            "job": round_.jobs[reservation.job].name,
            "option": reservation.option,
            "at": reservation.at,
            "end": None if reservation.end == NEVER else reservation.end,
            "tasks": [
                {"group": group, "host": hosts[host], "tasks": number}
                for group, host, number in reservation.tasks
            ],
        }

    return {
        "kind": KIND,
        "starts": [round_.jobs[job].name for job in reserved.starts.starts],
        "jobs": [entry(reservation) for reservation in reserved.reservations],
    }


def in_turn(sections: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names of the jobs that start in their turn by a plan's sections."""
    return {
        name
        for section in sections
        if section["kind"] == KIND
        for name in section.get("starts", ())
    }


def reservations_of(sections: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the reservations of a plan's sections, by the name of the job."""
    return {
        entry["job"]: entry
        for section in sections
        if section["kind"] == KIND
        for entry in section.get("jobs", ())
    }


def without_reservations(round_: Round) -> Round:
    """Return a round that asks no plan for reservations of jobs that wait."""
    policy = round_.policy.model_copy(update={"backfill": None})
    return round_.model_copy(update={"policy": policy})
