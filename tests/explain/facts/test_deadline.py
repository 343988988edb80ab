"""Explanations of policy `deadline`: tiny rounds beside all their worlds."""

from __future__ import annotations

from examples import by_night, examples
from fuzz.explanations.conflicts import compared, undecided
from fuzz.policies.deadline import POLICY
from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Verdict
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round


def test_tiny_rounds_beside_all_their_worlds() -> None:
    found = []
    for one, faults in compared(POLICY, range(examples(day=3, nightly=40))):
        assert faults == []
        assert undecided(one) == ""
        found.append(one)
    kinds = {fact.kind for one in found for fact in one.conflict}
    assert kinds >= {"work", "due", "pace", "hosts"} or not by_night()


def test_who_cannot_stay_in_the_current_lease_holds_nothing_of_a_cap() -> None:
    """The job that runs has to leave its host in this lease, so that the cap is free."""

    def job(name: str, **more: object) -> dict[str, object]:
        return {"name": name, "caps": ["c"], "options": [{"groups": [{"gpu": 1}]}], **more}

    round_ = Round.model_validate(
        {
            "now": 100,
            "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 1, "gpu_model": "A"}]},
            "caps": {"c": {"jobs": 1}},
            "jobs": [job("new"), job("old", running={"tasks": [{"host": "h1", "gpus": [0]}]})],
            "leases": {"length_s": 10, "horizon": 2, "outages": [{"host": "h1", "start": 105}]},
            "policy": {"formulation": "deadline", "terms": ["broken", "best_effort"]},
        }
    )
    check_round(round_)
    found = explain_job(round_, None, "new", isolation="none")
    assert found.verdict is Verdict.COULD_START
