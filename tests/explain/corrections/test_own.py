"""Changes that the owner of a job is told of."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.explain import job_corrections
from placewright.explain.corrections import own
from placewright.explain.corrections.own import own_changes
from placewright.explain.explain_job import explain_job
from placewright.instances.checks.round import check_round
from placewright.instances.documents.edits import Edits
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits

Raw = dict[str, Any]


@pytest.mark.parametrize(
    ("cap", "told"),
    [
        ({"gpus": 1}, ["allow B, too", "allow C, too"]),
        ({"gpus_by_model": {"A": 1}}, []),
        ({"gpus_by_model": {"B": 1}}, ["allow C, too"]),
    ],
    ids=["all", "own", "other"],
)
def test_no_model_is_proposed_with_which_a_cap_could_not_count(cap: Raw, told: list[str]) -> None:
    hosts = [{"name": f"h{model}", "gpus": 2, "gpu_model": model} for model in "ABC"]
    job = {"name": "new", "caps": ["c"], "options": [{"groups": [{"gpu": 2, "gpu_models": ["A"]}]}]}
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": hosts},
            "caps": {"c": cap},
            "jobs": [job],
            "policy": {"terms": ["value"]},
        }
    )
    check_round(round_)
    changes = [one for one in own_changes(round_, round_.jobs[0]) if one.kind == "models"]
    assert [one.strongest.text for one in changes] == told
    for one in changes:
        apply_edits(round_, Edits(edits=one.strongest.edits))


HOSTS: list[Raw] = [
    {"name": "g0", "gpus": 8, "gpu_model": "H100"},
    {"name": "c0", "gpus": 0, "cpu": 64},
    {"name": "d0", "model": "dgx-a100"},
]


def mixed() -> Round:
    """Hosts without GPUs, with GPUs of a catalogued host, and a job that waits for the others."""
    asked = [{"groups": [{"gpu": 8, "gpu_models": ["H100"]}]}]
    runs = {"tasks": [{"host": "g0", "gpus": [*range(8)]}], "pinned": True}
    jobs = [{"name": "runs", "options": asked, "running": runs}, {"name": "new", "options": asked}]
    return Round.model_validate({"cluster": {"hosts": HOSTS}, "jobs": jobs})


def test_models_are_those_of_hosts_with_gpus() -> None:
    found = explain_job(mixed(), None, "new", corrections=6, isolation="none").corrections
    assert found is not None
    assert {"allow A100-SXM4-80GB, too", "wait until job runs has ended (no end is known)"} <= {
        one.text for one in found.now
    }
    assert found.left_out == ()


def refused(*_args: object, **_options: object) -> None:
    raise ZeroDivisionError("<b>no\nlonger")


def test_a_change_that_cannot_be_listed_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own, "hardware", refused)
    found = explain_job(mixed(), None, "new", corrections=6, isolation="none").corrections
    assert found is not None
    assert "wait until job runs has ended (no end is known)" in {one.text for one in found.now}
    assert found.left_out == ("some changes (ZeroDivisionError: <b>no)",)


@pytest.mark.parametrize("broken", ["plan_that_starts", "cheapest_victims"])
def test_a_correction_that_cannot_be_verified_is_left_out(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_corrections, broken, refused)
    round_ = mixed()
    (runs, new) = round_.jobs
    assert runs.running is not None
    free = runs.model_copy(update={"running": runs.running.model_copy(update={"pinned": False})})
    round_ = round_.model_copy(update={"jobs": (free, new)})
    found = explain_job(round_, None, "new", corrections=6, isolation="none").corrections
    assert found is not None
    assert any("ZeroDivisionError" in one for one in found.left_out)
    assert bool(found.now) is (broken == "cheapest_victims")


def test_more_or_fewer_hosts_are_proposed_and_no_fewer_tasks_than_hosts() -> None:
    hosts = [{"name": f"h{i}", "gpus": 8, "gpu_model": "A"} for i in range(4)]

    def told(tasks: int, number: dict[str, int]) -> list[str]:
        option = {"hosts": number, "groups": [{"gpu": 1, "count": tasks}]}
        round_ = Round.model_validate(
            {"cluster": {"hosts": hosts}, "jobs": [{"name": "new", "options": [option]}]}
        )
        found = explain_job(round_, None, "new", corrections=6, isolation="none").corrections
        assert found is not None
        return [one.text for one in found.now]

    assert told(20, {"max": 2}) == ["allow up to 3 hosts", "ask 16 instead of 20 tasks"]
    assert told(5, {"min": 5}) == ["allow as few as 4 hosts"]
    assert told(20, {"min": 2, "max": 2}) == ["allow up to 3 hosts", "ask 16 instead of 20 tasks"]
    assert told(5, {"min": 5, "max": 5}) == ["allow as few as 4 hosts"]
