"""What moves buy: the round that a placement leads to, solved, and its plan cut after each move.

Running jobs are where the placement has them, and may move; those that wait may start. Each point
of the curve is a plan of that round which `verify` accepts, better than all points before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from placewright.explain.prefixes import MovePoint, Prefixes
from placewright.explain.stages import Stage
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.policy import DisruptionLimits, PolicyLimits
from placewright.instances.documents.round import Round
from placewright.instances.policies import GANG, sense_of
from placewright.rounds import solve_round
from placewright.rounds.certificate import better
from placewright.rounds.settings import Isolation
from placewright.rounds.state.changes import apply_plan

SHARES = (0.5, 0.8, 0.95)
"""Shares of the gain of all moves of which the curve tells how many moves they take."""

MOST_POINTS = 64
"""Points that are verified, beside those of the shares and of a number of moves asked for."""

DISRUPTION = "disruption"


@dataclass(frozen=True, slots=True)
class MoveCurve:
    """What moves buy.

    Parameters
    ----------
    round
        The round that the placement leads to; points are plans of it.
    points
        At first the placement as it is, then plans with more and more moves, each better than the
        one before in the first term that differs.
    stages
        The moves of the last point in the order in which they pay, with the starts that then have
        room, as indices of jobs. Points lie along them, but for those of `with_point`.
    results
        The terms of the best plan found, with bounds that hold whoever moves or stops.
    term
        The first term in which the last point differs from the placement; None: moves buy nothing.
    """

    round: Round
    points: tuple[MovePoint, ...]
    stages: tuple[Stage, ...]
    results: tuple[TermResult, ...]
    term: str | None = None

    @property
    def result(self) -> TermResult | None:
        """The result of `term`: no plan that is as good in earlier terms beats its bound."""
        return next((result for result in self.results if result.name == self.term), None)

    @property
    def bound(self) -> float | None:
        """The bound of `term`; None if there is none."""
        return None if self.result is None else self.result.bound

    def gain(self, point: MovePoint) -> int:
        """Return what a point gains in `term` over the placement."""
        if self.term is None:
            return 0
        gain = point.terms[self.term] - self.points[0].terms[self.term]
        return gain if sense_of(self.term) == "max" else -gain

    @property
    def distance(self) -> float | None:
        """How far the placement is from the bound in `term`."""
        if self.term is None or self.bound is None:
            return None
        return abs(self.bound - self.points[0].terms[self.term])

    def with_point(self, point: MovePoint) -> MoveCurve:
        """Return the curve with a plan found otherwise, if its last point is better than that."""
        last = self.points[-1]
        if self.term is None or not better(last.terms, point.terms, tuple(last.terms)):
            return self
        return replace(self, points=tuple(_rising([*self.points, point])))

    def first_with(self, share: float) -> MovePoint:
        """Return the point of fewest moves that has a share of the gain of all moves."""
        whole = self.gain(self.points[-1])
        return next(p for p in self.points if self.gain(p) >= share * whole)


@dataclass(frozen=True, slots=True)
class WithinMoves:
    """The best plan found that moves no more than a number of jobs.

    Parameters
    ----------
    allowed
        Jobs that may migrate or be preempted, together.
    point
        The plan, of the round that the placement leads to.
    terms
        The terms that are bounded for all plans with so many moves: the first one, and later ones
        as long as the plan is the one that was solved for.
    """

    allowed: int
    point: MovePoint
    terms: tuple[TermResult, ...]


def has_moves(round_: Round) -> bool:
    """Whether the plans of a round can be cut into stages.

    Those of policy `gang` can, without cells and backfilling, by which jobs have to start at once.
    """
    return (
        round_.policy.spec is GANG
        and round_.policy.backfill is None
        and not any(tenant.cells for tenant in round_.tenants)
    )


class Moves:
    """The moves that improve a valid placement of a round of policy `gang`.

    Parameters
    ----------
    round_, plan
        A round and a plan that `verify` accepts for it.
    time_limit, backend, isolation
        As for `solve_round`, of each search.
    """

    def __init__(
        self,
        round_: Round,
        plan: Plan,
        *,
        time_limit: float | None = None,
        backend: str = "auto",
        isolation: Isolation = "process",
    ) -> None:
        valid = round_.valid_part()
        self.round = _with_disruption(
            apply_plan(valid, plan.without_jobs(round_.invalid), restart_s={})
        )
        self._time_limit, self._backend, self._isolation = time_limit, backend, isolation

    @cached_property
    def curve(self) -> MoveCurve:
        """The curve, of the best plan found without a limit on moves."""
        solved = self._unlimited
        prefixes = Prefixes(self.round, solved)
        chosen = sorted(_spread(prefixes.last_stages, MOST_POINTS))
        results = () if solved.certificate is None else solved.certificate.terms
        points = _rising([prefixes.placement, *map(prefixes.point, chosen), prefixes.whole])
        term = next((t for t, v in points[-1].terms.items() if v != points[0].terms[t]), None)
        if term is None:
            return MoveCurve(self.round, tuple(points), (), results)
        curve = MoveCurve(self.round, tuple(points), prefixes.stages, results, term)
        for share in SHARES:
            points = _rising([*points, *_refine(prefixes, curve, share)])
        return replace(curve, points=tuple(points))

    def within(self, allowed: int) -> WithinMoves:
        """Return the best plan found that migrates and preempts at most so many jobs together.

        That is the best of the plan found under a budget of so many moves, cut where it has more,
        and of what is known of the curve.
        """
        solved = self._solve(_within(self.round, allowed))
        cut = Prefixes(self.round, solved, allowed)
        found = [cut.whole] if cut.whole.moves <= allowed else [cut.best()]
        if "curve" in self.__dict__:
            found += [point for point in self.curve.points if point.moves <= allowed]
            found.append(Prefixes(self.round, self._unlimited, allowed).best())
        best = found[0]
        for other in found[1:]:
            best = other if better(other.terms, best.terms, tuple(best.terms)) else best
        results = () if solved.certificate is None else solved.certificate.terms
        kept = results if best.terms == cut.whole.terms else results[:1]
        return WithinMoves(allowed, best, kept)

    @cached_property
    def _unlimited(self) -> Plan:
        return self._solve(self.round)

    def _solve(self, round_: Round) -> Plan:
        return solve_round(
            round_,
            time_limit=self._time_limit,
            backend=self._backend,
            isolation=self._isolation,
        )


def _rising(points: Sequence[MovePoint | None]) -> list[MovePoint]:
    """Return those points, by moves, that are better than all with as many moves or fewer."""
    found: list[MovePoint] = []
    for point in sorted((p for p in points if p is not None), key=lambda p: p.moves):
        if not found:
            found.append(point)
        elif better(point.terms, found[-1].terms, tuple(point.terms)):
            if found[-1].moves == point.moves and len(found) > 1:
                found.pop()
            found.append(point)
    return found


def _refine(prefixes: Prefixes, curve: MoveCurve, share: float) -> Iterator[MovePoint]:
    """Yield points with fewer moves that have a share of the curve's gain, by bisection."""
    goal = share * curve.gain(curve.points[-1])
    first = curve.first_with(share)
    low = max((p.moves for p in curve.points if curve.gain(p) < goal), default=-1)
    between = [i for i in prefixes.last_stages if low < prefixes.moved[i] < first.moves]
    while between:
        middle = between[len(between) // 2]
        point = prefixes.point(middle)
        if point is not None:
            yield point
        if point is not None and curve.gain(point) >= goal:
            between = between[: len(between) // 2]
        else:
            between = between[len(between) // 2 + 1 :]


def _spread(stages: Sequence[int], most: int) -> set[int]:
    """Return all stages, or so many at even distances, the first and the last among them."""
    if len(stages) <= most:
        return set(stages)
    return {stages[k * (len(stages) - 1) // (most - 1)] for k in range(most)}


def _with_disruption(round_: Round) -> Round:
    """Return a round in which no job moves for nothing: `disruption` is a term, the last if new."""
    terms = round_.policy.terms
    if DISRUPTION in terms:
        return round_
    policy = round_.policy.model_copy(update={"terms": (*terms, DISRUPTION)})
    return round_.model_copy(update={"policy": policy})


def _within(round_: Round, allowed: int) -> Round:
    """Return a round with a disruption budget of so many migrated and so many preempted jobs."""
    limits = round_.policy.limits or PolicyLimits()
    budget = limits.disruption or DisruptionLimits()

    def least(known: int | None) -> int:
        return allowed if known is None else min(known, allowed)

    budget = budget.model_copy(
        update={
            "migrated_jobs": least(budget.migrated_jobs),
            "preempted_jobs": least(budget.preempted_jobs),
        }
    )
    limits = limits.model_copy(update={"disruption": budget})
    policy = round_.policy.model_copy(update={"limits": limits})
    return round_.model_copy(update={"policy": policy})
