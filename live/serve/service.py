"""The service itself: two lanes, metrics, the extender, and the last round."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, Request, Response

from placewright.instances.errors import InvalidInputError, printable
from placewright.live.serve.bodies import Bodies, RefusedError, drain, until_gone
from placewright.live.serve.documents import ErrorDocument
from placewright.live.serve.extender import Args, Extender, args_of, refusal
from placewright.live.serve.lane import BusyError, GoneError, Lane
from placewright.live.serve.messages import OK, Answer, Question, Snapshot, failed
from placewright.live.serve.metrics import Metrics
from placewright.live.serve.settings import Settings

CLOSED = 499
"""As nginx says it: the caller left before there was an answer."""

EXTENDER_MIB = 4
READING_MIB, EXTENDING_MIB = 512, 64
"""Most of all requests whose bodies are read at once, and of those of the extender."""

FILE_SECONDS = 1.0
"""How often the files of round and plan are looked at."""

log = logging.getLogger("placewright.serve")


class Service:
    """What the paths share.

    Searches take as long as they are allowed to; checks have a lane of their own, so that they do
    not wait for these.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings, self.metrics, self.extender = settings, Metrics(), Extender()
        self.last: Snapshot | None = None
        self._bodies = Bodies(settings.body_mib, READING_MIB)
        self._extending = Bodies(EXTENDER_MIB, EXTENDING_MIB)
        self._searches = Lane(settings.waiting, self._show)
        self._checks = Lane(settings.waiting, self._show)

    def _show(self, snapshot: Snapshot) -> None:
        self.last = snapshot
        self.metrics.show(snapshot)
        self.extender.show(snapshot.jobs, snapshot.left_out)

    @asynccontextmanager
    async def running(self, _app: FastAPI) -> AsyncIterator[None]:
        """Have the processes, as long as the service runs, and follow the files."""
        lanes = self._searches, self._checks
        for lane in lanes:
            lane.start()
        following = asyncio.create_task(self._follow_files())
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await asyncio.gather(*(lane.close() for lane in lanes))

    async def answer(
        self, request: Request, verb: str, *, lenient: bool = False, show: bool = False
    ) -> Response:
        """Answer a request with a document; `show` its round from now on, unless files do."""
        lane = self._searches if verb in ("solve", "explain") else self._checks
        publish = show and self.settings.plan_file is None
        response = await self._answer(lane, request, verb, lenient=lenient, publish=publish)
        self.metrics.answered(verb, response.status_code)
        return response

    async def _answer(
        self, lane: Lane, request: Request, verb: str, *, lenient: bool, publish: bool
    ) -> Response:
        try:
            body = await self._bodies.read(request)
            async with lane.place():
                given = self.settings.policy
                question = Question(verb, body, self.settings.seconds, lenient, publish, given)
                answer = await lane.ask(question, until_gone(request))
        except BusyError as error:
            return as_response(failed(str(error), HTTPStatus.SERVICE_UNAVAILABLE), error.seconds)
        except RefusedError as error:
            await drain(request)
            return as_response(failed(str(error), error.status))
        except GoneError:
            return Response(status_code=CLOSED)
        return as_response(answer)

    async def extend(self, request: Request, verb: str) -> Response:
        """Answer kube-scheduler; what is wrong with its arguments is part of the result."""
        try:
            body = await self._extending.read(request)
            args = args_of(_json(body))
            answers: dict[str, Callable[[Args], object]] = {
                "filter": self.extender.filtered,
                "prioritize": self.extender.prioritized,
                "preempt": self.extender.preempted,
            }
            result = answers[verb](args)
        except InvalidInputError as error:
            if verb != "filter":  # the others have no place for an error
                return as_response(failed(error.text(), HTTPStatus.UNPROCESSABLE_ENTITY))
            result = refusal(error.text())
        except RefusedError as error:
            return as_response(failed(str(error), error.status))
        except GoneError:
            return Response(status_code=CLOSED)
        self.metrics.answered(verb, OK)
        return as_response(Answer(OK, json.dumps(result).encode()))

    async def _follow_files(self) -> None:
        """Show the round and plan of two files, whenever one of them changes.

        Both have to be as they are for a while: who writes them writes one after the other.
        """
        names = self.settings.round_file, self.settings.plan_file
        if names[0] is None or names[1] is None:
            return
        before: tuple[object, ...] = ()
        seen = before
        while True:
            now = tuple(_mark(Path(name)) for name in names if name is not None)
            if now == before and now != seen and None not in now and await self._load(*names):
                seen = now
            before = now
            await asyncio.sleep(FILE_SECONDS)

    async def _load(self, *names: str | None) -> bool:
        """Show the round and plan of two files; return False if it is to be tried again."""
        body = json.dumps(dict(zip(("round", "plan"), names, strict=True))).encode()
        question = Question("load", body, self.settings.seconds, publish=True)
        answer = await self._checks.ask(question, asyncio.Event().wait)
        if answer.status != OK:
            why = ErrorDocument.model_validate_json(answer.body).message
            log.warning("the plan is not shown: %s", printable(why))
        return answer.status != HTTPStatus.SERVICE_UNAVAILABLE


def _json(body: bytes) -> object:
    """Return what kube-scheduler sends: with as many keys as the cluster has nodes."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInputError("expected valid JSON", show_value=False) from None


def as_response(answer: Answer, retry_after: int = 1) -> Response:
    """Return an answer as a response; of 503, also when to try again."""
    headers = {}
    if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(retry_after)
    return Response(answer.body, answer.status, headers, media_type="application/json")


def _mark(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
