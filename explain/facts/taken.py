"""What a plan takes: the jobs that it starts or moves, beside those that it keeps."""

from __future__ import annotations

from placewright.explain.facts.holding import Verb
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.rounds.state.changes import apply_plan

START, MOVE = ("starts", "start"), ("moves", "move")


def carried_out(round_: Round, plan: Plan) -> Round:
    """Return the round that a valid plan leads to."""
    return apply_plan(round_, plan, {})


def taken_by(job: Job, before: Job | None) -> Verb | None:
    """Return what a job does by a plan, said of one and of several; None if it is kept."""
    if before is None or job.running is None:
        return None
    if before.running is None:
        return START
    return None if before.running.tasks == job.running.tasks else MOVE
