"""OpenAPI of the service: its documents are those of the library."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.live.serve.documents import (
    Admission,
    AdmitRequest,
    ErrorDocument,
    ExplainRequest,
    ExplanationDocument,
    Verdict,
    VerifyRequest,
)

PLACE = "#/components/schemas/"
BODIES: Mapping[str, tuple[type[BaseModel], type[BaseModel]]] = {
    "/v1alpha2/solve": (Round, Plan),
    "/v1alpha2/verify": (VerifyRequest, Verdict),
    "/v1alpha2/explain": (ExplainRequest, ExplanationDocument),
    "/v1alpha2/admit": (AdmitRequest, Admission),
}
"""What each path takes and gives."""

REFUSALS: Mapping[HTTPStatus, str] = {
    HTTPStatus.BAD_REQUEST: "The body is no JSON.",
    HTTPStatus.UNAUTHORIZED: "The token is missing or wrong.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "The documents are not valid; each error names its field.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Busy, or the answer took too long; see Retry-After.",
}


def describe(app: FastAPI) -> None:
    """Let an application describe bodies and answers that it takes and gives as they are."""
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            made.update(_described(app))
        return made

    app.openapi = openapi  # type: ignore[method-assign]


def _described(app: FastAPI) -> dict[str, Any]:
    whole = get_openapi(title=app.title, version=app.version, routes=app.routes)
    models = [model for pair in BODIES.values() for model in pair] + [ErrorDocument]
    _, schemas = models_json_schema(
        [(model, "validation") for model in models], ref_template=PLACE + "{model}"
    )
    for name in ("Round", "Plan"):  # in memory both have a default; here they say what they are
        one = schemas["$defs"][name]
        one["required"] = ["apiVersion", "kind", *one.get("required", ())]
    whole["components"] = {
        "schemas": schemas["$defs"],
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    whole["security"] = [{"token": []}]
    for path, (asked, given) in BODIES.items():
        post = whole["paths"][path]["post"]
        post["requestBody"] = {"required": True, "content": _content(asked)}
        post["responses"] = {"200": {"description": given.__name__, "content": _content(given)}} | {
            str(status.value): {"description": text, "content": _content(ErrorDocument)}
            for status, text in REFUSALS.items()
        }
    return whole


def _content(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"{PLACE}{model.__name__}"}}}
