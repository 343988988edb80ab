"""From a problem to candidates and bounds, the quick ones first."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from placewright.formulations.common.wan.arrays import Bools
from placewright.formulations.replicas.bounds.minimum_remote_reads import only_ways
from placewright.formulations.replicas.bounds.prove import bounds, places_of, relaxed_replicas
from placewright.formulations.replicas.heuristics.drop_replicas import balanced
from placewright.formulations.replicas.heuristics.greedy import Placing, greedy
from placewright.formulations.replicas.heuristics.home_exchange import evened
from placewright.formulations.replicas.heuristics.lns import Neighbours
from placewright.formulations.replicas.heuristics.relax_and_fix import guide
from placewright.formulations.replicas.heuristics.transfer_repair import carry, too_large
from placewright.formulations.replicas.models.integer_program import MOST_COPIES
from placewright.formulations.replicas.models.lexicographic import exact, is_small
from placewright.formulations.replicas.problem.problem import DATA, Problem
from placewright.formulations.replicas.solution import Draft
from placewright.formulations.session import Bound, Candidate, Session
from placewright.solver.arrays import Floats
from placewright.solver.machine_code import MACHINE_CODE

if TYPE_CHECKING:
    from placewright.formulations.replicas.bounds.replica_tree import Places

RARELY = 10.0
"""A plan is shown while showing takes at most one part in so many of the search's time."""

RESERVE = 2.0
"""Time kept for the last plan, in times of what showing one took."""

ANNEALING, FITTING, CROSSING = 0.08, 0.03, 0.06
"""Shares of the time, at most: for annealing once, for homes beside that, and for crossing it."""

EARLY = 0.5
"""Share of the time that must be left for a first plan without copies, if there is any time."""

GRACE = 1.0
"""Seconds after the limit in which copies may still find their ways, and bounds begin."""

TRYING = 0.2
"""Share of the time left in which it is tried what links can carry at all."""

LIKELY = 2
"""Regions that the dataset which matters most may go to, one in each run."""

WAITING = 0.5
"""Share of the time before bounds in which machine code for annealing is waited for."""

RUNS, EVOLVING, SOONER, LONGER = 10, 0.5, 0.15, 0.75
"""How often that is done, and for how much of the time before bounds at most.

Less where points of the program are searched then; longer, and twice as often, where each run sends
the largest data somewhere.
"""

MANY = 1000
"""Workloads from which on no points of the program are searched: annealing is sooner as good."""

PROVING, LATER = 0.42, 0.35
"""Shares of the time for bounds: where such points are searched, and where they are not."""

GUIDES = 0.85
"""Share of the time before bounds for points of the program."""

CHOOSING = 0.6
"""Of what is left then, for homes among them; neighbourhoods make up for what that misses."""

WIDENING = 0.9
"""Of what is left then, for crossing these and the relaxation with the best draft."""

SEEKING = 0.05
"""Share of the time for neighbourhoods after such points."""

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
        self._draft = Placing(problem).draft()
        self._refused = np.zeros_like(problem.now)
        self._places: Places | None = None

    @cached_property
    def _too_large(self) -> Bools:
        """Copies (groups, regions) that links cannot carry even alone."""
        reserve = (1 - TRYING) * self.session.remaining()
        return too_large(self.problem, lambda: self.session.expired(reserve))

    def steps(self) -> Iterator[Candidate | Bound]:
        """Yield candidates and bounds."""
        session = self.session
        if session.deterministic or not session.overdue(-EARLY * session.budget):
            draft = evened(self.problem, greedy(self.problem, copying=False))
            yield self._candidate(draft, "as it lies")
        draft = evened(self.problem, greedy(self.problem))
        yield self._candidate(draft, "greedy")
        if not session.expired():
            yield from self._bettering(draft)
        # What needs no solver is proven even then.
        if not session.overdue(GRACE):
            yield from bounds(self.problem, session, dict(session.best or {}), self._places)

    def _bettering(self, draft: Draft) -> Iterator[Candidate | Bound]:
        """Yield what comes of a greedy draft in the time that is left."""
        problem, session = self.problem, self.session
        seconds = session.remaining()
        if is_small(problem):
            yield from self._exact(draft)
        elif problem.workloads:
            # What was refused beside copies of the greedy draft may do beside others.
            self._refused = self._too_large.copy()
            copies = (problem.may_hold & ~problem.now)[problem.group].sum()
            guiding = copies <= MOST_COPIES and problem.workloads < MANY
            reserve = (PROVING if guiding else LATER) * seconds
            annealing = yield from self._compiled(reserve)
            if annealing:
                yield self._candidate(self._annealed(draft, seconds, 0), "annealing")
            self._places = self._tree() if annealing and not guiding else None
            share = SOONER if guiding else EVOLVING if self._places is None else LONGER
            places = self._places
            with nullcontext() if places is None else places.growing(self._goal):
                if annealing:
                    share *= session.remaining() - reserve
                    yield from self._evolved(draft, seconds, share)
                relaxed = (yield from self._guided(reserve)) if guiding else None
                if relaxed is not None:
                    # What is decided anew then is seldom better, and proofs take the time.
                    reserve = max(reserve, session.remaining() - SEEKING * seconds)
                yield from self._search(self._relaxed() if relaxed is None else relaxed, reserve)

    def _compiled(self, reserve: float) -> Generator[Candidate, None, bool]:
        """Say whether there is machine code to anneal with; search without it until there is.

        For a part of the time at most, of which some seconds are kept.
        """
        session = self.session
        if not MACHINE_CODE.available(session) and MACHINE_CODE.missing is not None:
            late = session.remaining() - WAITING * (session.remaining() - reserve)
            yield from self._search(None, late, lambda: MACHINE_CODE.available(session))
        found = MACHINE_CODE.available(session)
        if MACHINE_CODE.missing is not None:
            session.degraded.append(f"nothing was annealed: {MACHINE_CODE.missing}")
        return found

    def _exact(self, draft: Draft) -> Iterator[Candidate | Bound]:
        """Solve the whole; what links refuse is left out the next time, until nothing is."""
        self._refused = np.zeros_like(self.problem.now)
        while True:
            before = self._refused.copy()
            for step in exact(self.problem, self.session, draft, before):
                yield step if isinstance(step, Bound) else self._candidate(step, "exact")
            if (self._refused == before).all() or self.session.expired():
                break

    def _tree(self) -> Places | None:
        """Return the tree of where the largest data goes, at what the best draft overloads."""
        if self.problem.terms[:3] != ("overload", *DATA):
            return None
        overload, _, _ = self._rank(self._draft)
        return places_of(self.problem, self.session, {"overload": overload}, RELAXING)

    def _goal(self) -> float:
        """Return what data costs in the best plan so far, if it keeps what the tree holds."""
        best = self.session.best or {}
        kept = self._places is not None and dict(self._places.holds).items() <= best.items()
        return float(sum(best[term] for term in DATA)) if kept else np.inf

    def _annealed(self, draft: Draft, seconds: float, run: int) -> Draft:
        """Return what comes of a draft by annealing, in its share of so many seconds.

        Where relaxations say what the dataset that matters most costs in each region, it may only
        go to one where it costs least, a different one from run to run. All homes are decided anew
        beside the replicas in the end: to fill what there is to the last GPU takes many jobs that
        move together.
        """
        # Only here, as it needs a compiler.
        from placewright.formulations.replicas.heuristics.annealing import Annealing

        may_hold = self.problem.may_hold & ~self._refused & ~self._elsewhere(run)
        annealing = Annealing(self.problem, draft, may_hold, self.session.seed + run)
        found = evened(self.problem, annealing.run(self.session, ANNEALING * seconds))
        search = Neighbours(self.problem, self.session, found, None)
        search.learn(found, self._refused)
        search.fit(FITTING * seconds)
        return search.draft

    def _elsewhere(self, run: int) -> Bools:
        """Return copies (groups, regions) that are not made in a run."""
        found = np.zeros_like(self.problem.now)
        first = None if self._places is None else self._places.first()
        if first is not None:
            dataset, regions = first
            group = self.problem.group[dataset]
            found[group] = ~self.problem.now[group]
            found[group, regions[(run - 1) % min(LIKELY, len(regions))]] = False
        return found

    def _evolved(self, draft: Draft, seconds: float, most: float) -> Iterator[Candidate]:
        """Anneal a draft again and again, and cross each outcome with the best.

        For so many seconds at most, of those that there were for all.
        """
        session = self.session
        until = session.remaining() - most
        for run in range(1, RUNS if self._places is None else 2 * RUNS):
            if session.expired(until):
                break
            found = self._annealed(draft, seconds, run)
            found = self._crossed(found, CROSSING * seconds)
            if self._rank(found) < self._rank(self._draft):
                yield self._candidate(found, "crossing")

    def _crossed(self, draft: Draft, seconds: float) -> Draft:
        """Return the better of a draft and the best so far, crossed with the other one."""
        best, other = sorted((self._draft, draft), key=self._rank)
        search = Neighbours(self.problem, self.session, best, None)
        search.learn(best, self._refused)
        search.cross(other.replicas, seconds)
        return search.draft

    def _guided(self, reserve: float) -> Generator[Candidate, None, Floats | None]:
        """Choose among replicas that a point of the program has; return these, None without one.

        Only among these if the point is better than the best draft; then among those of both, and
        what the relaxation has. What links refuse beside copies of that draft may do beside what
        the point does.
        """
        problem, session, before = self.problem, self.session, self._draft
        self._refused = self._too_large.copy()
        seconds = GUIDES * (session.remaining() - reserve)
        guides = guide(problem, session, before, self._refused, seconds) if seconds > 0 else None
        if guides is None:
            return None

        def left(share: float) -> float:
            return share * max(0.0, session.remaining() - reserve)

        search = Neighbours(problem, session, before, None)
        search.learn(before, self._refused)
        if guides.rank < self._rank(before):
            chosen = search.choose(guides.chosen, left(CHOOSING))
            if chosen is not None:
                search.learn(chosen, self._refused)
                search.fit(left(CHOOSING))
                found = self._crossed(search.draft, left(CHOOSING))
                if self._rank(found) < self._rank(before):
                    yield self._candidate(found, "branching")
            search.learn(self._draft, self._refused)
        if search.cross(guides.chosen | guides.relaxed, left(WIDENING)):
            yield self._candidate(search.draft, "branching")
        return guides.chosen.astype(np.float64)

    def _rank(self, draft: Draft) -> tuple[int, int, int]:
        return draft.rank(self.problem)

    def _search(
        self, relaxed: Floats | None, reserve: float, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[Candidate]:
        """Search on from the best draft so far, and tell of progress now and then.

        Until so many seconds are left, or a part after which it is to stop.
        """
        search = Neighbours(self.problem, self.session, self._draft, relaxed)
        search.learn(self._draft, self._refused)
        cost, told, better = 0.0, time.monotonic(), False
        for number, found in enumerate(search.steps(reserve)):
            better |= found and self._rank(search.draft) < self._rank(self._draft)
            late = self.session.expired(reserve + RESERVE * cost)
            over = late or number >= PARTS or stop()
            due = not self.session.deterministic and time.monotonic() - told > RARELY * cost
            if better and (over or due):
                began = time.monotonic()
                yield self._candidate(search.draft, "search")
                search.learn(self._draft, self._refused)
                told, better = time.monotonic(), False
                cost = told - began
            if over:
                break
        if better:
            yield self._candidate(search.draft, "search")

    def _relaxed(self) -> Floats | None:
        """Return the replicas (groups, regions) of a relaxation that is no worse than the draft."""
        problem = self.problem
        if self._places is not None:
            found: Floats | None = self._places.replicas
        else:
            held = dict(zip(("overload", "remote_reads"), self._rank(self._draft), strict=False))
            found = relaxed_replicas(problem, self.session, held, RELAXING)
        if found is None:
            return None
        replicas = np.zeros(problem.now.shape)
        replicas[problem.group] = found
        return replicas

    def _candidate(self, draft: Draft, source: str) -> Candidate:
        """Return a candidate; the search goes on from the best so far, which that need not be."""
        draft = balanced(self.problem, draft)
        grace = GRACE - min(0.0, self.session.before_deadline())
        late = partial(self.session.overdue, grace)
        draft, plan, refused = carry(self.problem, draft, self._refused, late)
        self._draft = min(draft, self._draft, key=self._rank)
        if not is_small(self.problem):
            # Without these a job must read more from afar; beside other copies they may do.
            left = replace(self.problem, may_hold=self.problem.may_hold & ~self._refused)
            refused &= ~only_ways(left)
        self._refused |= refused
        return Candidate({}, source, final=True, data=plan)
