"""All waiting jobs of a round, those together that wait for the same facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from placewright.collection import no_collection
from placewright.explain.conflict import SolvingOracle
from placewright.explain.explain_job import explained
from placewright.explain.explanation import Explanation
from placewright.explain.gang import ArrayOracle
from placewright.explain.search import SearchOptions
from placewright.explain.situations import Situations
from placewright.instances.checks.round import checked
from placewright.instances.derived.doubts import doubts_of
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round


@dataclass(frozen=True, slots=True)
class WaitingKind:
    """Jobs with the same verdict and conflict.

    Parameters
    ----------
    jobs
        Their names, in the order of the round.
    milli_gpu
        What their first options ask together.
    explanation
        That of the first of them, without proof; running jobs are one group each.
    """

    jobs: tuple[str, ...]
    milli_gpu: int
    explanation: Explanation


def explain_all(
    round_: Round,
    plan: Plan | None,
    **search: Unpack[SearchOptions],
) -> tuple[WaitingKind, ...]:
    """Explain all jobs that wait, those that ask most GPUs together first.

    Parameters
    ----------
    round_, plan, search
        As of `explain_job`; the time is that of all jobs together.

    Raises
    ------
    ValueError
        If the plan breaks a rule.
    """
    round_ = checked(round_)
    situations = Situations.checked(round_, plan)
    alike: dict[tuple[str, str, bool | None], list[Job]] = {}
    for job in _waiting(situations):
        # No question asks for what a job is worth, nor what it is in its source.
        asked = job.model_dump_json(exclude={"name", "weight", "submitted", "annotations"})
        doubts = "; ".join(doubts_of(situations.round, job))
        alike.setdefault((asked, doubts, situations.in_turn(job.name)), []).append(job)
    kinds: dict[tuple[object, ...], tuple[Explanation, list[Job]]] = {}
    with SolvingOracle.opened(round_, **search) as solving, no_collection():
        oracle = ArrayOracle(solving)
        for (_, doubts, _), jobs in alike.items():
            found = explained(situations, jobs[0].name, oracle, solving, in_full=False)
            which = found.verdict, found.held_by, found.in_turn, found.of_hosts
            key = *which, doubts, *(fact.text for fact in found.conflict)
            kinds.setdefault(key, (found, []))[1].extend(jobs)
    order = {job.name: j for j, job in enumerate(situations.round.jobs)}
    made_kinds = (_kind(found, jobs, order) for found, jobs in kinds.values())
    return tuple(sorted(made_kinds, key=lambda kind: -kind.milli_gpu))


def _kind(found: Explanation, jobs: Sequence[Job], order: dict[str, int]) -> WaitingKind:
    names = sorted((job.name for job in jobs), key=order.__getitem__)
    return WaitingKind(tuple(names), sum(job.options[0].milli_gpu for job in jobs), found)


def _waiting(situations: Situations) -> list[Job]:
    pending = [job for job in situations.round.jobs if job.running is None]
    plan = situations.plan
    if plan is None:
        return pending
    waits = {one.job for one in plan.decisions if one.decision is DecisionKind.WAIT}
    waits.difference_update(situations.policy.started(plan))
    return [job for job in pending if job.name in waits]
