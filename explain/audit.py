"""The audit of a placement, whoever made it.

Valid or not, how far each term is from its proven bound, what moves would buy, and how fragmented
what is free is.
"""

from __future__ import annotations

from dataclasses import dataclass

from placewright.explain.gpu_links import LinkAudit, audit_links
from placewright.explain.move_curve import MoveCurve, Moves, WithinMoves, has_moves
from placewright.explain.places import Fragmentation, fragmentation_of, is_measured
from placewright.instances.checks.round import checked
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.instances.verify import Verification, verify
from placewright.rounds import prove_bounds
from placewright.rounds.backfill.queue import KIND, without_reservations
from placewright.rounds.settings import Isolation
from placewright.rounds.state.changes import apply_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What is found of a placement.

    Parameters
    ----------
    verification
        The rules that it breaks, and its terms as recomputed; a certificate is not read.
    terms
        Each term with its proven bound and gap, the bounds of later terms with the earlier ones
        held at the placement's values; () if it breaks a rule.
    curve
        What moves would buy; None if the placement breaks a rule, or `has_moves` says no.
    within
        The best plan found with the moves asked for, if any were.
    placed, moved
        Fragmentation as the placement leaves it, and after all moves of the curve and their starts;
        None where it is not measured.
    links
        How the GPUs of tasks are joined, and what moves would repair; None if no links differ.
    """

    verification: Verification
    terms: tuple[TermResult, ...] = ()
    curve: MoveCurve | None = None
    within: WithinMoves | None = None
    placed: Fragmentation | None = None
    moved: Fragmentation | None = None
    links: LinkAudit | None = None

    @property
    def ok(self) -> bool:
        """Whether the placement breaks no rule."""
        return self.verification.placement_ok


def audit(
    round: Round,  # noqa: A002
    plan: Plan,
    *,
    moves: int | None = None,
    time_limit: float | None = None,
    backend: str = "auto",
    isolation: Isolation = "auto",
) -> Audit:
    """Judge a placement.

    Parameters
    ----------
    round, plan
        A round, and any plan for it, also one that another scheduler made: without reservations of
        its own none are asked for.
    moves
        Also look for the best plan that moves at most so many jobs.
    time_limit, backend, isolation
        As for `solve_round`, of each search: for bounds, for moves, for points of the curve, for
        the best plan with so many `moves`, and for moves that repair links.
    """
    round = _as_planned(checked(round), plan)  # noqa: A001
    verification = verify(round, plan.model_copy(update={"certificate": None}))
    if not verification.placement_ok:
        return Audit(verification=verification)
    plan = plan.completed(round.names)
    terms = prove_bounds(round, plan, time_limit=time_limit, backend=backend, isolation=isolation)
    curve = within = placed = moved = running = None
    if has_moves(round):
        search = Moves(round, plan, time_limit=time_limit, backend=backend, isolation=isolation)
        curve, running = search.curve, search.round
        if moves is not None:
            within = search.within(moves)
            curve = curve.with_point(within.point)
    if is_measured(round):
        led_to = apply_plan(round.valid_part(), plan.without_jobs(round.invalid), restart_s={})
        placed = fragmentation_of(led_to)
        if curve is not None and len(curve.points) > 1:
            moved = fragmentation_of(apply_plan(led_to, curve.points[-1].plan, restart_s={}))
    links = audit_links(
        round, plan, running, time_limit=time_limit, backend=backend, isolation=isolation
    )
    return Audit(
        verification=verification,
        terms=terms,
        curve=curve,
        within=within,
        placed=placed,
        moved=moved,
        links=links,
    )


def _as_planned(round_: Round, plan: Plan) -> Round:
    """Return a round whose policy asks for reservations only if the plan has some."""
    if round_.policy.backfill is None or any(s["kind"] == KIND for s in plan.sections):
        return round_
    return without_reservations(round_)
