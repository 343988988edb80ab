"""The interleaving formulation: groups by set packing, placed as gangs; bounds by the same packing.

Exact for which jobs share GPUs, at which offsets and with which CPU and memory, as far as rows say
what fits on hosts (`problem/capacity_rows.py`); where groups lie is decided by the gang formulation
afterwards. If not all of them find a place, rows are tightened to what did, and the jobs grouped
anew. Where nobody can share GPUs, the gang formulation decides it all
(`models/cpu_memory_knapsack.py`).

References
----------
Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM'22. Groups are chosen
exactly here, where the paper matches greedily.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import islice

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.common.inner_rounds import inner_plans
from placewright.formulations.common.phases import Phase, run_phases
from placewright.formulations.gang.problem.quotas import resources_held
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.heuristics.group_matching import match_running_groups
from placewright.formulations.interleaving.heuristics.insertion import insert_waiting
from placewright.formulations.interleaving.models.as_gangs import (
    GangRound,
    build_gang_round,
    options_alone,
)
from placewright.formulations.interleaving.models.cpu_memory_knapsack import (
    gangs_without_sharing,
    solve_without_sharing,
)
from placewright.formulations.interleaving.problem.compile import (
    OBJECTIVES,
    Interleaving,
    compile_interleaving,
)
from placewright.formulations.interleaving.problem.frozen_groups import may_form
from placewright.formulations.interleaving.problem.job_groups import group_value, job_groups_of
from placewright.formulations.interleaving.problem.option_classes import grouped_jobs
from placewright.formulations.interleaving.problem.residual_capacity import quota_left
from placewright.formulations.interleaving.set_packing.problem import (
    Grouping,
    GroupingBound,
    PackingProblem,
)
from placewright.formulations.interleaving.set_packing.solve import solve_set_packing
from placewright.formulations.plan_messages import Bound, Candidate, Group
from placewright.formulations.session import Session
from placewright.instances.derived.speed import speed
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.topology.units import MILLION


class _Run:
    """What the phases of one run share.

    Attributes
    ----------
    fixed
        The round, if all running jobs stay as they are.
    gangs
        The round of gangs in which every job has its GPUs alone, None if somebody can share them.
    """

    def __init__(self, fixed: Interleaving, session: Session) -> None:
        self.fixed, self.session = fixed, session
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

    Parameters
    ----------
    fixed
        The round, if all running jobs stay as they are.
    session
        Clock and solver, and the service that decides inner rounds of gangs.
    without
        Names of phases to leave out, for an ablation.
    """
    yield from run_phases(PHASES, _Run(fixed, session), session, without)


def _place_alone(state: _Run, session: Session) -> Iterator[Candidate | Bound]:
    """Yield a plan in which no job shares GPUs; all such plans if sharing gains nothing."""
    if state.gangs is not None:
        yield from islice(state.gang_steps(), 1)
        return
    gangs = one_job_per_gang(state.fixed, _within_quotas(state.fixed))
    lifted = (gangs.lift(found) for found in inner_plans(gangs.round, session))
    yield from islice((plan for plan in lifted if plan is not None), 1 if state.shares else None)


def _bound_trivially(state: _Run, _: Session) -> Iterator[Candidate | Bound]:
    """Yield a bound of each term that needs no solver."""
    yield from _trivial_bounds(state.fixed.round)


def _solve_gangs(state: _Run, _: Session) -> Iterator[Candidate | Bound]:
    """Yield what the gang formulation finds and proves where nobody can share GPUs."""
    yield from state.gang_steps()


def _pack_pending(state: _Run, session: Session) -> Iterator[Candidate | Bound]:
    """Yield plans by set packing of pending jobs, beside running ones that stay."""
    search = _PackingSearch(state.fixed, state.free, session)
    yield from (step for step in search.steps() if isinstance(step, Candidate))


def _bound_packing(state: _Run, session: Session) -> Iterator[Candidate | Bound]:
    """Yield bounds of the set packing of all jobs."""
    yield from _PackingSearch(state.free, state.free, session).bounds()


def _pack_all(state: _Run, session: Session) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds by set packing of all jobs, running ones too."""
    yield from _PackingSearch(state.free, state.free, session).steps()


PHASES: tuple[Phase[_Run, Candidate | Bound], ...] = (
    Phase("without sharing", _place_alone),
    Phase("trivial bounds", _bound_trivially),
    Phase("gangs", _solve_gangs, applies=lambda state: state.gangs is not None),
    Phase(
        "packing of pending jobs",
        _pack_pending,
        applies=lambda state: state.shares and (state.runs or not state.objective_first),
    ),
    Phase(
        "packing bounds",
        _bound_packing,
        applies=lambda state: state.shares and not state.objective_first,
    ),
    Phase(
        "packing",
        _pack_all,
        applies=lambda state: (
            state.shares
            and state.objective_first
            and not state.session.proven
            and not state.session.expired()
        ),
    ),
)
"""The order of steps. Each phase may take all the time that is left."""


def one_job_per_gang(fixed: Interleaving, jobs: Iterable[int]) -> GangRound:
    """Return the gang round in which these jobs share with nobody and running jobs stay."""
    return build_gang_round(fixed, job_groups_of(fixed, ((j,) for j in jobs)), staying(fixed))


def compile_with_running_fixed(round_: Round) -> Interleaving:
    """Return the problem of a round in which all running jobs stay."""
    return compile_interleaving(round_, [j for j, job in enumerate(round_.jobs) if job.running])


def _within_quotas(fixed: Interleaving) -> Iterator[int]:
    """Yield pending jobs that may all start within quotas, by priority."""
    jobs = fixed.round.jobs
    left = quota_left(fixed.round, fixed.stays)
    for j in sorted(fixed.jobs, key=lambda j: -jobs[j].priority):
        asked = [
            resources_held(jobs[j].options[option])
            for option in options_alone(fixed.round, jobs[j])
        ]
        mine = [key for key in left if key[0] == jobs[j].tenant]
        most = {key: max(held.get(key[1], 0) for held in asked) for key in mine}
        if all(most[key] <= left[key] for key in mine):
            for key in mine:
                left[key] -= most[key]
            yield j


class _PackingSearch:
    """Set packing and placement, in turn; running jobs stay, or may move."""

    def __init__(self, problem: Interleaving, free: Interleaving, session: Session) -> None:
        self._session = session
        self._problem, self._free = problem, free
        round_ = problem.round
        self._staying = staying(self._problem)
        self._constant = sum(group_value(self._problem, job_group) for job_group in self._staying)
        running = [round_.jobs[j].running is not None for j in self._problem.of_class]
        # Whoever is stopped is stopped by the gangs, where that is lawful.
        self._packing = replace(self._problem.packing, must_cover=np.array(running, dtype=bool))
        self._holds = (("disruption", 0),) if round_.policy.terms[0] == "disruption" else ()

    def steps(self) -> Iterator[Candidate | Bound]:
        """Yield plans and bounds, first of plans that preempt nobody."""
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
        session, first = self._session, self._problem.round.policy.terms[0]
        if session.best is None or first != self._problem.objective:
            enough = False
        else:
            enough = session.close_enough(session.best[first])
        return enough or session.proven or session.expired()

    def _with_preemption(self) -> Iterator[PackingProblem]:
        """Yield problems in which running jobs up to a priority may be preempted.

        The others may join later.
        """
        jobs = self._problem.round.jobs
        priority = np.array([jobs[j].priority for j in self._problem.of_class])
        running = self._packing.must_cover
        for priority_limit in np.unique(priority[running])[
            : parameters.PARAMETERS.num_preemption_levels
        ]:
            new = running | (priority > priority_limit)
            if (new & ~running).any():
                count = np.where(new, self._packing.count, 0)
                yield replace(
                    self._packing, must_cover=running & (priority > priority_limit), count=count
                )

    def bounds(self) -> Iterator[Bound]:
        """Yield the bounds of the set packing alone."""
        for found in solve_set_packing(self._problem.packing, self._session):
            if isinstance(found, GroupingBound):
                yield self._bound(found)

    def _search(self, packing: PackingProblem, *, proves: bool) -> Iterator[Candidate | Bound]:
        """Yield plans; and bounds of the first packing, if it `proves` any.

        Jobs are grouped anew while some groups find no place.
        """
        for _ in range(parameters.PARAMETERS.max_packings):
            best: Grouping | None = None
            for found in solve_set_packing(packing, self._session):
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

    def _bound(self, found: GroupingBound) -> Bound:
        value = float(found.value + self._constant)
        return Bound(self._problem.objective, value, self._holds, found.certified)

    def _place_as_gangs(self, grouping: Grouping) -> Generator[Candidate, None, Bools | None]:
        """Yield plans of the groups as gangs; return which columns the last one places."""
        sets = match_running_groups(self._problem, self._packing, self._job_sets(grouping))
        others = self._running_without_group(set().union(*sets))
        gangs = build_gang_round(
            self._problem, job_groups_of(self._problem, sets + others), self._staying
        )
        placed: frozenset[int] | None = None
        for found in inner_plans(gangs.round, self._session):
            lifted = gangs.lift(found)
            if lifted is not None:
                yield lifted
                more = insert_waiting(self._free, lifted)
                if more is not None:
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

        Then there is room for what the others take.
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


def _trivial_bounds(round_: Round) -> Iterator[Bound]:
    """Yield trivial bounds: each job alone, or as fast as its longest stage allows."""
    for term in round_.policy.terms:
        value = (
            sum(_max_value(job, term, round_) for job in round_.jobs) if term in OBJECTIVES else 0
        )
        yield Bound(term, float(value), certified=True)


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
