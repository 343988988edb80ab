"""A service of the tests, and bundled rounds as it takes them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.resources import files
from typing import Any
from unittest.mock import patch

import pytest

from placewright import load_round
from placewright.instances.io.files import json_text
from placewright.live.serve.app import make_app
from placewright.live.serve.lane import Lane
from placewright.live.serve.service import Settings

with warnings.catch_warnings():  # newer versions of starlette would rather have another client
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

TOKEN = "a-token-of-the-tests"
LIBRARY = files("placewright.instances") / "library"


@pytest.fixture(scope="session")
def bundled():
    """`bundled(name)` is a round of the library as plain values."""

    def values(name: str) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(json_text(load_round(str(LIBRARY / f"{name}.yaml"))))
        return made

    return values


@contextmanager
def serving(peer: str = "192.0.2.1", *, idle: bool = False, **changes: Any) -> Iterator[TestClient]:
    app = make_app(Settings(**{"token": TOKEN, "seconds": 5.0, **changes}))
    with ExitStack() as stack:
        with patch.object(Lane, "start") if idle else nullcontext():
            client = stack.enter_context(
                TestClient(app, base_url="http://localhost", client=(peer, 50_000))
            )
        client.headers = {"Authorization": f"Bearer {TOKEN}"}
        yield client


@pytest.fixture(scope="session")
def serve():
    """`serve(peer, **settings)` is a client of a service, as a context; `peer` is who asks.

    With `idle=True` it starts no process before the first question.
    """
    return serving


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with serving(idle=True, body_mib=1) as made:
        yield made


@pytest.fixture(scope="module")
def solved(client, bundled):
    answer = client.post("/v1alpha2/solve", json=bundled("quickstart"))
    assert answer.status_code == 200, answer.text
    return answer.json()
