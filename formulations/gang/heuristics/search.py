"""The state of a portfolio search, when it may stop, and the values that it searches by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TypeAlias

from placewright.formulations.common.phases import SearchState
from placewright.formulations.common.priority_classes import (
    PriorityClass,
    classes_by_term,
    classes_close_enough,
)
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.solve import (
    PricedModel,
    later_bounds,
    relax_term_by_term,
)
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import complete, repair_disruptions
from placewright.formulations.gang.placement.placement import Placement, placement_of
from placewright.formulations.gang.problem.jobs import Choice
from placewright.formulations.gang.problem.limits import CLASS_VALUES, PROGRESS, VALUE
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import SHARPNESS, Bound, Candidate, near
from placewright.formulations.session import Session
from placewright.solver import Outcome

# When a search may stop: the first term, or each priority class, is proven within the gap.


def close_enough(problem: Problem, session: Session, placement: Placement) -> bool:
    """Whether the value of a placement is proven within the gap asked for."""
    if not _classes_first(problem):
        return session.close_enough(placement.value)
    return classes_close_enough(session, placement.class_values, _classes(problem))


def best_close_enough(problem: Problem, session: Session) -> bool:
    """Whether the first term of the best plan is proven within the gap, or each priority class."""
    if session.best is None:
        return False
    if not _classes_first(problem):
        return session.close_enough(session.best[problem.terms[0]])
    return classes_close_enough(session, session.best, _classes(problem))


def _classes(problem: Problem) -> dict[str, PriorityClass]:
    return classes_by_term(VALUE, problem.priority_classes)


def _classes_first(problem: Problem) -> bool:
    return problem.terms[0] == CLASS_VALUES[0]


# Weighted scalarisation of `entitled`: an entitled option is worth many times its value.
#
# In the scalarised round an entitled job displaces borrowers, unless these are worth as many times
# more. Its bounds do not hold for the round asked.


def scalarise_entitled(problem: Problem) -> Problem:
    """Return the round with `value` as its only term, and entitled options worth far more."""
    weight = parameters.PARAMETERS.insertion.entitled_weight
    classes = tuple(
        replace(
            job_class,
            choices=tuple(
                replace(choice, value=choice.value * (weight if choice.entitled else 1), weight=1)
                for choice in job_class.choices
            ),
        )
        for job_class in problem.classes
    )
    return replace(problem, classes=classes, terms=(VALUE,), priority_classes=(), class_weights=())


# Lexicographic scalarisation of `value` and `progress` into one value per option.
#
# Displacement and exchange look at `value` alone. So the first of the two terms is multiplied by
# more than the second can amount to, and the second is added. Bounds of the scalarised round do
# not hold for the round asked.


MAX_SCALARISED_VALUE = 1 << 50
"""Above this a sum of worths is no longer exact in floating point."""


def scalarise_progress(problem: Problem) -> Problem | None:
    """Return the round with one worth as its only term; None where `progress` is no part of it."""
    leading = [*takewhile(lambda term: term in (VALUE, PROGRESS), problem.weighted_terms)]
    if PROGRESS not in leading:
        return None
    weight = 1
    if len(leading) > 1:
        weight += _largest_difference(problem, leading[1])
        if weight * _largest_difference(problem, leading[0]) > MAX_SCALARISED_VALUE:
            return None

    def worth(choice: Choice) -> int:
        parts = {VALUE: choice.value, PROGRESS: choice.progress}
        second = parts[leading[1]] if len(leading) > 1 else 0
        return weight * parts[leading[0]] + second

    classes = tuple(
        replace(
            job_class,
            choices=tuple(
                replace(choice, value=worth(choice), weight=1) for choice in job_class.choices
            ),
        )
        for job_class in problem.classes
    )
    return replace(problem, classes=classes, terms=(VALUE,), priority_classes=(), class_weights=())


def _largest_difference(problem: Problem, term: str) -> int:
    """Return by how much two plans can differ in a term at most."""
    return sum(
        len(job_class.jobs)
        * max(choice.value if term == VALUE else choice.progress for choice in job_class.choices)
        for job_class in problem.classes
    )


# The state of a portfolio search: its phases are constructive and improving heuristics.


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
        if VALUE not in best and not self.problem.class_weights:
            return incumbent  # no term of the round counts it, and a search has no other measure
        if incumbent is not None and incumbent.value >= self.problem.weighted_value(best):
            return incumbent
        return placement_of(self.problem, plan)

    def proven(self, term: str) -> int | None:
        """Return the value of a term of the best plan if its bound equals it, but for rounding."""
        best, bound = self.session.best, self.session.best_known.bounds.get(term)
        if best is None or bound is None or not near(bound, best[term], SHARPNESS):
            return None
        return best[term]

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
