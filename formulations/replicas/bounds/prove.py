"""Bounds of the policy `replicas`: what no plan can do better, term by term.

Multipliers of a linear relaxation (`models/relaxation.py`), whatever they are, prove a bound in
whole numbers by weak duality, and so do those of each leaf where replicas are made whole
(`branch_and_bound.py`). What data costs in all is bounded too, with only what comes before both
held (`models/data_access.py`): less the remote reads of a plan, that is a bound of its copies.
`docs/formulations/replicas.md` says what the relaxations leave out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.replicas.bounds.branch_and_bound import Relaxed, relaxed_if_any
from placewright.formulations.replicas.bounds.minimum_remote_reads import among, unavoidable
from placewright.formulations.replicas.bounds.single_dataset import with_least
from placewright.formulations.replicas.bounds.target import (
    FEW_COPIES,
    Question,
    is_large,
    needs_tree,
    probed,
)
from placewright.formulations.replicas.models.data_access import at_hand, where_it_matters
from placewright.formulations.replicas.models.relaxation import Program, program_of
from placewright.formulations.replicas.problem.job_classes import Pool, pool_of
from placewright.formulations.replicas.problem.problem import DATA, HOMELESS, TOGETHER, Problem
from placewright.formulations.replicas.problem.restriction import fewer, largest
from placewright.formulations.session import SHARPNESS, Bound, Session, near
from placewright.solver import Arrays

if TYPE_CHECKING:
    from placewright.formulations.replicas.bounds.replica_tree import Places

Floats: TypeAlias = NDArray[np.float64]

MOST_SERVED = 500_000_000
"""Pairs of regions, for each read of a workload, of which it is known who could read from whom."""

FEW_DATASETS = 200
"""Largest datasets that are relaxed alone first where programs may take too long."""

SOONER = 0.3
"""Share of the time left for that."""

COUNTED = 120
"""Datasets of which it is found what they cost at least, largest first."""

MOSTLY = 0.95
"""Share of the time for bounds of what data costs in all, which end where they are near."""

LAST = 0.05
"""Share of the time that is kept for the terms that no replicas are made whole for."""


def bounds(
    problem: Problem, session: Session, held: Mapping[str, int], places: Places | None = None
) -> Iterator[Bound]:
    """Yield bounds of every term, the quick ones first, and better ones as long as time is left.

    It ends early where all terms of the round's best plan are proven.

    Parameters
    ----------
    held
        Values of a plan by term. Each term is bounded among plans that are no worse in those
        before it.
    places
        A tree of what data costs in all that is there already, at what it holds.
    """
    if is_beyond(problem):
        yield from (Bound(term, 0, certified=True) for term in problem.terms)
        return
    asking = _Asking(problem, session, held)
    yield from asking.at_once()
    if session.expired():
        return
    spare = LAST * session.remaining()
    yield from asking.of_largest()
    whole = asking.in_all(places)
    hard = [] if whole is None else [whole]
    for question in hard:
        yield question.relaxed
    for term in ("overload", *DATA):
        # Where a tree answers it, no more comes of a program of its own.
        answered = whole is not None and whole.grows and term == whole.term
        if not answered and (found := asking.about(term)) is not None:
            yield found.relaxed
            if term in DATA and term in held:
                hard.append(found)
    yield from _better(hard, session, held, spare)
    for term in ("imbalance", "hottest"):
        if (found := asking.about(term)) is not None:
            yield found.relaxed


def is_beyond(problem: Problem) -> bool:
    """Whether a relaxation takes too much memory: then all that is known is that no term is < 0."""
    return len(problem.read_gib) * problem.regions**2 > MOST_SERVED


class _Asking:
    """What is asked of each term beside a plan, and what is proven of it at once."""

    def __init__(self, problem: Problem, session: Session, held: Mapping[str, int]) -> None:
        self.terms, self.session, self.held = problem.terms, session, held
        self.pool = pool_of(problem.wan)
        resting = _resting(self.pool)
        self._proven = {term: resting.get(term, 0) for term in self.terms}
        self._programs: dict[tuple[str, ...], Program] = {}

    def at_once(self) -> Iterator[Bound]:
        """Yield what is lost in every plan, and what a program without data says of load."""
        for term in self.terms:
            yield Bound(term, self._proven[term], certified=True)
        coarse = program_of(fewer(self.pool, np.zeros_like(self.pool.kept)))
        for term in [name for name in ("overload", "hottest") if name in self.terms]:
            found = relaxed_if_any(coarse.arrays(term, {}), self.session)
            if found is not None:
                self._proven[term] = max(self._proven[term], found.bound)
                yield Bound(term, self._proven[term], certified=True)
        if set(DATA) <= set(self.terms):
            first, last = self._data
            yield Bound(last, self._least, certified=True, plus=(first,))

    def of_largest(self) -> Iterator[Bound]:
        """Yield bounds of what the largest data costs alone, where the whole may take too long."""
        for term in self._data if is_large(self.pool) else ():
            if self._reached(term):
                continue
            few, known = self._relevant(term), self._known(term)
            few = fewer(few, largest(few, FEW_DATASETS))
            found = relaxed_if_any(program_of(few).arrays(term, known), self.session, SOONER)
            if found is not None:
                yield Bound(term, found.bound, tuple(known.items()), certified=True)

    def in_all(self, places: Places | None) -> Question | None:
        """Return the question of what data costs in all, with only the terms before both held.

        None without a plan, a solver or time, or where a plan needs no more than what is known.
        """
        if not set(DATA) <= self.held.keys():
            return None
        first, last = self._data
        known = self._known(first)
        goal, holds = float(self.held[first] + self.held[last]), tuple(known.items())
        if near(self._least, goal, SHARPNESS):
            return None
        if places is not None and places.holds == holds:
            same = places.program, places.arrays, places.root
            return Question(*same, goal, last, holds, (first,), places)
        found = _in_all(among(self.pool, known), self.session, known)
        return None if found is None else Question(*found, goal, last, holds, (first,))

    def about(self, term: str) -> Question | None:
        """Return the question of a term of the round; None where all that matters is proven."""
        if term not in self.terms or self.session.proven or self._reached(term):
            return None
        known = self._known(term)
        matters = self._matters(term)
        if matters not in self._programs:
            self._programs[matters] = program_of(self._relevant(term))
        program = self._programs[matters]
        arrays = program.arrays(term, known)
        root = relaxed_if_any(arrays, self.session)
        if root is None:
            return None
        goal = self.held.get(term, np.inf)
        return Question(program, arrays, root, goal, term, tuple(known.items()))

    @property
    def _data(self) -> list[str]:
        """Both terms of data, as far as the round has them, in its order."""
        return [name for name in self.terms if name in DATA]

    @property
    def _least(self) -> int:
        """What data costs in every plan, as far as it is known at once."""
        return sum(self._proven[name] for name in self._data)

    def _known(self, term: str) -> dict[str, int]:
        """Return what the plan has in the terms before one."""
        before = self.terms[: self.terms.index(term)]
        return {name: self.held[name] for name in before if name in self.held}

    def _matters(self, term: str) -> tuple[str, ...]:
        """Return the terms before one by which a pool has less of what could be done."""
        return tuple(name for name in ("overload", "remote_reads") if name in self._known(term))

    def _relevant(self, term: str) -> Pool:
        return among(self.pool, {name: self.held[name] for name in self._matters(term)})

    def _reached(self, term: str) -> bool:
        return near(self._proven[term], self.held.get(term, np.inf), SHARPNESS)


def _better(
    questions: Sequence[Question], session: Session, held: Mapping[str, int], spare: float
) -> Iterator[Bound]:
    """Yield better and better bounds, question by question, in what is left but for some seconds.

    What is proven of data in all is a bound of its last term, too, less the plan's others.
    """
    least: dict[str, int] = {}
    for left, question in zip(range(len(questions), 0, -1), questions, strict=True):
        if session.proven:
            return
        share = max(1 / left, MOSTLY if question.plus else 0.0)
        until = spare + max(0.0, session.remaining() - spare) * (1 - share)
        for step in question.better(session, (1 - LAST) * share, least.get(question.term, 0)):
            yield question.bound(step)
            if question.plus:
                least[question.term] = step.bound - sum(held[name] for name in question.plus)
            late = session.expired(until)
            if late or session.proven or near(step.bound, question.goal, session.gap):
                break


def places_of(
    problem: Problem, session: Session, held: Mapping[str, int], share: float = 1.0
) -> Places | None:
    """Return the tree of what data costs in all, probed.

    None without solver or time, where a relaxation is beyond reach, or where it is no use: where
    few copies could be made, or too many.
    `held`: values of the terms before. The relaxation may take a share of the time left.
    """
    if is_beyond(problem):
        return None
    pool = among(pool_of(problem.wan), held)
    found = _in_all(pool, session, held, share) if needs_tree(pool) else None
    if found is None or session.expired():
        return None
    return probed(*found, tuple(held.items()), session)


def _in_all(
    pool: Pool, session: Session, held: Mapping[str, int], share: float = 1.0
) -> tuple[Program, Arrays, Relaxed] | None:
    """Return the program of what data costs in all, at what is held, and its relaxation.

    Of very large pools only the largest datasets are in it. None without a solver or time, of which
    the relaxation may take a share of what is left.
    """
    if is_large(pool):
        pool, share = fewer(pool, largest(pool, FEW_DATASETS)), SOONER * share
    elif needs_tree(pool):
        pool = with_least(pool, held, session, COUNTED)
    elif int(pool.fresh.sum()) <= FEW_COPIES:
        pool = at_hand(pool, np.ones_like(pool.possible))
    else:
        pool = at_hand(pool, where_it_matters(pool, held, session))
    program = program_of(pool)
    arrays = program.arrays(TOGETHER, held)
    root = relaxed_if_any(arrays, session, share)
    return None if root is None else (program, arrays, root)


def relaxed_replicas(
    problem: Problem, session: Session, held: Mapping[str, int], share: float
) -> Floats | None:
    """Return replicas (datasets, regions) of the relaxation of GiB copied at what is held, or less.

    None if no solver or time is left, of which it may take this share, or if it is beyond reach. Of
    very large problems, only the largest datasets are in it.
    """
    if is_beyond(problem):
        return None
    pool = among(pool_of(problem.wan), held)
    program = program_of(fewer(pool, largest(pool, FEW_DATASETS)) if is_large(pool) else pool)
    found = relaxed_if_any(program.arrays("copies", held), session, share)
    if found is None or found.point is None:
        return None
    return program.replicas(found.point)


def _resting(pool: Pool) -> dict[str, int]:
    """Return what is lost in every plan, for terms that need no program to see some of it.

    That is what jobs cost that cannot have a home, and what cannot but be read from afar.
    """
    return {
        "overload": HOMELESS * int(pool.demand[pool.homeless].sum()),
        "remote_reads": unavoidable(pool),
    }
