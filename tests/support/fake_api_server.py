"""A small API server of Kubernetes: lists, watches, events, and the faults that real ones have."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

PLURALS = {"Node": "nodes", "Pod": "pods", "Workload": "workloads"}


class FakeApiServer:
    """Objects by path of their list. Faults: `gone`, `cut`, `slow_s`, `refuse`, `lie`.

    A context manager; `url` is where it listens on loopback.
    """

    def __init__(self, *, page: int = 500) -> None:
        self.objects: dict[str, dict[tuple[str, str], dict[str, Any]]] = {
            "/api/v1/nodes": {},
            "/api/v1/pods": {},
            "/api/v1/namespaces": {},
            "/api/v1/resourcequotas": {},
            "/api/v1/limitranges": {},
        }
        self.groups: dict[str, list[tuple[str, str]]] = {}
        self.written: list[tuple[str, str, dict[str, Any]]] = []
        self.log: list[tuple[int, str, str, dict[str, Any]]] = []
        self.version = 100
        self.oldest = 0
        self.page = page
        self.cut = self.refuse = self.lie = False
        self.slow_s = 0.0
        self.asked: list[str] = []
        self.news = threading.Condition()
        self.ended = False
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                fake.get(self)

            def do_POST(self) -> None:
                fake.write(self)

            def do_PATCH(self) -> None:
                fake.write(self)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended = True
        with self.news:
            self.news.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def put(self, path: str, item: dict[str, Any]) -> None:
        """Add an object, or change it."""
        meta = item["metadata"]
        key = meta.get("namespace", ""), meta["name"]
        with self.news:
            self.version += 1
            made = {**item, "metadata": {**meta, "resourceVersion": str(self.version)}}
            kind = "MODIFIED" if key in self.objects[path] else "ADDED"
            self.objects[path][key] = made
            self.log.append((self.version, path, kind, made))
            self.news.notify_all()

    def delete(self, path: str, name: str, namespace: str = "") -> None:
        """Take an object away."""
        with self.news:
            self.version += 1
            made = self.objects[path].pop((namespace, name))
            self.log.append((self.version, path, "DELETED", made))
            self.news.notify_all()

    def compact(self) -> None:
        """Forget all events: watches from before are answered by 410."""
        with self.news:
            self.oldest = self.version + 1
            self.version += 1
            self.log.clear()
            self.news.notify_all()

    def get(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.asked.append(handler.path)
        time.sleep(self.slow_s)
        if self.refuse:
            self.answer(handler, 503, {"kind": "Status", "code": 503})
        elif self.lie:
            self.answer(handler, 200, {"kind": "List", "items": "none", "metadata": {}})
        elif parts.path == "/apis":
            groups = [
                {"name": name, "preferredVersion": {"groupVersion": f"{name}/v1beta2"}}
                for name in self.groups
            ]
            self.answer(handler, 200, {"groups": groups})
        elif parts.path.count("/") == 3 and parts.path.startswith("/apis/"):
            found = self.groups[parts.path.split("/")[2]]
            resources = [{"name": plural, "kind": kind} for kind, plural in found]
            self.answer(handler, 200, {"resources": resources})
        elif "watch" in query:
            self.watch(handler, parts.path, int(query["resourceVersion"]))
        else:
            self.list(handler, parts.path, query)

    def list(self, handler: BaseHTTPRequestHandler, path: str, query: dict[str, str]) -> None:
        with self.news:
            items = [
                {k: v for k, v in one.items() if k not in ("kind", "apiVersion")}
                for one in self.objects[path].values()
            ]
            version = self.version
        first = int(query.get("continue", "0"))
        end = first + min(self.page, int(query.get("limit", "500")))
        meta = {"resourceVersion": str(version)}
        if end < len(items):
            meta["continue"] = str(end)
        self.answer(handler, 200, {"items": items[first:end], "metadata": meta})

    def watch(self, handler: BaseHTTPRequestHandler, path: str, since: int) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("connection", "close")
        handler.end_headers()
        handler.close_connection = True
        while not self.ended:
            with self.news:
                if since < self.oldest:
                    gone = {"kind": "Status", "code": 410, "message": "too old"}
                    self.event(handler, "ERROR", gone)
                    return
                fresh = [one for one in self.log if one[0] > since and one[1] == path]
                if not fresh:
                    self.news.wait(0.2)
            for version, _, kind, item in fresh:
                self.event(handler, kind, item)
                since = version
            if self.cut:
                handler.connection.close()
                return

    def write(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        name = body["metadata"]["name"]
        known = any(one[2]["metadata"]["name"] == name for one in self.written)
        if handler.command == "POST" and known:
            self.answer(handler, 409, {"kind": "Status", "code": 409})
            return
        self.written.append((handler.command, handler.path, body))
        self.answer(handler, 201 if handler.command == "POST" else 200, body)

    @staticmethod
    def event(handler: BaseHTTPRequestHandler, kind: str, item: dict[str, Any]) -> None:
        try:
            handler.wfile.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")
            handler.wfile.flush()
        except OSError:
            handler.close_connection = True

    @staticmethod
    def answer(handler: BaseHTTPRequestHandler, code: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        handler.send_response(code)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)
