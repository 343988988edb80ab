"""What a plan takes: the jobs that it starts or moves, beside those that it keeps."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.explain.facts.fact import Fact, Stratum, without_waiting
from placewright.explain.facts.held import Holder, Holders
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.rounds.state.changes import apply_plan

_TAKES = {DecisionKind.START, DecisionKind.MIGRATE}


def beside(round_: Round, plan: Plan, job: str) -> Round:
    """Return the round that a valid plan leads to, where nobody else waits."""
    return without_waiting(apply_plan(round_, plan, {}), job)


def held_and_taken(holders: Holders, plan: Plan | None) -> list[Fact]:
    """Return the running jobs as facts: without a plan all are held, beside it those it keeps."""
    decided = {} if plan is None else {one.job: one.decision for one in plan.decisions}
    taken = [name for name in holders.all if decided.get(name) in _TAKES]
    held = [name for name in holders.all if decided.get(name) not in _TAKES]

    def takes(jobs: Sequence[Holder]) -> tuple[str, str]:
        kinds = {decided[one.name] for one in jobs}
        if kinds == {DecisionKind.START}:
            return "starts", "start"
        return ("moves", "move") if len(kinds) == 1 else ("starts or moves", "start or move")

    return [
        *holders.fact(Stratum.HELD, held, lambda _: ("runs", "run")),
        *holders.fact(Stratum.TAKEN, taken, takes),
    ]
