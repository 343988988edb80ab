"""Who may ask for what: token, names, loopback, sizes; and nothing unescaped in the log."""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from placewright.live.serve.app import MOST_EXTENDING, MOST_REQUESTS, Guard
from placewright.live.serve.lane import Snapshot
from placewright.live.serve.service import EXTENDER_MIB, Bodies, Metrics, RefusedError, Settings

TOKEN = "a-token-of-the-tests"
LOCKED = ["/", "/metrics", "/nothing"]


def ours(caplog):
    """Return what the service logged: asyncio logs what tests before in the process left behind."""
    return [record for record in caplog.records if record.name == "placewright.serve"]


def basic(password):
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Token {TOKEN}",
        "Basic !",
        basic("wrong"),
        basic(""),
    ],
)
@pytest.mark.parametrize("path", LOCKED)
def test_without_the_token_nothing_is_shown(client, path, authorization):
    answer = client.get(path, headers={"Authorization": authorization})
    assert answer.status_code == 401
    assert answer.json()["kind"] == "Error"
    assert "Bearer" in answer.json()["message"]


@pytest.mark.parametrize("verb", ["solve", "verify", "explain", "admit"])
def test_without_the_token_nothing_is_done(client, verb):
    wrong = client.post(f"/v1alpha2/{verb}", json={}, headers={"Authorization": "Bearer no"})
    assert wrong.status_code == 401
    # A browser repeats a password unasked, for a page of somebody else.
    known = client.post(f"/v1alpha2/{verb}", json={}, headers={"Authorization": basic(TOKEN)})
    assert known.status_code == 401


@pytest.mark.parametrize("path", ["/", "/metrics"])
def test_a_browser_has_the_token_as_a_password(client, path):
    assert client.get(path, headers={"Authorization": basic(TOKEN)}).status_code == 200


def test_health_and_description_are_open(client):
    for path in ("/healthz", "/openapi.json"):
        assert client.get(path, headers={"Authorization": ""}).status_code == 200


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost", True),
        ("LOCALHOST:8470", True),
        ("127.0.0.1:8470", True),
        ("192.0.2.7", True),
        ("[::1]:8470", True),
        ("[::1]", True),
        ("placewright.gpu.svc:8470", True),
        ("evil.example", False),
        ("evil.example:8470", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_a_name_that_is_not_ours_is_refused(serve, host, known):
    with serve(idle=True, names=frozenset({"placewright.gpu.svc"})) as client:
        status = client.get("/healthz", headers={"Host": host}).status_code
    assert status == (200 if known else 421)


@pytest.mark.parametrize("path", ["/extender/filter", "/extender/prioritize", "/extender/preempt"])
@pytest.mark.parametrize(
    ("peer", "mutual_tls", "allowed"),
    [
        ("127.0.0.1", False, True),
        ("127.8.8.8", False, True),
        ("::1", False, True),
        ("192.0.2.1", False, False),
        ("192.0.2.1", True, True),
        ("a-name", False, False),
    ],
)
def test_the_extender_is_for_loopback_and_client_certificates(
    serve, path, peer, mutual_tls, allowed
):
    with serve(peer, idle=True, mutual_tls=mutual_tls) as client:
        # The token opens nothing here, and a header says nothing about who asks.
        status = client.post(path, json={}, headers={"X-Forwarded-For": "127.0.0.1"}).status_code
    assert (status != 403) is allowed


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_only_json_is_read(client, kind):
    """What pages in a browser may send elsewhere without asking is none of it."""
    for path in ("/v1alpha2/solve", "/v1alpha2/verify"):
        answer = client.post(path, content=b"{}", headers={"Content-Type": kind})
        assert answer.status_code == 415


def test_a_body_that_is_too_large_is_refused(client):
    headers = {"Content-Type": "application/json"}
    body = b" " * (1024**2 + 1)
    for content in (body, iter([body[:1000], body])):  # its length is said, or not
        answer = client.post("/v1alpha2/solve", content=content, headers=headers)
        assert answer.status_code == 413
        assert "at most 1 MiB" in answer.json()["message"]
    # A body of exactly the limit is read.
    assert client.post("/v1alpha2/solve", content=body[:-1], headers=headers).status_code == 400


def test_bodies_that_are_read_at_once_have_a_limit():
    class Slow:
        def __init__(self, then):
            self.then = then
            self.headers = {"content-type": "application/json"}

        async def stream(self):
            yield b" " * 700_000
            await self.then()

    async def both():
        bodies, other = Bodies(1, 1), asyncio.Event()

        async def second():
            try:
                with pytest.raises(RefusedError) as refused:
                    await bodies.read(Slow(lambda: asyncio.sleep(0)))
                assert refused.value.status == 503
            finally:
                other.set()

        answers = await asyncio.gather(bodies.read(Slow(other.wait)), second())
        assert len(answers[0]) == 700_000
        assert len(await bodies.read(Slow(lambda: asyncio.sleep(0)))) == 700_000

    asyncio.run(both())


def test_only_so_many_ask_the_extender_at_once_and_health_is_answered_all_the_same():
    """Who asks it shows no token."""

    async def app(scope, receive, send):
        await asyncio.sleep(3600)

    async def ask(guard, path):
        scope = {"type": "http", "path": path, "method": "POST", "client": ("127.0.0.1", 1)}
        sent = []

        async def send(message):
            sent.append(message)

        await guard({**scope, "headers": [(b"host", b"localhost")]}, None, send)
        return sent[0]["status"]

    async def ask_many():
        guard = Guard(app, Settings(token="t"))
        waiting = [
            asyncio.create_task(ask(guard, "/extender/filter")) for _ in range(MOST_EXTENDING)
        ]
        await asyncio.sleep(0)
        assert await ask(guard, "/extender/filter") == 503
        guard._inside = MOST_REQUESTS
        assert await ask(guard, "/openapi.json") == 503
        health = asyncio.create_task(ask(guard, "/healthz"))
        await asyncio.sleep(0)
        assert not health.done()  # it is passed on
        for one in (*waiting, health):
            one.cancel()
        await asyncio.gather(*waiting, health, return_exceptions=True)
        assert guard._extending == 0

    asyncio.run(ask_many())


def test_arguments_of_the_extender_have_a_limit_of_their_own(serve):
    with serve("127.0.0.1", idle=True) as client:
        body = b" " * (EXTENDER_MIB * 1024**2 + 1)
        headers = {"Content-Type": "application/json"}
        answer = client.post("/extender/filter", content=body, headers=headers)
        assert answer.status_code == 413


def test_the_log_is_one_printable_line_a_request(serve, caplog):
    caplog.set_level(logging.INFO, logger="placewright.serve")
    logging.getLogger("asyncio").error("Task was destroyed but it is pending!")
    with serve(idle=True) as client:
        client.get("/healthz")
        client.get("/%1b[31mred%0d%0aINFO forged%e2%80%ae")
        client.get("/" + "a" * 5000)
    lines = [record.getMessage() for record in ours(caplog)]
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    assert "\\x1b[31mred" in lines[0]
    assert len(lines[1]) < 300


def test_an_error_of_ours_is_one_line_without_a_traceback(serve, caplog, monkeypatch):
    def fail(_self):
        raise RuntimeError("\x1b[31mred")

    monkeypatch.setattr(Metrics, "text", fail)
    with serve(idle=True) as client:
        answer = client.get("/metrics")
    assert answer.status_code == 500
    assert answer.json()["message"] == "internal error; please report it"
    (record,) = [one for one in ours(caplog) if one.levelno >= logging.ERROR]
    assert record.getMessage() == "internal error: RuntimeError: \\x1b[31mred"
    assert record.exc_info is None


def test_hostile_names_stay_what_they_are_in_metrics():
    hostile = 'a"} 9\nplacewright_rounds_total 99\\'
    metrics = Metrics()
    metrics.show(
        Snapshot(
            name=hostile,
            seconds=1.0,
            degraded=(hostile,),
            gaps={hostile: 0.5},
            waiting={hostile: 8000},
            free={hostile: 3},
            stranded=None,
            page="",
            jobs={},
        )
    )
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }
    assert found["placewright_rounds_total",] == 1
    assert found["placewright_free_domains", hostile] == 3
    assert found["placewright_waiting_gpus", hostile] == 8
    assert found["placewright_degraded",] == 1


def test_hostile_text_stays_text_on_the_page(client, bundled):
    hostile = "<script>alert(1)</script>\"'&"
    round_ = bundled("quickstart") | {"name": "a|b"}
    round_["annotations"] = {"bookkeeping": hostile, "source": hostile}
    round_["jobs"].append(
        {
            "name": "lost",
            "tenant": "no",
            "options": [{"groups": [{"gpu": 1}]}],
            "annotations": {"kubernetes/pods/0": hostile},
        }
    )
    answer = client.post("/v1alpha2/solve?lenient=true", json=round_)
    assert answer.status_code == 200, answer.text
    deadline = time.monotonic() + 60
    while "lost" not in (page := client.get("/").text):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "<script>alert" not in page


def test_a_port_that_is_taken_is_told():
    from placewright import InvalidInputError
    from placewright.live.serve.app import listen

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInputError, match=f"127.0.0.1:{port}.*cannot listen"):
            listen("127.0.0.1", port)
    with pytest.raises(InvalidInputError, match="cannot listen"):
        listen("203.0.113.9", 0)
