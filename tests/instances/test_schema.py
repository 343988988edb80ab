"""The committed JSON schemas are those of the documents."""

import json
import re
from typing import Any

import pytest

from placewright.instances.io.schema import KINDS, file_of, json_schema, text_of


@pytest.mark.parametrize("kind", KINDS)
def test_the_committed_schema_is_the_generated_one(kind):
    assert file_of(kind).read_text(encoding="utf-8") == text_of(kind), (
        "the schema changed; rewrite the files with: python -m placewright.instances.io.schema"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_must_say_its_version_and_kind(kind):
    schema = json_schema(kind)
    assert schema["required"][:2] == ["apiVersion", "kind"]
    assert schema["properties"]["apiVersion"]["const"] == "placewright/v1alpha1"
    assert schema["properties"]["kind"]["const"] == kind


def objects(schema: Any) -> list[dict[str, Any]]:
    """Return every object type with named fields in a schema."""
    found = [schema] if isinstance(schema, dict) and "properties" in schema else []
    children = schema.values() if isinstance(schema, dict) else schema
    for child in children if isinstance(children, list) else list(children):
        if isinstance(child, dict | list):
            found += objects(child)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_no_object_takes_unknown_fields(kind):
    schema = json_schema(kind)
    named = [one for one in objects(schema) if one.get("type") == "object"]
    assert named
    assert all(one["additionalProperties"] is False for one in named)


def test_a_round_takes_a_cluster_inline_or_by_reference():
    inline, reference = json_schema("Round")["properties"]["cluster"]["anyOf"]
    assert inline == {"$ref": "#/$defs/ClusterDocument"}
    assert reference["required"] == ["ref"]
    assert list(reference["properties"]) == ["ref"]


def test_the_schema_shows_how_quantities_are_spelled():
    group = json_schema("Round")["$defs"]["TaskGroup"]["properties"]
    for field, good, bad in (("cpu", "500m", "8"), ("memory", "4Gi", "4GB")):
        integer, text = group[field]["anyOf"]
        assert integer["type"] == "integer"
        assert re.search(text["pattern"], good)
        assert not re.search(text["pattern"], bad)


@pytest.mark.parametrize("kind", KINDS)
def test_each_schema_is_plain_json(kind):
    assert json.loads(text_of(kind)) == json_schema(kind)
