"""Changes that the owner of a job is told of."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.explain.corrections.own import own_changes
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
