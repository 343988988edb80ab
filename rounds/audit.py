"""How good is a plan? Fresh bounds for any valid one, also one that another scheduler made."""

from __future__ import annotations

from placewright.formulations.gang import run as gang
from placewright.formulations.gang.compile import compile_round
from placewright.formulations.session import Bound
from placewright.instances.plan import Plan, TermResult
from placewright.instances.round import Round
from placewright.instances.verify import verify
from placewright.rounds.certificate import Bounds, refuse_beaten
from placewright.rounds.settings import Settings
from placewright.rounds.usage import Meter


def prove_bounds(
    round: Round,  # noqa: A002
    plan: Plan,
    *,
    time_limit: float | None = None,
    backend: str = "auto",
) -> tuple[TermResult, ...]:
    """Prove bounds for a plan's own values, and the gaps that follow.

    Parameters
    ----------
    round, plan
        A round and a plan that `verify` accepts for it; the plan's certificate is not read.
    time_limit, backend
        As for `solve_round`.

    Returns
    -------
    tuple of TermResult
        One per term of the policy; the bounds of later terms hold the earlier ones at the plan's
        values.

    Raises
    ------
    ValueError
        If the plan breaks a rule.
    InternalError
        If the plan beats a certified bound.
    """
    verification = verify(round, plan.model_copy(update={"certificate": None}))
    if not verification.ok:
        raise ValueError(f"the plan breaks a rule: {verification.violations[0]}")
    values = verification.terms
    problem = compile_round(round)
    bounds = Bounds()
    settings = Settings.of(round, time_limit=time_limit, backend=backend)
    with settings.session(Meter()) as session:
        session.best = values
        for step in gang.run(problem, session):
            if isinstance(step, Bound):
                bounds.add(step)
                bounds.tell(session, problem.terms, values)
    results = bounds.results(problem.terms, values)
    refuse_beaten(results, plan)
    return results
