"""From a problem to candidates and bounds, the quick ones first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from placewright.formulations.replicas.annealing import Annealing
from placewright.formulations.replicas.bounds import MANY_COPIES, bounds, relaxed_replicas
from placewright.formulations.replicas.carrying import carry, too_large
from placewright.formulations.replicas.draft import Draft
from placewright.formulations.replicas.dropping import balanced
from placewright.formulations.replicas.exact import exact, is_small
from placewright.formulations.replicas.following import follow
from placewright.formulations.replicas.guides import guide
from placewright.formulations.replicas.neighbours import Neighbours
from placewright.formulations.replicas.placing import greedy
from placewright.formulations.replicas.problem import Problem
from placewright.formulations.replicas.whole import MOST_COPIES
from placewright.formulations.session import Bound, Candidate, Session
from placewright.formulations.wan.compile import Bools
from placewright.solver.arrays import Floats

RARELY = 10.0
"""A plan is shown while showing takes at most one part in so many of the search's time."""

RESERVE = 2.0
"""Time kept for the last plan, in times of what showing one took."""

ANNEALING, SEARCHING = 0.2, 0.5
"""Shares of the time for the two ways to search; the rest is for bounds."""

RUNS, EACH, MANY = 4, 0.5, 1000
"""Problems of so many workloads are annealed several times, each for so much of that time."""

CROSSING = 0.5
"""Time to cross what two runs came to, in times of a run.

What several runs take more than one is taken from the second search.
"""

GUIDED = 0.04
"""Share of the time for annealing where points of the program are searched."""

PROVING, LATER = 0.35, 0.15
"""Shares of it for bounds: where all replicas are made whole for them, and where they are not."""

GUIDES = 0.85
"""Share of the time of the second way for points of the program."""

CHOOSING, SOONER = 0.6, 0.35
"""Of what is left then, for homes among them; neighbourhoods make up for what that misses.

Less where the annealed draft overloads something, and is crossed with what is chosen.
"""

FOLLOWING = 0.3
"""Of it, for annealing what is not rounded, where the largest datasets are."""

RELAXING = 0.15
"""Share of the time left that the search may wait for a relaxation."""

PARTS = 2000
"""Parts that are decided anew, at most."""


def run(problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
    """Yield plans, a greedy one first, and bounds.

    A small problem is solved exactly; the plan is then optimal in all terms if no copy of it was
    refused by the links. A large one is annealed, and then searched in neighbourhoods.
    """
    yield from Relocation(problem, session).steps()


class Relocation:
    """The steps of one round."""

    def __init__(self, problem: Problem, session: Session) -> None:
        self.problem, self.session = problem, session
        self._draft: Draft
        self._refused = np.zeros_like(problem.now)

    @cached_property
    def _too_large(self) -> Bools:
        """Copies (groups, regions) that links cannot carry even alone."""
        return too_large(self.problem)

    @property
    def _copies(self) -> int:
        """The number of copies that could be made."""
        fresh = self.problem.may_hold & ~self.problem.now
        return int(fresh[self.problem.group].sum())

    def steps(self) -> Iterator[Candidate | Bound]:
        """Yield candidates and bounds."""
        yield self._candidate(greedy(self.problem, copying=False), "as it lies")
        draft = greedy(self.problem)
        yield self._candidate(draft, "greedy")
        if not self.session.expired():
            yield from self._bettering(draft)
        # What needs no solver is proven even then.
        yield from bounds(self.problem, self.session, dict(self.session.best or {}))

    def _bettering(self, draft: Draft) -> Iterator[Candidate | Bound]:
        """Yield what comes of a greedy draft in the time that is left."""
        if is_small(self.problem):
            yield from self._exact(draft)
        elif self.problem.workloads:
            seconds = self.session.remaining()
            copies = self._copies
            if copies <= MANY_COPIES:
                reserve = (PROVING if copies <= MOST_COPIES else LATER) * seconds
                yield from self._anneal(draft, GUIDED * seconds, reserve, runs=1)
                yield from self._guided(reserve)
            else:
                reserve = (1 - ANNEALING - SEARCHING) * seconds
                runs = RUNS if self.problem.workloads >= MANY else 1
                yield from self._anneal(draft, ANNEALING * seconds, reserve, runs)
                yield from self._search(self._relaxed(), reserve)

    def _exact(self, draft: Draft) -> Iterator[Candidate | Bound]:
        """Solve the whole; what links refuse is left out the next time, until nothing is."""
        self._refused = np.zeros_like(self.problem.now)
        while True:
            before = self._refused.copy()
            for step in exact(self.problem, self.session, draft, before):
                yield step if isinstance(step, Bound) else self._candidate(step, "exact")
            if (self._refused == before).all() or self.session.expired():
                break

    def _anneal(
        self, draft: Draft, seconds: float, reserve: float, runs: int
    ) -> Iterator[Candidate]:
        """Anneal, all large copies refused that links cannot carry even alone.

        What was refused of the greedy draft was so beside other copies, and may do beside others.
        After the first of several runs, what comes out is crossed with the best.
        """
        problem, session = self.problem, self.session
        self._refused = self._too_large.copy()
        each = seconds if runs == 1 else EACH * seconds
        for run in range(runs):
            if run and session.expired(reserve + (1 + CROSSING) * each):
                break
            may_hold = problem.may_hold & ~self._refused
            annealing = Annealing(problem, draft, may_hold, session.seed + run)
            found, before = annealing.run(session, each), self._draft
            if not run:
                yield self._candidate(found, "annealing")
                continue
            best, other = sorted((before, found), key=lambda draft: draft.rank(problem))
            search = Neighbours(problem, session, best, None)
            search.learn(best, self._refused)
            if search.cross(other.replicas, CROSSING * each) or best is found:
                yield self._candidate(search.draft, "crossing")
                if before.rank(problem) < self._draft.rank(problem):
                    self._draft = before

    def _guided(self, reserve: float) -> Iterator[Candidate]:
        """Choose among replicas that a point of the program has, then search on from there.

        What was refused beside what annealing copies may do beside what the point does.
        """
        problem, session, annealed = self.problem, self.session, self._draft
        self._refused = self._too_large.copy()
        seconds = GUIDES * (session.remaining() - reserve)
        guided = guide(problem, session, annealed, self._refused, seconds)
        if session.expired(reserve):
            return
        if guided is None:
            yield from self._search(self._relaxed(), reserve)
            return

        def left() -> float:
            return max(0.0, session.remaining() - reserve)

        def rank(draft: Draft) -> tuple[int, int, int]:
            return draft.rank(problem)

        chosen: Draft | None
        if guided.rounded.any():
            found = follow(problem, session, guided, annealed, self._refused, FOLLOWING * left())
            chosen = min(found, annealed, key=rank)
        else:
            chosen = self._chosen(guided.replicas, annealed, left)
        if chosen is not None and rank(chosen) < rank(annealed):
            yield self._bettered(chosen, "branching")
            chosen = None
        yield from self._search(guided.replicas.astype(np.float64), reserve, chosen)

    def _chosen(self, replicas: Bools, annealed: Draft, left: Callable[[], float]) -> Draft | None:
        """Return a draft with replicas among these (groups, regions), if one is found in time."""
        crossing = bool(annealed.rank(self.problem)[0])
        search = Neighbours(self.problem, self.session, annealed, None)
        search.learn(annealed, self._refused)
        chosen = search.choose(replicas, (SOONER if crossing else CHOOSING) * left())
        if chosen is None:
            return None
        search.learn(chosen, self._refused)
        search.fit(CHOOSING * left())
        if crossing:
            search.cross(annealed.replicas, CHOOSING * left())
        return search.draft

    def _search(
        self, relaxed: Floats | None, reserve: float, start: Draft | None = None
    ) -> Iterator[Candidate]:
        """Search on from the last candidate, or from a start, and tell of progress now and then."""
        problem = self.problem
        search = Neighbours(problem, self.session, self._draft, relaxed)
        search.learn(self._draft if start is None else start, self._refused)
        cost, told, better = 0.0, time.monotonic(), False
        for number, found in enumerate(search.steps(reserve)):
            better |= found and search.draft.rank(problem) < self._draft.rank(problem)
            over = number >= PARTS or self.session.expired(reserve + RESERVE * cost)
            due = not self.session.deterministic and time.monotonic() - told > RARELY * cost
            if better and (over or due):
                began = time.monotonic()
                yield self._bettered(search.draft, "search")
                search.learn(self._draft, self._refused)
                told, better = time.monotonic(), False
                cost = told - began
            if over:
                break
        if better:
            yield self._bettered(search.draft, "search")

    def _relaxed(self) -> Floats | None:
        """Return the replicas (groups, regions) of a relaxation that is no worse than the draft."""
        problem = self.problem
        overload, remote_reads, _ = self._draft.rank(problem)
        found = relaxed_replicas(problem, self.session, overload, remote_reads, RELAXING)
        if found is None:
            return None
        replicas = np.zeros(problem.now.shape)
        replicas[problem.group] = found
        return replicas

    def _bettered(self, draft: Draft, source: str) -> Candidate:
        """Return a candidate; the search goes on from what was there if links leave it worse."""
        before = self._draft
        candidate = self._candidate(draft, source)
        self._draft = min(self._draft, before, key=lambda draft: draft.rank(self.problem))
        return candidate

    def _candidate(self, draft: Draft, source: str) -> Candidate:
        draft = balanced(self.problem, draft)
        self._draft, plan, refused = carry(self.problem, draft, self._refused)
        self._refused |= refused
        return Candidate({}, source, final=True, data=plan)
