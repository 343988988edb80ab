"""Facts of policy `gang`: a job starts if its tasks have places beside all that runs."""

from __future__ import annotations

from placewright.explain.facts.asks import asks
from placewright.explain.facts.away import away
from placewright.explain.facts.fact import Fact, World, named, without_waiting
from placewright.explain.facts.held import Holders, waits_for
from placewright.explain.facts.policies import PolicyFacts
from placewright.explain.facts.rules import rules
from placewright.explain.facts.taken import beside, held_and_taken
from placewright.explain.places import GroupPlaces, NearestPlaces
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round


def base(round_: Round, job: str, plan: Plan | None) -> Round:
    """Return the round in which one job waits beside what runs now, or after a plan."""
    return without_waiting(round_, job) if plan is None else beside(round_, plan, job)


def facts(round_: Round, job: str, before: Round | None) -> list[Fact]:
    """Return the facts of a base round, in the order of preference."""
    return [
        *asks(round_, job),
        *rules(round_, job),
        *away(round_, job),
        *waits_for(round_, job),
        *held_and_taken(Holders(round_, job), round_, before),
    ]


def question(world: World) -> Round:
    """Return the round in which the start of a job is worth 1, and what runs stays."""
    round_ = world.round
    policy = Policy(
        formulation=round_.policy.formulation,
        terms=("value",),
        priority="preemption",
        vacate=round_.policy.vacate,
    )
    waits = named(world.job, round_)
    jobs = tuple(worth_one(one) if one is waits else stays(one) for one in round_.jobs)
    return round_.model_copy(update={"jobs": jobs, "policy": policy})


def starts(plan: Plan, job: str) -> bool:
    """Whether a plan starts a job."""
    return any(one.job == job and one.decision is DecisionKind.START for one in plan.decisions)


def worth_one(job: Job) -> Job:
    """Return a job of which each option is worth 1."""
    options = tuple(option.model_copy(update={"value": 1}) for option in job.options)
    return job.model_copy(update={"options": options})


def stays(job: Job) -> Job:
    """Return a running job that neither moves nor stops."""
    if job.running is None or job.running.pinned:
        return job
    return job.model_copy(update={"running": job.running.model_copy(update={"pinned": True})})


def places(round_: Round, job: str) -> tuple[GroupPlaces, ...]:
    """Return the nearest places of the first option of a job that waits."""
    index = next(j for j, one in enumerate(round_.jobs) if one.name == job)
    return NearestPlaces(compile_round(round_)).of(index)


POLICY = PolicyFacts(base, facts, question, starts, places)
