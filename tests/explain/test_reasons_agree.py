"""The reason that a plan gives agrees with the facts that explain a waiting job.

Each reason says which facts keep the job from starting; the oracle of explanations is asked whether
they do.
"""

from __future__ import annotations

from collections.abc import Iterator

from examples import examples
from fuzz.explanations.samples import waiting
from fuzz.policies.gang import POLICY
from placewright.explain.conflict import SolvingOracle
from placewright.explain.facts.fact import Fact, Stratum, World, taken_by
from placewright.explain.facts.gang import base as base_round
from placewright.explain.facts.gang import facts as facts_of
from placewright.explain.facts.gang import runs
from placewright.explain.facts.held import Holders
from placewright.explain.situations import Situations
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason
from placewright.instances.documents.round import Round

STATED = {
    Reason.NEVER_FITS,
    Reason.QUOTA,
    Reason.HOSTS_AWAY,
    Reason.CAPACITY,
    Reason.DISPLACED_BY_PRIORITY,
    Reason.NOT_CHOSEN,
}
LATER = {Reason.CAPACITY, Reason.DISPLACED_BY_PRIORITY, Reason.NOT_CHOSEN}
ROUNDS = examples(day=12, nightly=40)


class Asked:
    """The facts of one waiting job beside a plan, and whether some of them block."""

    def __init__(self, round_: Round, plan: Plan, job: str, oracle: SolvingOracle) -> None:
        after = Situations(round_, plan).after
        self._base, self._job, self._oracle = base_round(after.round, job), job, oracle
        self._facts = facts_of(after, self._base, job)
        kinds = {one.job: one.decision for one in plan.decisions}
        holders = Holders(after, self._base, job, runs, taken_by)
        jobs = {one.name: one for one in self._base.jobs}
        taken = [
            name for fact in self._facts if fact.stratum == Stratum.TAKEN for name in fact.names
        ]
        self._movers = [name for name in taken if kinds[name] is DecisionKind.MIGRATE]
        self._higher = [name for name in taken if holders.relation(jobs[name]) == "higher"]
        self._group = {f.stratum: f for f in self._facts if f.kind == "jobs"}

    def blocks(self, *strata: Stratum, higher: bool = False, rules: bool = True) -> bool | None:
        """Whether facts of some strata, and movers (and higher starts), keep it from starting."""
        kept: list[Fact] = [f for f in self._facts if f.stratum in strata]
        removed = [f for f in reversed(self._facts) if f not in kept and f.kind != "jobs"]
        if not rules:
            removed += [f for f in kept if f.stratum == Stratum.RULES]
        gone: set[str] = set()
        if Stratum.TAKEN not in strata and (group := self._group.get(Stratum.TAKEN)) is not None:
            stay = [*(self._movers if Stratum.HELD in strata else ())]
            stay += self._higher if higher else []
            gone |= set(group.names).difference(stay)
        if Stratum.HELD not in strata and (group := self._group.get(Stratum.HELD)) is not None:
            gone |= set(group.names)
        world = World(self._base.without_jobs(gone), self._job, tuple(removed))
        answer = self._oracle.start(world).starts
        return None if answer is None else not answer


def contradiction(round_: Round, plan: Plan, decision: Decision, oracle: SolvingOracle) -> str:
    """Say what the facts of a waiting job contradict of its reason; "" if nothing."""
    asked = Asked(round_, plan, decision.job, oracle)
    reason, detail = decision.reason, decision.detail
    asks, rules, away, held, taken = Stratum
    if detail is not None and detail.unproven:
        return ""
    if (asked.blocks(asks) is True) is not (reason is Reason.NEVER_FITS):
        return "never"
    victims = any(one.decision is DecisionKind.PREEMPT for one in plan.decisions)
    if reason is Reason.HOSTS_AWAY and not asked.blocks(asks, away):
        return "hosts that are away do not block it"
    if reason in LATER and asked.blocks(asks, away):
        return "hosts that are away block it"
    if reason in LATER and asked.blocks(asks, rules):
        return "its quota blocks it"
    if victims:
        # The place of one that had to stop may not be for this job: explain has no such fact.
        return ""
    if reason is Reason.QUOTA and not asked.blocks(asks, rules, away, held, taken):
        return "it could start beside the plan"
    if reason is Reason.CAPACITY and not asked.blocks(asks, away, held):
        return "running jobs do not block it"
    if reason in LATER - {Reason.CAPACITY} and asked.blocks(asks, away, held):
        return "running jobs block it"
    if reason is Reason.DISPLACED_BY_PRIORITY and not asked.blocks(asks, away, held, higher=True):
        return "higher starts do not block it"
    if reason is Reason.NOT_CHOSEN and asked.blocks(asks, away, held, higher=True):
        return "higher starts block it"
    startable = detail is not None and detail.startable
    if startable and asked.blocks(asks, rules, away, held, taken):
        return "it could not start beside the plan"
    return ""


def stated(seeds: range) -> Iterator[tuple[Round, Plan, Decision]]:
    """Plans of tiny rounds without cells, and each of their decisions with a reason of hosts."""
    for round_, plan, job in waiting(POLICY, seeds):
        assert plan is not None
        decision = next(one for one in plan.decisions if one.job == job)
        if decision.reason in STATED and not any(tenant.cells for tenant in round_.tenants):
            yield round_.valid_part(), plan.without_jobs(round_.invalid), decision


def found(seeds: range) -> tuple[int, list[str]]:
    """How many reasons were compared, and those that the facts contradict."""
    compared, wrong = 0, []
    for round_, plan, decision in stated(seeds):
        with SolvingOracle.opened(round_, time_limit=60.0, isolation="none") as oracle:
            problem = contradiction(round_, plan, decision, oracle)
        compared += 1
        if problem:
            wrong.append(f"{decision.job} of {plan.round}: {decision.reason}, but {problem}")
    return compared, wrong


def test_no_reason_contradicts_the_facts() -> None:
    compared, wrong = found(range(ROUNDS))
    assert wrong == []
    assert compared > ROUNDS // 2
