"""The service: its paths, and what they answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from starlette.middleware import Middleware

from placewright.live.serve.bodies import RefusedError, body_of, drain, until_gone
from placewright.live.serve.guard import Guard
from placewright.live.serve.lane import BusyError, GoneError, Lane
from placewright.live.serve.messages import Question, Snapshot, failed
from placewright.live.serve.metrics import Metrics
from placewright.live.serve.page import EMPTY
from placewright.live.serve.settings import Settings

_CLOSED = 499
"""As nginx says it: the caller left before there was an answer."""

PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A page that asks for nothing from anywhere."""

log = logging.getLogger("placewright.serve")


class Service:
    """What the paths share: two lanes, metrics, and the last round.

    Searches take as long as they are allowed to; checks have a lane of their own, so that they do
    not wait for these.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.last: Snapshot | None = None
        self._searches = Lane(settings.waiting, self._show)
        self._checks = Lane(settings.waiting, self._show)

    def _show(self, snapshot: Snapshot) -> None:
        self.last = snapshot
        self.metrics.show(snapshot)

    @asynccontextmanager
    async def running(self, _app: FastAPI) -> AsyncIterator[None]:
        """Have the processes, as long as the service runs."""
        lanes = self._searches, self._checks
        for lane in lanes:
            lane.start()
        try:
            yield
        finally:
            await asyncio.gather(*(lane.close() for lane in lanes))

    async def answer(
        self, request: Request, verb: str, *, lenient: bool = False, publish: bool = False
    ) -> Response:
        """Answer a request with a document."""
        lane = self._searches if verb in ("solve", "explain") else self._checks
        response = await self._answer(lane, request, verb, lenient=lenient, publish=publish)
        self.metrics.answered(verb, response.status_code)
        return response

    async def _answer(
        self, lane: Lane, request: Request, verb: str, *, lenient: bool, publish: bool
    ) -> Response:
        try:
            async with lane.place():
                body = await body_of(request, self.settings.body_mib)
                question = Question(verb, body, self.settings.seconds, lenient, publish)
                answer = await lane.ask(question, until_gone(request))
        except BusyError as error:
            await drain(request)
            headers = {"Retry-After": str(error.seconds)}
            return _json(failed(str(error)).body, HTTPStatus.SERVICE_UNAVAILABLE, headers)
        except RefusedError as error:
            await drain(request)
            return _json(failed(str(error)).body, error.status)
        except GoneError:
            return Response(status_code=_CLOSED)
        headers = {"Retry-After": "1"} if answer.status == HTTPStatus.SERVICE_UNAVAILABLE else {}
        return _json(answer.body, answer.status, headers)


def make_app(settings: Settings) -> FastAPI:
    """Return the service as an application of ASGI."""
    service = Service(settings)
    app = FastAPI(
        title="Placewright",
        version="v1alpha2",
        docs_url=None,  # these load scripts from elsewhere
        redoc_url=None,
        lifespan=service.running,
        middleware=[Middleware(Guard, settings=settings)],
    )
    app.state.service = service

    @app.post("/v1alpha2/solve")
    async def solve(request: Request, lenient: bool = False, show: bool = True) -> Response:
        """Decide a round: send a Round, get its Plan."""
        return await service.answer(request, "solve", lenient=lenient, publish=show)

    @app.post("/v1alpha2/verify")
    async def verify(request: Request, lenient: bool = False) -> Response:
        """Check a plan, rule by rule."""
        return await service.answer(request, "verify", lenient=lenient)

    @app.post("/v1alpha2/explain")
    async def explain(request: Request, lenient: bool = False) -> Response:
        """Say why a job waits, and what would let it start."""
        return await service.answer(request, "explain", lenient=lenient)

    @app.post("/v1alpha2/admit")
    async def admit(request: Request, lenient: bool = False) -> Response:
        """Say what one arriving job can be promised, under the policy deadline."""
        return await service.answer(request, "admit", lenient=lenient)

    @app.get("/metrics")
    async def metrics() -> Response:
        """Return metrics as Prometheus reads them."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/healthz")
    async def healthz() -> Response:
        """Say that the service runs."""
        return _json(b'{"status":"ok"}')

    @app.get("/")
    async def page() -> Response:
        """Show the last round and its plan."""
        text = EMPTY if service.last is None else service.last.page
        headers = {"Content-Security-Policy": PAGE_POLICY, "X-Content-Type-Options": "nosniff"}
        return Response(text, headers=headers, media_type="text/html")

    return app


def _json(
    body: bytes, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response:
    return Response(body, status, headers, media_type="application/json")
