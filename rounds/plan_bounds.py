"""How good is a plan? Fresh bounds for any valid one, also one that another scheduler made."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.formulations.cells.run import run_around
from placewright.formulations.gang import run as gang
from placewright.formulations.gang.problem.compile import Compiler, compile_round
from placewright.formulations.replicas.bounds.prove import bounds as bounds_of_data
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.formulations.session import Bound, Candidate, Session
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds.certificate import Bounds, refuse_beaten
from placewright.rounds.policies.cells import base_terms, own_cells, rest_of_plan
from placewright.rounds.policies.deadline import Admitter
from placewright.rounds.policies.geo import Regional
from placewright.rounds.policies.interleaving import Interleaver
from placewright.rounds.settings import Isolation, Settings
from placewright.rounds.usage import Meter


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
        A round and a plan that `verify` accepts for it; the plan's certificate is not read.
    time_limit, backend, isolation
        As for `solve_round`.

    Returns
    -------
    tuple of TermResult
        One per term of the policy, the bounds of later terms with the earlier ones held at the
        plan's values; then one per sum of terms of which something is proven.

    Raises
    ------
    InvalidInputError
        If an argument is out of its range.
    ValueError
        If the plan breaks a rule.
    InternalError
        If the plan beats a certified bound.
    """
    settings = Settings.of(round, time_limit=time_limit, backend=backend, isolation=isolation)
    verification = verify(round, plan.model_copy(update={"certificate": None}))
    if not verification.ok:
        raise ValueError(f"the plan breaks a rule: {verification.violations[0]}")
    values = verification.terms
    terms = tuple(values)
    bounds = Bounds()
    with settings.session(Meter()) as session:
        session.best = values
        for step in _steps(round, plan, settings, session):
            if isinstance(step, Bound):
                bounds.add(step)
                bounds.tell(session, terms, values)
    results = bounds.results(terms, values)
    results = (*results, *bounds.sums(results, values))
    refuse_beaten(results, plan)
    return results


def _steps(
    round_: Round, plan: Plan, settings: Settings, session: Session
) -> Iterator[Candidate | Bound]:
    """Run the formulation on what there is to decide; guaranteed jobs are where the plan says.

    Where data lives is not decided once more: bounds alone take all of the time.
    """
    match round_.policy.formulation:
        case "interleaving":
            return Interleaver(round_).steps(session)
        case "deadline":
            return Admitter(round_).steps(session)
        case "replicas":
            return bounds_of_data(compile_replicas(round_), session, session.best or {})
        case "geo":
            return Regional(round_, settings).steps(session)
    if not own_cells(round_):
        return gang.run(compile_round(round_), session)
    rest = rest_of_plan(round_, plan)
    problem = Compiler()(rest.round, rest.borrowed)
    return run_around(rest, base_terms(rest), gang.run, problem, session)
