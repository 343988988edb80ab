"""The audit of a placement, whoever made it: valid or not, and how far from the proven bounds."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.instances.verify import Verification, verify
from placewright.rounds import prove_bounds
from placewright.rounds.settings import Isolation


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
    """

    verification: Verification
    terms: tuple[TermResult, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the placement breaks no rule."""
        return self.verification.ok


def audit(
    round: Round,  # noqa: A002
    plan: Plan,
    *,
    time_limit: float | None = None,
    backend: str = "auto",
    isolation: Isolation = "process",
) -> Audit:
    """Judge a placement: rules, and the distance of each term from its proven bound.

    Parameters
    ----------
    round, plan
        A round, and any plan for it, also one that another scheduler made.
    time_limit, backend, isolation
        As for `solve_round`.
    """
    verification = verify(round, plan.model_copy(update={"certificate": None}))
    if not verification.ok:
        return Audit(verification=verification)
    terms = prove_bounds(round, plan, time_limit=time_limit, backend=backend, isolation=isolation)
    return Audit(verification=verification, terms=terms)
