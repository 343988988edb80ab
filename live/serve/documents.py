"""The documents of the service beside rounds and plans: what is asked together, and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from placewright.instances.documents.base import API_VERSION, Document, Flag, Index, Many, Name
from placewright.instances.documents.deadline import Due
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round

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
