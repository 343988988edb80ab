"""Heuristics around the set packing: group matching, insertion, packing and placement in turn."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.phases import inner_plans
from placewright.formulations.common.priority_classes import classes_close_enough, precedence_of
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.models import GangRound, build_gang_round
from placewright.formulations.interleaving.placement import (
    HostUsage,
    groups_beyond_budget,
    is_within_budget,
    places_of,
    within_quotas,
)
from placewright.formulations.interleaving.problem.compile import (
    Interleaving,
    group_value,
    job_groups_of,
    kept_values,
    may_form,
    merged_option,
)
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    Grouping,
    GroupingBound,
    PackingProblem,
    allowed,
    grouped_jobs,
    pad_members,
    periods,
)
from placewright.formulations.interleaving.set_packing.columns import group_values, merge_classes
from placewright.formulations.interleaving.set_packing.solve import (
    bound_by_class,
    solve_by_class,
    solve_set_packing,
)
from placewright.formulations.plan_messages import Bound, Candidate, Group, Place
from placewright.formulations.session import Session

# Group matching: running jobs of one class are exchanged between groups, so that fewer must move.
#
# Greedy matching of job groups with places, by the number of running jobs in common.


def match_running_groups(
    problem: Interleaving, packing: PackingProblem, sets: Sequence[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """Return job groups of equal value in which more running jobs keep their partners.

    `packing`: the packing problem of which the sets were made, in which running jobs are no other's
    equal. `sets`: job groups, by the indices of their jobs in the round.

    Notes
    -----
    Greedy: the pair of a job group and a place that have most in common is settled first.
    """
    class_of = _class_of_running(problem, packing)
    if len(set(class_of.values())) == len(class_of):
        return list(sets)
    chosen = {j for job_group in sets for j in job_group if j in class_of}
    places = list(dict.fromkeys(problem.colocated[j] for j in chosen))
    demand = [Counter(class_of[j] for j in job_group if j in class_of) for job_group in sets]
    new = [[j for j in job_group if j not in class_of] for job_group in sets]
    matched: set[int] = set()
    used: set[int] = set()
    for job_group, place in _pairs_by_overlap(
        demand, [[class_of[j] for j in p if j in chosen] for p in places]
    ):
        if job_group in matched or place in used:
            continue
        matched.add(job_group)
        used.add(place)
        for j in places[place]:
            if j in chosen and demand[job_group][class_of[j]]:
                demand[job_group][class_of[j]] -= 1
                new[job_group].append(j)
                chosen.remove(j)
    rest: defaultdict[int, list[int]] = defaultdict(list)
    for j in sorted(chosen, reverse=True):
        rest[class_of[j]].append(j)
    for mine, left in zip(new, demand, strict=True):
        mine += [rest[job_class].pop() for job_class in left.elements()]
    return [tuple(mine) for mine in new]


def _class_of_running(problem: Interleaving, packing: PackingProblem) -> dict[int, int]:
    """Return the class of each running job: jobs of one class are interchangeable."""
    of = merge_classes(packing).of.tolist()
    return {j: of[c] for c, j in enumerate(problem.jobs) if j in problem.colocated}


def _pairs_by_overlap(
    demand: Sequence[Counter[int]], in_place: Sequence[Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of a job group and a place, those with most jobs in common first."""
    common: Counter[tuple[int, int]] = Counter()
    with_class: defaultdict[int, list[int]] = defaultdict(list)
    for job_group, classes_of_group in enumerate(demand):
        for job_class in classes_of_group:
            with_class[job_class].append(job_group)
    for place, classes in enumerate(in_place):
        for job_class, number in Counter(classes).items():
            for job_group in with_class[job_class]:
                common[job_group, place] += min(number, demand[job_group][job_class])
    yield from sorted(common, key=lambda pair: (-common[pair], pair))


# Insertion: waiting jobs join placed job groups, where that gains value.
#
# So a plan whose groups did not all find a place, or in which running groups stay, uses what is
# left.


def insert_waiting(free: Interleaving, candidate: Candidate) -> Candidate | None:
    """Return a plan in which waiting jobs are inserted in job groups; None if none can.

    `free`: the round of the candidate; jobs that stay are those that are pinned, and their mates.
    """
    jobs = free.round.jobs
    waiting = [
        c
        for c, j in enumerate(free.jobs)
        if free.packing.bucket[c] != ALONE and jobs[j].running is None and j not in candidate.starts
    ]
    if not waiting:
        return None
    insertion = _Insertion(free, candidate)
    weight = free.packing.weight
    waiting.sort(key=lambda c: (-jobs[free.jobs[c]].priority, -int(weight[c])))
    changed = [c for c in waiting if insertion.insert(c)]
    found = insertion.candidate()
    # Rows count the least that any option takes.
    return found if changed and within_quotas(free, found.starts, found.preempted) else None


@dataclass(slots=True)
class _PlacedGroup:
    """A placed job group: its classes in ascending order, its places and its value."""

    classes: Ints
    places: tuple[Place, ...]
    value: int


class _Insertion:
    """State of the insertion: placed groups by bucket, use of hosts, residual rows."""

    def __init__(self, free: Interleaving, candidate: Candidate) -> None:
        self._free, self._candidate = free, candidate
        self._class_of = {j: c for c, j in enumerate(free.jobs)}
        self._groups: defaultdict[int, list[_PlacedGroup]] = defaultdict(list)
        self._usage = HostUsage(free)
        self._residual = free.packing.limit.copy()
        colocated = {j: group for group in candidate.groups for j in group.members}
        stopped = {place[2] for j in candidate.preempted for place in places_of(free, j)}
        for j, job in enumerate(free.round.jobs):
            members = colocated[j].members if j in colocated else (j,)
            if j != members[0] or j in candidate.preempted:
                continue
            if job.running is None and j not in candidate.starts:
                continue
            start = candidate.starts.get(j)
            places = places_of(free, j) if start is None else start[1]
            option = job.running.option if job.running else candidate.starts[j][0]
            mates = [free.round.jobs[mate] for mate in members]
            merged = merged_option(mates, free.sharing) if len(mates) > 1 else job.options[option]
            self._usage.add(merged, places)
            if j in free.stays:
                continue
            classes = np.array(sorted(self._class_of[mate] for mate in members), dtype=np.int64)
            self._residual -= free.packing.usage(pad_members(classes[None]))[0]
            # Beside a stopped job only those of higher priority arrive.
            undisturbed = stopped.isdisjoint(place[2] for place in places)
            if option == 0 and undisturbed and members not in free.frozen_groups:
                now = group_value(free, colocated.get(j) or Group(members, (0,), 0))
                self._groups[int(free.packing.bucket[classes[0]])].append(
                    _PlacedGroup(classes, places, now)
                )

    def insert(self, c: int) -> bool:
        """Insert a waiting class into the group where it gains most, if any."""
        packing = self._free.packing
        if (packing.per_member[:, c] > self._residual).any():
            return False
        placed_groups = self._groups[int(packing.bucket[c])]
        gains: list[tuple[int, int]] = []
        for size in range(1, packing.max_members):
            some = [
                n
                for n, placed_group in enumerate(placed_groups)
                if len(placed_group.classes) == size
            ]
            if some:
                members = np.sort(
                    np.column_stack(
                        [[*(placed_groups[n].classes for n in some)], np.full(len(some), c)]
                    )
                )
                period = periods(packing, members)
                gain = group_values(packing, members, period) - [
                    placed_groups[n].value for n in some
                ]
                accepted = (
                    (gain > 0)
                    & allowed(packing, members, period)
                    & self._without_conflict(c, members)
                )
                gains += [(int(gain[k]), some[k]) for k in np.flatnonzero(accepted)]
        return any(self._try_insert(c, placed_groups[n]) for _, n in sorted(gains, reverse=True))

    def candidate(self) -> Candidate:
        """Return the plan of the present state."""
        starts = dict(self._candidate.starts)
        sets = []
        for placed_group in (
            placed_group
            for placed_groups in self._groups.values()
            for placed_group in placed_groups
        ):
            members = tuple(self._free.jobs[c] for c in placed_group.classes.tolist())
            for j in members:
                if self._free.round.jobs[j].running is None:
                    starts.setdefault(j, (0, placed_group.places))
            if len(members) > 1:
                sets.append(members)
        mine = {j for members in sets for j in members}
        others = tuple(g for g in self._candidate.groups if not mine.intersection(g.members))
        groups = (*others, *job_groups_of(self._free, sets))
        source = f"{self._candidate.source}, insertion"
        return replace(self._candidate, starts=starts, groups=groups, source=source)

    def _try_insert(self, c: int, placed_group: _PlacedGroup) -> bool:
        jobs = self._free.round.jobs
        before = [jobs[self._free.jobs[k]] for k in placed_group.classes.tolist()]
        merged = merged_option(before, self._free.sharing)
        self._usage.add(merged, placed_group.places, -1)
        new = jobs[self._free.jobs[c]]
        after = merged_option([*before, new], self._free.sharing)
        fits = self._usage.admits(new.options[0].required, after, placed_group.places)
        self._usage.add(after if fits else merged, placed_group.places)
        if fits:
            use = self._free.packing.usage
            self._residual += use(pad_members(placed_group.classes[None]))[0]
            placed_group.classes = np.sort(np.append(placed_group.classes, c))
            placed_group.value = self._value(placed_group.classes)
            self._residual -= use(pad_members(placed_group.classes[None]))[0]
        return fits

    def _value(self, classes: Ints) -> int:
        packing = self._free.packing
        return int(group_values(packing, classes[None], periods(packing, classes[None]))[0])

    def _without_conflict(self, c: int, members: Ints) -> Bools:
        """Return in which groups no member conflicts with a class, bool (groups,)."""
        conflicts = self._free.packing.conflicts
        conflicting_pairs = conflicts[(conflicts == c).any(axis=1)]
        in_conflict: Bools = np.asarray(
            np.isin(members, conflicting_pairs[conflicting_pairs != c]).any(axis=1)
        )
        return ~in_conflict


# Packing and placement in turn: set packing chooses groups, a gang round places them.
#
# Where groups find no place, rows are tightened to what did, and the jobs are packed anew (a
# heuristic cutting loop). Running jobs stay, or may move; those of low priority may be preempted.


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
