"""Packing and placement in turn: set packing chooses groups, a gang round places them.

Where groups find no place, rows are tightened to what did, and the jobs are packed anew (a
heuristic cutting loop). Running jobs stay, or may move; those of low priority may be preempted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import add

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.common.inner_rounds import inner_plans
from placewright.formulations.common.priority_classes import classes_close_enough, precedence_of
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.heuristics.group_matching import match_running_groups
from placewright.formulations.interleaving.heuristics.insertion import insert_waiting
from placewright.formulations.interleaving.models.as_gangs import GangRound, build_gang_round
from placewright.formulations.interleaving.placement.disruption_budget import (
    groups_beyond_budget,
    is_within_budget,
)
from placewright.formulations.interleaving.problem.compile import (
    Interleaving,
)
from placewright.formulations.interleaving.problem.frozen_groups import may_form
from placewright.formulations.interleaving.problem.job_groups import job_groups_of, kept_values
from placewright.formulations.interleaving.problem.option_classes import grouped_jobs
from placewright.formulations.interleaving.problem.packing_problem import (
    Grouping,
    GroupingBound,
    PackingProblem,
)
from placewright.formulations.interleaving.set_packing.by_class import (
    bound_by_class,
    solve_by_class,
)
from placewright.formulations.interleaving.set_packing.solve import solve_set_packing
from placewright.formulations.plan_messages import Bound, Candidate, Group
from placewright.formulations.session import Session


class PackingSearch:
    """Set packing and placement, in turn; running jobs stay, or may move."""

    def __init__(self, problem: Interleaving, free: Interleaving, session: Session) -> None:
        self._session = session
        self._problem, self._free = problem, free
        round_ = problem.round
        self._staying = staying(self._problem)
        self._terms = problem.priorities.terms
        kept = [kept_values(problem, job_group) for job_group in self._staying]
        self._constant = [sum(one[k] for one in kept) for k in range(len(self._terms))]
        self._proofs: list[GroupingBound] = []
        running = [round_.jobs[j].running is not None for j in self._problem.of_class]
        # The gang formulation decides which jobs to preempt, within its rules.
        self._packing = replace(self._problem.packing, must_cover=np.array(running, dtype=bool))
        self._holds = (("disruption", 0),) if round_.policy.terms[0] == "disruption" else ()

    def steps(self) -> Iterator[Candidate | Bound]:
        """Yield plans and bounds, first of plans without preemption."""
        packing = self._problem.packing
        exact = bool((self._packing.must_cover == packing.must_cover).all())
        yield from self._search(self._packing, proves=exact)
        if exact or self._finished():
            return
        yield from self._search(packing, proves=True)
        for preemptible in self._with_preemption():
            if self._finished():
                return
            yield from self._search(preemptible, proves=False)

    def _finished(self) -> bool:
        """Whether the best plan is close enough, or time is up."""
        session, classes = self._session, self._problem.priorities.classes
        first = self._problem.round.policy.terms[0]
        if session.best is None or first != self._problem.objective:
            enough = False
        elif classes:
            by_term = dict(zip(self._terms, classes, strict=True))
            enough = classes_close_enough(session, session.best, by_term)
        else:
            enough = session.close_enough(session.best[first])
        return enough or session.proven or session.expired()

    def _with_preemption(self) -> Iterator[PackingProblem]:
        """Yield problems in which running jobs up to a precedence may be preempted.

        The others may join later.
        """
        jobs = self._problem.round.jobs
        levels = [precedence_of(jobs[j]) for j in self._problem.of_class]
        number = {level: k for k, level in enumerate(sorted({*levels}))}
        rank = np.array([number[level] for level in levels])
        running = self._packing.must_cover
        for limit in np.unique(rank[running])[: parameters.PARAMETERS.num_preemption_levels]:
            new = running | (rank > limit)
            if (new & ~running).any():
                count = np.where(new, self._packing.count, 0)
                yield replace(self._packing, must_cover=running & (rank > limit), count=count)

    def bounds(self) -> Iterator[Bound]:
        """Yield the bounds of the set packing alone."""
        if self._problem.priorities.classes:
            yield from self.class_bounds(0)
            return
        for found in solve_set_packing(self._problem.packing, self._session):
            if isinstance(found, GroupingBound):
                yield self._bound(found)

    def _search(self, packing: PackingProblem, *, proves: bool) -> Iterator[Candidate | Bound]:
        """Yield plans; and bounds of the first packing, if it `proves` any.

        Jobs are grouped anew while some groups find no place.
        """
        for _ in range(parameters.PARAMETERS.max_packings):
            best: Grouping | None = None
            for found in solve_by_class(packing, self._session):
                if isinstance(found, Grouping):
                    best = found
                elif proves:
                    yield self._bound(found)
            if best is None or self._finished():
                return
            found_place = yield from self._place_as_gangs(best)
            if found_place is None or self._finished():
                return
            tighter = self._tighten_rows(packing, best, found_place)
            if tighter is None:
                return
            packing, proves = tighter, False

    def class_bounds(self, first: int) -> Iterator[Bound]:
        """Yield bounds of the classes from one on, those before each at the best plan's values."""
        best, known = self._session.best, self._session.best_known
        if best is None or known.proven:
            return
        weighted = [found for found in self._proofs if not found.held and found.class_weights[1:]]
        yield from map(self._bound, weighted)
        if weighted:
            return
        unproven = [
            k
            for k, term in enumerate(self._terms[first:], first)
            if known.bounds.get(term) != best[term]
        ]
        reached = self._reached(best)
        for found in bound_by_class(self._problem.packing, reached, self._session, unproven):
            yield self._bound(found)

    def _bound(self, found: GroupingBound) -> Bound:
        """Return the bound of a class, the higher ones held; see `GroupingBound.of_class`."""
        self._proofs.append(found)
        k, terms, best = len(found.class_weights) - 1, self._terms, self._session.best
        held = found.held if best is None or found.held or not k else self._reached(best)[:k]
        value = float(found.of_class(held) + self._constant[k])
        reached = zip(terms, map(add, held, self._constant), strict=False)
        return Bound(terms[k], value, (*self._holds, *reached), found.certified)

    def _reached(self, best: Mapping[str, int]) -> list[int]:
        """Return the values of a plan by class, without what stays."""
        return [best[term] - more for term, more in zip(self._terms, self._constant, strict=True)]

    def _place_as_gangs(self, grouping: Grouping) -> Generator[Candidate, None, Bools | None]:
        """Yield plans of the groups as gangs; return which columns the last one places."""
        sets = match_running_groups(self._problem, self._packing, self._job_sets(grouping))
        gangs = self._gangs_within_budget(sets)
        placed: frozenset[int] | None = None
        for found in inner_plans(gangs.round, self._session, gangs.compile()):
            lifted = gangs.lift(found)
            if lifted is not None:
                yield lifted
                more = insert_waiting(self._free, lifted)
                if more is not None and is_within_budget(self._problem, more):
                    yield more
            placed = frozenset(
                j
                for number, (job_group, anchor) in enumerate(
                    zip(gangs.job_groups, gangs.anchors, strict=True)
                )
                if number in found.starts or (anchor is not None and number not in found.preempted)
                for j in job_group.members
            )
        return None if placed is None else np.array([placed.issuperset(jobs) for jobs in sets])

    def _gangs_within_budget(self, sets: Sequence[tuple[int, ...]]) -> GangRound:
        """Return the groups as gangs; of those that would move too many jobs, members part."""
        problem, left = self._problem, list(sets)
        while True:
            others = self._running_without_group(set().union(*left))
            gangs = build_gang_round(problem, job_groups_of(problem, left + others), self._staying)
            beyond = groups_beyond_budget(problem, gangs.job_groups, gangs.anchors)
            if not beyond:
                return gangs
            parting = {gangs.job_groups[number].members for number in beyond}
            kept = [mine for mine in left if tuple(sorted(mine)) not in parting]
            if len(kept) == len(left):
                # Others have to move for these: then no running job joins a group.
                kept = [mine for mine in left if problem.colocated.keys().isdisjoint(mine)]
            gone = set().union(*left).difference(*kept) - problem.colocated.keys()
            left = kept + [(j,) for j in sorted(gone)]

    def _job_sets(self, grouping: Grouping) -> list[tuple[int, ...]]:
        """Return the jobs of each column."""
        return grouped_jobs(grouping, self._problem.of_class, self._problem.class_of_job)

    def _running_without_group(self, chosen: Collection[int]) -> list[tuple[int, ...]]:
        """Return running jobs in no column, by place, for the gang round to preempt."""
        problem = self._problem
        left: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for position, j in enumerate(problem.jobs):
            if j in problem.colocated and j not in chosen:
                left[problem.colocated[j]].append(position)
        sets: list[tuple[int, ...]] = []
        for place, positions in left.items():
            mates = tuple(problem.jobs[position] for position in positions)
            classes = np.array(positions, dtype=np.int64)
            if len(mates) == 1 or mates == place or may_form(problem.packing, classes):
                sets.append(mates)
            else:
                sets += [(j,) for j in mates]
        return sets

    def _tighten_rows(
        self, packing: PackingProblem, grouping: Grouping, found: Bools
    ) -> PackingProblem | None:
        """Return the problem with rows tightened that unplaced groups use; None: all placed.

        That leaves capacity to the others.
        """
        if found.all():
            return None
        use = packing.usage(grouping.members)
        needed = (use[~found] > 0).any(axis=0)
        limit = np.where(needed, np.minimum(packing.limit, use[found].sum(axis=0)), packing.limit)
        return replace(packing, limit=limit)


def staying(problem: Interleaving) -> list[Group]:
    """Return the jobs that stay, as job groups."""
    return job_groups_of(problem, {problem.colocated[j] for j in problem.stays})
