"""Corrections of an explained job: what would let it run some day, and what would start it now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TypeVar

from placewright.explain.conflict import Oracle, SolvingOracle, plan_that_starts
from placewright.explain.corrections.change import COSTS, Cost, Form, edit_of
from placewright.explain.corrections.cluster import cluster_changes
from placewright.explain.corrections.find import (
    Correction,
    Corrections,
    Part,
    Victims,
    cheapest_victims,
    corrections,
)
from placewright.explain.corrections.own import own_changes, shorter_runs
from placewright.explain.explanation import Explanation, Verdict
from placewright.explain.facts.fact import FACTS, Stratum, World, ended_jobs, named
from placewright.explain.reservations import Reservations
from placewright.explain.search import SearchOptions
from placewright.explain.situations import Situations
from placewright.instances.derived.phrases import count, counted
from placewright.instances.documents.edits import Edit, Edits
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.errors import InvalidInputError, printable
from placewright.instances.policies import GANG
from placewright.rounds import solve_round

T = TypeVar("T")

_UP_TO: Mapping[Verdict, Stratum] = {
    Verdict.NEVER: Stratum.ASKS,
    Verdict.NEVER_WITHIN_RULES: Stratum.RULES,
    Verdict.NOT_UNTIL_HOSTS_ARE_BACK: Stratum.AWAY,
}
"""Of verdicts that last, the facts that hold in the world of "some day": up to this stratum."""

MAX_PLAN_SECONDS = 5.0
"""Wall-clock seconds of a search for a plan of the round: what takes longer is not told."""
FEW_SIZES = 3
"""Jobs that change their size of which each is named."""
FEW_CHANGES = 2
"""Corrections of more changes than this are told only where no smaller ones have been found."""

_BLOCKED = {*_UP_TO, Verdict.NOT_NOW, Verdict.OTHERS_INSTEAD}


class JobCorrections:
    """The search for the corrections of one explained job.

    Parameters
    ----------
    situations
        In which the job waits.
    oracle
        Asked whether the job starts.
    solving
        Finds the plan that verifies each correction.
    costs
        By kind of change.
    """

    def __init__(
        self,
        situations: Situations,
        explanation: Explanation,
        oracle: Oracle,
        solving: SolvingOracle,
        costs: Mapping[str, Cost] = COSTS,
    ) -> None:
        round_ = situations.round
        self._round, self._explanation = round_, explanation
        self._oracle, self._solving, self._costs = oracle, solving, costs
        self._job = explanation.job
        self._base = explanation.world.base
        self._left_out: dict[str, None] = {}
        held = explanation.verdict is Verdict.HELD_FOR_RESERVATION
        self._reserved = Reservations(situations.reserving if held else situations.plan, self._job)
        # The base of a job for which the plan starts others is the round after the plan.
        self._is_beside = True if explanation.verdict is Verdict.OTHERS_INSTEAD else None
        self._beside = None
        if self._reserved.times:
            self._beside = self._reserved.kept(situations.after.round)
        elif situations.plan is not None and not self._is_beside:
            self._beside = situations.policy.base(situations.after.round, self._job)
        waiting = {one.name for one in round_.jobs if one.running is None}
        self._started = [
            name
            for fact in explanation.universe
            if fact.stratum is Stratum.TAKEN
            for name in fact.names
            if name in waiting
        ]

    def found(self, most: int) -> Corrections:
        """Return the first corrections, up to `most` of each list, as far as the time allows."""
        verdict = self._explanation.verdict
        if verdict is Verdict.HELD_FOR_RESERVATION and most:
            return Corrections(None, tuple(self._shorter()), tuple(self._left_out))
        if verdict not in _BLOCKED or not most:
            return Corrections(None, ())
        some_day = None
        if verdict in _UP_TO:
            lasting = [f for f in self._explanation.universe if f.stratum <= _UP_TO[verdict]]
            holding = set(map(id, lasting))
            removed = tuple(f for f in reversed(self._explanation.universe) if id(f) not in holding)
            world = World(self._base, self._job, removed).round
            some_day = tuple(self._first(world, most))
        now = [self._beside_plan(one) for one in self._first(self._base, most)]
        if (victims := self._tried("preempt", self._victims)) is not None:
            now = sorted([*now, victims], key=lambda one: one.cost)
        return Corrections(some_day, tuple(now), tuple(self._left_out))

    def _first(self, world: Round, most: int) -> list[Correction]:
        """Return the first corrections of a world; ones of many changes only where few help."""
        found: list[Correction] = []
        try:
            for one in islice(self._verified(world), most):
                if len(one.parts) > FEW_CHANGES and found:
                    break
                found.append(one)
        except Exception as error:  # noqa: BLE001
            self._leave_out("further changes", error)
        return found

    def _verified(self, world: Round) -> Iterator[Correction]:
        """Yield corrections of a world of which a plan that starts the job passes `verify`."""
        job = named(self._job, world)
        changes = [
            *own_changes(world, job, self._leave_out),
            *cluster_changes(world, job, self._started, self._leave_out),
        ]
        changes = [change for change in changes if change.kind in self._costs]
        for one in corrections(
            world, changes, self._starts, costs=self._costs, failed=self._leave_out
        ):
            if self._solving.left() <= 0:
                return
            if self._tried(one.text, partial(self._is_verified, world, one)):
                yield one

    def _is_verified(self, world: Round, correction: Correction) -> bool:
        edited = World(apply_edits(world, correction.edits), self._job)
        return plan_that_starts(edited, self._solving) is not None

    def _tried(self, what: str, answer: Callable[[], T]) -> T | None:
        """Return an answer about a change; None if it makes no sense, or cannot be told."""
        try:
            return answer()
        except InvalidInputError:
            return None
        except Exception as error:  # noqa: BLE001
            self._leave_out(what, error)
            return None

    def _leave_out(self, what: str, error: Exception) -> None:
        """Note a change that cannot be tried: it takes no other with it."""
        why = printable(str(error).partition("\n")[0])
        self._left_out.setdefault(f"{what} ({type(error).__name__}: {why})")

    def _beside_plan(self, correction: Correction) -> Correction:
        """Return a correction that says whether it suffices beside all that the plan starts."""
        after = self._beside
        if after is None:
            return replace(correction, beside_plan=self._is_beside)
        edits = [*_after_plan(after, correction.edits.edits)]
        starts = self._tried(correction.text, lambda: self._starts_after(after, edits))
        return replace(correction, beside_plan=starts)

    def _starts(self, round_: Round, ended: Sequence[str]) -> bool | None:
        removed = (ended_jobs(ended),) if ended else ()
        return self._oracle.start(World(round_, self._job, removed)).starts

    def _starts_after(self, after: Round, edits: Sequence[Edit]) -> bool | None:
        """Whether the job starts in the round after the plan with edits, and delays nobody."""
        edited = apply_edits(after, Edits(edits=tuple(edits)))
        return self._starts(self._reserved.beside(edited), ())

    def _shorter(self) -> Iterator[Correction]:
        """Yield the longest run time with which the job starts and delays no reservation.

        A plan of the round with this run time starts it.
        """
        after, cost = self._beside, self._costs.get("runtime")
        if after is None or cost is None:
            return
        times = [*self._reserved.times, *(one.start for one in after.maintenance)]
        suffices = partial(self._starts_after, after)
        for change in shorter_runs(after, named(self._job, after), times):
            form = change.strongest
            if self._tried(form.text, partial(suffices, form.edits)):
                form = change.least(suffices)
                found = Correction((Part(cost.who, "runtime", form),), cost.price, form.least, True)
                if self._tried(form.text, partial(self._is_planned, found)):
                    yield found

    def _is_planned(self, correction: Correction) -> bool:
        """Whether a plan of the round with a correction, as `whatif` makes one, starts the job."""
        edited = apply_edits(self._round, correction.edits)
        plan = solve_round(edited, **self._search_of_round())
        return self._job in FACTS[self._round.policy.formulation].started(plan)

    def _search_of_round(self) -> SearchOptions:
        """Return the options of a search for a plan of the round."""
        search = self._solving.search
        search["time_limit"] = min(self._solving.left(), MAX_PLAN_SECONDS)
        return search

    def _victims(self) -> Correction | None:
        """Return the cheapest preemptions and moves of the real round, where there are any."""
        blocked_by_jobs = any(f.stratum is Stratum.HELD for f in self._explanation.conflict)
        if self._round.policy.formulation != GANG.name or not blocked_by_jobs:
            return None
        seconds = self._solving.left()
        if seconds <= 0 or "preempt" not in self._costs or self._started:
            return None
        # A job that is worth nothing preempts nobody: that makes no sense.
        victims = cheapest_victims(self._round, self._job, **self._search_of_round())
        if victims is None or not (victims.preempted or victims.migrated or victims.resized):
            return None
        said = [f"preempt {counted(victims.preempted, 'job')}"] if victims.preempted else []
        said += self._resizes(victims)
        said += [f"move {counted(victims.migrated, 'job')}"] if victims.migrated else []
        edits = (edit_of(end=list(victims.preempted)),) if victims.preempted else ()
        cost = self._costs["preempt"]
        form = Form(" and ".join(said), edits, victims.disruption == victims.at_least)
        return Correction((Part(cost.who, "preempt", form),), cost.price, form.least)

    def _resizes(self, victims: Victims) -> Iterator[str]:
        """Yield which running jobs shrink or grow, and to what."""
        of = {one.name: one for one in self._round.jobs}
        for name, option in victims.resized[:FEW_SIZES]:
            job, running = of[name], of[name].running
            milli = job.options[option].milli_gpu
            shrinks = running is not None and milli < job.options[running.option].milli_gpu
            word = "shrink" if shrinks else "resize"
            yield f"{word} job {name} to {amount_text('gpu', milli)}"
        if more := len(victims.resized) - FEW_SIZES:
            yield from [f"resize {count(more, 'more job')}"] if more > 0 else []


def _after_plan(after: Round, edits: Sequence[Edit]) -> Iterator[Edit]:
    """Yield edits of a round as edits of the one after its plan, where some jobs have stopped."""
    running = {job.name for job in after.jobs if job.running is not None}
    for edit in edits:
        if edit.end is None:
            yield edit
        elif left := [name for name in edit.end if name in running]:
            yield edit_of(end=left)
