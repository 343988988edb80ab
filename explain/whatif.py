"""What if: a round with edits, solved from the plan of the round without them."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.explain.comparison import Comparison, compare
from placewright.instances.documents.edits import Edits
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.rounds.settings import Isolation
from placewright.rounds.solve import INTERRUPTED


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer to a question "what if".

    Parameters
    ----------
    round, before
        The round as it is, and its plan.
    round_after, after
        The round with the edits, and its plan.
    comparison
        The difference between the two plans.
    """

    round: Round
    before: Plan
    round_after: Round
    after: Plan
    comparison: Comparison


def whatif(
    round: Round,  # noqa: A002
    edits: Edits,
    *,
    plan: Plan | None = None,
    time_limit: float | None = None,
    gap: float | None = None,
    backend: str = "auto",
    seed: int | None = None,
    deterministic: bool | None = None,
    isolation: Isolation = "process",
) -> WhatIf:
    """Solve a round before and after edits, and compare the two plans.

    Both are solved with the same limits and seed. The second search begins with the first plan as
    far as that suits the edited round, so that what differs is due to the edits; edits that change
    nothing give the same plan.

    Parameters
    ----------
    round
        A round that `check_round` accepts.
    edits
        What is changed.
    plan
        A valid plan of the round; None: it is solved first.
    time_limit, gap, backend, seed, deterministic, isolation
        As for `solve_round`, for each of the two.

    Raises
    ------
    InvalidInputError
        If an edit makes no sense in the round, or an argument is out of its range.
    ValueError
        If the plan breaks a rule.
    KeyboardInterrupt
        After an interrupt before there is a plan of the round; one that comes later ends the second
        search.
    """
    edited = apply_edits(round, edits)

    def solved(one: Round, start: Plan | None) -> Plan:
        return solve_round(
            one,
            time_limit=time_limit,
            gap=gap,
            backend=backend,
            seed=seed,
            deterministic=deterministic,
            isolation=isolation,
            start=start,
        )

    if plan is None:
        plan = solved(round, None)
        if plan.certificate is not None and INTERRUPTED in plan.certificate.degraded:
            raise KeyboardInterrupt
    elif not (found := verify(round, plan)).ok:
        raise ValueError(f"the plan breaks a rule: {found.violations[0]}")
    after = plan if edited == round else solved(edited, plan)
    return WhatIf(round, plan, edited, after, compare(round, plan, edited, after))
