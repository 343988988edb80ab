"""The JSON Schema of each kind of document, for editors; `python -m` this module rewrites them.

The committed files lie in `schema/`. A schema knows shapes and ranges; only
`instances/checks` checks references between names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, get_args

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


def json_schema(kind: Kind) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a document file.

    A Round's cluster may also be `{"ref": "path of a Cluster file"}`.
    """
    schema = _DOCUMENTS[kind].model_json_schema()
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
        schema["properties"]["cluster"] = {"anyOf": [schema["properties"]["cluster"], reference]}
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
