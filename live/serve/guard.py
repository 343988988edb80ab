"""What each request has to pass: the name it is sent to, who asks, and a line in the log."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import logging
import time
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placewright.instances.errors import printable
from placewright.live.serve.lane import failed
from placewright.live.serve.settings import Settings

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
