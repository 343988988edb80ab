"""Corrections of a waiting job: minimal changes with which it starts, in least amounts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Unpack

from placewright.explain.corrections.change import COSTS, Change, Cost, Failed, Form, Who
from placewright.explain.corrections.minimal_sets import MAX_CHANGES, minimal_corrections
from placewright.explain.search import SearchOptions
from placewright.instances.documents.edits import Edit, Edits
from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import edited
from placewright.instances.errors import InvalidInputError
from placewright.instances.presets.presets import minimal_victims
from placewright.instances.verify import verify
from placewright.rounds import solve_round

# The cheapest lawful moves and preemptions that start a waiting job, by `minimal_victims`.


@dataclass(frozen=True, slots=True)
class Victims:
    """Running jobs that move or stop for a job, and what that disrupts.

    Parameters
    ----------
    migrated, preempted
        Names of jobs, in the order of the round.
    resized
        Names of jobs that go on with another option, and the option of each.
    disruption
        Of the moves and preemptions, as of the term, in milli-GPU-seconds.
    at_least
        A bound on the disruption by which an option of this value starts; None without one. No
        cheaper way is possible if it is `disruption`.
    plan
        A plan of the given round that `verify` accepts: no other pending job starts.
    """

    migrated: tuple[str, ...]
    preempted: tuple[str, ...]
    resized: tuple[tuple[str, int], ...]
    disruption: int
    at_least: float | None
    plan: Plan


def cheapest_victims(
    round_: Round,
    job: str,
    **search: Unpack[SearchOptions],
) -> Victims | None:
    """Return the cheapest moves and preemptions that let a job start; None if none was found.

    Parameters
    ----------
    round_
        A round of gangs that `check_round` accepts.
    job
        Name of a pending job.
    search
        As of `solve_round`.

    Raises
    ------
    InvalidInputError
        As of `minimal_victims`.
    """
    solved = solve_round(
        minimal_victims(round_, job),
        gap=0.0,
        **search,
    )
    known = {decision.job: decision for decision in solved.decisions}
    if known[job].decision is not DecisionKind.START or solved.certificate is None:
        return None
    plan = solved.model_copy(
        update={
            "round": None,
            "certificate": None,
            "decisions": tuple(
                known.get(one.name) or Decision(job=one.name, decision=DecisionKind.WAIT)
                for one in round_.jobs
            ),
        }
    )
    # Beside other pending jobs it may be less entitled than without them.
    if not verify(round_, plan).ok:
        return None
    disruption = next(term for term in solved.certificate.terms if term.name == "disruption")
    return Victims(
        migrated=_named(plan, DecisionKind.MIGRATE),
        preempted=_named(plan, DecisionKind.PREEMPT),
        resized=tuple(
            (one.job, one.option)
            for one in plan.decisions
            if one.decision is DecisionKind.RESIZE and one.option is not None
        ),
        disruption=disruption.value,
        at_least=disruption.bound,
        plan=plan,
    )


def _named(plan: Plan, kind: DecisionKind) -> tuple[str, ...]:
    return tuple(one.job for one in plan.decisions if one.decision is kind)


MAX_ROUNDS = 64
"""Rounds with changes that are kept."""

Starts: TypeAlias = Callable[[Round, Sequence[str]], bool | None]
"""Whether the job starts in a round once some running jobs have ended; None: that is not known.

Nobody else moves or stops. Many questions about one round are answered faster than about many.
"""


_OTHER_PLACES = {"models", "any_host", "level", "num_hosts", "slices", "apart", "gpu", "tasks"}
"""Kinds of changes of the places that a job asks for."""


@dataclass(frozen=True, slots=True)
class Part:
    """One change of a correction: who makes it, and what it is."""

    who: Who
    kind: str
    form: Form


@dataclass(frozen=True, slots=True)
class Correction:
    """Changes with which a job starts.

    Attributes
    ----------
    parts
        The changes, whoever makes most of them first.
    cost
        The sum of their costs.
    minimal
        Whether the job does not start without one of them, and each amount is the least that does.
    beside_plan
        Whether it starts also beside all that the plan starts; None if that was not asked.
    """

    parts: tuple[Part, ...]
    cost: int
    minimal: bool
    beside_plan: bool | None = None

    @property
    def who(self) -> tuple[Who, ...]:
        """Everybody who has to act, in the order of `Who`."""
        return tuple(who for who in Who if any(part.who is who for part in self.parts))

    @property
    def text(self) -> str:
        """All changes as one phrase."""
        return ", and ".join(part.form.text for part in self.parts)

    @property
    def edits(self) -> Edits:
        """All changes as edits of the round, as `whatif` takes them."""
        return Edits(edits=tuple(edit for part in self.parts for edit in part.form.edits))

    def document(self, say: Callable[[str], str] = str) -> dict[str, Any]:
        """Return the correction as a part of a JSON document; `say` has the words of a source."""
        return {
            "who": [str(who) for who in self.who],
            "cost": self.cost,
            "text": say(self.text),
            "minimal": self.minimal,
            "beside_plan": self.beside_plan,
            "edits": self.edits.model_dump(mode="json", exclude_unset=True)["edits"],
        }


@dataclass(frozen=True, slots=True)
class Corrections:
    """What would let a job run.

    Attributes
    ----------
    some_day
        With these it could run here, once all that does not last is over; None where the verdict
        does not last.
    now
        With these it starts while nobody else moves, or by preemption.
    left_out
        Changes that could not be tried, each with why.
    """

    some_day: tuple[Correction, ...] | None
    now: tuple[Correction, ...]
    left_out: tuple[str, ...] = ()

    def document(self, say: Callable[[str], str] = str) -> dict[str, Any]:
        """Return the corrections as a part of a JSON document; `say` has the words of a source."""
        some_day = None if self.some_day is None else [one.document(say) for one in self.some_day]
        now = [one.document(say) for one in self.now]
        return {"some_day": some_day, "now": now, "left_out": list(self.left_out)}


def corrections(
    round_: Round,
    changes: Sequence[Change],
    starts: Starts,
    *,
    costs: Mapping[str, Cost] = COSTS,
    most: int = MAX_CHANGES,
    failed: Failed | None = None,
) -> Iterator[Correction]:
    """Yield all minimal corrections of a waiting job, the cheapest first.

    Parameters
    ----------
    round_
        In which the job does not start.
    changes
        In the order in which they are made where a correction has several.
    starts
        Asked of rounds with edits.
    costs
        By kind of change.
    most
        The largest number of changes of one correction.
    failed
        Is told of changes that cannot be tried; they are left out.
    """
    world, told = _Edited(round_, starts, failed), set[str]()

    def all_of(chosen: frozenset[int]) -> bool | None:
        return world.starts([changes[c].strongest for c in sorted(chosen)])

    prices = [costs[change.kind].price for change in changes]
    hindering = frozenset(c for c, change in enumerate(changes) if _may_hinder(round_, change))
    for found in minimal_corrections(prices, all_of, most=most, hindering=hindering):
        if not found.changes:
            continue
        forms = _least_forms({c: changes[c] for c in sorted(found.changes)}, prices, world)
        if forms is None:
            continue
        parts = [Part(costs[changes[c].kind].who, changes[c].kind, forms[c]) for c in forms]
        is_minimal = found.proven and all(form.least for form in forms.values())
        # Who waits may meet maintenance: then less may suffice where more does not.
        is_minimal &= not (round_.maintenance and any(part.kind == "time" for part in parts))
        parts.sort(key=lambda part: list(Who).index(part.who))
        correction = Correction(tuple(parts), found.cost, is_minimal)
        # Changes of one kind may have the same least amount.
        if correction.text not in told:
            told.add(correction.text)
            yield correction


def _may_hinder(round_: Round, change: Change) -> bool:
    """Whether a change may also keep a job from joining others that take turns.

    Who asks for other places takes turns with others; and with `as_needed` any change may leave
    GPUs enough for all.
    """
    if "sharing" not in round_.policy.spec.sections:
        return False
    return round_.sharing.as_needed or change.kind in _OTHER_PLACES


def _least_forms(
    chosen: Mapping[int, Change], prices: Sequence[int], world: _Edited
) -> dict[int, Form] | None:
    """Return the changes in least amounts: made least one after the other, the dearest first.

    None if one of them would take too much to tell.
    """
    forms = {c: change.strongest for c, change in chosen.items()}
    for c in sorted(chosen, key=lambda c: -prices[c]):

        def suffices(edits: Sequence[Edit], c: int = c) -> bool | None:
            tried = {**forms, c: replace(forms[c], edits=tuple(edits))}
            return world.starts(list(tried.values()))

        least = chosen[c].least(suffices)
        if least is None:
            return None
        forms[c] = least
    return forms


class _Edited:
    """Asks whether the job starts in a round with some changes; each question once."""

    def __init__(self, round_: Round, starts: Starts, failed: Failed | None) -> None:
        self._round, self._starts, self._failed = round_, starts, failed
        self._known: dict[tuple[str, ...], bool | None] = {}
        self._made: dict[tuple[str, ...], Round] = {}

    def starts(self, forms: Sequence[Form]) -> bool | None:
        changes = [Edits(edits=form.edits) for form in forms if form.edits]
        keys = tuple(edits.model_dump_json(exclude_unset=True) for edits in changes)
        if keys not in self._known:
            most = len(changes)
            while most and all(edit.verb == "end" for edit in changes[most - 1].edits):
                most -= 1
            ended = [
                name for last in changes[most:] for edit in last.edits for name in edit.end or ()
            ]
            self._known[keys] = None
            try:
                # What makes no sense is refused when the plan of the correction is verified.
                self._known[keys] = self._starts(self._with(changes[:most], keys[:most]), ended)
            except InvalidInputError:
                pass  # such as fewer tasks than the slices of another option have
            except Exception as error:
                if self._failed is None:
                    raise
                self._failed(", and ".join(form.text for form in forms), error)
        return self._known[keys]

    def _with(self, changes: Sequence[Edits], keys: tuple[str, ...]) -> Round:
        """Return the round with changes; the last rounds are kept, since many begin alike."""
        if not changes:
            return self._round
        made = self._made.pop(keys, None)
        if made is None:
            made = edited(self._with(changes[:-1], keys[:-1]), changes[-1])
            if len(self._made) >= MAX_ROUNDS:
                del self._made[next(iter(self._made))]
        self._made[keys] = made
        return made


# What to try first of the corrections of a waiting job.


MUCH = 0.5
"""Who asks less than this part of what it asked gives up much."""
LAST = "ended", "give_way", "preempt"
"""Kinds of changes that nobody who reads of them can make: an unknown end, others that give way."""


def try_first(found: Corrections) -> Correction | None:
    """Return the cheapest correction that is of most use; None without any.

    Those that let the job run some day and start it now, too, come first, then those of "some
    day", then those of "now". Last come those that give up much of what the job asks, wait for an
    end that nobody knows, or take from others; before them those that do not suffice beside what
    the plan starts.
    """
    some_day = None if found.some_day is None else {one.text for one in found.some_day}
    both = found.now if some_day is None else [one for one in found.now if one.text in some_day]
    return min(both or found.some_day or found.now, key=_rank, default=None)


def _rank(correction: Correction) -> tuple[bool, bool, int]:
    is_last_resort = any(part.form.left < MUCH or part.kind in LAST for part in correction.parts)
    return is_last_resort, correction.beside_plan is False, correction.cost
