"""Reading the body of a request: within its limit, in time, and JSON by its declaration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.requests import ClientDisconnect, Request

from placewright.live.serve.lane import GoneError
from placewright.live.serve.settings import MIB

SECONDS, FIRST_SECONDS, MIB_PER_SECOND = 60.0, 5.0, 0.25
"""In which all of a body has to arrive; and at each moment what came has to be that fast, at most
so many seconds late. What is slower holds its caller's connection, and nothing that others need."""

DRAINED_MIB = 8
"""Of a body that nobody wants, what is read all the same: who still sends may not listen."""

_CHUNK_SECONDS = 5.0
_JSON = "application/json"


class RefusedError(Exception):
    """A request that is refused before all of it is read."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Bodies:
    """Reads bodies.

    Parameters
    ----------
    mib
        Most of one, in MiB.
    reading_mib
        Most of all that are read at once.
    """

    def __init__(self, mib: int, reading_mib: int) -> None:
        self._mib, self._most = mib, max(mib, reading_mib) * MIB
        self._held = 0

    async def read(self, request: Request) -> bytes:
        """Return the body of a request.

        Raises
        ------
        RefusedError
            It is not declared to be JSON, too large, or does not arrive in time; or others are read
            that fill the memory for it.
        GoneError
            The caller is gone.
        """
        self._check_head(request)
        body = bytearray()
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(began + FIRST_SECONDS) as limit:
                async for chunk in request.stream():
                    body += chunk
                    self._held += len(chunk)
                    if len(body) > self._mib * MIB:
                        raise self._too_large()
                    if self._held > self._most:
                        raise RefusedError(
                            HTTPStatus.SERVICE_UNAVAILABLE, "busy with other requests; try again"
                        )
                    late = FIRST_SECONDS + len(body) / MIB / MIB_PER_SECOND
                    limit.reschedule(began + min(SECONDS, late))
        except TimeoutError:
            raise RefusedError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"too slow; expected {MIB_PER_SECOND:g} MiB/s, and all of it within {SECONDS:g} s",
            ) from None
        except ClientDisconnect:
            raise GoneError from None
        finally:
            self._held -= len(body)
        return bytes(body)

    def _check_head(self, request: Request) -> None:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != _JSON:
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected Content-Type: {_JSON}")
        said = request.headers.get("content-length", "0")
        is_number = said.isascii() and said.isdigit() and len(said) <= 18
        if not is_number or int(said) > self._mib * MIB:
            raise self._too_large()

    def _too_large(self) -> RefusedError:
        return RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"too large; expected at most {self._mib} MiB"
        )


async def drain(request: Request) -> None:
    """Read what a caller still sends, for a while, so that it hears the answer."""
    read = 0
    try:
        async with asyncio.timeout(_CHUNK_SECONDS):
            async for chunk in request.stream():
                read += len(chunk)
                if read > DRAINED_MIB * MIB:
                    return
    except (TimeoutError, ClientDisconnect, RuntimeError):  # RuntimeError: it was read before
        return


def until_gone(request: Request) -> Callable[[], Awaitable[None]]:
    """Return what returns once the caller of a request that was read is gone."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return gone
