"""The best plan of a small round, and that it is: promises, leases and places decided at once.

Admission counts the GPUs of the current lease, and places are then found for what it has chosen. In
a small round one model decides which choice can be placed.
"""

from __future__ import annotations

from collections.abc import Iterator

from placewright.array_types import Floats
from placewright.formulations.bound_arithmetic import HOLD_SLACK, proven_whole
from placewright.formulations.common.priority_classes import write_out_terms
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.models.integrated.gangs import Gangs, compile_gangs
from placewright.formulations.deadline.models.integrated.model import IntegratedModel
from placewright.formulations.deadline.problem.compile import Admission
from placewright.formulations.deadline.problem.current_lease import PLACES
from placewright.formulations.deadline.problem.priorities import (
    ADMITTED,
    BEST_EFFORT,
    priority_classes,
)
from placewright.formulations.deadline.problem.problem import BROKEN, NONE, Schedule
from placewright.formulations.gang.models.host.expand import start_jobs
from placewright.formulations.gang.models.host.model import num_task_variables
from placewright.formulations.gang.placement.assignment import assign_gpus, preemptor_of
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.policies import sense_of, term_of


def solve_integrated(
    admission: Admission, session: Session
) -> Iterator[tuple[Candidate, Schedule] | Bound]:
    """Yield the optimum of one term after another, and claimed bounds.

    An optimum is a plan of the current lease, whose promises are yet to be written down, and the
    schedule that keeps them. Nothing is yielded where the round is too large.
    """
    terms = admission.round.policy.terms
    gangs = compile_gangs(admission, ("value", *(t for t in terms if t in PLACES[1:])))
    leases = admission.problem.alternatives * admission.problem.horizon
    if (
        gangs.problem.labels
        or num_task_variables(gangs.problem) + 2 * leases
        > parameters.PARAMETERS.max_integrated_columns
    ):
        return
    integrated = IntegratedModel(admission, gangs)
    held: list[tuple[str, int]] = []
    start: Floats | None = None
    classes = {
        term: len(priority_classes(admission.round, term)) for term in (ADMITTED, BEST_EFFORT)
    }
    for term in write_out_terms(terms, classes):
        if term == BROKEN and not admission.problem.loss.any():
            continue
        arrays = integrated.model.arrays(term)
        outcome = session.optimise(
            arrays, share=parameters.PARAMETERS.integrated_term_share, gap=0.0, start=start
        )
        if outcome is None:
            return
        bound = outcome.bound
        if bound is not None and term_of(term) in (BROKEN, ADMITTED) and not gangs.evicted:
            yield Bound(term, proven_whole(bound, sense_of(term)), tuple(held))
        if outcome.values is None or outcome.objective is None:
            return
        start = outcome.values
        held.append((term, round(outcome.objective)))
        integrated.model.hold(term, held[-1][1], HOLD_SLACK)
        if term != BROKEN:
            yield _plan(integrated, gangs, start), integrated.schedule(start)


def _plan(integrated: IntegratedModel, gangs: Gangs, values: Floats) -> Candidate:
    """Return the plan of the current lease at a point, without promises."""
    problem = gangs.problem
    placement = Placement(problem, cleared=True)
    start_jobs(integrated.exact, integrated.slots, values, placement)
    found = assign_gpus(placement)
    runs = {gangs.each[g].job for g in found.starts}
    runs |= {gangs.each[g].job for g in problem.running if placement.is_running(g)}
    starts = {
        gangs.each[g].job: (gangs.each[g].options[option], places)
        for g, (option, places) in found.starts.items()
    }
    slots = {gangs.each[g].job: slot for g, slot in found.slots.items()}
    preempted = {}
    for g in problem.running:
        if gangs.each[g].job not in runs:
            by = preemptor_of(problem, g, found.arrivals)
            preempted[gangs.each[g].job] = gangs.each[by].job if by >= 0 else NONE
    preempted |= {j: NONE for j in gangs.evicted if j not in starts}
    return Candidate(starts, "integrated", preempted, slots=slots)
