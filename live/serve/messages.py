"""Messages between the service and the process that answers for it: questions and answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from placewright.instances.errors import (
    MAX_ERRORS,
    InvalidInputError,
    path_text,
    printable,
    value_text,
)
from placewright.live.serve.documents import ErrorDocument, Fault

OK, BAD_REQUEST, INVALID, FAILED, BUSY = 200, 400, 422, 500, 503


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a verb, the body of the request, and the most seconds of a search.

    `publish`: the answer of `solve` is the round that the service shows from now on. `policy` has
    fields that take the place of those of the round.
    """

    verb: str
    body: bytes
    seconds: float
    lenient: bool = False
    publish: bool = False
    policy: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """A status of HTTP, and JSON; with `follows` a `Snapshot` comes next."""

    status: int
    body: bytes
    follows: bool = False


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where a task is: its host, its milli-GPU there, and the uid of its pod if that is known."""

    host: str
    milli_gpu: int
    pod: str = ""


@dataclass(frozen=True, slots=True)
class JobPlaces:
    """Where a plan has the tasks of a job, with what is doubtful of it, or else why it waits.

    `owners` are uids of what its pods belong to, and of pods that wait themselves.
    """

    tasks: tuple[TaskPlace, ...] = ()
    why: str = ""
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the service shows of a round and its plan, in milli-GPU where it counts GPUs.

    `stranded` is None where it is not measured; of a plan without certificate there are no `gaps`,
    and it took no `seconds`. `left_out` says why something of the source is not in the round.
    """

    name: str
    seconds: float
    degraded: tuple[str, ...]
    gaps: Mapping[str, float | None]
    waiting: Mapping[str, int]
    free: Mapping[str, int]
    stranded: float | None
    page: str
    jobs: Mapping[str, JobPlaces] = field(repr=False)
    left_out: Mapping[str, str] = field(default_factory=dict, repr=False)


def refused(error: InvalidInputError, status: int) -> Answer:
    """Answer what is wrong with a document: its first errors, and how many more there are."""
    shown = error.errors[:MAX_ERRORS]
    faults = tuple(
        Fault(
            path=path_text(one.path, one.entry),
            value=value_text(one.value) if one.show_value else None,
            expected=printable(one.expectation),
        )
        for one in shown
    )
    more = len(error.errors) - len(shown)
    return _error(status, ErrorDocument(message=shown[0].text(), errors=faults, more=more))


def failed(message: str, status: int = FAILED) -> Answer:
    """Answer that there is none, in one sentence."""
    return _error(status, ErrorDocument(message=message))


def as_json(document: object, status: int = OK) -> Answer:
    """Answer plain values."""
    return Answer(status, json.dumps(document).encode())


def _error(status: int, document: ErrorDocument) -> Answer:
    return Answer(status, document.model_dump_json().encode())
