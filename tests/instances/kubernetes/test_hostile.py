"""Dumps that are not what kubectl writes: a line with file, field, value and what is expected."""

from __future__ import annotations

import pytest

from placewright.instances.converters import read_kubernetes
from placewright.instances.errors import InvalidInputError
from tests.instances.kubernetes.dumps import convert, node, pod


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("metadata", "name", "x\x1b[31m"), "items[1].metadata.name: 'x\\x1b[31m': expected only"),
        (("metadata", "name", 7), "items[1].metadata.name: 7: expected a name"),
        (("spec", "containers", {}), "items[1].spec.containers: {}: expected a list"),
        (("spec", "priority", "high"), "items[1].spec.priority: 'high': expected a whole number"),
        (("metadata", "creationTimestamp", "soon"), "creationTimestamp: 'soon': expected a time"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(tmp_path, change, line):
    section, field, value = change
    wrong = pod("p")
    wrong[section][field] = value
    with pytest.raises(InvalidInputError) as caught:
        convert(tmp_path, node("a"), wrong)
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"apiVersion": "v1", "kind": "List", "items": [{"apiV', "expected valid JSON"),
        ("[]", "an object"),
        ("{}", "kind: missing"),
        ('{"kind": "List", "apiVersion": "v1", "items": 3}', "items: 3: expected a list"),
        ('{"kind": "List", "apiVersion": "v1", "items": []}', "has no nodes"),
    ],
)
def test_a_file_that_is_no_dump_is_refused_in_one_line(tmp_path, text, line):
    file = tmp_path / "dump.json"
    file.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        read_kubernetes([file])
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_label_that_no_node_has_is_refused_with_the_most_similar(tmp_path):
    nodes = [node("a", labels={"example.com/rack": "r0"})]
    with pytest.raises(InvalidInputError, match=r"example.com/rak.*did you mean example.com/rack"):
        convert(tmp_path, *nodes, levels=["example.com/rak"])
