"""What decides a round: a formulation with its problem, and how both speak of the round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Bound, Candidate, Session
from placewright.instances.documents.plan import Decision, Reason
from placewright.instances.documents.round import Round
from placewright.rounds.sections.collectives import collectives_of
from placewright.rounds.sections.move_order import order_of_moves
from placewright.rounds.sections.reasons import reasons_of
from placewright.rounds.sections.shares import shares_after

Formulation: TypeAlias = Callable[[Problem, Session], Iterator[Candidate | Bound]]
"""The gang formulation, or what stands for it from round to round."""


class Decider(Protocol):
    """Decides one round."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts, as places in candidates count them."""
        ...

    @property
    def terms(self) -> tuple[str, ...]:
        """Objective terms, in lexicographic order."""
        ...

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield candidates and bounds of the round."""
        ...

    def reasons(self, candidate: Candidate) -> Mapping[int, Reason]:
        """Return the reason of every pending job that a candidate does not start."""
        ...

    def sections(
        self, candidate: Candidate, decisions: Sequence[Decision]
    ) -> Iterator[dict[str, Any] | None]:
        """Yield the sections of a candidate's plan; None for one that it does not need."""
        ...


class GangDecider:
    """A formulation on a whole round of gangs."""

    def __init__(self, round_: Round, problem: Problem, formulation: Formulation) -> None:
        self._round, self._problem, self._formulation = round_, problem, formulation
        self.hosts = problem.cluster.hosts
        self.terms = problem.terms

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield what the formulation yields."""
        return self._formulation(self._problem, session)

    def reasons(self, candidate: Candidate) -> Mapping[int, Reason]:
        """Return the reason of every pending job that a candidate does not start."""
        return reasons_of(self._problem, candidate)

    def sections(
        self, candidate: Candidate, decisions: Sequence[Decision]
    ) -> Iterator[dict[str, Any] | None]:
        """Yield order of moves, shares and collectives."""
        yield order_of_moves(self._round, decisions)
        yield shares_after(self._problem, candidate)
        yield collectives_of(self._round, self._problem.cluster, candidate)
