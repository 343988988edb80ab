"""Reservations of a plan that a waiting job may not delay: those before it in the queue."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from placewright.explain.corrections.change import least_amount
from placewright.explain.explanation import HeldBy, Verdict
from placewright.explain.facts.fact import without_waiting
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.plan import Plan, Reason
from placewright.instances.documents.round import Round
from placewright.rounds.backfill.profile import SOURCE
from placewright.rounds.backfill.queue import reservations_of, reserved_before, restricted_round


class Reservations:
    """What a plan reserves for jobs before one that waits; all if that has no reservation."""

    def __init__(self, plan: Plan | None, job: str) -> None:
        entries = {} if plan is None else reservations_of(plan.sections)
        names = list(entries)
        before = names[: names.index(job)] if job in entries else names
        in_time = sorted(before, key=lambda name: entries[name]["at"])
        self._job, self._entries = job, {name: entries[name] for name in in_time}
        decided = () if plan is None else plan.decisions
        self._decision = next((one for one in decided if one.job == job), None)

    @property
    def times(self) -> list[int]:
        """When they begin."""
        return [entry["at"] for entry in self._entries.values()]

    def kept(self, round_: Round) -> Round:
        """Return a round in which only the job waits, and those for whom something is reserved."""
        stay = {self._job, *self._entries}
        pending = {one.name for one in round_.jobs if one.running is None}
        return round_.without_jobs(pending - stay)

    def beside(self, round_: Round, most: int | None = None) -> Round:
        """Return a round in which the job waits, and starts where it delays none of the first ones.

        `round_` is one that the plan leads to, as it is `kept`, maybe with edits.
        """
        if not self._entries:
            return round_
        jobs = {one.name for one in round_.jobs}
        entries = {n: e for n, e in islice(self._entries.items(), most) if n in jobs}
        problem = compile_round(round_)
        reserved = reserved_before(problem, entries, Candidate({}, SOURCE))
        names = problem.cluster.resources
        made = restricted_round(round_, round_, reserved.reservations, names, reserved.pools)
        return without_waiting(made, self._job)

    def verdict(self, fits: Callable[[int], bool | None]) -> tuple[Verdict, HeldBy | None]:
        """Return the verdict of a job that could start after the plan, and what it would delay.

        That is the first in time beside which, with those before it, the job does not start;
        `fits` says whether it starts beside the first ones, by their number.
        """
        every, decided = list(self._entries), self._decision
        if decided is not None and decided.reason is Reason.HELD_FOR_RESERVATION:
            name = None if decided.detail is None else decided.detail.job
            return Verdict.HELD_FOR_RESERVATION, self._held_by(name)
        if not every or (starts := fits(len(every))):
            return Verdict.COULD_START, None
        if starts is None:
            return Verdict.UNDECIDED, None
        first = least_amount(0, len(every), lambda most: fits(most) is False).least
        return Verdict.HELD_FOR_RESERVATION, self._held_by(every[first - 1])

    def _held_by(self, name: str | None) -> HeldBy | None:
        entry = None if name is None else self._entries.get(name)
        return None if entry is None else HeldBy(entry["job"], entry["at"], entry["end"])
