"""The audit of links between GPUs: who could be joined better, and what moves would repair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from placewright.instances.checks.round import trusted
from placewright.instances.derived.joined_tasks import JoinedTask, joined_tasks
from placewright.instances.documents.arrangement import GpuLinkRequest
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.policy import DisruptionLimits, PolicyLimits
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round
from placewright.rounds.settings import Isolation
from placewright.topology.units import WHOLE_GPU


@dataclass(frozen=True, slots=True)
class Joined:
    """Tasks of two or more GPUs on hosts whose links differ.

    Parameters
    ----------
    tasks, asking
        How many there are, and how many of them ask for links.
    worse, worse_asking, across
        Those of both kinds that have a slower ring than the best set of as many GPUs of their host;
        and those whose GPUs are of several NUMA nodes though one would hold as many.
    """

    tasks: int
    asking: int
    worse: int
    worse_asking: int
    across: int


@dataclass(frozen=True, slots=True)
class LinkAudit:
    """How the tasks of a placement are joined, and what moves alone would do about it.

    Parameters
    ----------
    placed
        As they are placed.
    repaired, running, plan
        After the moves of a plan that joins them as well as was found, the round that the placement
        leads to, and the plan; None where moves were not looked for, or repair nothing.
    """

    placed: Joined
    repaired: Joined | None = None
    running: Round | None = None
    plan: Plan | None = None

    @property
    def moved(self) -> list[str]:
        """Jobs that the plan moves."""
        decisions = () if self.plan is None else self.plan.decisions
        return [one.job for one in decisions if one.decision is DecisionKind.MIGRATE]

    @property
    def repairs(self) -> int:
        """Tasks that are joined as well as can be after the moves, and were not before."""
        return 0 if self.repaired is None else self.placed.worse - self.repaired.worse


def joined(round_: Round, plan: Plan) -> Joined:
    """Count how the tasks of a plan are joined."""
    tasks = [one for one in joined_tasks(round_, plan) if not one.links.is_uniform]
    worse = [*filter(_is_worse, tasks)]
    return Joined(
        tasks=len(tasks),
        asking=sum(one.group.gpu_links is not None for one in tasks),
        worse=len(worse),
        worse_asking=sum(one.group.gpu_links is not None for one in worse),
        across=sum(one.is_across for one in tasks),
    )


def _is_worse(one: JoinedTask) -> bool:
    return one.mbps < one.most_mbps


def audit_links(
    round_: Round,
    plan: Plan,
    running: Round | None,
    *,
    time_limit: float | None = None,
    backend: str = "auto",
    isolation: Isolation = "auto",
) -> LinkAudit | None:
    """Return how the tasks of a placement are joined; None if no host's links say anything.

    `running` is the round that the placement leads to, None if nobody can move there.
    """
    placed = joined(round_, plan)
    if not placed.tasks:
        return None
    if running is None or not placed.worse:
        return LinkAudit(placed)
    moved = trusted(_of_moves(running))
    better = solve_round(moved, time_limit=time_limit, backend=backend, isolation=isolation)
    found = LinkAudit(placed, joined(running, better), running, better)
    return found if found.repairs > 0 else LinkAudit(placed)


def _of_moves(round_: Round) -> Round:
    """Return the running jobs alone, all of which prefer links, and nobody stops."""
    limits = round_.policy.limits or PolicyLimits()
    budget = (limits.disruption or DisruptionLimits()).model_copy(update={"preempted_jobs": 0})
    limits = limits.model_copy(update={"disruption": budget})
    policy = round_.policy.model_copy(
        update={"terms": ("gpu_links", "disruption"), "limits": limits}
    )
    return round_.model_copy(update={"jobs": tuple(_jobs(round_)), "policy": policy})


def _jobs(round_: Round) -> Iterator[Job]:
    def of_group(group: TaskGroup) -> TaskGroup:
        able = group.gpu >= 2 * WHOLE_GPU and group.gpu_links is None
        return group.model_copy(update={"gpu_links": GpuLinkRequest()}) if able else group

    for job in round_.jobs:
        if job.running is not None:
            options = tuple(
                one.model_copy(update={"groups": tuple(map(of_group, one.groups))})
                for one in job.options
            )
            yield job.model_copy(update={"options": options})
