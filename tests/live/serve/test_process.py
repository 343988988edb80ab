"""The command `placewright serve` as a process: callers at once, signals, TLS, missing packages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest

from examples import examples
from placewright.cli.app import main
from placewright.live.serve.app import REQUEST_S
from tests.live.serve import callers

SECONDS, CALLERS = examples(day=1, nightly=10), 50
GROWTH_MIB = 24


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A service that follows a round and a plan, and its folder; the files are not there yet."""
    folder = tmp_path_factory.mktemp("service")
    files = ["--round", str(folder / "round.json"), "--plan", str(folder / "plan.json")]
    with callers.running(folder, *files) as service:
        yield service, folder


def test_fifty_callers_get_right_answers_or_are_told_to_come_again(shared):
    service, folder = shared
    figures = asyncio.run(callers.hammer(service, CALLERS, SECONDS))
    seen = {int(status.split()[1]) for status in figures.answers}
    log = (folder / "log").read_text()
    assert figures.wrong == []
    assert seen <= {200, 422, 503}
    assert sum(n for what, n in figures.answers.items() if what.endswith(" 200")) > 0
    assert figures.answers["solve 503"] > 0
    # Memory grows while modules are loaded, and not with the number of requests.
    assert max(figures.mib[-4:]) - max(figures.mib[:4]) < GROWTH_MIB, figures.mib
    assert "Traceback" not in log
    assert all(line.isprintable() for line in log.splitlines())


@contextlib.contextmanager
def holding(service, count, first=b"", second=b" "):
    """Hold so many connections that sent something, and go on with a byte every half a second."""
    address = httpx.URL(service.url)
    held = [socket.create_connection((address.host, address.port), 5) for _ in range(count)]
    ended = threading.Event()

    def drip():
        while not ended.wait(0.5):
            for one in held:
                with contextlib.suppress(OSError):
                    one.send(second)

    with contextlib.suppress(OSError):
        for one in held:
            one.sendall(first)
    dripping = threading.Thread(target=drip)
    if first:
        dripping.start()
    try:
        yield held
    finally:
        ended.set()
        if first:
            dripping.join()
        for one in held:
            one.close()


HELD = 540
SLOW_HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
ASKED_ONCE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW_FILTER = (
    b"POST /extender/filter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)
UNKNOWN = SLOW_FILTER.replace(b"/extender/filter", b"/v1alpha2/solve")


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    "first", [b"", SLOW_HEAD, ASKED_ONCE, SLOW_FILTER, UNKNOWN], ids=lambda one: str(one[:20])
)
def test_callers_without_a_token_keep_nobody_from_an_answer(shared, bundled, first):
    body, service = {"round": bundled("quickstart"), "plan": {}}, shared[0]
    with holding(service, HELD, first):
        for _ in range(2):
            assert httpx.get(f"{service.url}/healthz", timeout=10).status_code == 200
            answer = httpx.post(
                f"{service.url}/v1alpha2/verify", json=body, headers=callers.NAMED, timeout=30
            )
            assert answer.status_code == 422, answer.text
            time.sleep(1)


@pytest.mark.nightly
@pytest.mark.parametrize("first", [b"", SLOW_HEAD], ids=["silent", "slow"])
def test_a_connection_without_a_request_ends(tmp_path, first):
    with callers.running(tmp_path) as service, holding(service, 1, first) as (one,):
        one.settimeout(4 * REQUEST_S)
        assert one.recv(1) == b""


@pytest.mark.nightly
def test_who_sends_slowly_takes_no_place_and_is_refused(tmp_path, bundled):
    head = b"Authorization: Bearer " + callers.TOKEN.encode() + b"\r\nHost:"
    slow = UNKNOWN.replace(b"Host:", head, 1)
    with callers.running(tmp_path) as service, holding(service, 20, slow) as held:
        answer = httpx.post(
            f"{service.url}/v1alpha2/solve",
            json=bundled("quickstart"),
            headers=callers.NAMED,
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        for one in held:
            one.settimeout(30)
            assert one.recv(100).startswith(b"HTTP/1.1 408")


@pytest.mark.nightly
def test_a_service_that_is_killed_leaves_no_process(tmp_path):
    with callers.running(tmp_path) as service:
        process = service.process
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        process.wait(30)
        deadline = time.monotonic() + 30
        while any(_runs(child) for child in children):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _runs(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_plan_of_files_is_shown_and_followed(shared, bundled):
    service, folder = shared
    round_file, plan_file = folder / "round.json", folder / "plan.json"
    client = httpx.Client(base_url=service.url)
    round_ = callers.round_of(2, 3)

    def first_reason():
        args = {
            "Pod": {
                "metadata": {"name": "p", "annotations": {"placewright.dev/job": "j2"}},
                "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
            },
            "NodeNames": ["h0", "h1"],
        }
        found = client.post("/extender/filter", json=args).json()
        return found["NodeNames"] or found["FailedAndUnresolvableNodes"]["h0"]

    def wait_for(expected):
        deadline = time.monotonic() + 60
        while (found := first_reason()) != expected:
            assert time.monotonic() < deadline, found
            time.sleep(0.1)

    wait_for("placewright: waits, no plan yet")
    decisions = callers.placed(2, 3)
    plan = {**callers.HEAD, "kind": "Plan", "decisions": decisions}
    round_file.write_text(json.dumps(round_))
    plan_file.write_text(json.dumps(plan))
    wait_for("placewright: waits, no_reason")
    # Not what somebody else asks.
    client.post("/v1alpha2/solve", json=bundled("quickstart"), headers=callers.NAMED)
    decisions[2]["decision"], decisions[1] = "start", {"job": "j1", "decision": "wait"}
    decisions[2] |= {"option": 0, "tasks": [{"host": "h1", "gpus": list(range(8))}]}
    plan_file.write_text(json.dumps(plan))
    wait_for(["h1"])
    plan_file.write_text("{")  # what cannot be read changes nothing
    deadline = time.monotonic() + 60
    while "the plan is not shown" not in (folder / "log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert first_reason() == ["h1"]


def test_a_signal_ends_the_service_and_its_processes(shared):
    """It comes after all others that ask the shared one."""
    process = shared[0].process
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A CA, and certificates of a server and of a client that it signed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    here = tmp_path_factory.mktemp("tls")

    def run(*words):
        subprocess.run([openssl, *words], cwd=here, check=True, capture_output=True)

    new = ("-newkey", "rsa:2048", "-nodes")
    run("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca")
    (here / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for who in ("server", "client"):
        request = ("-keyout", f"{who}.key", "-out", f"{who}.csr", "-subj", f"/CN={who}")
        run("req", *new, *request)
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", f"{who}.crt")
        run("x509", "-req", "-in", f"{who}.csr", *signed, "-extfile", "names")
    return here


@pytest.mark.nightly
def test_with_a_client_ca_nobody_else_connects(tmp_path, certificates):
    names = ("certificate", "server.crt"), ("key", "server.key"), ("client-ca", "ca.crt")
    options = [word for name, file in names for word in (f"--{name}", str(certificates / file))]
    alone = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    known = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    known.load_cert_chain(certificates / "client.crt", certificates / "client.key")
    with callers.running(tmp_path, *options, tls=known) as service:
        assert service.url.startswith("https://")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{service.url}/healthz", verify=alone)


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--certificate", "a"], 2, "expected both or neither"),
        (["--client-ca", "a"], 2, "expected with --certificate"),
        (["--round", "a"], 2, "expected both or neither"),
        (["--token-file", "nothing"], 3, "nothing"),
        (["--token-file", "short"], 3, "at least 16 ASCII characters"),
        (["--host", "203.0.113.9"], 3, "cannot listen"),
        (["--certificate", "short", "--key", "short", "--port", "0"], 3, "in PEM"),
        (["--port", "70000"], 2, "65535"),
    ],
)
def test_wrong_usage_is_one_line(words, code, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_text("short")
    assert main(["serve", *words]) == code
    said = capsys.readouterr().err.strip().splitlines()
    assert expected in said[-1]
    assert "Traceback" not in "".join(said)


def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["serve"]) == 10
    said = capsys.readouterr().err
    assert "pip install 'placewright[serve]'" in said
    assert len(said.splitlines()) == 1
