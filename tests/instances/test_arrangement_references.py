"""What jobs ask of the tree must be there, and come out even."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from placewright.instances import InvalidInputError
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round

Raw = dict[str, Any]
GROUP: Raw = {"gpu": 1, "count": 2}


def round_of(*jobs: Raw) -> Round:
    cluster = {
        "levels": ["rack"],
        "domains": [{"name": "r", "level": "rack"}],
        "hosts": [{"name": "h", "parent": "r", "gpus": 8, "gpu_model": "A"}],
    }
    named = [{"name": f"j{i}", **job} for i, job in enumerate(jobs)]
    return Round.model_validate({"cluster": cluster, "jobs": named})


def job(group: Raw | None = None, **fields: Any) -> Raw:
    option = {"groups": [{"gpu": 1, "count": 6, **(group or {})}]}
    return {"options": [option], **fields}


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (
            [job({"slices": {"size": 4, "required": "rack"}})],
            "jobs[0].options[0].groups[0].slices.size: 4: expected a divisor of the group's 6",
        ),
        (
            [job({"slices": {"size": 2, "required": "row"}})],
            "jobs[0].options[0].groups[0].slices.required: 'row': unknown level; expected host",
        ),
        (
            [job({"apart": {"level": "row"}})],
            "jobs[0].options[0].groups[0].apart.level: 'row': unknown level; expected host or rack",
        ),
        (
            [{"options": [{"groups": [{"gpu": 0}], "required": "row"}]}],
            "jobs[0].options[0].required: 'row': unknown level; expected host or rack",
        ),
        (
            [job(anti_affinity={"label": "db", "level": "row"})],
            "jobs[0].anti_affinity.level: 'row': unknown level; expected host or rack",
        ),
        (
            [
                job(anti_affinity={"label": "db", "level": "rack"}),
                job(anti_affinity={"label": "db", "level": "host"}),
            ],
            "jobs[1].anti_affinity.level: 'host': another job with the label db has level rack; ",
        ),
        (
            [job({"num_hosts": {"min": 7}})],
            "jobs[0].options[0].groups[0].num_hosts.min: 7: its tasks can be on 6 at most",
        ),
        (
            [job({"slices": {"size": 3, "required": "host"}, "num_hosts": {"min": 3}})],
            "jobs[0].options[0].groups[0].num_hosts.min: 3: its tasks can be on 2 at most",
        ),
        (
            [job({"apart": {"level": "host", "most": 2}, "num_hosts": {"max": 2}})],
            "jobs[0].options[0].groups[0].num_hosts.max: 2: its tasks need 3 at least",
        ),
        (
            [{"options": [{"groups": [GROUP] * 2, "hosts": {"min": 5}}]}],
            "jobs[0].options[0].hosts.min: 5: its tasks can be on 4 at most",
        ),
        (
            [{"options": [{"groups": [GROUP] * 2, "required": "host", "hosts": {"min": 2}}]}],
            "jobs[0].options[0].hosts.min: 2: its tasks can be on 1 at most",
        ),
    ],
)
def test_each_mistake_names_path_value_and_expectation(jobs: list[Raw], message: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        check_round(round_of(*jobs))
    assert str(error.value).startswith(message)


def test_slices_apart_and_labels_that_make_sense_are_accepted() -> None:
    check_round(
        round_of(
            job({"slices": {"size": 3, "required": "host"}, "apart": {"level": "rack", "most": 6}}),
            job(anti_affinity={"label": "db", "level": "rack"}),
            job(anti_affinity={"label": "db", "level": "rack"}),
            job({"num_hosts": {"min": 6}, "apart": {"level": "host"}}),
        )
    )


def test_no_more_hosts_than_at_least_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"max[\s\S]*expected at least the min 3"):
        round_of({"options": [{"groups": [{"gpu": 1, "count": 4}], "hosts": {"min": 3, "max": 2}}]})
