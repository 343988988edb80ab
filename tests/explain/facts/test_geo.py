"""Explanations of policy `geo`: tiny rounds beside all their worlds, and bundled rounds."""

from __future__ import annotations

from pathlib import Path

from examples import by_night, examples
from fuzz.explanations.conflicts import compared, undecided
from fuzz.policies.geo import POLICY
from placewright import load_round
from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Verdict
from placewright.instances.documents.policy import Tenant

LIBRARY = Path(__file__).parents[3] / "instances" / "library"


def test_tiny_rounds_beside_all_their_worlds() -> None:
    found = []
    for one, faults in compared(POLICY, range(examples(day=2, nightly=25))):
        assert faults == []
        assert undecided(one) == ""
        found.append(one)
    kinds = {fact.kind for one in found for fact in one.conflict}
    if by_night():
        assert kinds >= {"gpu", "jobs", "read", "not_remote", "regions"}
        assert len({one.verdict for one in found}) >= 4


def test_a_job_whose_data_is_on_its_way() -> None:
    round_ = load_round(LIBRARY / "mast-regions.yaml")
    found = explain_job(round_, None, "nightly", isolation="none")
    assert found.verdict is Verdict.NOT_NOW
    assert [fact.text for fact in found.conflict] == [
        "reads news only where a replica is (replicas in north)",
        "news is on its way to west, there in 1h00",
    ]


def test_a_quota_of_a_region_and_how_much_more_of_it_helps() -> None:
    round_ = load_round(LIBRARY / "mast-regions.yaml")
    quotas = {"east": {"t": 2000}}
    regions = tuple(
        one.model_copy(update={"quotas": quotas.get(one.name, {})}) for one in round_.geo.regions
    )
    round_ = round_.model_copy(
        update={
            "tenants": (Tenant(name="t"),),
            "geo": round_.geo.model_copy(update={"regions": regions}),
            "jobs": tuple(one.model_copy(update={"tenant": "t"}) for one in round_.jobs),
        }
    )
    found = explain_job(round_, None, "clinic", corrections=3, isolation="none")
    assert found.verdict is Verdict.NEVER_WITHIN_RULES
    assert [fact.text for fact in found.conflict] == [
        "4 GPUs per task",
        "reads patients only where a replica is (replicas in east)",
        "tenant t may hold 2 GPUs in region east",
    ]
    assert found.corrections is not None
    texts = [one.text for one in found.corrections.now]
    assert "raise the quota of t in region east from 2 to 4 GPUs" in texts
    assert "ask 2 instead of 4 GPUs per task" in texts
