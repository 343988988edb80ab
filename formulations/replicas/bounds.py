"""Bounds of the policy `replicas`: what no plan can do better, term by term.

Multipliers of a linear relaxation (`program.py`), whatever they are, prove a bound in whole numbers
by weak duality, and so do those of each leaf where replicas are made whole (`branching.py`).
`docs/formulations/replicas.md` says what the relaxations leave out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.replicas.branching import (
    Proven,
    Relaxed,
    branched,
    copies_of,
    relaxed_if_any,
)
from placewright.formulations.replicas.fewer import fewer, largest
from placewright.formulations.replicas.frugal import among, unavoidable
from placewright.formulations.replicas.least import with_least
from placewright.formulations.replicas.pool import Pool, pool_of
from placewright.formulations.replicas.problem import HOMELESS, Problem
from placewright.formulations.replicas.program import TOGETHER, Program, program_of
from placewright.formulations.replicas.whole import MOST_COPIES, Whole
from placewright.formulations.session import SHARPNESS, Bound, Session, near
from placewright.formulations.wan.compile import Bools
from placewright.solver import Arrays

if TYPE_CHECKING:
    from placewright.formulations.replicas.places import Places

Floats: TypeAlias = NDArray[np.float64]

BRANCHED = ("remote_reads", "copies")
"""Terms for which it matters much that replicas are whole."""

FEW_COPIES = 100
"""Copies that could be made up to which branching alone comes to an end."""

MANY_COPIES, FEW_DATASETS = 20_000, 200
"""Copies that could be made from which on the largest datasets are relaxed alone first."""

SOONER = 0.3
"""Share of the time left for that."""

COUNTED = 120
"""Datasets of which it is found how many copies they need at least, largest first."""

NEARER = (0.0199, 0.01, 0.004)
"""How much better than a plan points must be of which is shown that there are none."""

TIGHT = 0.8
"""Part of what a region can store from which on that may matter where replicas are whole."""

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
        A tree of the GiB copied that is there already, at what it holds.
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
    if session.expired():
        return

    @cache
    def program_with(names: tuple[str, ...], *, all_data: bool) -> Program:
        holds = {name: held[name] for name in names}
        if places is not None and all_data and holds == dict(places.holds):
            return places.program
        part = among(pool, holds)
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
    for names in (("overload", *BRANCHED), ("imbalance", "hottest")):
        questions: list[_Question] = []
        for term in [name for name in terms if name in names]:
            if session.proven:
                return
            goal = held.get(term, np.inf)
            if near(proven[term], goal, SHARPNESS):
                continue
            known = known_before(term)
            holds = tuple(known.items())
            question = None
            if places is not None and (term, holds) == ("copies", places.holds):
                same = places.program, places.arrays, places.root
                question = _Question(*same, goal, term, holds, places)
            else:
                program = program_with(matter(known), all_data=True)
                arrays = program.arrays(term, known)
                if (root := relaxed_if_any(arrays, session)) is not None:
                    question = _Question(program, arrays, root, goal, term, holds)
            if question is not None:
                yield question.bound(Proven(question.root.bound, certified=True))
                if term in BRANCHED and term in held:
                    questions.append(question)
        for left, question in zip(range(len(questions), 0, -1), questions, strict=True):
            until = spare + max(0.0, session.remaining() - spare) * (1 - 1 / left)
            for step in question.better(session, (1 - LAST) / left):
                yield question.bound(step)
                late = not session.deterministic and session.expired(until)
                if late or session.proven or near(step.bound, question.goal, session.gap):
                    break


def together(
    problem: Problem, session: Session, overload: int, goal: float = np.inf
) -> Iterator[Proven]:
    """Yield bounds of the GiB read remotely and copied, at this overload or less.

    Claims get better and better; certified bounds after them may be weaker. `goal`: what a plan
    reaches.
    """
    program = program_of(among(pool_of(problem.wan), {"overload": overload}))
    arrays = program.arrays(TOGETHER, {"overload": overload})
    if (root := relaxed_if_any(arrays, session)) is not None:
        yield Proven(root.bound, certified=True)
        holds = (("overload", overload),)
        yield from _Question(program, arrays, root, goal, TOGETHER, holds).better(session, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """A term with others held, what its relaxation says, and what a plan reaches."""

    program: Program
    arrays: Arrays
    root: Relaxed
    goal: float
    term: str
    holds: tuple[tuple[str, int], ...]
    places: Places | None = None

    def bound(self, proven: Proven) -> Bound:
        """Return what is proven as a bound of the term."""
        return Bound(self.term, float(proven.bound), self.holds, proven.certified)

    def better(self, session: Session, share: float) -> Iterator[Proven]:
        """Yield better and better claims in a share of the time left, then certified bounds.

        The latter may be weaker than claims before them.
        """
        best = self.root.bound
        copies = int(self.program.pool.fresh.sum())
        if FEW_COPIES < copies <= MOST_COPIES:
            yield from self._cut_off(session, share)
            return
        if copies > MOST_COPIES and not is_large(self.program.pool):
            until = (1 - share) * session.remaining()
            tree = self.places
            if tree is None:
                tree = _probed(self.program, self.arrays, self.root, self.holds, session)
            yield from tree.claims(self.goal, until)
            return
        for step in branched(self.program, self.arrays, self.root, session, self.goal):
            if step.bound > best or step.certified:
                best = max(best, step.bound)
                yield step

    @property
    def _tight(self) -> Bools:
        """Regions that the relaxation fills, or nearly: (regions,)."""
        pool, point = self.program.pool, self.root.point
        if point is None:
            return np.ones(len(pool.room), dtype=np.bool_)
        held = self.program.replicas(point) * pool.possible
        tight: Bools = pool.wan.size @ held > TIGHT * pool.room
        return tight

    def _cut_off(self, session: Session, share: float) -> Iterator[Proven]:
        """Yield claims that nothing is much better than the goal, then ever nearer ones."""
        pool = self.program.pool
        if self.term == TOGETHER:
            whole = Whole.together(pool, self._tight)
        else:
            # Without rows that hardly matter SCIP is up to three times as fast.
            whole = Whole.of(pool.limited(self._tight))
        numbers = copies_of(self.program, self.root.point).sum(axis=1)
        arrays = whole.arrays(self.term, dict(self.holds), numbers=numbers)
        best = self.root.bound
        for near_by in NEARER:
            cutoff = self.goal * (1 - near_by) if self.goal < np.inf else None
            if session.expired() or (cutoff is not None and cutoff <= best):
                continue
            outcome = session.optimise(
                arrays, share=share, gap=NEARER[-1], cutoff=cutoff, proving=True
            )
            if outcome is None or outcome.bound is None:
                return
            claim = ceil(outcome.bound * (1 - SHARPNESS))
            if claim > best:
                best = claim
                yield Proven(best, certified=False)
            if cutoff is None or outcome.values is not None or outcome.bound < cutoff - 1:
                return


def places_of(
    problem: Problem, session: Session, held: Mapping[str, int], share: float = 1.0
) -> Places | None:
    """Return the tree of GiB copied, probed; None without solver or time, or where it is no use.

    That is where few copies could be made, or too many. `held`: values of the terms before. The
    relaxation may take a share of the time left.
    """
    pool = among(pool_of(problem.wan), held)
    if is_large(pool) or int(pool.fresh.sum()) <= MOST_COPIES:
        return None
    program = program_of(with_least(pool, held, session, COUNTED))
    arrays = program.arrays("copies", held)
    root = relaxed_if_any(arrays, session, share)
    if root is None or session.expired():
        return None
    return _probed(program, arrays, root, tuple(held.items()), session)


def _probed(
    program: Program,
    arrays: Arrays,
    root: Relaxed,
    holds: tuple[tuple[str, int], ...],
    session: Session,
) -> Places:
    # Only here, as it loads a compiler.
    from placewright.formulations.replicas.places import Places

    places = Places(program, arrays, root, holds, session)
    places.probe()
    return places


def relaxed_replicas(
    problem: Problem,
    session: Session,
    overload: int,
    remote_reads: int | None = None,
    share: float = 1.0,
) -> Floats | None:
    """Return replicas (datasets, regions) of the relaxation of GiB copied at what is held, or less.

    It is that of GiB copied and read remotely where no remote reads are said. None if no solver or
    time is left, of which it may take this share. Of very large problems, only the largest datasets
    are in it.
    """
    held, term = {"overload": overload}, TOGETHER
    if remote_reads is not None:
        held["remote_reads"], term = remote_reads, "copies"
    pool = among(pool_of(problem.wan), held)
    program = program_of(fewer(pool, largest(pool, FEW_DATASETS)) if is_large(pool) else pool)
    found = relaxed_if_any(program.arrays(term, held), session, share)
    if found is None or found.point is None:
        return None
    return program.replicas(found.point)


def is_large(pool: Pool) -> bool:
    """Whether the program of a pool may take longer than there is time."""
    return int(pool.fresh.sum()) > MANY_COPIES


def _resting(pool: Pool) -> dict[str, int]:
    """Return what is lost in every plan, for terms that need no program to see some of it.

    That is what jobs cost that cannot have a home, and what cannot but be read from afar.
    """
    return {
        "overload": HOMELESS * int(pool.demand[pool.homeless].sum()),
        "remote_reads": unavoidable(pool),
    }
