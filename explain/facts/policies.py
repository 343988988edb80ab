"""What explaining needs to know of each policy."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from placewright.explain.facts.fact import Fact, World
from placewright.explain.facts.situation import Situation
from placewright.explain.facts.taken import carried_out
from placewright.explain.places import GroupPlaces
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.policies import PolicyRegistry


class PolicyFacts(NamedTuple):
    """The facts of a policy, and the question whether a job starts if nobody moves or stops.

    `base` returns the round in which all facts hold: of the round of a situation what runs or holds
    something, and one job that waits. `facts` returns them in the order of preference, for a
    situation, a base round of it and the job. `question` turns a world into a round whose best plan
    answers the question: a plan that does not start the job can be made better in one of its terms
    by starting it, and in no other way. `started` returns the names of the jobs that a plan for it
    starts. `places` returns the nearest places of the job's first option in a base round. `answers`
    tells of a plan for the question's round whether it answers yes, where that is more than that
    the job starts. `given` returns the round beside which a plan is asked about a job, the same
    object where that is the plan's, and `after` the one that it leads to.
    """

    base: Callable[[Round, str], Round]
    facts: Callable[[Situation, Round, str], list[Fact]]
    question: Callable[[World], Round]
    started: Callable[[Plan], Collection[str]]
    places: Callable[[Round, str], tuple[GroupPlaces, ...]] = lambda *_: ()
    answers: Callable[[Round, Plan, str], bool] | None = None
    relaxed: Callable[[World], Round | None] = lambda _: None
    given: Callable[[Round, Plan, str], Round] = lambda round_, _plan, _job: round_
    after: Callable[[Round, Plan], Round] = carried_out


def says_yes(question: Round, plan: Plan, job: str) -> bool:
    """Whether a plan for a question starts the job and disturbs nobody."""
    policy = FACTS[question.policy.formulation]
    if policy.answers is None:
        return job in policy.started(plan)
    return policy.answers(question, plan, job)


FACTS: PolicyRegistry[PolicyFacts] = PolicyRegistry(
    {
        name: f"placewright.explain.facts.{name}:POLICY"
        for name in ("gang", "interleaving", "deadline", "geo", "replicas")
    }
)
"""The facts of each policy."""
