"""Caps in documents: what they limit, how they are written, and which rounds are refused."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.documents.caps import Cap, Measure
from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError

Raw = dict[str, Any]


def round_of(**changes: Any) -> Raw:
    return {
        "cluster": {
            "hosts": [
                {"name": "h", "gpus": 8, "gpu_model": "H100", "cpu": 8},
                {"name": "a", "gpus": 8, "gpu_model": "A100", "resources": {"nic": 1}},
            ]
        },
        "caps": {
            "lab": {"gpus": 4, "jobs": 2, "resources": {"cpu": 3, "nic": 1}},
            "hopper": {"gpus_by_model": {"H100": 2}},
        },
        "jobs": [
            {
                "name": "j",
                "caps": ["lab", "hopper"],
                "options": [{"groups": [{"gpu": 1, "gpu_models": ["H100"]}]}],
            }
        ],
        **changes,
    }


def job(**fields: Any) -> list[Raw]:
    group = {"gpu": 1, "gpu_models": ["H100"], **fields.pop("group", {})}
    return [{"name": "j", "options": [{"groups": [group]}], **fields}]


def test_a_cap_has_limits_in_small_units_and_is_written_in_whole_ones() -> None:
    cap = Cap.model_validate(
        {"gpus": 4, "gpus_by_model": {"H100": "500m"}, "jobs": 2, "resources": {"memory": "1Gi"}}
    )
    assert dict(cap.limits) == {
        Measure("gpus"): 4000,
        Measure("jobs"): 2,
        Measure("gpus_by_model", "H100"): 500,
        Measure("resources", "memory"): 1024,
    }
    assert cap.model_dump() == {
        "gpus": 4,
        "gpus_by_model": {"H100": "500m"},
        "jobs": 2,
        "resources": {"memory": "1Gi"},
    }


def test_a_job_counts_once_and_with_all_tasks_of_its_option() -> None:
    option = Option.model_validate(
        {
            "groups": [
                {"count": 3, "gpu": 2, "gpu_models": ["H100"], "cpu": 1},
                {"gpu": "500m", "gpu_models": ["A100"], "resources": {"nic": 2}},
                {"gpu": 1},
            ]
        }
    )
    counted = {
        Measure("jobs"): 1,
        Measure("gpus"): 7500,
        Measure("gpus_by_model", "H100"): 6000,
        Measure("gpus_by_model", "A100"): 500,
        Measure("resources", "cpu"): 3000,
        Measure("resources", "nic"): 2,
    }
    assert {measure: measure.asked_by(option) for measure in counted} == counted


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jobs": job(caps=["lab"], group={"gpu_models": None})},
        {"jobs": job(caps=["hopper"], group={"gpu": 0, "gpu_models": None})},
        {"jobs": job(caps=["hopper"], group={"gpu_models": ["A100"]})},
        {"caps": {"lab": {}}, "jobs": []},
    ],
)
def test_legal_caps_are_accepted(changes: Raw) -> None:
    check_round(Round.model_validate(round_of(**changes)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"jobs": job(caps=["lob"])}, "jobs[0].caps[0]: 'lob': unknown cap; expected hopper or"),
        (
            {"jobs": job(caps=["lab", "lab"])},
            "jobs[0].caps[1]: 'lab': cap given twice; expected each name once",
        ),
        (
            {"jobs": job(caps=["hopper"], group={"gpu_models": None})},
            "jobs[0].options[0].groups[0].gpu_models: several allowed, and cap hopper counts GPUs",
        ),
        (
            {"jobs": job(caps=["hopper"], group={"gpu_models": ["A100", "H100"]})},
            "jobs[0].options[0].groups[0].gpu_models: several allowed, and cap hopper counts GPUs",
        ),
        (
            {"caps": {"c": {"gpus_by_model": {"B200": 1}}}, "jobs": []},
            "caps.c.gpus_by_model.B200: 'B200': unknown GPU model; expected A100 or H100",
        ),
        (
            {"caps": {"c": {"resources": {"disk": 1}}}, "jobs": []},
            "caps.c.resources.disk: 'disk': unknown resource; expected cpu or gpu or memory or nic",
        ),
        (
            {"policy": {"formulation": "replicas"}, "jobs": []},
            "caps: not used by policy 'replicas'; expected the round without it",
        ),
    ],
)
def test_impossible_caps_are_refused(changes: Raw, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_round(Round.model_validate(round_of(**changes)))
    assert message in str(caught.value)


@pytest.mark.parametrize("resource", ["gpu", "jobs"])
def test_what_has_a_field_of_its_own_is_no_other_resource(resource: str) -> None:
    with pytest.raises(ValueError, match="is limited by the field"):
        Cap.model_validate({"resources": {resource: 1}})


def test_running_jobs_count() -> None:
    running = {"tasks": [{"host": "h", "gpus": [0]}]}
    round_ = Round.model_validate(round_of(jobs=job(caps=["lab", "hopper"], running=running)))
    assert round_.held_of("lab", Measure("gpus")) == 1000
    assert round_.held_of("hopper", Measure("gpus_by_model", "H100")) == 1000
    assert round_.held_of("lab", Measure("jobs")) == 1
