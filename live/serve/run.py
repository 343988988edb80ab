"""Running the service: a socket, TLS, and signals that end it in peace."""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from placewright.instances.errors import InvalidInputError
from placewright.live.serve.app import make_app
from placewright.live.serve.connections import Connection
from placewright.live.serve.settings import Settings

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

    Raises
    ------
    InvalidInputError
        There is no such address here, or something else listens there.
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

    Raises
    ------
    InvalidInputError
        A file of TLS cannot be used.
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
