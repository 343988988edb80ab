"""All objects of one kind, kept as the API server has them: listed once, then watched."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from placewright.live.watch.api_server import PAGE, WATCH_S, ApiServer, GoneError, Resource
from placewright.live.watch.reading import SourceError

MAX_OBJECTS = 1_000_000
MOST_PATIENCE_S = 30.0


class Mirror:
    """Objects of one kind, of which a thread keeps a copy.

    Parameters
    ----------
    server, resource
        What is listed and watched.
    changed
        Is called when the copy has changed.
    """

    def __init__(self, server: ApiServer, resource: Resource, changed: Callable[[], None]) -> None:
        self._server, self.resource, self._changed = server, resource, changed
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._heard: float | None = None
        self._problem = "nothing was listed yet"
        self._thread = threading.Thread(target=self._run, name=resource.path, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop watching, as soon as the server's answer allows."""
        self._ends.set()

    def state(self) -> tuple[list[dict[str, Any]], float]:
        """Return the objects, and until when they were known to be as they are here.

        Raises
        ------
        SourceError
            They were never listed, or could not be listed again.
        """
        with self._lock:
            if self._heard is None:
                raise SourceError(self._problem)
            return list(self._objects.values()), self._heard

    def _run(self) -> None:
        failures = 0
        version: str | None = None
        while not self._ends.is_set():
            try:
                if version is None:
                    version = self._list()
                version = self._follow(version)
                failures = 0
            except GoneError:
                version = None
            except SourceError as error:
                failures += 1
                self._problem = str(error)
                self._ends.wait(min(2.0**failures, MOST_PATIENCE_S))
                if failures > 1:
                    version = None

    def _list(self) -> str:
        """List all objects, page by page; return the version to watch from."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        began, following = time.monotonic(), ""
        while True:
            params = {"limit": str(PAGE), **({"continue": following} if following else {})}
            page = self._server.get(self.resource.path, **params)
            items, meta = page.get("items") or [], page.get("metadata")
            if not isinstance(items, list) or not isinstance(meta, dict):
                raise SourceError(f"{self.resource.path}: expected a list of objects")
            for item in items:
                key = _key(item)
                if key is not None:
                    found[key] = self._headed(item)
            if len(found) > MAX_OBJECTS:
                raise SourceError(f"{self.resource.path}: more than {MAX_OBJECTS:,} objects")
            following = str(meta.get("continue") or "")
            if not following:
                break
        with self._lock:
            self._objects, self._heard = found, began
        self._changed()
        return str(meta.get("resourceVersion") or "0")

    def _follow(self, version: str) -> str:
        """Take over what a watch tells until the server ends it; return where to go on."""
        began = time.monotonic()
        for event in self._server.events(self.resource.path, version):
            meta = event["object"].get("metadata")
            if isinstance(meta, dict):
                version = str(meta.get("resourceVersion") or version)
            key = _key(event["object"])
            with self._lock:
                self._heard = time.monotonic()
                if event["type"] in ("ADDED", "MODIFIED") and key is not None:
                    self._objects[key] = self._headed(event["object"])
                elif event["type"] == "DELETED" and key is not None:
                    self._objects.pop(key, None)
                else:
                    continue
            self._changed()
            if self._ends.is_set():
                return version
        ended = time.monotonic()
        if ended - began < WATCH_S * 0.9:  # not as agreed: what it says last is all that is known
            self._ends.wait(1)
            return version
        with self._lock:
            self._heard = ended
        return version

    def _headed(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return an object with version and kind, which those in lists do not have."""
        return {**item, "apiVersion": self.resource.api_version, "kind": self.resource.kind}


def _key(item: Any) -> tuple[str, str] | None:
    meta = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        return None
    return str(meta.get("namespace") or ""), meta["name"]
