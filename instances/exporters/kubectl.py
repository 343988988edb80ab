"""Calls of kubectl, each of which the server refuses if its object is no longer as it was."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from placewright.instances.derived.phrases import count
from placewright.instances.errors import printable
from placewright.instances.exporters.needs import Needs

GUARDS = """
# all JOB..., any JOB...: whether nothing was skipped of each of them, of one of them
all() {
    for job; do
        case $undone in *" $job "*) why="needs $job" && return 1 ;; esac
    done
}
any() {
    for job; do
        all "$job" && why='is not as it was' && return
    done
    return 1
}
"""
"""Functions of a shell by which a call is made only if none was skipped that it needs."""

_HEAD = f"""\
#!/bin/sh
# Made by placewright export: safe to run twice. The server refuses a call whose object is no longer
# as it was when the plan was made; what needs that call is not done either. First it is asked
# whether it would refuse what belongs together (a dry run).
undone=' ' told=' ' why='is not as it was'

# skipped OBJECT [JOB]: a call about it was refused, or is not made
skipped() {{
    case $told in *" $1 "*) ;; *) echo "placewright: $1 $why: skipped" >&2 ;; esac
    undone="$undone${{2-}} " told="$told$1 " why='is not as it was'
}}
{GUARDS}"""


class Call(NamedTuple):
    """One call.

    `does` says what for, `about` names the object, `document` goes to its standard input. `job` is
    the job that it is part of; it is made only if nothing was skipped of any job that it `needs`,
    and of at least one job that is among its `users`, if it has some.
    """

    does: str
    about: str
    words: tuple[str, ...]
    document: Any = None
    job: str = ""
    needs: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    is_dry: bool = False

    def dry(self) -> Call:
        """Return the call that only asks whether the server would refuse this one."""
        asks = self._replace(does=f"try: {self.does}", is_dry=True)
        if self.document is None:
            return asks._replace(words=(*self.words, "--dry-run=server"))
        return asks._replace(document={**self.document, "dryRun": ["All"]})


class Script(NamedTuple):
    """A script, how many calls it has beside dry runs, and a line for what cannot be said."""

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


def in_order(calls: Mapping[str, Sequence[Call]], needs: Needs) -> Iterator[Call]:
    """Yield calls by job, first about those that stop, then about those that start.

    Dry runs come first, of all that is more than one call, or that others need.
    """
    made = [
        call._replace(
            job=name, needs=(name, *needs.of.get(name, ())), users=needs.users.get(name, ())
        )
        for name, own in calls.items()
        for call in own
    ]
    for call in made:
        if len(call.needs) > 1 or call.users or len(calls[call.job]) > 1:
            yield call.dry()._replace(users=())
    yield from made


def script(calls: Iterable[Call], unsaid: dict[str, list[str]]) -> Script:
    """Write calls as a script of a POSIX shell.

    No call reads what the script itself is read from.
    """
    listed = list(calls)
    lines = tuple(f"{what}: {count(len(jobs), 'job')}" for what, jobs in sorted(unsaid.items()))
    return Script(
        "\n".join([_HEAD, *map(_block, listed)]), sum(not c.is_dry for c in listed), lines
    )


def guards(users: Sequence[str], needs: Sequence[str]) -> str:
    """Return what comes before a command that some jobs need, and that needs others."""
    words = (("any", *users), ("all", *needs))
    return "".join(f"{shlex.join(one)} && " for one in words if len(one) > 1)


def _block(call: Call) -> str:
    given = "</dev/null" if call.document is None else "<<'END'"
    about = shlex.join((call.about, call.job) if call.job else (call.about,))
    command = (
        f"{guards(call.users, call.needs)}{shlex.join(call.words)} {given} >&2 || skipped {about}"
    )
    lines = [f"# {printable(call.does)}", command]
    if call.document is not None:
        lines += [json.dumps(call.document), "END"]
    return "\n".join(lines) + "\n"
