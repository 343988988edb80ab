"""Corrections as edits of the whole round: a valid plan there starts the job and moves nobody."""

from __future__ import annotations

from collections.abc import Iterator

from examples import examples
from fuzz.explanations.samples import waiting
from fuzz.policies.gang import POLICY
from placewright.explain.conflict import SolvingOracle, plan_that_starts
from placewright.explain.corrections.find import Correction
from placewright.explain.explain_job import explain_job
from placewright.explain.facts.fact import World, without_waiting
from placewright.instances.checks.round import trusted
from placewright.instances.documents.plan import Decision, DecisionKind
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.verify import verify

ROUNDS = examples(day=8, nightly=30)


def corrections(seeds: range) -> Iterator[tuple[Round, str, Correction]]:
    """Tiny rounds without cells, a job that cannot start as things are, and what would start it."""
    for round_, _, job in waiting(POLICY, seeds):
        if any(tenant.cells for tenant in round_.tenants):
            continue
        found = explain_job(round_, None, job, corrections=4, isolation="none")
        for one in found.corrections.now if found.corrections is not None else ():
            # That others move has no edit: it is a verified plan of the round itself.
            if one.edits.edits:
                yield round_.valid_part(), job, one


def starts_by_a_valid_plan(round_: Round, job: str, correction: Correction) -> bool:
    """Whether the job starts in the edited round by a plan in which all others keep or wait."""
    edited = apply_edits(round_, correction.edits)
    # Terms decide which plan is best, and which sections it has.
    terms = {"terms": ("value",), "priority": "preemption"}
    edited = edited.model_copy(update={"policy": edited.policy.model_copy(update=terms)})
    with SolvingOracle.opened(round_, time_limit=60.0, isolation="none") as oracle:
        found = plan_that_starts(World(without_waiting(edited, job), job), oracle)
    if found is None:
        return False
    known = {one.job: one for one in found.decisions}
    decisions = [
        known.get(one.name) or Decision(job=one.name, decision=DecisionKind.WAIT)
        for one in edited.jobs
    ]
    plan = found.model_copy(
        update={"round": None, "certificate": None, "decisions": tuple(decisions)}
    )
    return verify(trusted(edited), plan).ok


def compared(seeds: range) -> tuple[int, list[str]]:
    """How many corrections were tried, and those that start nothing."""
    tried, wrong = 0, []
    for round_, job, one in corrections(seeds):
        tried += 1
        if not starts_by_a_valid_plan(round_, job, one):
            wrong.append(f"{job}: {one.text} in {round_.model_dump_json(exclude_defaults=True)}")
    return tried, wrong


def test_corrections_start_the_job_in_the_whole_round() -> None:
    tried, wrong = compared(range(ROUNDS))
    assert wrong == []
    assert tried > ROUNDS // 2
