"""Explanations of policy `interleaving`: tiny rounds beside all their worlds."""

from __future__ import annotations

from examples import by_night, examples
from fuzz.explanations.conflicts import compared, undecided
from fuzz.policies.interleaving import POLICY
from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Verdict
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round


def test_tiny_rounds_beside_all_their_worlds() -> None:
    found = []
    for one, faults in compared(POLICY, range(examples(day=2, nightly=30))):
        assert faults == []
        assert undecided(one) == ""
        found.append(one)
    kinds = {fact.kind for one in found for fact in one.conflict}
    assert kinds >= {"gpu", "jobs"} or not by_night()


def test_what_others_ask_that_wait_counts_in_what_gpus_lack() -> None:
    """The job could only take turns with the one that runs; without the others no GPUs lack."""

    def job(name: str, model: str, gpus: int, **more: object) -> dict[str, object]:
        options = [{"groups": [{"gpu": gpus, "gpu_models": [model]}]}]
        return {"name": name, "options": options, "profile": {"stages": [2, 2]}, **more}

    hosts = [
        {"name": "h0", "gpus": 1, "gpu_model": "A"},
        {"name": "h1", "gpus": 2, "gpu_model": "B"},
    ]
    runs = {"tasks": [{"host": "h0", "gpus": [0]}]}
    for others, verdict in ((3, Verdict.COULD_START), (0, Verdict.NOT_NOW)):
        jobs = [job("new", "A", 1), job("old", "A", 1, running=runs)]
        jobs += [job(f"other-{n}", "B", 2) for n in range(others)]
        round_ = Round.model_validate(
            {
                "cluster": {"hosts": hosts},
                "jobs": jobs,
                "sharing": {"resources": ["a", "b"], "as_needed": True},
                "policy": {"formulation": "interleaving", "terms": ["throughput"]},
            }
        )
        check_round(round_)
        found = explain_job(round_, None, "new", isolation="none")
        assert found.verdict is verdict
        kinds = [fact.kind for fact in found.conflict]
        assert kinds == ([] if others else ["gpu", "gpu_models", "as_needed", "jobs"])
