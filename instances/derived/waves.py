"""Stages from round to round: jobs that are done are waited for no more, and waves are jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round


def without_done(jobs: Iterable[Job], done: Collection[str]) -> tuple[Job, ...]:
    """Return jobs that wait no more for those that are done."""
    return tuple(_after(job, dict.fromkeys(done, ())) for job in jobs) if done else tuple(jobs)


def with_waves(round_: Round, plan: Plan) -> tuple[Round, Plan]:
    """Return round and plan with what begins of a job that is no gang as a job of its own.

    It is named after the job and the time, and counts nothing in `completion`: the rest ends later.
    """
    jobs, decisions, waves = list[Job](), list[Decision](), dict[str, tuple[str, ...]]()
    for job, decision in zip(round_.jobs, plan.decisions, strict=True):
        stage, begun, o = job.stage, len(decision.tasks), decision.option
        starts = decision.decision is DecisionKind.START
        if stage is None or stage.gang or not starts or o is None:
            jobs.append(job)
            decisions.append(decision)
            continue
        left = job.options[o].groups[0].count - begun
        gang = {"stage": stage.model_copy(update={"gang": True})}
        if not left:
            jobs.append(job.model_copy(update=gang))
            decisions.append(decision)
            continue
        name = f"{job.name}@{round_.now}"
        waves[job.name] = (job.name, name)
        wave = counted(job.model_copy(update=gang), [o], begun)
        jobs.append(wave.model_copy(update={"name": name, "weight": 0}))
        decisions.append(decision.model_copy(update={"job": name, "option": 0}))
        jobs.append(counted(job, [o], left))
        decisions.append(Decision(job=job.name, decision=DecisionKind.WAIT))
    if not waves:
        return round_.model_copy(update={"jobs": tuple(jobs)}), plan
    update = {"jobs": tuple(_after(job, waves) for job in jobs)}
    return round_.model_copy(update=update), plan.model_copy(update={"decisions": tuple(decisions)})


def _after(job: Job, instead: dict[str, tuple[str, ...]]) -> Job:
    """Return a job that waits for others in the place of some."""
    stage = job.stage
    if stage is None or not any(name in instead for name in stage.after):
        return job
    after = tuple(new for name in stage.after for new in instead.get(name, (name,)))
    return job.model_copy(update={"stage": stage.model_copy(update={"after": after})})


def counted(job: Job, chosen: Iterable[int], count: int) -> Job:
    """Return a job with so many tasks in some options, each of one group, and no others."""
    options, seconds = [], []
    for o in chosen:
        group = job.options[o].groups[0].model_copy(update={"count": count})
        options.append(job.options[o].model_copy(update={"groups": (group,)}))
        seconds += [] if job.stage is None else [job.stage.seconds(o)]
    update: dict[str, object] = {"options": tuple(options)}
    if job.stage is not None:
        update["stage"] = job.stage.model_copy(update={"task_s": tuple(seconds)})
    return job.model_copy(update=update)
