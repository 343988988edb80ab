"""The cheapest victims of a waiting job, beside all plans of tiny rounds."""

from __future__ import annotations

from random import Random
from typing import Any

from examples import examples
from fuzz.play import read
from fuzz.policies.gang import POLICY
from fuzz.policy import TooManyPlansError
from placewright.explain.corrections.find import cheapest_victims
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.verify import verify


def rounds(seeds: range) -> Any:
    """Yield raw rounds with a valid pending job of one option that is worth something."""
    for seed in seeds:
        try:
            raw = POLICY.draw(Random(seed))
        except TooManyPlansError:
            continue
        kept = {
            name: raw["policy"][name] for name in ("priority", "limits") if name in raw["policy"]
        }
        raw["policy"] = {**kept, "terms": ["value", "disruption"]}
        round_ = read(raw)
        running = [job for job in round_.jobs if job.running is not None]
        for job in round_.jobs if running else ():
            one_option = job.running is None and len(job.options) == 1
            if one_option and job.value_of(0) and job.name not in round_.invalid:
                yield raw, round_, job.name


def least_disruption(raw: dict[str, Any], job: str) -> int | None:
    """The least disruption of all plans that start a job and no other, by the rule book."""
    pending = {one["name"] for one in raw["jobs"] if "running" not in one}
    least: int | None = None
    for plan in POLICY.plans(raw, Random(0)):
        if plan.broken or (least is not None and plan.terms["disruption"] >= least):
            continue
        decisions = plan.document()["decisions"]
        if {d["job"] for d in decisions if d["decision"] == "start"} & pending == {job}:
            least = plan.terms["disruption"]
    return least


def test_no_plan_starts_the_job_at_less_disruption() -> None:
    moved = 0
    for raw, round_, job in rounds(range(60, examples(day=150, nightly=400))):
        try:
            least = least_disruption(raw, job)
        except TooManyPlansError:
            continue
        found = cheapest_victims(round_, job, isolation="none")
        if found is None:
            continue
        assert least is not None
        assert verify(round_, found.plan).ok
        starts = [d.job for d in found.plan.decisions if d.decision is DecisionKind.START]
        assert starts == [job]
        assert found.disruption == least
        assert found.at_least is not None
        assert found.at_least <= least
        moved += bool(found.migrated or found.preempted)
        assert not found.disruption or found.migrated or found.preempted or found.resized
    assert moved >= examples(day=1, nightly=3)
