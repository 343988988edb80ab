"""Replicas to choose among: a point of the program that SCIP finds, the largest datasets first.

All copies at once are too many to find good points among. So few columns are free at first, those
that an optimum of the relaxation has or nearly has, and only the largest datasets are whole: they
are few, most GiB are theirs, and what is left in parts still tells them what the others will need.
Then these stay as they are, and smaller ones are made whole as well (relax and fix). The smallest
are left to who decides where each job runs: in the program classes of jobs may be split.

References
----------
Pochet and Wolsey, "Production planning by mixed integer programming", Springer 2006, section 3.6.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from placewright.formulations.replicas.branching import Relaxed, relaxed_if_any
from placewright.formulations.replicas.draft import Draft
from placewright.formulations.replicas.pool import pool_of
from placewright.formulations.replicas.problem import Problem
from placewright.formulations.replicas.program import Program
from placewright.formulations.replicas.whole import MOST_COPIES, Choice, Whole, worth_a_try
from placewright.formulations.session import Session
from placewright.formulations.wan.compile import Bools
from placewright.solver import Arrays

LARGEST, LARGER = 0.83, 0.96
"""Shares of all GiB that the datasets have which are made whole first, and then."""

FREE = (-1.0, 0.03, 0.1, 0.3, 9.0)
"""What a copy that is free may cost beyond its worth, in parts of its size.

None costs so much less than it is worth as the first says, or so much more as the last. The first
two are tried, and others where these prove that they have no point.
"""

SHARE = 0.5
"""Of the time left, for each step."""

FIRST = 0.75
"""Of the time left, for a better aim than the last one."""

SETTLED, OPEN = 0.9, 0.1
"""The largest datasets stay as they are after both steps, by their share of all GiB; others are
free as above."""

LOSS = 1.01
"""What the second step may copy, in times of the first: more is not worth a look."""

MORE = 1.01
"""Overload and remote reads that points may have, in times of the least."""

DEARER = 1.1
"""What points may copy that are better before, in times of what the draft does."""

BETTER = 2e-3
"""Points must be better than others like them by so much, relative to them; also the gap."""


def is_branched(problem: Problem) -> bool:
    """Whether the program of a problem is small enough to be branched on."""
    fresh = problem.may_hold & ~problem.now
    return int(fresh[problem.group].sum()) <= MOST_COPIES


def guide(
    problem: Problem, session: Session, draft: Draft, refused: Bools, seconds: float
) -> Bools | None:
    """Return where replicas may be (groups, regions) of plans that copy little.

    None without a point in so many seconds. Its overload is no more than the draft's, and so are
    its remote reads; both are as little as can be if such points are found. If not, it copies less.

    Parameters
    ----------
    refused
        (groups, regions): copies that are not to be made.
    """
    whole = Whole.of(pool_of(problem.wan))
    allowed = whole.program.pool.fresh & ~refused[problem.group]
    end = session.remaining() - seconds
    overload, remote_reads, copies = draft.rank(problem)
    held = {"overload": overload, "remote_reads": remote_reads}
    aims = _aims(whole.program, session, held)
    for k, holds in enumerate(aims):
        left = max(0.0, session.remaining() - end)
        until = session.remaining() - left * (FIRST if k < len(aims) - 1 else 1.0)
        cutoff = copies * (1 - BETTER if holds == held else DEARER)
        copies_worth = _worth(session, whole, holds, allowed, until, cutoff)
        if copies_worth is not None:
            replicas = problem.now.copy()
            np.logical_or.at(replicas, problem.group, copies_worth)
            return replicas
    return None


def _aims(program: Program, session: Session, held: dict[str, int]) -> list[dict[str, int]]:
    """Return what points are to be no worse than, the best first; what is held is the last."""
    aims = [held]
    reads = {"remote_reads": held["remote_reads"]}
    overload = _least(program, session, "overload", reads, held)
    if overload < held["overload"]:
        aims.insert(0, {"overload": overload, **reads})
    first = {"overload": aims[0]["overload"]}
    remote_reads = _least(program, session, "remote_reads", first, held)
    if remote_reads < held["remote_reads"]:
        aims.insert(0, {**first, "remote_reads": remote_reads})
    return aims


def _least(
    program: Program, session: Session, term: str, holds: Mapping[str, int], held: Mapping[str, int]
) -> int:
    """Return about the least of a term at what others hold, no more than is held."""
    if not held[term]:
        return 0
    least = relaxed_if_any(program.arrays(term, holds), session)
    return held[term] if least is None else min(held[term], int(least.bound * MORE))


def _worth(
    session: Session,
    whole: Whole,
    holds: Mapping[str, int],
    allowed: Bools,
    end: float,
    cutoff: float,
) -> Bools | None:
    """Return copies (datasets, regions) to choose among, when so many seconds are left at most."""
    arrays = whole.program.arrays("copies", holds)
    barred = np.zeros(arrays.columns, dtype=np.bool_)
    barred[whole.program.replica[whole.program.pool.fresh & ~allowed]] = True
    arrays = arrays.without_columns(barred)
    root = relaxed_if_any(arrays, session)
    if root is None:
        return None
    fixing = _Fixing(session, whole, holds, allowed, end, arrays, root)
    reached, least = None, 0.0
    for number, beyond in enumerate(FREE):
        if number > 1 and (reached is not None or not fixing.exhausted):
            break
        most = cutoff if reached is None else reached * (1 - BETTER)
        found = fixing.decide(LARGEST, beyond, most)
        if found is not None:
            reached, least = found, beyond
    if reached is None:
        return None
    settled = LARGEST
    for beyond in sorted({FREE[1], max(FREE[1], least)}):
        if fixing.decide(LARGER, beyond, reached * LOSS, LARGEST) is not None:
            settled = SETTLED
            break
    kept = whole.largest(settled)[:, None]
    return np.where(kept, fixing.copied, fixing.copied | fixing.free(max(OPEN, least)))


class _Fixing:
    """A program of which ever more is made whole.

    Attributes
    ----------
    copied : Bools
        (datasets, regions): copies of the last point, by halves at least.
    exhausted : bool
        Whether the last step ended without a point because there is none.
    """

    def __init__(
        self,
        session: Session,
        whole: Whole,
        holds: Mapping[str, int],
        allowed: Bools,
        end: float,
        arrays: Arrays,
        root: Relaxed,
    ) -> None:
        self._session, self._whole, self._end = session, whole, end
        self._holds, self._allowed = holds, allowed
        self._arrays, self._root = arrays, root
        self.copied, self.exhausted = np.zeros_like(allowed), False

    def free(self, beyond: float) -> Bools:
        """Return copies (datasets, regions) that cost so much more than their worth at most.

        It is counted in parts of their size.
        """
        worth = worth_a_try(self._whole.program, self._arrays, self._root, beyond)
        return self._allowed & worth

    def decide(self, large: float, beyond: float, most: float, kept: float = 0.0) -> float | None:
        """Make the largest datasets whole, and return the GiB copied; None without a point.

        Parameters
        ----------
        large, kept
            Shares of all GiB of what is whole, and of what stays as it is.
        beyond
            As in `free`.
        most
            GiB that may be copied.
        """
        self.exhausted = False
        left = self._session.remaining() - self._end
        if left <= 0:
            return None
        whole, stays = self._whole, self._whole.largest(kept)[:, None]
        free = (self.free(beyond) | self.copied) & ~stays
        choice = Choice(free, self.copied & stays, whole.largest(large))
        outcome = self._session.optimise(
            whole.arrays("copies", self._holds, choice),
            share=SHARE * left / self._session.remaining(),
            gap=BETTER,
            cutoff=most,
        )
        if outcome is None or outcome.values is None:
            bound = None if outcome is None else outcome.bound
            self.exhausted = bound is not None and bound >= most * (1 - BETTER)
            return None
        point = np.append(outcome.values, 0.0)[whole.program.replica]
        self.copied = self._allowed & (point > 0.5)
        return outcome.objective
