"""The service as an application of ASGI: its paths, who may ask, connections, and running it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import logging
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from placewright.instances.errors import InvalidInputError, printable
from placewright.live.serve.lane import INVALID, OK, Answer, describe, failed, refused
from placewright.live.serve.service import Service, Settings, as_response

HEALTH = "/healthz"
"""Asked so often that it is not logged."""

OPEN = frozenset({HEALTH, "/openapi.json"})
"""Paths that anybody may ask for."""

EXTENDER = "/extender/"
MAX_LOGGED = 200

MOST_REQUESTS = 512
"""At once; health checks are answered beyond them."""

MOST_EXTENDING = 64
"""Of the extender at once, whose callers show no token: kube-scheduler asks one after the other."""

log = logging.getLogger("placewright.serve")


class Guard:
    """Refuses requests to other names, or from those who may not ask, and logs all."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._token = settings.token.encode()
        self._inside = self._extending = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        extends = scope["path"].startswith(EXTENDER)
        self._inside += 1
        self._extending += extends
        try:
            refusal = self._refusal(scope)
            await (self._app if refusal is None else refusal)(scope, receive, watched)
        except Exception as error:  # noqa: BLE001 - a server would print what was sent as it is
            log.error("internal error: %s", printable(f"{type(error).__name__}: {error}"))
            if not status:
                answer = failed("internal error; please report it")
                await Response(answer.body, answer.status)(scope, receive, watched)
        finally:
            self._inside -= 1
            self._extending -= extends
            if scope["path"] != HEALTH or status != HTTPStatus.OK:
                what = printable(f"{scope['method']} {scope['path']}")[:MAX_LOGGED]
                log.info("%s %s %.3f s", what, status or "-", time.monotonic() - began)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        # A page in a browser can reach loopback by a name of its own, but not under this one.
        if not self._is_known(headers.get("host", "")):
            return _refused(HTTPStatus.MISDIRECTED_REQUEST, "expected a known name as Host")
        path = scope["path"]
        if path == HEALTH:
            return None
        if self._inside > MOST_REQUESTS or self._extending > MOST_EXTENDING:
            return _refused(
                HTTPStatus.SERVICE_UNAVAILABLE, "busy with other requests", {"Retry-After": "1"}
            )
        if path in OPEN:
            return None
        if path.startswith(EXTENDER):
            if self._settings.mutual_tls or _is_loopback(scope):
                return None
            return _refused(
                HTTPStatus.FORBIDDEN, "expected a client certificate, or a caller on loopback"
            )
        if self._has_token(headers.get("authorization", ""), scope["method"]):
            return None
        return _refused(
            HTTPStatus.UNAUTHORIZED,
            "expected Authorization: Bearer TOKEN",
            {"WWW-Authenticate": 'Basic realm="placewright, any name and the token"'},
        )

    def _is_known(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.removeprefix("[").removesuffix("]").lower()
        if name == "localhost" or name in self._settings.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _has_token(self, authorization: str, method: str) -> bool:
        """Whether a request has the token; for browsers, a GET may have it as a password.

        Browsers repeat a password unasked, so that other pages could make them send a POST.
        """
        scheme, _, value = authorization.partition(" ")
        given = value.strip().encode()
        if scheme.lower() == "basic" and method in ("GET", "HEAD"):
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given, self._token)


def _is_loopback(scope: Scope) -> bool:
    client = scope.get("client")
    try:
        return client is not None and ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


def _refused(status: HTTPStatus, message: str, headers: dict[str, str] | None = None) -> Response:
    body = failed(message).body
    return Response(body, status, headers, media_type="application/json")


MOST_CONNECTIONS = 512
"""Above this, each new connection ends the one that has been idle for longest."""

RESERVE = 64
"""Connections beyond these while none is idle, so that health checks and refusals are heard."""

REQUEST_S = 5.0
"""Seconds in which the head of a request has to arrive, from the connection or its first byte."""


class Connection(H11Protocol):
    """A connection that ends when no request comes in time, or when others need its place."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.active_at = self.loop.time()
        self._due: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request waits for its answer here."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room, and wait for the head of a request."""
        super().connection_made(transport)
        others = [
            one
            for one in self.connections
            if isinstance(one, Connection) and not one.transport.is_closing()
        ]
        if len(others) > MOST_CONNECTIONS:
            idle = [one for one in others if one is not self and one.is_idle]
            if idle:
                min(idle, key=lambda one: one.active_at).transport.close()
            elif len(others) > MOST_CONNECTIONS + RESERVE:
                transport.abort()
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take bytes; those that make no request yet have to be followed by the others in time."""
        self.active_at = self.loop.time()
        super().data_received(data)
        if not self.is_idle:
            self._stop_waiting()
        elif self._due is None:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._due = self.loop.call_later(REQUEST_S, self._end)

    def _stop_waiting(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _end(self) -> None:
        self._due = None
        if self.is_idle:
            self.transport.close()


EMPTY = "<!doctype html><title>Placewright</title><p>No round has been solved yet.</p>"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
PAGE_HEADERS = {
    # What the page may load is said in the page itself: nothing but its own script and style.
    "Content-Security-Policy": "default-src data: 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def make_app(settings: Settings) -> FastAPI:
    """Return the service as an application."""
    service = Service(settings)
    app = FastAPI(
        title="Placewright",
        version="v1alpha2",
        docs_url=None,  # these load scripts from elsewhere
        redoc_url=None,
        lifespan=service.running,
        middleware=[Middleware(Guard, settings=settings)],
    )

    @app.post("/v1alpha2/solve")
    async def solve(request: Request, lenient: bool = False, show: bool = True) -> Response:
        """Decide a round. With `show=false` it is not the one that the service shows."""
        return await service.answer(request, "solve", lenient=lenient, show=show)

    @app.post("/v1alpha2/verify")
    async def verify(request: Request, lenient: bool = False) -> Response:
        """Check a plan, rule by rule, and recompute its terms."""
        return await service.answer(request, "verify", lenient=lenient)

    @app.post("/v1alpha2/explain")
    async def explain(request: Request, lenient: bool = False) -> Response:
        """Say why a job waits, or all that do, and what would let them start."""
        return await service.answer(request, "explain", lenient=lenient)

    @app.post("/v1alpha2/admit")
    async def admit(request: Request, lenient: bool = False) -> Response:
        """Say what one arriving job can be promised, under the policy `deadline`."""
        return await service.answer(request, "admit", lenient=lenient)

    @app.post("/extender/filter", include_in_schema=False)
    async def filtered(request: Request) -> Response:
        return await service.extend(request, "filter")

    @app.post("/extender/prioritize", include_in_schema=False)
    async def prioritized(request: Request) -> Response:
        return await service.extend(request, "prioritize")

    @app.post("/extender/preempt", include_in_schema=False)
    async def preempted(request: Request) -> Response:
        return await service.extend(request, "preempt")

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=PROMETHEUS)

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return as_response(Answer(OK, b'{"status":"ok"}'))

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        text = EMPTY if service.last is None else service.last.page
        return Response(text, headers=PAGE_HEADERS, media_type="text/html")

    _say_errors(app)
    describe(app)
    return app


def _say_errors(app: FastAPI) -> None:
    """Let errors that come from elsewhere be documents like all others."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        option = str(first["loc"][-1])
        problem = InvalidInputError("expected true or false", path=(option,), value=first["input"])
        return as_response(refused(problem, INVALID))

    @app.exception_handler(HTTPException)
    async def unknown(_request: Request, error: HTTPException) -> Response:
        return as_response(failed(str(error.detail), error.status_code))


BACKLOG = 128
IDLE_S = 120
"""Seconds that connections may be idle: longer than clients keep them (Go: 90 s).

Who ends one first must not be the service, or a request that is just sent gets no answer.
"""

FAREWELL_S = 5
"""Seconds that open requests have when the service ends."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of TLS: with `client_ca`, who connects has to show a certificate that it signed."""

    certificate: str
    key: str
    client_ca: str | None = None


class _Server(uvicorn.Server):
    """A server that signals end, and that does not raise them again afterwards."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals as a wish to end."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.getsignal(number) for number in numbers}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, self.handle_exit)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any free one.

    Raises InvalidInputError if there is no such address here, or something else listens there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(
            f"cannot listen ({reason}); expected an address of this machine, and a free port",
            path=("host",),
            value=f"{host}:{port}",
        ) from None


def run(settings: Settings, bound: socket.socket, tls: Tls | None = None) -> None:
    """Serve until a signal asks to end.

    Raises InvalidInputError if a file of TLS cannot be used.
    """
    config = uvicorn.Config(
        make_app(settings),
        log_level="warning",
        access_log=False,  # the guard has a log of its own, which escapes
        proxy_headers=False,  # who asks decides what it may ask for
        server_header=False,
        http=Connection,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=FAREWELL_S,
        lifespan="on",
        ws="none",
    )
    if tls is not None:
        config.ssl_certfile, config.ssl_keyfile = tls.certificate, tls.key
        if tls.client_ca is not None:
            config.ssl_ca_certs, config.ssl_cert_reqs = tls.client_ca, ssl.CERT_REQUIRED
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(
            f"cannot be used ({error}); expected a certificate, its key and a CA in PEM",
            path=("certificate",),
            show_value=False,
        ) from None
    _Server(config).run(sockets=[bound])
