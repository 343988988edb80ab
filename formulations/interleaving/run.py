"""The interleaving formulation: groups by set packing, placed as gangs; bounds by the same packing.

Exact for which jobs share GPUs, at which offsets and with which CPU and memory, as far as rows say
what fits on hosts (`problem/capacity.py`); where groups lie is decided by the gang formulation
afterwards. If not all of them find a place, rows are tightened to what did, and the jobs grouped
anew. Where nobody can share GPUs, the gang formulation decides it all
(`models.py`).

References
----------
Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM'22. Groups are chosen
exactly here, where the paper matches greedily.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice

from placewright.formulations.common.phases import (
    Phase,
    SearchState,
    inner_plans,
    leaving_out,
    run_phases,
)
from placewright.formulations.common.priority_classes import classes_by_term
from placewright.formulations.interleaving.heuristics import (
    PackingSearch,
    staying,
)
from placewright.formulations.interleaving.models import (
    GangRound,
    OneArrival,
    build_gang_round,
    gangs_without_sharing,
    has_one_arrival,
    options_alone,
    solve_without_sharing,
)
from placewright.formulations.interleaving.problem.capacity import amounts_held, quota_left
from placewright.formulations.interleaving.problem.compile import (
    OBJECTIVES,
    Interleaving,
    compile_interleaving,
    job_groups_of,
)
from placewright.formulations.interleaving.problem.sharing import (
    TERM,
    jobs_of_class,
    priority_classes,
)
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.derived.speed import speed
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.topology.units import MILLION


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
    gangs = one_job_per_gang(state.fixed, _within_quotas(state.fixed))
    lifted = (gangs.lift(found) for found in inner_plans(gangs.round, state.session))
    yield from islice((plan for plan in lifted if plan is not None), 1 if state.shares else None)


def _bound_trivially(state: _Run) -> Iterator[Candidate | Bound]:
    """Yield a bound of each term that needs no solver."""
    yield from _trivial_bounds(state.fixed)


def _solve_gangs(state: _Run) -> Iterator[Candidate | Bound]:
    """Yield what the gang formulation finds and proves where nobody can share GPUs."""
    yield from state.gang_steps()


def _place_one_arrival(state: _Run) -> Iterator[Candidate | Bound]:
    """Yield the plans of a round in which one job waits and nobody moves, and bounds of all."""
    yield from OneArrival(state.free, state.session).steps()


def _pack_pending(state: _Run) -> Iterator[Candidate | Bound]:
    """Yield plans by set packing of pending jobs, beside running ones that stay."""
    search = PackingSearch(state.fixed, state.free, state.session)
    yield from (step for step in search.steps() if isinstance(step, Candidate))


def _bound_packing(state: _Run) -> Iterator[Candidate | Bound]:
    """Yield bounds of the set packing of all jobs."""
    yield from PackingSearch(state.free, state.free, state.session).bounds()


def _pack_all(state: _Run) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds by set packing of all jobs, running ones too."""
    search = PackingSearch(state.free, state.free, state.session)
    yield from search.steps()
    if state.free.priorities.classes:
        yield from search.class_bounds(1)


PHASES: tuple[Phase[_Run, Candidate | Bound], ...] = (
    Phase("without sharing", _place_alone),
    Phase("trivial bounds", _bound_trivially),
    Phase("gangs", _solve_gangs, applies=lambda state: state.gangs is not None),
    Phase(
        "one arrival",
        _place_one_arrival,
        applies=lambda state: state.shares and has_one_arrival(state.free),
    ),
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
        applies=lambda state: state.shares and state.objective_first,
        needs_time=True,
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
