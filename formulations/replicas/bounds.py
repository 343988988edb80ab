"""Bounds of the policy `replicas`: what no plan can do better, term by term.

Multipliers of a linear relaxation (`program.py`), whatever they are, prove a bound in whole numbers
by weak duality, and so do those of each leaf where replicas are made whole (`branching.py`).
What data costs in all is bounded too, with only what comes before both held (`at_hand.py`): less
the remote reads of a plan, that is a bound of its copies.
`docs/formulations/replicas.md` says what the relaxations leave out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.replicas.at_hand import at_hand, where_it_matters
from placewright.formulations.replicas.branching import Proven, relaxed_if_any
from placewright.formulations.replicas.fewer import fewer, largest
from placewright.formulations.replicas.frugal import among, unavoidable
from placewright.formulations.replicas.least import with_least
from placewright.formulations.replicas.pool import Pool, pool_of
from placewright.formulations.replicas.problem import HOMELESS, Problem
from placewright.formulations.replicas.program import TOGETHER, Program, program_of
from placewright.formulations.replicas.question import FEW_COPIES, Question, is_large, probed
from placewright.formulations.replicas.whole import MOST_COPIES
from placewright.formulations.session import SHARPNESS, Bound, Session, near

if TYPE_CHECKING:
    from placewright.formulations.replicas.places import Places

Floats: TypeAlias = NDArray[np.float64]

BRANCHED = ("remote_reads", "copies")
"""Terms for which it matters much that replicas are whole."""

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
    terms = problem.terms
    pool = pool_of(problem.wan)
    proven = {term: _resting(pool).get(term, 0) for term in terms}
    for term in terms:
        yield Bound(term, float(proven[term]), certified=True)
    coarse = program_of(fewer(pool, np.zeros_like(pool.kept)))
    for term in ("overload", "hottest"):
        found = relaxed_if_any(coarse.arrays(term, {}), session) if term in terms else None
        if found is not None:
            proven[term] = max(proven[term], found.bound)
            yield Bound(term, float(proven[term]), certified=True)
    least = sum(proven.get(name, 0) for name in BRANCHED)
    if summed := set(BRANCHED) <= set(terms):
        first, last = (name for name in terms if name in BRANCHED)
        yield Bound(last, float(least), certified=True, plus=(first,))
    if session.expired():
        return

    @cache
    def program_with(names: tuple[str, ...], *, all_data: bool) -> Program:
        part = among(pool, {name: held[name] for name in names})
        return program_of(part if all_data else fewer(part, largest(part, FEW_DATASETS)))

    def known_before(term: str) -> dict[str, int]:
        return {name: held[name] for name in terms[: terms.index(term)] if name in held}

    def matter(known: Mapping[str, int]) -> tuple[str, ...]:
        return tuple(name for name in ("overload", "remote_reads") if name in known)

    spare = LAST * session.remaining()
    # The whole may take longer than there is time.
    for term in [name for name in terms if is_large(pool) and name in BRANCHED]:
        known = known_before(term)
        if near(proven[term], held.get(term, np.inf), SHARPNESS):
            continue
        few = program_with(matter(known), all_data=False)
        found = relaxed_if_any(few.arrays(term, known), session, SOONER)
        if found is not None:
            yield Bound(term, float(found.bound), tuple(known.items()), certified=True)
    whole = _in_all(pool, terms, held, least, session, places) if summed else None
    questions = [] if whole is None else [whole]
    for question in questions:
        yield question.bound(Proven(question.root.bound, certified=True))
    for names in (("overload", *BRANCHED), ("imbalance", "hottest")):
        for term in [name for name in terms if name in names]:
            if session.proven:
                return
            goal = held.get(term, np.inf)
            if near(proven[term], goal, SHARPNESS):
                continue
            if whole is not None and whole.term == term and whole.grows:
                # No more comes of its own program.
                continue
            known = known_before(term)
            program = program_with(matter(known), all_data=True)
            arrays = program.arrays(term, known)
            if (root := relaxed_if_any(arrays, session)) is not None:
                question = Question(program, arrays, root, goal, term, tuple(known.items()))
                yield question.bound(Proven(question.root.bound, certified=True))
                if term in BRANCHED and term in held:
                    questions.append(question)
        least = 0
        for left, question in zip(range(len(questions), 0, -1), questions, strict=True):
            share = max(1 / left, MOSTLY if question.plus else 0.0)
            until = spare + max(0.0, session.remaining() - spare) * (1 - share)
            for step in question.better(session, (1 - LAST) * share, least):
                yield question.bound(step)
                if question.plus:
                    least = step.bound - sum(held[name] for name in question.plus)
                late = not session.deterministic and session.expired(until)
                if late or session.proven or near(step.bound, question.goal, session.gap):
                    break
        questions = []


def _in_all(
    pool: Pool,
    terms: tuple[str, ...],
    held: Mapping[str, int],
    least: int,
    session: Session,
    places: Places | None,
) -> Question | None:
    """Return the question of what data costs in all, with only the terms before both held.

    None without a plan, a solver or time, or where a plan needs no more than the `least` that is
    known. Of very large problems only the largest datasets are in it.
    """
    first, last = (name for name in terms if name in BRANCHED)
    if not {first, last} <= held.keys():
        return None
    known = {name: held[name] for name in terms[: terms.index(first)]}
    goal, holds = float(held[first] + held[last]), tuple(known.items())
    if near(least, goal, SHARPNESS):
        return None
    if places is not None and places.holds == holds:
        same = places.program, places.arrays, places.root
        return Question(*same, goal, last, holds, (first,), places)
    part, large = among(pool, known), is_large(pool)
    if large:
        part = fewer(part, largest(part, FEW_DATASETS))
    elif int(part.fresh.sum()) <= FEW_COPIES:
        part = at_hand(part, np.ones_like(part.possible))
    elif int(part.fresh.sum()) <= MOST_COPIES:
        part = at_hand(part, where_it_matters(part, known, session))
    program = program_of(part)
    arrays = program.arrays(TOGETHER, known)
    root = relaxed_if_any(arrays, session, SOONER if large else 1.0)
    return None if root is None else Question(program, arrays, root, goal, last, holds, (first,))


def places_of(
    problem: Problem, session: Session, held: Mapping[str, int], share: float = 1.0
) -> Places | None:
    """Return the tree of what data costs in all, probed.

    None without solver or time, or where it is no use: where few copies could be made, or too many.
    `held`: values of the terms before. The relaxation may take a share of the time left.
    """
    pool = among(pool_of(problem.wan), held)
    if is_large(pool) or int(pool.fresh.sum()) <= MOST_COPIES:
        return None
    program = program_of(with_least(pool, held, session, COUNTED))
    arrays = program.arrays(TOGETHER, held)
    root = relaxed_if_any(arrays, session, share)
    if root is None or session.expired():
        return None
    return probed(program, arrays, root, tuple(held.items()), session)


def relaxed_replicas(
    problem: Problem, session: Session, held: Mapping[str, int], share: float
) -> Floats | None:
    """Return replicas (datasets, regions) of the relaxation of GiB copied at what is held, or less.

    None if no solver or time is left, of which it may take this share. Of very large problems, only
    the largest datasets are in it.
    """
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
