"""Why jobs wait under the policy `deadline`: for their leases, or as gangs do beside promises."""

from __future__ import annotations

from fuzz.book.choices import WAIT
from fuzz.book.facts import Facts, Job
from fuzz.book.leases import Leases
from fuzz.book.reading import choices_of, decisions_of
from fuzz.book.reason_details import given, untrue_of
from fuzz.book.reasons import Reasons
from fuzz.policy import Raw


def untrue(round_: Raw, plan: Raw) -> str:
    """Say which reason of a plan is not true, "" if all are; the plan keeps all other rules."""
    facts = Facts(round_)
    leases = Leases(facts)
    section = next(s for s in plan["sections"] if s["kind"] == "leases")
    promises = {one["job"]: one for one in section["jobs"]}
    offers = {one["job"]: one.get("offer") for one in section["refused"]}
    numbers = {job.name: job.number for job in facts.jobs}
    now = frozenset(
        numbers[name] for name, promise in promises.items() if promise["leases"][0][0] == 0
    )
    reasons = Reasons(facts, choices_of(facts, plan), promised=now)

    def of_leases(job: Job) -> tuple[str, int | None] | None:
        if job.name in promises:
            begins = leases.now + promises[job.name]["leases"][0][0] * leases.length
            return "promised_later", begins
        if leases.works[job.number].due:
            offer = offers[job.name]
            return "refused", None if offer is None else offer["at"]
        if leases.works[job.number].ready > leases.now:
            return "not_before", leases.works[job.number].ready
        return None

    for job, decision in zip(facts.jobs, decisions_of(facts, plan), strict=True):
        if decision["decision"] != WAIT:
            continue
        said, true = (decision.get("reason"), given(decision).get("at")), of_leases(job)
        if true is not None and said != true:
            return f"{job.name} waits for {true}, the plan says {said}"
        if true is None and (fault := untrue_of(reasons, job, decision)):
            return fault
    return ""
