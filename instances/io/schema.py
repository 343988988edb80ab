"""The JSON Schema of each kind of document, for editors; `python -m` this module rewrites them.

The committed files lie in `schema/`. A schema knows shapes and ranges; only
`instances/checks` checks references between names.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from placewright.instances.documents.base import Document
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.edits import Edits
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round

Kind = Literal["Round", "Plan", "Cluster", "Edits"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FOLDER = Path(__file__).parents[1] / "schema"

_DOCUMENTS: dict[Kind, type[Document]] = {
    "Round": Round,
    "Plan": Plan,
    "Cluster": ClusterDocument,
    "Edits": Edits,
}


@cache
def descriptions() -> dict[str, dict[str, tuple[str, Any]]]:
    """Return by class and property what the property says, and an example of its value."""
    text = (FOLDER / "descriptions.yaml").read_text(encoding="utf-8")
    described: dict[str, dict[str, tuple[str, Any]]] = yaml.safe_load(text)
    return described


def _describe(name: str, definition: dict[str, Any]) -> None:
    """Give each property of a class its description and example."""
    for one, (text, example) in descriptions().get(name.removesuffix("Document"), {}).items():
        if one in definition.get("properties", ()):
            definition["properties"][one].update(description=text, examples=[example])


def json_schema(kind: Kind) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a document file.

    A Round's cluster may also be `{"ref": "path of a Cluster file"}`.
    """
    schema = _DOCUMENTS[kind].model_json_schema()
    schema["$id"] = f"urn:placewright:v1alpha2:{kind.lower()}"
    for name, definition in ((kind, schema), *schema["$defs"].items()):
        _describe(name, definition)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    # In memory both have a default; a file must say what it is.
    schema["required"] = ["apiVersion", "kind", *schema.get("required", ())]
    if kind == "Round":
        reference = {
            "type": "object",
            "description": "A Cluster file, as seen from the folder of this one.",
            "properties": {"ref": {"type": "string", "minLength": 1}},
            "required": ["ref"],
            "additionalProperties": False,
        }
        cluster = schema["properties"]["cluster"]
        said = {word: cluster.pop(word) for word in ("description", "examples")}
        schema["properties"]["cluster"] = {"anyOf": [cluster, reference], **said}
    return schema


def text_of(kind: Kind) -> str:
    """Return the JSON Schema of a kind as its committed file holds it."""
    return json.dumps(json_schema(kind), indent=1, sort_keys=True) + "\n"


def file_of(kind: Kind) -> Path:
    """Return where the JSON Schema of a kind is committed."""
    return FOLDER / f"{kind.lower()}.json"


def main() -> None:
    """Rewrite the committed schemas."""
    FOLDER.mkdir(exist_ok=True)
    for kind in KINDS:
        file_of(kind).write_text(text_of(kind), encoding="utf-8")


if __name__ == "__main__":
    main()
