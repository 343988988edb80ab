"""Connections: who sends no request does not keep one from those who do."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

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
