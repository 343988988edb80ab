"""The state of a portfolio search: its phases are constructive and improving heuristics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from placewright.formulations.common.phases import SearchState
from placewright.formulations.gang.heuristics.stopping import best_close_enough
from placewright.formulations.gang.models.aggregate.column_generation import (
    PricedModel,
)
from placewright.formulations.gang.models.aggregate.term_by_term import (
    later_bounds,
    relax_term_by_term,
)
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.completion import complete
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.from_candidate import placement_of
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import CLASS_VALUES
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.solver import Outcome

Steps: TypeAlias = Iterator[Candidate | Bound]


@dataclass
class Search(SearchState):
    """The state of a portfolio search.

    Attributes
    ----------
    greedy
        The first placement, which moves no running job.
    incumbent
        The placement of most value among those that move or stop running jobs.
    reported_value
        Value of the best placement already yielded by a phase of migration.
    models
        Aggregate models still to be tried; `tightest` is the first, and `relaxation` the optimum of
        its linear relaxation for `first`; `first_relaxation` is for the first term as it is.
    class_relaxation
        That of the last priority class, those above held at theirs.
    known
        The incumbent with which migration began.
    repacked, improved
        Whether the incumbent comes from repacking, and whether LNS has worked on it.
    evacuated
        The plan that moves no more jobs than it has to.
    solved_exactly
        Whether the host-indexed model has had its turn.
    """

    problem: Problem
    greedy: Placement | None = None
    incumbent: Placement | None = None
    reported_value: float = float("-inf")
    models: Iterator[PricedModel] = field(default_factory=lambda: iter(()))
    tightest: PricedModel | None = None
    relaxation: Outcome | None = None
    first_relaxation: Outcome | None = None
    class_relaxation: Outcome | None = None
    known: Placement | None = None
    repacked: bool = False
    improved: bool = False
    evacuated: Candidate | None = None
    solved_exactly: bool = False

    @property
    def first(self) -> str:
        """The first term; `value` for those of priority classes."""
        return self.problem.weighted_terms[0]

    @property
    def has_slices(self) -> bool:
        """Whether there are MIG slices: placements of plans would draw their starts anew."""
        parts = self.problem.part_demands
        return parts is not None and bool(parts.is_slice.any())

    def best_placement(self) -> Placement | None:
        """Return the incumbent, or the placement of the best plan if that is worth more."""
        plan, best, incumbent = self.best_plan, self.session.best, self.incumbent
        if plan is None or best is None or self.has_slices:
            return incumbent
        if incumbent is not None and incumbent.value >= self.problem.weighted_value(best):
            return incumbent
        return placement_of(self.problem, plan)

    def close_enough(self) -> bool:
        """Whether the first term of the best plan, or each priority class, is proven enough."""
        return best_close_enough(self.problem, self.session)

    def has_classes(self) -> bool:
        """Whether there are priority classes, and no term comes before them."""
        return self.problem.terms[0] == CLASS_VALUES[0]

    def relax_classes(self) -> Steps:
        """Solve the relaxation of each priority class, and keep that of the last.

        Patterns that are good for the sum of all classes may be poor for a class.
        """
        if self.tightest is not None:
            self.class_relaxation = yield from relax_term_by_term(
                self.session, *self.tightest, self.problem.value_terms
            )

    def bound_classes(self) -> Steps:
        """Bound the later priority classes, the higher ones held at the best plan's values."""
        if self.tightest is not None:
            yield from later_bounds(self.session, *self.tightest, self.problem.value_terms)

    def report(self, placement: Placement, source: str) -> Steps:
        """Yield a placement whose preemptions are lawful as a candidate, complete."""
        repair_disruptions(placement)
        complete(placement)
        yield assign(placement, source)

    def report_improvement(self, placement: Placement, source: str) -> Steps:
        """Yield a placement worth no less than those yielded before: later terms may be better."""
        if placement.value >= self.reported_value:
            self.reported_value = placement.value
            yield from self.report(placement, source)
