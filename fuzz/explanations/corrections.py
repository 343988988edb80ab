"""Corrections of an explanation beside all sets of changes and lesser amounts, by the rule book."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TypeAlias

from fuzz.explanations.questions import Starts
from fuzz.explanations.reservations import Beside
from fuzz.explanations.samples import Sample
from placewright.explain.corrections.change import COSTS, Amounts, Change, Names
from placewright.explain.corrections.cluster import cluster_changes
from placewright.explain.corrections.find import Correction
from placewright.explain.corrections.own import own_changes
from placewright.explain.explanation import Explanation, Verdict
from placewright.explain.facts.fact import FACTS, Stratum, World, named
from placewright.explain.reservations import Reservations
from placewright.explain.situations import Situations
from placewright.instances.documents.edits import Edit, Edits
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.errors import InvalidInputError

LASTING = {
    Verdict.NEVER: Stratum.ASKS,
    Verdict.NEVER_WITHIN_RULES: Stratum.RULES,
    Verdict.NOT_UNTIL_HOSTS_ARE_BACK: Stratum.AWAY,
}
"""Verdicts with a list of what would let the job run some day, and the facts that hold then."""

MOST = 50
"""Corrections of each list that are asked for: on tiny rounds all."""

FEW, MANY = 2, 3
"""Changes of corrections that are all told, and of those that are told where there are no such."""

Kinds: TypeAlias = tuple[str, ...]


class Listed:
    """One list of corrections: those of a world, where only lasting facts hold or all."""

    def __init__(
        self, name: str, world: Round, found: Sequence[Correction], started: Sequence[str]
    ) -> None:
        self.name, self.world, self.found, self.started = name, world, found, started

    @property
    def can_hinder(self) -> bool:
        """Whether a change may keep a job from starting: it may ask to take turns with others."""
        return "sharing" in self.world.policy.spec.sections

    def is_of_round(self, sample: Sample) -> bool:
        """Whether the world is the round itself, without the others that wait."""
        round_ = sample.round.valid_part()
        policy = FACTS[round_.policy.formulation]
        return self.world == policy.base(round_, sample.job)


def lists(found: Explanation, sample: Sample) -> Iterator[Listed]:
    """Yield the lists of an explanation; without preemptions, which are no edits of the world."""
    if found.corrections is None or found.verdict not in {
        *LASTING,
        Verdict.NOT_NOW,
        Verdict.OTHERS_INSTEAD,
    }:
        return
    pending = {job.name for job in sample.round.jobs if job.running is None}
    started = [
        name
        for fact in found.universe
        if fact.stratum is Stratum.TAKEN
        for name in fact.names
        if name in pending
    ]
    base = found.world.base
    if found.corrections.some_day is not None:
        removed = tuple(f for f in reversed(found.universe) if f.stratum > LASTING[found.verdict])
        world = World(base, found.job, removed).round
        yield Listed("some day", world, found.corrections.some_day, started)
    now = [one for one in found.corrections.now if all(p.kind != "preempt" for p in one.parts)]
    yield Listed("now", base, now, started)


class Enumerated:
    """All changes of a world, and whether the job starts with some of them."""

    def __init__(self, listed: Listed, job: str, starts: Starts) -> None:
        world = listed.world
        asked = named(job, world)
        changes = [*own_changes(world, asked), *cluster_changes(world, asked, listed.started)]
        self.changes: list[Change] = [one for one in changes if one.kind in COSTS]
        self._listed, self._job, self._starts = listed, job, starts
        self._known: dict[str, bool] = {}

    def faults(self) -> Iterator[str]:
        """Yield what is wrong with the corrections of a list, in words.

        Raises
        ------
        TooManyPlansError
            An edited world has too many plans.
        """
        found = self._listed.found
        for one in found:
            yield from self._of_one(one)
        if [one.cost for one in found] != sorted(one.cost for one in found):
            yield "corrections are not told cheapest first"
        yield from self._of_all()

    def _of_one(self, one: Correction) -> Iterator[str]:
        if not self.starts(one.edits.edits):
            yield f"{one.text}: does not start the job"
        if not one.minimal:
            return
        for part in one.parts:
            others = [edit for other in one.parts if other is not part for edit in other.form.edits]
            if self.starts(others):
                yield f"{one.text}: the change {part.form.text} is not needed"
            for change in self.changes:
                for less in _weaker(change, part.kind, part.form.edits):
                    if self.starts([*others, *less]):
                        yield f"{one.text}: a smaller amount suffices"

    def _of_all(self) -> Iterator[str]:
        """Yield which minimal sets are missing, by their kinds: those of few changes, or one."""
        sets = self._minimal(FEW)
        told = [one for one in self._listed.found if len(one.parts) <= FEW]
        if sets or told:
            yield from _compared(self._kinds(sets), _kinds_told(told))
            return
        sets = self._minimal(MANY)
        if bool(sets) is not bool(self._listed.found):
            yield f"{len(sets)} corrections of three changes exist, {len(self._listed.found)} told"
        elif sets:
            least = min(sum(COSTS[self.changes[c].kind].price for c in one) for one in sets)
            if self._listed.found[0].cost != least:
                yield f"a correction of cost {least} is missing"

    def _minimal(self, most: int) -> list[frozenset[int]]:
        """Return all minimal sets of changes, in their largest amounts, of up to so many."""
        minimal: list[frozenset[int]] = []
        every = [edit for change in self.changes for edit in change.strongest.edits]
        if not self._listed.can_hinder and self._make_sense(every) and not self.starts(every):
            return minimal
        for size in range(1, most + 1):
            for chosen in map(frozenset, combinations(range(len(self.changes)), size)):
                if any(known <= chosen for known in minimal):
                    continue
                edits = [e for c in sorted(chosen) for e in self.changes[c].strongest.edits]
                if self.starts(edits):
                    minimal.append(chosen)
        return minimal

    def _kinds(self, sets: Sequence[frozenset[int]]) -> Counter[Kinds]:
        return Counter(tuple(sorted(self.changes[c].kind for c in one)) for one in sets)

    def _make_sense(self, edits: Sequence[Edit]) -> bool:
        try:
            apply_edits(self._listed.world, Edits(edits=tuple(edits)))
        except InvalidInputError:
            return False
        return True

    def starts(self, edits: Sequence[Edit]) -> bool:
        """Whether the job starts in the world with some edits; not if they make no sense."""
        made = Edits(edits=tuple(edits))
        key = made.model_dump_json(exclude_unset=True)
        if key not in self._known:
            try:
                edited = apply_edits(self._listed.world, made)
            except InvalidInputError:
                self._known[key] = False
            else:
                self._known[key] = self._starts(World(edited, self._job))
        return self._known[key]


def beside_plan_faults(found: Explanation, sample: Sample, starts: Starts) -> Iterator[str]:
    """Yield which corrections say wrongly whether they suffice beside what the plan starts."""
    if found.corrections is None or sample.plan is None:
        return
    plan = sample.plan.without_jobs(sample.round.invalid)
    situations = Situations(sample.round.valid_part(), plan)
    base = situations.policy.base(situations.after.round, sample.job)
    reserved = Reservations(plan, sample.job)
    for one in found.corrections.now:
        if one.beside_plan is None or any(part.kind == "preempt" for part in one.parts):
            continue
        try:
            edited = apply_edits(base, one.edits)
        except InvalidInputError:
            continue
        could = starts(World(edited, sample.job))
        if could and reserved.times:
            kept = apply_edits(reserved.kept(situations.after.round), one.edits)
            could = Beside(kept, plan, sample.job).starts()
        if could is not one.beside_plan:
            yield f"{one.text}: wrong about what the plan starts"


def _compared(expected: Counter[Kinds], told: Counter[Kinds]) -> Iterator[str]:
    """Yield kinds of which corrections are missing or too many.

    Of several sets of the same kinds those that come to the same amounts are told once.
    """
    for kinds in expected.keys() - told.keys():
        yield f"a correction of the kinds {', '.join(kinds)} is missing"
    for kinds, number in told.items():
        if number > expected[kinds]:
            yield f"{number} corrections of the kinds {', '.join(kinds)}, {expected[kinds]} exist"


def _kinds_told(told: Sequence[Correction]) -> Counter[Kinds]:
    return Counter(tuple(sorted(part.kind for part in one.parts)) for one in told)


def _weaker(change: Change, kind: str, edits: tuple[Edit, ...]) -> Iterator[tuple[Edit, ...]]:
    """Yield the next smaller amounts of a change, if the edits are one of its amounts."""
    if change.kind != kind:
        return
    if isinstance(change, Amounts):
        amounts = [n for n in range(1, change.most + 1) if change.edits(n) == edits]
        if amounts and amounts[0] > 1:
            yield change.edits(amounts[0] - 1)
    if isinstance(change, Names) and len(edits) == 1:
        names = tuple(edits[0].value)
        if len(names) > 1 and set(names) <= set(change.names) and change.edits(names) == edits:
            for name in names:
                yield change.edits([one for one in names if one != name])
