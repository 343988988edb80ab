"""What the service shows of a round and its plan: metrics, places of jobs, a page."""

from __future__ import annotations

from collections import defaultdict

from placewright.explain.places import fragmentation_of, free_and_total, is_measured
from placewright.instances.derived.doubts import doubts_of, so_far, why_waits
from placewright.instances.derived.source_names import all_left_out
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    KUBERNETES_OWNER,
    KUBERNETES_POD_UIDS,
    KUBERNETES_UID,
)
from placewright.instances.errors import printable
from placewright.live.serve.messages import JobPlaces, Snapshot, TaskPlace
from placewright.report.facts.jobs import milli_gpu_of
from placewright.report.page import render_report
from placewright.rounds.state.changes import apply_plan

MAX_REASON = 300
"""Characters of a reason, which stands in the condition of a pod."""

NO_REASON = "no_reason"
_STOPPED = "preempted"


def snapshot_of(round_: Round, plan: Plan) -> Snapshot:
    """Return what the service shows of a valid plan."""
    jobs = {job.name: job for job in round_.jobs}
    asked = milli_gpu_of(jobs, plan)
    waiting: defaultdict[str, int] = defaultdict(int)
    for decision in plan.decisions:
        if decision.decision is DecisionKind.WAIT:
            reason = NO_REASON if decision.reason is None else decision.reason.value
            waiting[reason] += asked[decision.job]
    stranded = None
    if is_measured(round_):
        valid, kept = round_.valid_part(), plan.without_jobs(round_.invalid)
        stranded = fragmentation_of(apply_plan(valid, kept, restart_s={})).stranded
    certificate = plan.certificate
    run = None if certificate is None else certificate.run
    return Snapshot(
        name=round_.name,
        seconds=0.0 if run is None else run.wall_s,
        degraded=() if certificate is None else certificate.degraded,
        gaps={} if certificate is None else {term.name: term.gap for term in certificate.terms},
        waiting=dict(waiting),
        free=free_and_total(round_, plan)[0],
        stranded=stranded,
        page=render_report(round_, plan),
        jobs={one.job: _places(round_, jobs[one.job], one) for one in plan.decisions},
        left_out={one.name: one.why[:MAX_REASON] for one in all_left_out(round_)},
    )


def _places(round_: Round, job: Job, decision: Decision) -> JobPlaces:
    notes = job.annotations
    owners = tuple(
        uid for key in (KUBERNETES_UID, f"{KUBERNETES_OWNER}uid") if (uid := notes.get(key))
    )
    most = max(len(option.groups) for option in job.options)
    pods = [notes.get(f"{KUBERNETES_POD_UIDS}{g}", "").split(",") for g in range(most)]
    if decision.option is not None and decision.tasks:
        groups = job.options[decision.option].groups
        tasks = tuple(
            TaskPlace(
                task.host,
                groups[task.group].gpu,
                pods[task.group][task.index] if task.index < len(pods[task.group]) else "",
            )
            for task in decision.tasks
        )
        doubts = doubts_of(round_, job)
        return JobPlaces(tasks, so_far(doubts)[:MAX_REASON], owners)
    known = (uid for uids in pods for uid in uids if uid)
    return JobPlaces(why=_why(round_, job, decision), owners=(*owners, *known))


def _why(round_: Round, job: Job, decision: Decision) -> str:
    if decision.decision is DecisionKind.PREEMPT:
        return _STOPPED
    if decision.reason is None:
        return NO_REASON
    text = why_waits(round_, job, decision)
    return printable(f"{decision.reason.value}: {text}")[:MAX_REASON]
