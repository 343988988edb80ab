"""Reading the body of a request: within its limit, in time, and JSON by its declaration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.requests import ClientDisconnect, Request

from placewright.live.serve.lane import GoneError

SECONDS = 60.0
"""In which all of a body has to arrive."""

DRAINED_MIB = 8
"""Of a body that nobody wants, what is read all the same: who still sends may not listen."""

_CHUNK_SECONDS = 5.0
_JSON = "application/json"


class RefusedError(Exception):
    """A request that is refused before it is read."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


async def body_of(request: Request, mib: int) -> bytes:
    """Return the body of a request.

    Raises
    ------
    RefusedError
        It is not declared to be JSON, larger than `mib` MiB, or does not arrive in time.
    GoneError
        The caller is gone.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected Content-Type: {_JSON}")
    most = mib * 1024**2
    too_large = RefusedError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"too large; expected at most {mib} MiB"
    )
    length = request.headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit() or len(length) > 18 or int(length) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise RefusedError(
            HTTPStatus.REQUEST_TIMEOUT, f"expected all of it within {SECONDS:g} s"
        ) from None
    except ClientDisconnect:
        raise GoneError from None
    return bytes(body)


async def drain(request: Request) -> None:
    """Read what a caller still sends, for a while, so that it hears the answer."""
    read = 0
    try:
        async with asyncio.timeout(_CHUNK_SECONDS):
            async for chunk in request.stream():
                read += len(chunk)
                if read > DRAINED_MIB * 1024**2:
                    return
    except (TimeoutError, ClientDisconnect, RuntimeError):  # RuntimeError: it was read before
        return


def until_gone(request: Request) -> Callable[[], Awaitable[None]]:
    """Return what returns once the caller of a request that was read is gone."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return gone
