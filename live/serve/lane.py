"""A lane: a process that answers one question at a time, a short queue before it; documents."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
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
from placewright.instances.errors import (
    MAX_ERRORS,
    InvalidInputError,
    path_text,
    printable,
    value_text,
)
from placewright.solver.process import Child, receive, send, usage

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


OK, BAD_REQUEST, INVALID, FAILED, BUSY = 200, 400, 422, 500, 503


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a verb, the body of the request, and the most seconds of a search.

    `publish`: the answer of `solve` is the round that the service shows from now on. `policy` has
    fields that take the place of those of the round.
    """

    verb: str
    body: bytes
    seconds: float
    lenient: bool = False
    publish: bool = False
    policy: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """A status of HTTP, and JSON; with `follows` a `Snapshot` comes next."""

    status: int
    body: bytes
    follows: bool = False


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where a task is: its host, its milli-GPU there, and the uid of its pod if that is known."""

    host: str
    milli_gpu: int
    pod: str = ""


@dataclass(frozen=True, slots=True)
class JobPlaces:
    """Where a plan has the tasks of a job, with what is doubtful of it, or else why it waits.

    `owners` are uids of what its pods belong to, and of pods that wait themselves.
    """

    tasks: tuple[TaskPlace, ...] = ()
    why: str = ""
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the service shows of a round and its plan, in milli-GPU where it counts GPUs.

    `stranded` is None where it is not measured; of a plan without certificate there are no `gaps`,
    and it took no `seconds`. `left_out` says why something of the source is not in the round.
    """

    name: str
    seconds: float
    degraded: tuple[str, ...]
    gaps: Mapping[str, float | None]
    waiting: Mapping[str, int]
    free: Mapping[str, int]
    stranded: float | None
    page: str
    jobs: Mapping[str, JobPlaces] = field(repr=False)
    left_out: Mapping[str, str] = field(default_factory=dict, repr=False)


def refused(error: InvalidInputError, status: int) -> Answer:
    """Answer what is wrong with a document: its first errors, and how many more there are."""
    shown = error.errors[:MAX_ERRORS]
    faults = tuple(
        Fault(
            path=path_text(one.path, one.entry),
            value=value_text(one.value) if one.show_value else None,
            expected=printable(one.expectation),
        )
        for one in shown
    )
    more = len(error.errors) - len(shown)
    return _error(status, ErrorDocument(message=shown[0].text(), errors=faults, more=more))


def failed(message: str, status: int = FAILED) -> Answer:
    """Answer that there is none, in one sentence."""
    return _error(status, ErrorDocument(message=message))


def as_json(document: object, status: int = OK) -> Answer:
    """Answer plain values."""
    return Answer(status, json.dumps(document).encode())


def _error(status: int, document: ErrorDocument) -> Answer:
    return Answer(status, document.model_dump_json().encode())


# When the caller of a question goes, or its limit passes, the process is killed with all that it
# started, and the next question starts another.
WORKER = "placewright.live.serve.questions:work"
GRACE_SHARE, GRACE_SECONDS = 1.0, 30.0
"""To read, verify and write, beside the seconds of a search: this share of them, and seconds."""

MOST_IDLE_MIB = 512
"""Memory of a process that waits for its next question; Python gives little of it back."""

log = logging.getLogger("placewright.serve")


class BusyError(Exception):
    """The queue is full; in `seconds` it may not be."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"busy with other requests; try again in {seconds} s")
        self.seconds = seconds


class GoneError(Exception):
    """The caller is gone, and nobody wants the answer."""


class Lane:
    """A process that answers, and the queue before it.

    `waiting`: most questions that wait for their turn. `show`: called with what the service shows
    from now on.
    """

    def __init__(self, waiting: int, show: Callable[[Snapshot], None]) -> None:
        self._waiting, self._show = waiting, show
        self._turn = asyncio.Lock()
        self._inside, self._until = 0, 0.0
        self._usual: float | None = None  # seconds of a question, of late
        self._child: Child | None = None
        self._following: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the process ahead of the first question; where that fails, the question is told."""
        if self._child is None:
            with suppress(OSError):
                self._child = Child.start(WORKER)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Take a place in the queue.

        Raises BusyError if there is none.
        """
        if self._inside > self._waiting:
            raise BusyError(max(1, math.ceil(self._seconds_left())))
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def _seconds_left(self) -> float:
        """Guess when there is a place again: when the question at work ends, or most would."""
        latest = self._until - time.monotonic()
        return latest if self._usual is None else min(latest, self._usual * self._inside)

    async def ask(self, question: Question, gone: Callable[[], Awaitable[object]]) -> Answer:
        """Return the answer to a question, once it is its turn.

        `question`: what is asked. `gone`: returns once the caller is gone. Raises GoneError if it
        is.
        """
        answer = asyncio.create_task(self._answer(question))
        leaving = asyncio.ensure_future(gone())
        try:
            await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise GoneError
            return answer.result()
        finally:
            leaving.cancel()
            answer.cancel()
            await asyncio.gather(answer, leaving, return_exceptions=True)

    async def close(self) -> None:
        """End the process."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._child is not None:
            self._child.end()
            self._child = None

    async def _answer(self, question: Question) -> Answer:
        await self._turn.acquire()
        follows = False
        try:
            began = time.monotonic()
            self._until = began + question.seconds
            answer = await self._exchange(question, question.seconds)
            if not isinstance(answer, Answer):
                raise TypeError(f"the process answered with {type(answer).__name__}")
            follows, took = answer.follows, time.monotonic() - began
            self._usual = took if self._usual is None else (self._usual + took) / 2
            return answer
        finally:
            if follows:
                self._following = asyncio.create_task(self._follow(question.seconds))
            else:
                self._renew()
                self._turn.release()

    async def _follow(self, seconds: float) -> None:
        """Take what the service is to show, which comes after the answer."""
        try:
            message = await self._exchange(None, seconds)
            if isinstance(message, Snapshot):
                self._show(message)
            elif isinstance(message, Answer):
                log.warning("the last round is not shown: %s", printable(message.body.decode()))
        finally:
            self._renew()
            self._turn.release()

    def _renew(self) -> None:
        """Start another process in place of one that still holds the memory of a large round."""
        child = self._child
        if child is not None and usage(child.process.pid).resident_mib > MOST_IDLE_MIB:
            self._child = None
            child.end()
            self.start()

    async def _exchange(self, question: Question | None, seconds: float) -> object:
        """Send a question, if there is one, and return the next message of the process."""
        self.start()
        child, limit = self._child, seconds * (1 + GRACE_SHARE) + GRACE_SECONDS
        if child is None:
            return failed("no process could be started; try again", BUSY)
        talk = asyncio.ensure_future(asyncio.to_thread(_talk, child, question))
        try:
            async with asyncio.timeout(limit):
                message = await asyncio.shield(talk)
        except BaseException as error:
            # Its pipes are closed when nobody reads them any more, which the kill makes so.
            self._child = None
            child.kill()
            talk.add_done_callback(lambda _: child.end())
            if isinstance(error, TimeoutError):
                return failed(f"took longer than {limit:g} s, and was ended", BUSY)
            raise
        if message is None:
            self._child = None
            words = printable(child.epitaph())
            child.end()
            return failed(f"the process that worked on it {words}; try again", BUSY)
        return message


def _talk(child: Child, question: Question | None) -> object | None:
    """Send a question and return the next message; None if the process has ended."""
    try:
        if question is not None:
            send(child.inlet, question)
        return receive(child.outlet)
    except (BrokenPipeError, ConnectionResetError):
        return None
