"""The committed JSON schemas are those of the documents."""

import json
import re
from typing import Any

import pytest

from placewright.instances.io.schema import KINDS, descriptions, file_of, json_schema, text_of


@pytest.mark.parametrize("kind", KINDS)
def test_the_committed_schema_is_the_generated_one(kind):
    assert file_of(kind).read_text(encoding="utf-8") == text_of(kind), (
        "the schema changed; rewrite the files with: python -m placewright.instances.io.schema"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_must_say_its_version_and_kind(kind):
    schema = json_schema(kind)
    assert schema["required"][:2] == ["apiVersion", "kind"]
    assert schema["properties"]["apiVersion"]["const"] == "placewright/v1alpha2"
    assert schema["properties"]["kind"]["const"] == kind


def objects(schema: Any) -> list[dict[str, Any]]:
    """Return every object type with named fields in a schema."""
    found = [schema] if isinstance(schema, dict) and "properties" in schema else []
    children = schema.values() if isinstance(schema, dict) else schema
    for child in children if isinstance(children, list) else list(children):
        if isinstance(child, dict | list):
            found += objects(child)
    return found


def is_amounts(schema: dict[str, Any]) -> bool:
    """Whether a schema is that of amounts by resource, of which three have units."""
    other = schema["additionalProperties"]
    return set(schema["properties"]) == {"gpu", "cpu", "memory"} and other["type"] == "integer"


@pytest.mark.parametrize("kind", KINDS)
def test_no_object_takes_unknown_fields(kind):
    schema = json_schema(kind)
    named = [one for one in objects(schema) if one.get("type") == "object"]
    assert named
    closed = [one["additionalProperties"] is False or is_amounts(one) for one in named]
    assert all(closed)


def test_a_round_takes_a_cluster_inline_or_by_reference():
    inline, reference = json_schema("Round")["properties"]["cluster"]["anyOf"]
    assert inline == {"$ref": "#/$defs/ClusterDocument"}
    assert reference["required"] == ["ref"]
    assert list(reference["properties"]) == ["ref"]


def test_the_schema_shows_how_quantities_are_spelled():
    group = json_schema("Round")["$defs"]["TaskGroup"]["properties"]
    for field, number, good, bad in (
        ("gpu", {"type": "number", "minimum": 0}, ("250m", "0.25", "8"), ("8 GPUs", "0.0001")),
        ("cpu", {"type": "number", "minimum": 0}, ("500m", "1.5", "8"), ("8k", "1e3")),
        ("memory", {"const": 0}, ("4Gi", "1.5Gi", "0"), ("4GB", "4096")),
    ):
        bare, text = group[field]["anyOf"]
        assert bare == number
        assert all(re.search(text["pattern"], one) for one in good)
        assert not any(re.search(text["pattern"], one) for one in bad)


@pytest.mark.parametrize("kind", KINDS)
def test_each_schema_is_plain_json(kind):
    assert json.loads(text_of(kind)) == json_schema(kind)


def classes():
    for kind in KINDS:
        schema = json_schema(kind)
        for name, definition in ((kind, schema), *schema["$defs"].items()):
            yield name.removesuffix("Document"), definition, schema["$defs"]


def test_every_property_is_described_and_its_example_is_valid():
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    wrong = []
    for name, definition, others in classes():
        for one, said in definition.get("properties", {}).items():
            example = said.get("examples", [None])[0]
            if "description" not in said or any(
                validator({**said, "$defs": others}).iter_errors(example)
            ):
                wrong.append(f"{name}.{one}: {example!r}")
    assert wrong == []


def test_no_description_is_of_a_property_that_is_gone():
    known = {
        (name, one) for name, definition, _ in classes() for one in definition.get("properties", ())
    }
    told = {(name, one) for name, them in descriptions().items() for one in them}
    assert told - known == set()
