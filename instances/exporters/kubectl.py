"""Calls of kubectl, each of which the server refuses if its object is no longer as it was."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from placewright.instances.derived.phrases import count

_HEAD = """\
#!/bin/sh
# Made by placewright export: safe to run twice. The server refuses a call whose object is no longer
# as it was when the plan was made.
skipped() { echo "placewright: $1 is not as it was: skipped" >&2; }
"""


class Call(NamedTuple):
    """One call: `does` says what for, `about` names the object, `document` goes to its stdin."""

    does: str
    about: str
    words: tuple[str, ...]
    document: Any = None


class Script(NamedTuple):
    """A script, how many calls it has, and a line for each thing that cannot be said."""

    text: str
    calls: int
    unsaid: tuple[str, ...]


def test(path: str, value: str | bool) -> dict[str, Any]:
    """Return the operation of a JSON Patch (RFC 6902) without which it is refused as a whole."""
    return {"op": "test", "path": path, "value": value}


def patch(
    kind: str,
    namespace: str,
    name: str,
    operations: Sequence[dict[str, Any]],
    does: str,
    *,
    subresource: str | None = None,
) -> Call:
    """Return the call of a JSON Patch."""
    words = ["kubectl", "patch", kind, name, "-n", namespace, "--type=json"]
    if subresource is not None:
        words.append(f"--subresource={subresource}")
    return Call(does, f"{namespace}/{name}", (*words, "-p", json.dumps(operations)))


def delete(api: str, namespace: str, plural: str, name: str, uid: str, does: str) -> Call:
    """Return the call that deletes an object if it has this uid; `api` begins its path."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
    path = f"/{api}/namespaces/{namespace}/{plural}/{name}"
    return Call(
        does, f"{namespace}/{name}", ("kubectl", "delete", "--raw", path, "-f", "-"), options
    )


def apply(document: dict[str, Any], does: str) -> Call:
    """Return the call that makes an object, or makes it as it is here."""
    meta = document["metadata"]
    return Call(
        does, f"{meta['namespace']}/{meta['name']}", ("kubectl", "apply", "-f", "-"), document
    )


def script(calls: Iterable[Call], unsaid: dict[str, list[str]]) -> Script:
    """Write calls as a script of a POSIX shell."""
    blocks = [_block(call) for call in calls]
    lines = tuple(f"{what}: {count(len(jobs), 'job')}" for what, jobs in sorted(unsaid.items()))
    return Script("\n".join([_HEAD, *blocks]), len(blocks), lines)


def _block(call: Call) -> str:
    command = f"{shlex.join(call.words)} >&2 || skipped {shlex.quote(call.about)}"
    if call.document is None:
        return f"# {call.does}\n{command}\n"
    return f"# {call.does}\n{command} <<'END'\n{json.dumps(call.document)}\nEND\n"
