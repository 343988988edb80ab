"""The documents of the service beside rounds and plans, and their OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from placewright.instances.documents.base import API_VERSION, Document, Flag, Index, Many, Name
from placewright.instances.documents.deadline import Due
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round

# The documents of the service beside rounds and plans: what is asked together, and answers.


MOST_CORRECTIONS = 50
DEFAULT_CORRECTIONS = 6


class VerifyRequest(Document):
    """A round, and the plan to be checked against it; `bound` also proves bounds afresh."""

    round: Round
    plan: Plan
    bound: Flag = False


class ExplainRequest(Document):
    """Why `job` waits, or all jobs that do: beside a plan, or in the round as it is."""

    round: Round
    plan: Plan | None = None
    job: Name | None = None
    corrections: Annotated[int, Field(strict=True, ge=0, le=MOST_CORRECTIONS)] = DEFAULT_CORRECTIONS


class AdmitRequest(Document):
    """A job that asks for a promise beside those of a round and, if there is one, of its plan.

    `admitted` are the jobs that were promised a time since then, as the answers gave them.
    """

    round: Round
    plan: Plan | None = None
    admitted: Many[Job] = ()
    job: Job


class BrokenRule(Document):
    """A rule that a plan breaks."""

    rule: str
    path: str
    message: str


class Verdict(Document):
    """Whether a plan is valid, its placement at least, and its terms, recomputed."""

    valid: Flag
    placement_valid: Flag
    violations: Many[BrokenRule] = ()
    unverified: Many[str] = ()
    terms: dict[str, int]
    bounds: Many[TermResult] | None = None


class Admission(Document):
    """What a job is promised; `job` is the job with its promise, None if it is refused."""

    apiVersion: Literal["placewright/v1alpha2"] = API_VERSION  # noqa: N815
    kind: Literal["Admission"] = "Admission"
    promise: Due | None = None
    option: Index | None = None
    finish: Index | None = None
    runs: Many[tuple[int, int]] = ()
    in_the_way: Many[Name] = ()
    job: Job | None = None


class ExplanationDocument(BaseModel):
    """Why a job waits (kind Explanation), or all that do, in `groups` (kind Explanations).

    As `placewright explain --format json` prints it; amounts are in small units.
    """

    apiVersion: Literal["placewright/v1alpha2"] = API_VERSION  # noqa: N815
    kind: Literal["Explanation", "Explanations"]
    round: str
    job: str | None = None
    verdict: str | None = None
    doubts: list[str] = []
    left_out: list[dict[str, Any]] = []
    conflict: list[dict[str, Any]] = []
    proof: dict[str, Any] | None = None
    places: list[dict[str, Any]] = []
    cost: dict[str, Any] | None = None
    corrections: dict[str, Any] | None = None
    facts: int | None = None
    questions: int | None = None
    groups: list[dict[str, Any]] = []


class Fault(Document):
    """One thing that is wrong: the path of the field, its value in short, what was expected."""

    path: str
    value: str | None = None
    expected: str


class ErrorDocument(Document):
    """Why there is no answer: one sentence, and for an invalid document each of its errors."""

    apiVersion: Literal["placewright/v1alpha2"] = API_VERSION  # noqa: N815
    kind: Literal["Error"] = "Error"
    message: str
    errors: Many[Fault] = ()
    more: Index = 0


# OpenAPI of the service: its documents are those of the library.


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
