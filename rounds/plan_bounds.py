"""Bounds for any valid plan, also one of another scheduler: how far from optimal it may be."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.formulations.gang import run as gang
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.checks.round import checked
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds.certificate import Bounds, refuse_beaten_bounds, with_status
from placewright.rounds.deciders.base import DECIDERS, Resources
from placewright.rounds.settings import Isolation, Meter, Settings


def prove_bounds(
    round: Round,  # noqa: A002
    plan: Plan,
    *,
    time_limit: float | None = None,
    backend: str = "auto",
    isolation: Isolation = "process",
) -> tuple[TermResult, ...]:
    """Prove bounds for a plan's own values, and the gaps that follow.

    Parameters
    ----------
    round, plan
        A round and a plan whose placement `verify` accepts for it; what the plan says of it is not
        read.
    time_limit, backend, isolation
        As for `solve_round`.

    Returns
    -------
    tuple of TermResult
        One per term of the policy, the bounds of later terms with the earlier ones held at the
        plan's values.

    Raises
    ------
    InvalidInputError
        If the round makes no sense, or an argument is out of its range.
    ValueError
        If the plan breaks a rule.
    InternalError
        If the plan beats a certified bound.
    """
    round = checked(round)  # noqa: A001
    settings = Settings.of(round, time_limit=time_limit, backend=backend, isolation=isolation)
    verification = verify(round, plan.model_copy(update={"certificate": None}))
    if not verification.placement_ok:
        broken = next(found for found in verification.violations if not found.is_statement)
        raise ValueError(f"the plan breaks a rule: {broken}")
    round = round.valid_part()  # noqa: A001
    plan = plan.completed(round.names)
    values = verification.terms
    terms = tuple(values)
    bounds = Bounds(DECIDERS[round.policy.formulation].classes(round))
    resources = Resources(settings, gang.run)
    with resources.session(Meter()) as session:
        session.best_known.values = values
        for step in _steps(round, plan, resources, session):
            if isinstance(step, Bound):
                bounds.add(step)
                bounds.update_session(session, terms, values)
    results = with_status(bounds.results(terms, values), settings.gap)
    refuse_beaten_bounds(results, plan)
    return results


def _steps(
    round_: Round, plan: Plan, resources: Resources, session: Session
) -> Iterator[Candidate | Bound]:
    """Return what proves bounds for plans of the round's policy."""
    return DECIDERS[round_.policy.formulation].bounds(round_, plan, resources, session)
