"""What if: a round with edits, solved from the plan of the round without them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Unpack

from placewright.explain.comparison import Comparison, compare
from placewright.explain.search import SearchOptions
from placewright.instances.checks.round import checked
from placewright.instances.documents.edits import Edits
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.rounds.certificate import better
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

    @property
    def interrupted(self) -> bool:
        """Whether the second search was interrupted: with more time its plan may be better."""
        return _is_interrupted(self.after)


class UnfinishedError(KeyboardInterrupt):
    """An interrupt when the round as it is had its plan, `before`, and the edited one had none."""

    def __init__(self, before: Plan) -> None:
        super().__init__()
        self.before = before


def whatif(
    round: Round,  # noqa: A002
    edits: Edits,
    *,
    plan: Plan | None = None,
    gap: float | None = None,
    **search: Unpack[SearchOptions],
) -> WhatIf:
    """Solve a round before and after edits, and compare the two plans.

    Both are solved with the same limits and seed. The second search begins with the first plan as
    far as that suits the edited round, and edits that change nothing give the same plan. If the
    second plan, without the edits, is better than the first, that is searched again from there.
    So what differs is due to the edits, as far as the searches go.

    Parameters
    ----------
    round
        The round as it is.
    edits
        What is changed.
    plan
        A valid plan of the round; None: it is solved first.
    gap, search
        As for `solve_round`, for each of the two: `time_limit`, `backend`, `seed`, `deterministic`
        and `isolation`.

    Raises
    ------
    InvalidInputError
        If an edit makes no sense in the round, or an argument is out of its range.
    ValueError
        If the plan breaks a rule.
    KeyboardInterrupt
        After an interrupt before there is a plan of the round. `UnfinishedError` before there is
        one of the edited round; one that comes later ends the search, and the answer is what is
        known.
    """
    round = checked(round)  # noqa: A001
    edited = apply_edits(round, edits)
    solve = partial(solve_round, gap=gap, **search)
    given = plan is not None
    if plan is None:
        plan = solve(round)
        if _is_interrupted(plan):
            raise KeyboardInterrupt
    elif not (found := verify(round, plan)).ok:
        raise ValueError(f"the plan breaks a rule: {found.violations[0]}")
    plan = plan.completed(round.names)
    try:
        after = plan if edited == round else solve(edited, start=plan)
    except KeyboardInterrupt:
        raise UnfinishedError(plan) from None
    if not (given or after is plan or _is_optimal(plan) or _is_interrupted(after)):
        # What the second search found by chance is no difference.
        with suppress(KeyboardInterrupt):
            taken_over = solve(round, start=after, time_limit=0.0)
            if _is_better(taken_over, plan):
                plan = solve(round, start=taken_over)
    return WhatIf(round, plan, edited, after, compare(round, plan, edited, after))


def _is_optimal(plan: Plan) -> bool:
    return plan.certificate is not None and plan.certificate.status == "optimal"


def _is_better(one: Plan, other: Plan) -> bool:
    """Whether a plan is better than another of the same round."""
    if one.certificate is None or other.certificate is None:
        return False
    values, before = (
        {term.name: term.value for term in plan.certificate.terms}
        for plan in (one, other)
        if plan.certificate is not None
    )
    return better(values, before, tuple(values))


def _is_interrupted(plan: Plan) -> bool:
    return plan.certificate is not None and INTERRUPTED in plan.certificate.degraded
