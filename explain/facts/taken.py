"""What a plan takes: the jobs that it starts or moves, beside those that it keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from placewright.explain.facts.fact import Fact, Stratum, without_waiting
from placewright.explain.facts.held import Holder, Holders
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.rounds.state.changes import apply_plan

START, MOVE = ("starts", "start"), ("moves", "move")


def beside(round_: Round, plan: Plan, job: str) -> Round:
    """Return the round that a valid plan leads to, where nobody else waits."""
    return without_waiting(apply_plan(round_, plan, {}), job)


def taken_by(job: Job, before: Job | None) -> tuple[str, str] | None:
    """Return what a job does by a plan, said of one and of several; None if it is kept."""
    if before is None or job.running is None:
        return None
    if before.running is None:
        return START
    return None if before.running.tasks == job.running.tasks else MOVE


def held_and_taken(
    holders: Holders,
    round_: Round,
    before: Round | None,
    takes: Callable[[Job, Job | None], tuple[str, str] | None] = taken_by,
    holds: tuple[str, str] = ("runs", "run"),
) -> list[Fact]:
    """Return what jobs hold as facts, and apart from it what they hold by a plan alone.

    Parameters
    ----------
    round_
        The base round.
    before
        The round before the plan; None without one.
    takes
        What a job does by the plan; None if it did so before.
    holds
        What all others do.
    """
    known = {} if before is None else {job.name: job for job in before.jobs}
    jobs = {job.name: job for job in round_.jobs}
    verbs = {name: takes(jobs[name], known.get(name)) for name in holders.all}
    taken = [name for name, verb in verbs.items() if verb is not None]
    held = [name for name, verb in verbs.items() if verb is None]

    def said(some: Sequence[Holder]) -> tuple[str, str]:
        kinds = dict.fromkeys(verb for one in some if (verb := verbs[one.name]) is not None)
        ones, many = zip(*kinds, strict=True)
        return " or ".join(ones), " or ".join(many)

    return [
        *holders.fact(Stratum.HELD, held, lambda _: holds),
        *holders.fact(Stratum.TAKEN, taken, said),
    ]
