"""The current placement as a decision: what runs, as a plan for the round in which it pends."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection

from placewright.formulations.gang.problem.limits import accounts_of, held_before, limits_of
from placewright.instances.checks.round import checked, trusted
from placewright.instances.derived.arrays import build_cluster, pools_of, running_places
from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds.backfill.queue import without_reservations

_DECISION = re.compile(r"decisions\[(\d+)\]")


def current_placement(round: Round) -> tuple[Round, Plan]:  # noqa: A002
    """Return a round in which what runs is decided anew, and the plan that it is where it is.

    Running jobs become pending ones, and the plan starts them in their places: bounds of that round
    speak of all placements of what runs and waits. Those that are pinned stay where they are, and
    so do those that could not be started where they run: they hold some of a quota, cap or pool of
    which all hold more than it has, or their host has failed since, or takes no new jobs. Those
    whose GPUs are not joined as they ask run on, and may move where they are. What waits goes on
    waiting, and has no reservations: what runs says none.
    """
    round = checked(round)  # noqa: A001
    round = trusted(without_reservations(round))  # noqa: A001
    pinned = {j.name for j in round.jobs if j.running is not None and j.running.pinned}
    pinned |= _beyond_limits(round)
    decided, plan = _decided(round, pinned)
    refused: defaultdict[str, set[str]] = defaultdict(set)
    for violation in verify(trusted(decided), plan).violations:
        if found := _DECISION.match(violation.where):
            refused[plan.decisions[int(found[1])].job].add(violation.rule)
    unjoined = {job for job, rules in refused.items() if rules == {"gpu_links"}}
    return _decided(round, pinned | (refused.keys() - unjoined), unjoined)


def _beyond_limits(round_: Round) -> set[str]:
    """Return the running jobs that hold some of a quota, cap or pool that is exceeded."""
    limits, running = limits_of(round_), [job for job in round_.jobs if job.running is not None]
    held = held_before(round_, limits)
    exceeded = {
        (account, measure)
        for account, measures in limits.items()
        for measure, most in measures.items()
        if held[account][measure] > most
    }
    found = {
        job.name
        for job in running
        for account, measure in exceeded
        if account in accounts_of(job)
        and job.running is not None
        and measure.asked_by(job.options[job.running.option])
    }
    if round_.cluster.pools:
        cluster = build_cluster(round_.cluster)
        placed = running_places(running, cluster)
        for pool in pools_of(round_, cluster):
            over = pool.held(placed) > pool.capacity
            for job, (option, places) in zip(running, placed, strict=True):
                if any(over[domain] for domain in pool.taken(option, places)):
                    found.add(job.name)
    return found


def _decided(
    round_: Round, staying: Collection[str], unjoined: Collection[str] = ()
) -> tuple[Round, Plan]:
    jobs = []
    decisions = []
    for job in round_.jobs:
        running = job.running
        if running is None:
            decisions.append(Decision(job=job.name, decision=DecisionKind.WAIT))
        elif job.name in staying:
            job = job.model_copy(update={"running": running.model_copy(update={"pinned": True})})
        elif job.name not in unjoined:
            job = job.model_copy(update={"running": None})
        if running is not None:
            kind = DecisionKind.KEEP if job.running else DecisionKind.START
            decisions.append(
                Decision(job=job.name, decision=kind, option=running.option, tasks=running.tasks)
            )
        jobs.append(job)
    return round_.model_copy(update={"jobs": tuple(jobs)}), Plan(decisions=tuple(decisions))
