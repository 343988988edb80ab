"""Facts of policy `gang`: a job starts if its tasks have places beside all that runs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from placewright.explain.facts.asks import asks
from placewright.explain.facts.fact import (
    Fact,
    PolicyFacts,
    Situation,
    World,
    able_hosts,
    named,
    taken_by,
    without_waiting,
)
from placewright.explain.facts.held import Holders, waits_for
from placewright.explain.facts.rules import away, rules
from placewright.explain.places import GroupPlaces, NearestPlaces
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.limits import DisruptionBudget
from placewright.instances.derived.cell_trees import guaranteed
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.policy import DisruptionLimits, Policy, PolicyLimits
from placewright.instances.documents.round import Round

NOBODY = DisruptionLimits(preempted_jobs=0, migrated_jobs=0)
"""The budget with which nobody moves or stops who is on hosts that are there."""


def base(round_: Round, job: str) -> Round:
    """Return the round in which one job waits beside what runs."""
    return without_waiting(round_, job)


def facts(situation: Situation, round_: Round, job: str) -> list[Fact]:
    """Return the facts of a base round, in the order of preference."""
    return [
        *asks(round_, job),
        *rules(round_, job),
        *away(round_, job, _able(situation, round_, job)),
        *waits_for(round_, job),
        *jobs_that_run(situation, round_, job),
    ]


def _able(situation: Situation, round_: Round, job: str) -> set[str]:
    """Return the hosts that could hold a task of a job, were they empty."""
    able = able_hosts(situation.cluster, round_, named(job, round_))
    return {situation.cluster.hosts[h] for h in np.flatnonzero(able).tolist()}


def jobs_that_run(situation: Situation, round_: Round, job: str) -> list[Fact]:
    """Return the jobs that run, and those that do so by a plan alone, as facts."""
    return Holders(situation, round_, job, runs, taken_by).facts(("runs", "run"))


def runs(job: Job) -> bool:
    """Whether a job runs."""
    return job.running is not None


def question(world: World) -> Round:
    """Return the round in which the start of a job is worth 1, and what runs stays.

    Beside a guaranteed job it does so by a disruption budget, as far as that can: no cell with a
    pinned job may be bound, but one may in which others go on to run.
    """
    round_ = world.round
    policy = Policy(
        formulation=round_.policy.formulation,
        terms=("value",),
        priority="preemption",
        vacate=round_.policy.vacate,
    )
    waits = named(world.job, round_)
    free: Collection[int] = ()
    if round_.jobs.index(waits) in guaranteed(round_):
        policy = policy.model_copy(update={"limits": PolicyLimits(disruption=NOBODY)})
        budget = DisruptionBudget.of(round_.model_copy(update={"policy": policy}))
        free = () if budget is None else budget.stops
    jobs = tuple(
        worth_one(one) if one is waits else one if j in free else stays(one)
        for j, one in enumerate(round_.jobs)
    )
    return round_.model_copy(update={"jobs": jobs, "policy": policy})


def started(plan: Plan) -> set[str]:
    """Return the jobs that a plan starts."""
    return {one.job for one in plan.decisions if one.decision is DecisionKind.START}


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
    """Return the nearest places of a job that waits, for each option that may be elsewhere."""
    index = next(j for j, one in enumerate(round_.jobs) if one.name == job)
    return NearestPlaces(compile_round(round_)).of_options(index)


POLICY = PolicyFacts(base, facts, question, started, places)
