"""The interleaving formulation: set packing chooses groups, which are placed as gangs.

Exact for which jobs share GPUs, at which offsets and with which CPU and memory, as far as rows say
what fits on hosts (`problem/capacity.py`); where groups lie is decided by the gang formulation
afterwards. Where nobody can share GPUs, the gang formulation decides it all (`models.py`).

References
----------
Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM'22. Groups are chosen
exactly here, where the paper matches greedily.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from operator import add

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.phases import (
    Phase,
    SearchState,
    inner_plans,
    leaving_out,
    run_phases,
)
from placewright.formulations.common.priority_classes import classes_by_term, classes_close_enough
from placewright.formulations.interleaving.models import (
    GangRound,
    OneArrival,
    build_gang_round,
    gangs_without_sharing,
    has_one_arrival,
    options_alone,
    solve_without_sharing,
)
from placewright.formulations.interleaving.placement import (
    HostUsage,
    groups_beyond_budget,
    is_within_budget,
    places_of,
    within_quotas,
)
from placewright.formulations.interleaving.problem.capacity import amounts_held, quota_left
from placewright.formulations.interleaving.problem.compile import (
    OBJECTIVES,
    Interleaving,
    compile_interleaving,
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
    job_options,
    pad_members,
    periods,
)
from placewright.formulations.interleaving.problem.sharing import (
    TERM,
    jobs_of_class,
    priority_classes,
)
from placewright.formulations.interleaving.set_packing.columns import group_values
from placewright.formulations.interleaving.set_packing.solve import (
    bound_by_class,
    solve_by_class,
    solve_set_packing,
)
from placewright.formulations.plan_messages import Bound, Candidate, Group, Place
from placewright.formulations.session import Session
from placewright.instances.derived.speed import speed
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.topology.units import MILLION

# Insertion: waiting jobs join placed job groups, where that gains value. So a plan whose groups did
# not all find a place, or in which running groups stay, uses what is left.


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


class PackingSearch:
    """Set packing chooses groups, a gang round places them; running jobs stay, or may move."""

    def __init__(self, problem: Interleaving, free: Interleaving, session: Session) -> None:
        self._session = session
        self._problem = problem
        self._free = free
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
        if not exact and not self._finished():
            yield from self._search(packing, proves=True)

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

    def bounds(self) -> Iterator[Bound]:
        """Yield the bounds of the set packing alone."""
        if self._problem.priorities.classes:
            yield from self.class_bounds(0)
            return
        for found in solve_set_packing(self._problem.packing, self._session):
            if isinstance(found, GroupingBound):
                yield self._bound(found)

    def _search(self, packing: PackingProblem, *, proves: bool) -> Iterator[Candidate | Bound]:
        """Yield plans, and bounds of the packing if it `proves` any."""
        best: Grouping | None = None
        for found in solve_by_class(packing, self._session):
            if isinstance(found, Grouping):
                best = found
            elif proves:
                yield self._bound(found)
        if best is not None and not self._finished():
            yield from self._place_as_gangs(best)

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

    def _place_as_gangs(self, grouping: Grouping) -> Iterator[Candidate]:
        """Yield plans of the groups as gangs."""
        problem = self._problem
        gangs = self._gangs_within_budget(
            grouped_jobs(grouping, job_options(problem.round, problem.jobs), problem.class_of_job)
        )
        for found in inner_plans(gangs.round, self._session, gangs.compile()):
            lifted = gangs.lift(found)
            if lifted is not None:
                yield lifted
                more = insert_waiting(self._free, lifted)
                if more is not None and is_within_budget(problem, more):
                    yield more

    def _gangs_within_budget(self, sets: Mapping[tuple[int, ...], int]) -> GangRound:
        """Return the groups as gangs; of those that would move too many jobs, members part.

        `sets`: the members of each group, with their option.
        """
        problem, left = self._problem, list(sets)
        # Without rows of each option the least of each amount has been counted.
        chosen = sets if problem.class_of_job else {}
        while True:
            others = self._running_without_group(set().union(*left))
            groups = job_groups_of(problem, left + others)
            gangs = build_gang_round(problem, groups, self._staying, chosen=chosen)
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


def staying(problem: Interleaving) -> list[Group]:
    """Return the jobs that stay, as job groups."""
    return job_groups_of(problem, {problem.colocated[j] for j in problem.stays})


class _Run(SearchState):
    """What the phases of one run share.

    `fixed`: the round, if all running jobs stay as they are. `gangs`: the round of gangs in which
    every job has its GPUs alone, None if somebody can share them.
    """

    def __init__(self, fixed: Interleaving, session: Session) -> None:
        super().__init__(session)
        self.fixed = fixed
        self.gangs = gangs_without_sharing(fixed.round)
        self._gang_steps: Iterator[Candidate | Bound] | None = None
        terms = fixed.round.policy.terms
        self.shares = self.gangs is None and any(term in OBJECTIVES for term in terms)
        self.objective_first = terms[0] in OBJECTIVES
        self.runs = any(job.running is not None for job in fixed.round.jobs)

    @cached_property
    def free(self) -> Interleaving:
        """The round in which running jobs may move."""
        return compile_interleaving(self.fixed.round) if self.runs else self.fixed

    def gang_steps(self) -> Iterator[Candidate | Bound]:
        """Return what the gang formulation yields where nobody can share GPUs, as one iterator."""
        if self._gang_steps is None and self.gangs is not None:
            self._gang_steps = solve_without_sharing(self.gangs, self.session)
        return iter(()) if self._gang_steps is None else self._gang_steps


def run(
    fixed: Interleaving, session: Session, without: Collection[str] = ()
) -> Iterator[Candidate | Bound]:
    """Yield a plan without new groups, then better ones, and bounds.

    `fixed`: the round, if all running jobs stay as they are. `session`: clock and solver, and the
    service that decides inner rounds of gangs. `without`: names of phases to leave out, for an
    ablation.
    """
    yield from run_phases(PHASES, _Run(fixed, leaving_out(session, without, PHASES)))


def _place_alone(state: _Run) -> Iterator[Candidate | Bound]:
    """Yield a plan in which no job shares GPUs; all such plans if sharing gains nothing."""
    if state.gangs is not None:
        yield from islice(state.gang_steps(), 1)
        return
    alone = job_groups_of(state.fixed, ((j,) for j in _within_quotas(state.fixed)))
    gangs = build_gang_round(state.fixed, alone, staying(state.fixed))
    lifted = (gangs.lift(found) for found in inner_plans(gangs.round, state.session))
    yield from islice((plan for plan in lifted if plan is not None), 1 if state.shares else None)


def _pack_pending(state: _Run) -> Iterator[Candidate | Bound]:
    """Yield plans by set packing of pending jobs, beside running ones that stay."""
    search = PackingSearch(state.fixed, state.free, state.session)
    yield from (step for step in search.steps() if isinstance(step, Candidate))


def _pack_all(state: _Run) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds by set packing of all jobs, running ones too."""
    search = PackingSearch(state.free, state.free, state.session)
    yield from search.steps()
    if state.free.priorities.classes:
        yield from search.class_bounds(1)


PHASES: tuple[Phase[_Run, Candidate | Bound], ...] = (
    Phase("without sharing", _place_alone),
    Phase("trivial bounds", lambda state: _trivial_bounds(state.fixed)),
    Phase("gangs", _Run.gang_steps, applies=lambda state: state.gangs is not None),
    Phase(
        "one arrival",
        lambda state: OneArrival(state.free, state.session).steps(),
        applies=lambda state: state.shares and has_one_arrival(state.free),
    ),
    Phase(
        "packing of pending jobs",
        _pack_pending,
        applies=lambda state: state.shares and (state.runs or not state.objective_first),
    ),
    Phase(
        "packing bounds",
        lambda state: PackingSearch(state.free, state.free, state.session).bounds(),
        applies=lambda state: state.shares and not state.objective_first,
    ),
    Phase(
        "packing",
        _pack_all,
        applies=lambda state: state.shares and state.objective_first,
        needs_time=True,
    ),
)
"""The order of steps. Each phase may take all the time that is left."""


def compile_with_running_fixed(round_: Round) -> Interleaving:
    """Return the problem of a round in which all running jobs stay."""
    return compile_interleaving(round_, [j for j, job in enumerate(round_.jobs) if job.running])


def _within_quotas(fixed: Interleaving) -> Iterator[int]:
    """Yield pending jobs that may all start within quotas and caps, by priority."""
    jobs = fixed.round.jobs
    left = quota_left(fixed.round, fixed.stays)
    for j in sorted(fixed.jobs, key=lambda j: -jobs[j].priority):
        asked = [amounts_held(jobs[j], o, left) for o in options_alone(fixed.round, jobs[j])]
        most = {key: max(held[key] for held in asked) for key in asked[0]}
        if all(amount <= left[key] for key, amount in most.items()):
            for key, amount in most.items():
                left[key] -= amount
            yield j


def _trivial_bounds(fixed: Interleaving) -> Iterator[Bound]:
    """Yield trivial bounds: each job alone, or as fast as its longest stage allows."""
    round_ = fixed.round
    classes = classes_by_term(TERM, priority_classes(round_))
    for term in round_.policy.terms:
        counted: dict[str, Sequence[Job]] = {term: round_.jobs if term in OBJECTIVES else ()}
        if term == TERM and classes:
            counted = {name: jobs_of_class(round_, one) for name, one in classes.items()}
        for name, jobs in counted.items():
            most = sum(_max_value(job, term, round_) for job in jobs)
            yield Bound(name, float(most), certified=True)


def _max_value(job: Job, term: str, round_: Round) -> int:
    """Return the most that a job can add to a term."""
    profile = job.profile
    if term == "efficiency":
        if profile is None:
            return 0
        return max(MILLION, MILLION * sum(profile.stages) // (round_.sharing.slots * profile.alone))
    rates = [speed(job, option) for option in range(len(job.options))]
    if profile is not None:
        rates.append(rates[0] * profile.alone // max(profile.stages))
    return max(rates) * (job.weight if term == "weighted_throughput" else 1)
