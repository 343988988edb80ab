"""Facts of policy `replicas`: a job starts if it can have a home, once data has been copied.

A home takes no room, so neither jobs that run nor a plan's other homes are facts. What is held is
the storage of regions and the budgets of links, by data that the job does not read.
"""

from __future__ import annotations

from placewright.explain.facts.asks import asks
from placewright.explain.facts.fact import Fact, PolicyFacts, Situation, World, named
from placewright.explain.facts.geo import (
    asks_of_data,
    data_held,
    links_away,
    rules_on_copies,
    rules_on_data,
)
from placewright.explain.facts.rules import away
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round
from placewright.instances.policies import REPLICAS


def base(round_: Round, job: str) -> Round:
    """Return the round in which only one job wants a home."""
    return round_.without_jobs({one.name for one in round_.jobs if one.name != job})


def facts(_: Situation, round_: Round, job: str) -> list[Fact]:
    """Return the facts of a base round, in the order of preference."""
    asked: list[Fact] = []
    if not stands_for_replica(named(job, round_)):
        asked = [fact for fact in asks(round_, job) if fact.kind == "gpu_models"]
        asked += asks_of_data(round_, job)
    return [
        *asked,
        *rules_on_data(round_, job),
        *rules_on_copies(round_, job),
        *away(round_, job),
        *links_away(round_, job),
        *data_held(round_, job),
    ]


def stands_for_replica(job: Job) -> bool:
    """Whether a job stands for a replica: it asks for a GPU model of its own name.

    What it asks is where the replica is to be, and no fact.
    """
    return job.options[0].groups[0].gpu_models == (job.name,)


def question(world: World) -> Round:
    """Return the round in which only whether a job has a home counts."""
    policy = Policy(formulation=REPLICAS.name, terms=("overload",))
    jobs = (_small(named(world.job, world.round)),)
    return world.round.model_copy(update={"jobs": jobs, "policy": policy})


def _small(job: Job) -> Job:
    """Return a job that overloads no region in which it has a home: it asks a thousandth of a GPU.

    Only which models its first option allows decides where that may be.
    """
    nothing = {"count": 1, "gpu": 0, "mig": None, "gpu_memory": 0}
    first, *others = (group.model_copy(update=nothing) for group in job.options[0].groups)
    groups = (first.model_copy(update={"gpu": 1}), *others)
    options = (job.options[0].model_copy(update={"groups": groups}),)
    return job.model_copy(update={"options": options})


def started(plan: Plan) -> set[str]:
    """Return the jobs to which a plan gives a home."""
    return {
        home["job"]
        for section in plan.sections
        if section["kind"] == "replicas"
        for home in section["homes"]
    }


POLICY = PolicyFacts(base, facts, question, started, after=lambda round_, _: round_)
