"""What makes a round of gangs worth playing, to be counted: rules and terms that matter in it."""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.book.choices import MIGRATE, PREEMPT, RESIZE, START, STOPPED, WAIT, Choices
from fuzz.book.disruption import beyond_budget
from fuzz.book.facts import WHOLE, Facts
from fuzz.book.judgement import Judgement
from fuzz.book.reading import choices_of
from fuzz.book.reasons import CAPACITY, DISPLACED, NOT_CHOSEN, QUOTA, Reasons
from fuzz.book.terms import Terms
from fuzz.policy import Raw


def features(round_: Raw, plan: Raw) -> Iterator[str]:
    """Yield the features of a round and of a plan for it."""
    facts = Facts(round_)
    choices = choices_of(facts, plan)
    yield from _of_round(facts, Terms(Judgement(facts)))
    yield from _of_plan(facts, choices)


def _of_round(facts: Facts, terms: Terms) -> Iterator[str]:
    groups = [group for job in facts.jobs for option in job.options for group in option.groups]
    has = {
        "invalid jobs": bool(facts.invalid),
        "running jobs": any(job.running is not None for job in facts.jobs),
        "several sizes": any(one.running and one.running.sizes for one in facts.jobs),
        "quotas": any(tenant.get("quota") for tenant in facts.tenants),
        "pools": bool(facts.raw["cluster"].get("pools")),
        "caps": any(account[0] == "cap" for job in facts.jobs for account in job.accounts),
        "guarantees": any(tenant.get("guarantee") for tenant in facts.tenants),
        "budget": bool((facts.policy.get("limits") or {}).get("disruption")),
        "shares of GPUs": any(0 < group.gpu < WHOLE for group in groups),
        "CPU and memory": {"cpu", "memory"} <= {name for g in groups for name, _ in g.wants},
        "leave to preempt": any(tenant.get("preemption") for tenant in facts.tenants)
        or any("preempts" in job for job in facts.raw["jobs"]),
        "aging": bool(facts.policy.get("aging")),
        "held or not before": any(job.ineligible for job in facts.jobs),
        "backfill": bool(facts.policy.get("backfill")),
        f"{len(terms.classes)} priority classes": len(terms.classes) > 1,
        "merged classes": any(len(one) > 1 for one in terms.classes),
    }
    yield from (name for name, there in has.items() if there)


def _of_plan(facts: Facts, choices: Choices) -> Iterator[str]:
    kinds = {choice.kind for choice in choices}
    yield from (
        f"a job is to {kind}" for kind in sorted(kinds & {START, WAIT, MIGRATE, RESIZE, PREEMPT})
    )
    reasons = Reasons(facts, choices)
    why = {
        reasons.of(job)[0]
        for job, choice in zip(facts.jobs, choices, strict=True)
        if choice.kind == WAIT
    }
    yield from (
        f"waits: {name}" for name in (QUOTA, CAPACITY, DISPLACED, NOT_CHOSEN) if name in why
    )
    limits = (facts.policy.get("limits") or {}).get("disruption") or {}
    unlimited = all(_may_stop(facts, choices, job.number) for job in facts.jobs)
    if limits and not unlimited:
        yield "budget that binds"


def _may_stop(facts: Facts, choices: Choices, number: int) -> bool:
    """Whether the budget lets a plan stop one job more, whichever other rules there are."""
    running = facts.jobs[number].running
    if running is None or running.pinned or choices[number].kind == PREEMPT:
        return True
    changed = list(choices)
    changed[number] = STOPPED
    return not beyond_budget(facts, tuple(changed))
