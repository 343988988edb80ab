"""The jobs of a page as columns: what each asks or holds, and what each plan decides of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placewright.instances.derived.doubts import why_waits
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import printable
from placewright.report.columns import ranges, runs
from placewright.report.facts.jobs import OUTCOMES, milli_gpu_of
from placewright.report.text import after

SAME = -1
"""Of a job that holds after a plan what it held before."""


class Words:
    """Texts that occur often, each once; `number` is that of a text."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text."""
        return self._number.setdefault(text, len(self._number))

    @property
    def texts(self) -> list[str]:
        """All texts in the order of their numbers."""
        return [printable(text) for text in self._number]


def job_data(round_: Round, plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the jobs of a round, in its order, with the decisions of its plans."""
    tenants, words, jobs = Words(), Words(), round_.jobs
    before = [0 if job.running is None else _held(job) for job in jobs]
    return {
        "names": ranges([printable(job.name) for job in jobs]),
        "tenant": runs([tenants.number(job.tenant or "") for job in jobs]),
        "tenants": tenants.texts,
        "priority": runs([job.priority for job in jobs]),
        "before": runs(before),
        "outcomes": list(OUTCOMES.values()),
        "plans": [_decided(round_, plan, before, words) for plan in plans],
        "words": words.texts,
    }


def _held(job: Job) -> int:
    return job.options[job.running.option if job.running else 0].milli_gpu


def _decided(round_: Round, plan: Plan, before: Sequence[int], words: Words) -> dict[str, Any]:
    """Return columns of a plan: decision, milli-GPU held or asked, and what it says of it."""
    made = {decision.job: decision for decision in plan.decisions}
    decisions = [made.get(job.name) for job in round_.jobs]
    both = list(zip(round_.jobs, decisions, strict=True))
    kinds, milli = list(OUTCOMES), milli_gpu_of({job.name: job for job in round_.jobs}, plan)
    after = [milli.get(job.name, 0) for job in round_.jobs]
    return {
        "decision": runs([-1 if d is None else kinds.index(d.decision) for d in decisions]),
        "milli": runs([SAME if a == b else a for a, b in zip(after, before, strict=True)]),
        "reason": runs([words.number(_reason(decision)) for decision in decisions]),
        "said": runs([words.number(_said(round_, job, d)) for job, d in both]),
    }


def _reason(decision: Decision | None) -> str:
    return "" if decision is None or decision.reason is None else decision.reason.value


def _said(round_: Round, job: Job, decision: Decision | None) -> str:
    """Return the option, why the job waits, or who displaces it."""
    if decision is None:
        return ""
    if decision.reason is not None:
        return why_waits(round_, job, decision, lambda at: after(at, round_.now))
    if decision.decision is DecisionKind.PREEMPT and decision.displaced_by:
        return f"displaced by {', '.join(decision.displaced_by)}"
    if decision.option is not None and len(job.options) > 1:
        return f"option {job.options[decision.option].name}"
    return ""
