"""Jobs of a file share equal options; errors in one are reported as without sharing."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_round

Raw = dict[str, Any]
CLUSTER = {"hosts": [{"name": "h", "gpus": 8, "gpu_model": "A"}]}


def read(*options: Any) -> Round:
    jobs = [{"name": f"j{i}", "options": [option]} for i, option in enumerate(options)]
    return parse_round({"cluster": CLUSTER, "jobs": jobs})


def option(**group: Any) -> Raw:
    return {"groups": [{"gpu": 1, **group}]}


def test_equal_options_are_one() -> None:
    round_ = read(option(), option(cpu=5), option(), option(cpu=5))
    first, second, *others = (job.options[0] for job in round_.jobs)
    assert others[0] is first
    assert others[1] is second
    assert (first.groups[0].cpu, second.groups[0].cpu) == (0, 5000)


def test_what_was_read_is_as_it_was() -> None:
    raw = {"name": "j", "options": [option()]}
    parse_round({"cluster": CLUSTER, "jobs": [raw]})
    assert raw == {"name": "j", "options": [option()]}


@pytest.mark.parametrize(
    ("field", "value"), [("cpu", True), ("count", True), ("count", 1.0), ("count", "1")], ids=repr
)
def test_what_only_looks_equal_is_read_for_itself(field: str, value: object) -> None:
    with pytest.raises(InvalidInputError) as raised:
        read(option(**{field: 1}), option(**{field: value}))
    assert raised.value.path[:2] == ("jobs", 1)
    assert raised.value.path[-1] == field
    assert raised.value.value == value


def test_the_first_wrong_option_is_reported() -> None:
    with pytest.raises(InvalidInputError) as raised:
        read(option(), option(cpu=-1), option(cpu=-1))
    assert raised.value.path == ("jobs", 1, "options", 0, "groups", 0, "cpu")


def test_options_of_another_form_are_refused() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    for wrong in (7, None, [], {"groups": nested}, {"groups": {1, 2}}):
        with pytest.raises(InvalidInputError) as raised:
            read(wrong)
        assert raised.value.path[:4] == ("jobs", 0, "options", 0)
    for jobs in (7, None, [7], [{"name": "j", "options": 7}], [{"name": "j"}]):
        with pytest.raises(InvalidInputError, match=r"^jobs"):
            parse_round({"cluster": CLUSTER, "jobs": jobs})
