"""Terms of two plans side by side, and what is proven of their difference.

A difference in a term is *proven* if it holds between the best plans of the two rounds, whatever
the search missed. The best value of a term lies between the plan's value and its bound, if every
earlier term is proven; these two intervals are compared. If they overlap, the difference is
undecided.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal, TypeAlias

from placewright.instances.documents.plan import Precedence, TermResult
from placewright.instances.policies import sense_of, term_of

Verdict = Literal["same", "proven", "undecided"]
"""Of a difference between the best plans: there is none, there is one, or it is not known."""

_Key: TypeAlias = tuple[str, tuple[Precedence, ...]]
_Known: TypeAlias = tuple[TermResult, tuple[float, float]]
"""A term, and the interval in which its value in the best plan lies."""


@dataclass(frozen=True, slots=True)
class TermDifference:
    """A term of both plans; None for that of a round that has no such term.

    Parameters
    ----------
    difference
        Value after less value before.
    verdict
        What is proven of the difference between the best plans.
    at_least, at_most
        Bounds on that difference; infinite if there is none.
    """

    before: TermResult | None
    after: TermResult | None
    difference: int | None
    verdict: Verdict
    at_least: float = -inf
    at_most: float = inf

    @property
    def term(self) -> TermResult:
        """The term itself, as it is after."""
        known = self.after or self.before
        if known is None:
            raise ValueError("expected a term of one of the two plans")
        return known


def term_differences(
    before: Sequence[TermResult], after: Sequence[TermResult], *, of_all_plans: bool = True
) -> Iterator[TermDifference]:
    """Yield the terms in their order after, those of before alone where they were.

    Unless bounds are `of_all_plans`, nothing is known of the best ones.
    """
    old, new = (
        {_key(term): (term, span) for term, span in _with_intervals(one, of_all_plans)}
        for one in (before, after)
    )
    stems = {term_of(term.name) for term in (*before, *after) if term.precedences}
    unlike = {stem for stem in stems if _levels(old, stem) != _levels(new, stem)}
    old, new = _with_totals(old, unlike), _with_totals(new, unlike)
    for key in _merged(list(old), list(new)):
        if key not in old or key not in new:
            alone = old[key][0] if key in old else None, new[key][0] if key in new else None
            yield TermDifference(*alone, difference=None, verdict="undecided")
            continue
        (one, (low, high)), (other, (low_after, high_after)) = old[key], new[key]
        at_least, at_most = low_after - high, high_after - low
        difference = other.value - one.value
        # A claimed bound that makes a term optimal may be off by the tolerance of its solver.
        optimal = one.status == other.status == "optimal" and isfinite(at_most - at_least)
        verdict: Verdict = "undecided"
        if at_least == at_most == 0 or (optimal and difference == 0):
            verdict = "same"
        elif at_least > 0 or at_most < 0:
            verdict = "proven"
        yield TermDifference(one, other, difference, verdict, at_least, at_most)


def _key(term: TermResult) -> _Key:
    """Return what makes a term the same in two rounds: of a priority class its precedences."""
    return term_of(term.name) if term.precedences else term.name, term.precedences


def _levels(terms: Mapping[_Key, _Known], stem: str) -> list[_Key]:
    return [key for key in terms if key[0] == stem and key[1]]


def _with_totals(terms: Mapping[_Key, _Known], stems: Collection[str]) -> dict[_Key, _Known]:
    """Return terms with the sum of all priority classes before each first class of these."""
    made: dict[_Key, _Known] = {}
    for key, known in terms.items():
        stem, precedences = key
        if precedences and stem in stems and (stem, ()) not in made:
            made[stem, ()] = _total(stem, [terms[level] for level in _levels(terms, stem)])
        made[key] = known
    return made


def _total(stem: str, classes: Sequence[_Known]) -> _Known:
    """Return the sum of the priority classes of a term, and the interval of it."""
    total = sum(term.value for term, _ in classes)
    span = sum(low for _, (low, _) in classes), sum(high for _, (_, high) in classes)
    return TermResult(name=stem, sense=sense_of(stem), value=total), span


def _merged(old: Sequence[_Key], new: Sequence[_Key]) -> list[_Key]:
    """Return the keys of two lists, each once: those of the second, others where they were."""
    keys = list(new)
    for place, key in enumerate(old):
        if key not in keys:
            keys.insert(place, key)
    return keys


def _with_intervals(
    terms: Sequence[TermResult], known: bool
) -> Iterator[tuple[TermResult, tuple[float, float]]]:
    """Yield each term with the interval of its value in the best plan."""
    for term in terms:
        low, high = -inf, inf
        if known and term.bound is not None:
            low, high = sorted((float(term.value), float(term.bound)))
        elif known:
            low, high = (term.value, inf) if term.sense == "max" else (-inf, term.value)
        known = known and (low == high or term.status == "optimal")
        yield term, (low, high)
