"""A Kubernetes cluster: each kind that is read is listed, then watched."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from placewright.instances.converters import READ_KINDS, convert_kubernetes
from placewright.instances.converters.kubernetes.nodes import NO_ACCELERATORS
from placewright.instances.errors import InvalidInputError
from placewright.live.watch.api_server import ApiServer, GoneError, Resource
from placewright.live.watch.mirror import Mirror
from placewright.live.watch.reading import Reading, SourceError

SETTLES_S = 1.0
"""A state is read so long after the first change, since changes come in groups."""

FIRST_LIST_S = 60.0
"""How long the first lists may take."""


class KubernetesSource:
    """States of a Kubernetes cluster, until it is closed.

    Parameters
    ----------
    server
        The API server.
    levels, movable, accelerators
        As for `read_kubernetes`.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        levels: Sequence[str],
        movable: bool,
        accelerators: Mapping[str, str] = NO_ACCELERATORS,
    ) -> None:
        self._server, self._levels, self._movable = server, levels, movable
        self._accelerators = accelerators
        self._changed = threading.Event()
        self._mirrors: list[Mirror] = []

    def close(self) -> None:
        """Stop watching."""
        for mirror in self._mirrors:
            mirror.end()
        self._server.close()

    def read(self) -> Reading:
        """Return the state as it is known; it is as old as the kind that was heard of last.

        Raises
        ------
        SourceError
            The API server does not answer, or what it has is no state of a cluster.
        """
        if not self._mirrors:
            self._mirrors = [
                Mirror(self._server, one, self._changed.set) for one in self._resources()
            ]
        self._changed.clear()
        states = [self._first(mirror) for mirror in self._mirrors]
        try:
            made = convert_kubernetes(
                (item for items, _ in states for item in items),
                self._server.url,
                levels=self._levels,
                movable=self._movable,
                accelerators=self._accelerators,
                now=int(time.time()),
            )
        except InvalidInputError as error:
            raise SourceError(str(error)) from None
        return Reading(made, min(heard for _, heard in states))

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or soon after something has changed."""
        if self._changed.wait(seconds):
            time.sleep(min(SETTLES_S, seconds))

    @staticmethod
    def _first(mirror: Mirror) -> tuple[list[dict[str, object]], float]:
        """Return the state of a mirror, for which the first list is waited for."""
        end = time.monotonic() + FIRST_LIST_S
        while True:
            try:
                return mirror.state()
            except SourceError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def _resources(self) -> list[Resource]:
        """Return what of the kinds that are read the server has."""
        found = [
            Resource("/api/v1/nodes", "v1", "Node"),
            Resource("/api/v1/pods", "v1", "Pod"),
            Resource("/api/v1/namespaces", "v1", "Namespace"),
        ]
        groups = {kind.group for kind in READ_KINDS if kind.group}
        try:
            listed = self._server.get("/apis").get("groups") or []
            for group in listed:
                name = group.get("name") if isinstance(group, dict) else None
                if name in groups:
                    found += self._of_group(str(name), group)
        except GoneError:
            raise SourceError(f"{self._server.url}/apis: answers 410") from None
        return found

    def _of_group(self, name: str, group: dict[str, object]) -> Iterator[Resource]:
        preferred = group.get("preferredVersion")
        version = preferred.get("groupVersion") if isinstance(preferred, dict) else None
        if not isinstance(version, str):
            return
        kinds = {kind.name for kind in READ_KINDS if kind.group == name}
        for one in self._server.get(f"/apis/{version}").get("resources") or []:
            if isinstance(one, dict) and one.get("kind") in kinds and "/" not in str(one["name"]):
                yield Resource(f"/apis/{version}/{one['name']}", version, str(one["kind"]))
