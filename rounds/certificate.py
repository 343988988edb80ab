"""Bounds that hold for a plan, and the gaps that follow (docs/bounds.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, floor, isfinite
from typing import Literal

from placewright.formulations.common.priority_classes import PriorityClass
from placewright.formulations.plan_messages import Bound, near, outward, proven_whole, tighter
from placewright.formulations.session import Session
from placewright.instances.documents.plan import (
    CLAIM_SHARPNESS,
    Plan,
    Precedence,
    Status,
    TermResult,
)
from placewright.instances.documents.policy import headline
from placewright.instances.policies import sense_of
from placewright.rounds.settings import InternalError


class Bounds:
    """All bounds proven so far; those claimed by a solver only until a verified plan beats one.

    `classes` are the priority classes of the round, by the terms that count them.
    """

    def __init__(self, classes: Mapping[str, PriorityClass] | None = None) -> None:
        self._classes = classes or {}
        self._known: list[Bound] = []
        self._trusts_claims = True

    def add(self, bound: Bound) -> None:
        """Keep a bound, rounded to a whole number; claimed bounds are dropped once one was refuted.

        Every term is a whole number, and a solver's bound only one within its tolerance.
        """
        if isfinite(bound.value) and (bound.certified or self._trusts_claims):
            self._known.append(replace(bound, value=_whole(bound)))

    def tightest(self, term: str, values: Mapping[str, int], *, certified: bool) -> float | None:
        """Tightest bound of a term that holds for a plan with these values.

        A bound is valid for all plans at least as good as its `holds`, so it holds for a plan
        that is no worse than every one of them.
        """
        best: float | None = None
        for bound in self._known:
            if bound.term != term or bound.certified != certified:
                continue
            holds = all(_no_worse(values[t], v, sense_of(t)) for t, v in bound.holds)
            if holds:
                best = tighter(best, bound.value, sense_of(bound.term))
        return best

    def update_session(
        self, session: Session, terms: tuple[str, ...], values: Mapping[str, int]
    ) -> tuple[TermResult, ...]:
        """Set the session's bound and proof for the best plan, which has these values; return both.

        If the plan beats a claimed bound, all claims are dropped first, and `degraded` says so.
        """
        for term in terms:
            claimed = self.tightest(term, values, certified=False)
            if claimed is not None and _beats(values[term], claimed, sense_of(term)):
                self._trusts_claims = False
                self._known = [bound for bound in self._known if bound.certified]
                session.degraded.append(
                    f"{session.backend}: claimed the bound {claimed} of {term}, which the plan's "
                    f"{values[term]} beats; its claims are dropped"
                )
        results = self.results(terms, values)
        session.best_known.first_bound = results[0].bound
        session.best_known.bounds = {r.name: r.bound for r in results if r.bound is not None}
        session.best_known.proven = all(result.gap == 0 for result in results)
        return results

    def results(self, terms: tuple[str, ...], values: Mapping[str, int]) -> tuple[TermResult, ...]:
        """Value, bounds and gap of each term for a plan with these values."""
        results: list[TermResult] = []
        for index, term in enumerate(terms):
            certified = self.tightest(term, values, certified=True)
            claimed = self.tightest(term, values, certified=False)
            unproven = not all(map(_is_proven, results[1:index]))
            one = self._classes.get(term)
            results.append(_result(term, values[term], certified, claimed, one, unproven=unproven))
        return tuple(results)


def _whole(bound: Bound) -> int:
    """Return the tightest whole number that a bound proves."""
    sense = sense_of(bound.term)
    if not bound.certified:
        return proven_whole(bound.value, sense)
    return floor(bound.value) if sense == "max" else ceil(bound.value)


def _result(
    name: str,
    value: int,
    certified: float | None,
    claimed: float | None,
    priority_class: PriorityClass | None,
    *,
    unproven: bool,
) -> TermResult:
    sense = sense_of(name)
    certified, claimed = (
        None if known is None else outward(known, sense) for known in (certified, claimed)
    )
    bound = tighter(certified, claimed, sense)
    proof: Literal["certified", "claimed"] | None = None
    if bound is not None:
        proof = "certified" if bound == certified else "claimed"
    return TermResult(
        name=name,
        sense=sense,
        value=value,
        bound=bound,
        proof=proof,
        certified=certified,
        claimed=claimed,
        gap=gap_of(value, bound, priority_class.asked if priority_class else None),
        conditional=unproven and bound is not None,
        precedences=tuple(
            Precedence(cells=one.cells, entitled=one.entitled, priority=one.priority)
            for one in (priority_class.precedences if priority_class else ())
        ),
        asked=priority_class.asked if priority_class else None,
    )


def gap_of(value: float, bound: float | None, asked: int | None = None) -> float | None:
    """|bound - value| / max(|bound|, |value|); 0 if equal, None without a bound.

    Of a priority class |bound - value| / asked.
    """
    if bound is None:
        return None
    if bound == value:
        return 0.0
    scale = max(abs(bound), abs(value)) if asked is None else max(asked, 1)
    return abs(bound - value) / scale


def headline_gap(results: tuple[TermResult, ...]) -> float | None:
    """Return the gap of a plan: the largest of its headline terms, None if one has no bound."""
    lead = results[: len(headline([result.name for result in results]))]
    gaps = [result.gap for result in lead if result.gap is not None]
    return max(gaps) if len(gaps) == len(lead) else None


def with_status(results: tuple[TermResult, ...], asked: float) -> tuple[TermResult, ...]:
    """Return the results with the status of each term, by the relative gap that was asked for."""
    return tuple(r.model_copy(update={"status": _status(r, asked)}) for r in results)


def _status(result: TermResult, asked: float) -> Status:
    if _is_proven(result):
        return "optimal"
    return "within_gap" if result.gap is not None and result.gap <= asked else "feasible"


def _is_proven(result: TermResult) -> bool:
    """Whether the value is its bound, or as near to a claimed one as solvers can tell."""
    sharpness = CLAIM_SHARPNESS if result.proof == "claimed" else 0.0
    return result.bound is not None and near(result.bound, result.value, sharpness)


def refuse_beaten_bounds(results: tuple[TermResult, ...], plan: Plan) -> None:
    """Raise InternalError if a verified value beats its bound."""
    for result in results:
        value, bound = result.value, result.bound
        if bound is not None and _beats(value, bound, result.sense):
            raise InternalError(f"the plan's {result.name} {value} beats the bound {bound}", plan)


def better(first: Mapping[str, int], second: Mapping[str, int], terms: tuple[str, ...]) -> bool:
    """Whether the first values are lexicographically better than the second."""
    for term in terms:
        if first[term] != second[term]:
            return _no_worse(first[term], second[term], sense_of(term))
    return False


def _beats(value: float, other: float, sense: str) -> bool:
    return value != other and _no_worse(value, other, sense)


def _no_worse(value: float, other: float, sense: str) -> bool:
    return value >= other if sense == "max" else value <= other
