"""Rounds and placements from a scheduler's dump: what the readings of Slurm and Kueue share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from placewright import Plan, Round
from placewright.instances.documents.base import API_VERSION
from placewright.instances.documents.plan import Decision, DecisionKind, Task
from placewright.instances.io.files import parse_round

__all__ = ["Placement", "as_decided", "placement_of", "raw_round"]

TERMS = ["value", "disruption", "spread", "opened"]


class Placement(NamedTuple):
    """A round, the scheduler's plan for it, and the names of jobs that the round leaves out."""

    round: Round
    plan: Plan
    left_out: tuple[str, ...] = ()


def placement_of(raw: dict[str, Any], places: Mapping[str, tuple[Task, ...]]) -> Placement:
    """Make a plan that starts the jobs in their places, and keeps those that run."""
    return _placed(parse_round(raw), places)


def _placed(round_: Round, places: Mapping[str, tuple[Task, ...]]) -> Placement:
    decisions = tuple(
        Decision(job=job.name, decision=DecisionKind.KEEP, option=0, tasks=job.running.tasks)
        if job.running is not None
        else Decision(job=job.name, decision=DecisionKind.START, option=0, tasks=places[job.name])
        if job.name in places
        else Decision(job=job.name, decision=DecisionKind.WAIT)
        for job in round_.jobs
    )
    return Placement(round_, Plan(decisions=decisions))


def as_decided(round_: Round) -> Placement:
    """Make jobs that run and may move pending, and a plan that starts them where they are."""
    places = {
        job.name: job.running.tasks
        for job in round_.jobs
        if job.running is not None and not job.running.pinned
    }
    jobs = tuple(
        job.model_copy(update={"running": None}) if job.name in places else job
        for job in round_.jobs
    )
    return _placed(round_.model_copy(update={"jobs": jobs}), places)


def raw_round(
    name: str,
    *,
    levels: list[str],
    domains: list[dict[str, Any]],
    hosts: list[dict[str, Any]],
    jobs: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return a round as its file would have it."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Round",
        "name": name,
        "cluster": {"levels": levels, "domains": domains, "hosts": hosts},
        "jobs": jobs,
        "policy": {"terms": TERMS},
    }
