"""What a plan decides, as words, and the GPUs that it decides about."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import DecisionKind, Plan

OUTCOMES = {
    DecisionKind.START: "started",
    DecisionKind.MIGRATE: "migrated",
    DecisionKind.PREEMPT: "preempted",
    DecisionKind.KEEP: "kept",
    DecisionKind.WAIT: "waiting",
}
MOVES = (DecisionKind.MIGRATE, DecisionKind.PREEMPT)
"""Decisions that only some plans have; what counts them leaves them out where there are none."""


def milli_gpu_of(jobs: Mapping[str, Job], plan: Plan) -> dict[str, int]:
    """Return what each job holds, or held if it is preempted, or asks at most if it waits."""
    known: dict[int, int] = {}  # by option, each of which the round keeps alive

    def asked(option: Option) -> int:
        if id(option) not in known:
            known[id(option)] = option.milli_gpu
        return known[id(option)]

    found: dict[str, int] = {}
    for decision in plan.decisions:
        job = jobs[decision.job]
        if decision.option is not None:
            found[job.name] = asked(job.options[decision.option])
        elif job.running is not None:
            found[job.name] = asked(job.options[job.running.option])
        else:
            found[job.name] = max(map(asked, job.options))
    return found
