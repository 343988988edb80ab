"""Portfolio search: phases in a fixed order, each a constructive or an improving heuristic.

A list of phases is data: `run_phases` goes through it and holds the only check that ends a search.
A phase yields its plans and bounds; what it hands on to later ones stands in `Search`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from placewright.formulations.gang.models.aggregate.column_generation import PricedModel
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.solver import Outcome

Steps: TypeAlias = Iterator[Candidate | Bound]


@dataclass(slots=True)
class Search:
    """The state of a portfolio search.

    Attributes
    ----------
    without
        Names of phases left out, for an ablation.
    greedy
        The first placement, which moves no running job.
    incumbent
        The placement of most value among those that move or stop running jobs.
    reported_value
        Value of the best placement already yielded by a phase of migration.
    models
        Aggregate models still to be tried; `tightest` is the first, and `relaxation` the optimum of
        its linear relaxation for the first term.
    known
        The incumbent with which migration began.
    repacked, improved
        Whether the incumbent comes from repacking, and whether LNS has worked on it.
    evacuated
        The plan that moves no more jobs than it has to.
    finished
        Whether nothing is left to search, though some term is not proven.
    """

    problem: Problem
    session: Session
    without: Collection[str] = ()
    greedy: Placement | None = None
    incumbent: Placement | None = None
    reported_value: float = float("-inf")
    models: Iterator[PricedModel] = field(default_factory=lambda: iter(()))
    tightest: PricedModel | None = None
    relaxation: Outcome | None = None
    known: Placement | None = None
    repacked: bool = False
    improved: bool = False
    evacuated: Candidate | None = None
    finished: bool = False

    @property
    def first(self) -> str:
        """The first term."""
        return self.problem.terms[0]

    def close_enough(self) -> bool:
        """Whether the first term of the best plan is proven within the gap asked for."""
        best = self.session.best
        return best is not None and self.session.close_enough(best[self.first])

    def report(self, placement: Placement, source: str) -> Steps:
        """Yield a placement whose preemptions are lawful as a candidate."""
        repair_preemptions(placement)
        yield assign(placement, source)

    def report_improvement(self, placement: Placement, source: str) -> Steps:
        """Yield a placement worth no less than those yielded before: later terms may be better."""
        if placement.value >= self.reported_value:
            self.reported_value = placement.value
            yield from self.report(placement, source)


def always(_search: Search) -> bool:
    """Apply to every round."""
    return True


@dataclass(frozen=True, slots=True)
class Phase:
    """One heuristic, relaxation or exact search of a portfolio.

    Attributes
    ----------
    name
        How an ablation names it.
    run
        Yields plans and bounds, and may change the `Search`.
    applies
        Whether the round, and what was found so far, call for the phase.
    time_share
        Of the time left, what it may take as a whole. Solves inside have shares of their own.
    needs_time
        Whether it is left out once the deadline has passed.
    needs_gap
        Whether it is left out once the first term is proven within the gap: it serves no later one.
    """

    name: str
    run: Callable[[Search], Steps]
    applies: Callable[[Search], bool] = always
    time_share: float = 1.0
    needs_time: bool = True
    needs_gap: bool = False


def run_phases(phases: Sequence[Phase], search: Search) -> Steps:
    """Run the phases that apply, until all terms are proven or nothing is left to search."""
    for phase in phases:
        session = search.session
        if session.proven or search.finished:
            return
        if phase.name in search.without or not phase.applies(search):
            continue
        if phase.needs_gap and search.close_enough():
            continue
        if phase.needs_time and session.expired():
            continue
        if phase.time_share < 1.0 and not session.deterministic:
            left = session.before_deadline()
            search.session = replace(
                session, deadline=session.deadline - (1 - phase.time_share) * left
            )
        yield from phase.run(search)
        session.wall_stopped |= search.session.wall_stopped
        search.session = session
