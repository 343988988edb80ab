"""The API server of a Kubernetes cluster: who to ask, by which right, and what it has."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from placewright.instances.errors import printable
from placewright.live.watch.reading import SourceError

PROXY = "http://127.0.0.1:8001"
"""Where `kubectl proxy` listens: it has the rights of whoever started it."""

WATCH_S = 30
"""After so many seconds the server ends a watch, so that silence is never taken for news."""

MAX_LINE = 16 * 2**20
"""Bytes of one event."""

PAGE = 500
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_GONE = 410


class GoneError(Exception):
    """What a watch was to go on from is too old: list again."""


class Resource(NamedTuple):
    """Objects of one kind: the path of their list, and how each of them would be headed."""

    path: str
    api_version: str
    kind: str


class ApiServer:
    """Requests to an API server, until it is closed.

    Parameters
    ----------
    url
        The server; None is that of the cluster that this runs in, or a `kubectl proxy`.
    timeout_s
        How long an answer may take.
    """

    def __init__(self, url: str | None, *, timeout_s: float) -> None:
        self._token: Path | None = None
        verify: ssl.SSLContext | bool = True
        inside = os.environ.get("KUBERNETES_SERVICE_HOST")
        if url is None and inside and (_ACCOUNT / "token").exists():
            port = os.environ.get("KUBERNETES_SERVICE_PORT_HTTPS", "443")
            url = f"https://[{inside}]:{port}" if ":" in inside else f"https://{inside}:{port}"
            verify = ssl.create_default_context(cafile=_ACCOUNT / "ca.crt")
            self._token = _ACCOUNT / "token"
        self.url = PROXY if url is None else url
        self._timeout_s = timeout_s
        self._client = httpx.Client(base_url=self.url, verify=verify, timeout=timeout_s)

    def close(self) -> None:
        """Close all connections; what waits for an answer gets an error."""
        self._client.close()

    def get(self, path: str, **params: str) -> dict[str, Any]:
        """Return the object at a path.

        Raises
        ------
        GoneError
            It is too old to go on from.
        SourceError
            The server is down, slow, refuses, or answers with something else than an object.
        """
        try:
            answer = self._client.get(path, params=params, headers=self._headers())
        except httpx.HTTPError as error:
            raise SourceError(f"{self.url}{path}: {_said(error)}") from None
        return self._object(path, answer)

    def send(self, method: str, path: str, body: Mapping[str, Any], content: str) -> int:
        """Send an object; return the code of the answer, whatever it is.

        Raises
        ------
        SourceError
            There is no answer.
        """
        headers = {**self._headers(), "content-type": content}
        try:
            return self._client.request(
                method, path, content=json.dumps(body), headers=headers
            ).status_code
        except httpx.HTTPError as error:
            raise SourceError(f"{self.url}{path}: {_said(error)}") from None

    def events(self, path: str, version: str) -> Iterator[dict[str, Any]]:
        """Yield the events of a watch since a resource version, until the server ends it.

        Raises
        ------
        GoneError
            The version is too old.
        SourceError
            The connection is cut, or something comes that is no event.
        """
        params = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        timeout = httpx.Timeout(self._timeout_s, read=WATCH_S + 15)
        try:
            with self._client.stream(
                "GET", path, params=params, headers=self._headers(), timeout=timeout
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    answer.read()
                    self._object(path, answer)
                for line in _lines(answer):
                    yield self._event(path, line)
        except httpx.HTTPError as error:
            raise SourceError(f"{self.url}{path}: {_said(error)}") from None

    def _event(self, path: str, line: str) -> dict[str, Any]:
        try:
            event = json.loads(line)
        except ValueError:
            raise SourceError(f"{self.url}{path}: expected events as JSON") from None
        body = event.get("object") if isinstance(event, dict) else None
        if not isinstance(body, dict):
            raise SourceError(f"{self.url}{path}: expected events with an object")
        if event.get("type") == "ERROR":
            if body.get("code") == _GONE:
                raise GoneError
            raise SourceError(f"{self.url}{path}: {printable(str(body.get('message')))[:200]}")
        return {"type": event.get("type"), "object": body}

    def _object(self, path: str, answer: httpx.Response) -> dict[str, Any]:
        if answer.status_code == _GONE:
            raise GoneError
        if answer.status_code != httpx.codes.OK:
            raise SourceError(f"{self.url}{path}: answers {answer.status_code}")
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise SourceError(f"{self.url}{path}: expected an object as JSON")
        return found

    def _headers(self) -> dict[str, str]:
        """Return the token, which kubelet renews, read anew."""
        if self._token is None:
            return {}
        try:
            return {"authorization": f"Bearer {self._token.read_text().strip()}"}
        except OSError as error:
            raise SourceError(f"{self._token}: cannot be read ({error.strerror})") from None


def _lines(answer: httpx.Response) -> Iterator[str]:
    """Yield the lines of an answer, none of which may be too long."""
    rest = b""
    for part in answer.iter_bytes():
        rest += part
        *whole, rest = rest.split(b"\n")
        for line in whole:
            if line.strip():
                yield line.decode(errors="replace")
        if len(rest) > MAX_LINE:
            raise SourceError(f"an event of more than {MAX_LINE // 2**20} MiB")


def _said(error: Exception) -> str:
    return printable(str(error))[:200] or type(error).__name__
