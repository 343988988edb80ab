"""Who displaces whom in a plan that a test has written: named as `verify` wants it."""

from __future__ import annotations

from itertools import chain, combinations

from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

ANEW = (DecisionKind.START, DecisionKind.MIGRATE)


def with_displacers(round_: Round, plan: Plan) -> Plan:
    """Let each preempted job name the first of the smallest sets that `verify` accepts, if any."""
    anew = [one.job for one in plan.decisions if one.decision in ANEW]
    for number, decision in enumerate(plan.decisions):
        if decision.decision is not DecisionKind.PREEMPT:
            continue
        for names in chain.from_iterable(combinations(anew, n) for n in range(len(anew) + 1)):
            decisions = list(plan.decisions)
            decisions[number] = decision.model_copy(update={"displaced_by": names})
            named = plan.model_copy(update={"decisions": tuple(decisions)})
            where = f"decisions[{number}].displaced_by"
            if all(found.where != where for found in verify(round_, named).violations):
                plan = named
                break
    return plan
