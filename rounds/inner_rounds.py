"""Inner rounds: a gang round that is a subproblem of another policy, with verified plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from placewright.formulations.common.priority_classes import classes_by_term
from placewright.formulations.gang import run as gang
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.limits import CLASS_VALUES, VALUE
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.checks.round import trusted
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds.certificate import Bounds, better
from placewright.rounds.decisions import DefaultDecisions, decisions_of
from placewright.rounds.displacement.victims import lawful
from placewright.rounds.sections.moves import move_section
from placewright.rounds.sections.sections import collective_section


def solve_inner_round(
    round_: Round, session: Session, problem: Problem | None = None
) -> Iterator[Candidate | Bound]:
    """Yield bounds and better and better plans of a gang round, until it is proven or time is up.

    Parameters
    ----------
    round_
        A round of policy `gang`.
    session
        That of the whole decision: its best plan and bounds are another round's.
    problem
        What the round compiles to, if that is known. Its priority classes may be those of the whole
        decision.
    """
    problem = compile_round(round_) if problem is None else problem
    inner = replace(session.inner(), has_plan=session.best is not None)
    default_decisions = DefaultDecisions()(round_)
    bounds = Bounds(classes_by_term(VALUE, problem.priority_classes))
    for step in gang.run(problem, inner):
        if isinstance(step, Bound):
            bounds.add(step)
            yield step
        elif (found := lawful(round_, problem.cluster.hosts, step)) is not None:
            decisions = decisions_of(round_, problem.cluster.hosts, default_decisions, found)
            sections = (
                move_section(round_, decisions),
                collective_section(round_, problem.cluster, found),
            )
            plan = Plan.model_construct(
                decisions=decisions, sections=tuple(section for section in sections if section)
            )
            checked = verify(trusted(round_), plan)
            if not checked.ok:
                session.degraded.append(f"{found.source}: invalid plan: {checked.violations[0]}")
            else:
                values = _values(problem, found, checked.terms)
                if inner.best is None or better(values, inner.best, problem.terms):
                    inner.best_known.values = values
                    yield found
        if inner.best is not None:
            bounds.update_session(inner, problem.terms, inner.best)


def _values(problem: Problem, found: Candidate, terms: Mapping[str, int]) -> Mapping[str, int]:
    """Return the terms of a plan by the priority classes of the problem, not of its round."""
    names = problem.value_terms
    if not problem.priority_classes:
        return terms
    sums = dict.fromkeys(names, 0)
    starts = [(j, option, 1) for j, (option, _) in found.starts.items() if j not in problem.running]
    for job, option, sign in [*starts, *((j, None, -1) for j in found.preempted)]:
        choice = problem.choice_of(job, option)
        sums[names[choice.priority_class]] += sign * choice.own_value
    return {**{t: v for t, v in terms.items() if t not in CLASS_VALUES}, **sums}
