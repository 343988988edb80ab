"""Set packing by priority class: the highest class first, then the next (lexicographic).

Up to `max_enumerated_columns` columns there is one program per class, with a row for each higher
class that holds the value reached:

    max  sum_q value(k, q) x_q
    s.t. sum_q value(i, q) x_q >= held(i)      for each class i before k
         the rows of the packing problem

With more columns classes are weighted, and a bound B of the weighted sum of the classes up to k
bounds class k by weak duality, whatever the higher ones have reached:

    w(k) value(k)  <=  B - sum over i before k of w(i) value(i)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from placewright.array_types import Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    Grouping,
    GroupingBound,
    PackingProblem,
)
from placewright.formulations.interleaving.set_packing.columns import (
    Columns,
    count_columns,
    enumerate_columns,
    values_by_class,
)
from placewright.formulations.interleaving.set_packing.integer_program import (
    Held,
    SetPackingProgram,
    greedy,
    solve_program,
)
from placewright.formulations.interleaving.set_packing.job_classes import (
    AggregatedProblem,
    merge_classes,
)
from placewright.formulations.interleaving.set_packing.solve import solve_set_packing
from placewright.formulations.session import Session


def solve_by_class(packing: PackingProblem, session: Session) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings, each lexicographically of more value by class, and bounds of each class."""
    number = len(packing.rules.class_weights)
    if number == 1:
        yield from solve_set_packing(packing, session)
        return
    best: tuple[int, ...] | None = None
    programs = _ClassPrograms.of(packing)
    for k in range(number):
        if k and best is None:
            return
        if programs is None:
            part = session.part(1 / (number - k))
            steps = _solve_weighted(packing, k, part)
        else:
            steps = programs.solve(k, best or (), session)
        for found in steps:
            if isinstance(found, GroupingBound):
                yield found
                continue
            value = class_values(packing, found)
            if best is None or value > best:
                best = value
                yield found


def bound_by_class(
    packing: PackingProblem, values: Sequence[int], session: Session, numbers: Sequence[int]
) -> Iterator[GroupingBound]:
    """Yield bounds of some classes, where those before each have at least these values."""
    programs = _ClassPrograms.of(packing)
    for k in numbers:
        if programs is None:
            steps = _solve_weighted(packing, k, session.part(1 / (numbers[-1] - k + 1)))
        else:
            steps = programs.solve(k, values, session)
        yield from (found for found in steps if isinstance(found, GroupingBound))


def class_values(packing: PackingProblem, grouping: Grouping) -> tuple[int, ...]:
    """Return the value of a grouping by priority class."""
    return tuple(values_by_class(packing, grouping.members).sum(axis=1).tolist())


class _ClassPrograms:
    """The columns of a packing problem, and its program for each priority class."""

    def __init__(self, aggregated: AggregatedProblem) -> None:
        self._aggregated = aggregated
        self._columns = enumerate_columns(aggregated.packing)
        self._values: Ints = values_by_class(aggregated.packing, self._columns.members)

    @classmethod
    def of(cls, packing: PackingProblem) -> _ClassPrograms | None:
        """Return the programs; None if there are too many columns."""
        aggregated = merge_classes(packing)
        most = parameters.PARAMETERS.max_enumerated_columns
        return cls(aggregated) if count_columns(aggregated.packing) <= most else None

    def solve(
        self, k: int, held: Sequence[int], session: Session
    ) -> Iterator[Grouping | GroupingBound]:
        """Yield groupings and bounds of a class, those before it at the values held."""
        packing, members = self._aggregated.packing, self._columns.members
        kept = [Held(self._values[i], held[i]) for i in range(k)]
        if not k:
            for grouping in greedy(SetPackingProgram.of(packing, self._columns)):
                yield self._aggregated.disaggregate(grouping)
        for found in solve_program(packing, Columns(members, self._values[k]), session, kept):
            if isinstance(found, Grouping):
                yield self._aggregated.disaggregate(found)
            else:
                yield replace(found, class_weights=(0,) * k + (1,), held=tuple(held[:k]))


def _solve_weighted(
    packing: PackingProblem, k: int, session: Session
) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings and bounds of the weighted sum of the classes up to one."""
    weights = packing.rules.class_weights
    rest = (0,) * (len(weights) - k - 1)
    rules = replace(packing.rules, class_weights=(*weights[: k + 1], *rest))
    for found in solve_set_packing(replace(packing, rules=rules), session):
        if isinstance(found, Grouping):
            yield found
        else:
            yield replace(found, class_weights=weights[: k + 1])
