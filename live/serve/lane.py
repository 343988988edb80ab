"""A lane: a process that answers one question at a time, and a short queue before it."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
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
from placewright.solver.child import Child
from placewright.solver.usage import usage
from placewright.solver.wire import receive, send

# Messages between the service and the process that answers for it: questions and answers.


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


# When the caller of a question goes, or its limit passes, the process is killed with all that it
# started, and the next question starts another.


MODULE = "placewright.live.serve.worker"
GRACE_SHARE, GRACE_SECONDS = 1.0, 30.0
"""To read, verify and write, beside the seconds of a search: this share of them, and seconds."""

MOST_IDLE_MIB = 512
"""Memory of a process that waits for its next question; Python gives little of it back."""

log = logging.getLogger("placewright.serve")


class BusyError(Exception):
    """The queue is full; in `seconds` it may not be."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"busy with other requests; try again in {seconds} s")
        self.seconds = seconds


class GoneError(Exception):
    """The caller is gone, and nobody wants the answer."""


class Lane:
    """A process that answers, and the queue before it.

    Parameters
    ----------
    waiting
        Most questions that wait for their turn.
    show
        Called with what the service shows from now on.
    """

    def __init__(self, waiting: int, show: Callable[[Snapshot], None]) -> None:
        self._waiting, self._show = waiting, show
        self._turn = asyncio.Lock()
        self._inside, self._until = 0, 0.0
        self._usual: float | None = None  # seconds of a question, of late
        self._child: Child | None = None
        self._following: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the process ahead of the first question; where that fails, the question is told."""
        if self._child is None:
            with suppress(OSError):
                self._child = Child.start(MODULE)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Take a place in the queue.

        Raises
        ------
        BusyError
            There is none.
        """
        if self._inside > self._waiting:
            raise BusyError(max(1, math.ceil(self._seconds_left())))
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def _seconds_left(self) -> float:
        """Guess when there is a place again: when the question at work ends, or most would."""
        latest = self._until - time.monotonic()
        return latest if self._usual is None else min(latest, self._usual * self._inside)

    async def ask(self, question: Question, gone: Callable[[], Awaitable[object]]) -> Answer:
        """Return the answer to a question, once it is its turn.

        Parameters
        ----------
        question
            What is asked.
        gone
            Returns once the caller is gone.

        Raises
        ------
        GoneError
            It is.
        """
        answer = asyncio.create_task(self._answer(question))
        leaving = asyncio.ensure_future(gone())
        try:
            await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise GoneError
            return answer.result()
        finally:
            leaving.cancel()
            answer.cancel()
            await asyncio.gather(answer, leaving, return_exceptions=True)

    async def close(self) -> None:
        """End the process."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._child is not None:
            self._child.end()
            self._child = None

    async def _answer(self, question: Question) -> Answer:
        await self._turn.acquire()
        follows = False
        try:
            began = time.monotonic()
            self._until = began + question.seconds
            answer = await self._exchange(question, question.seconds)
            if not isinstance(answer, Answer):
                raise TypeError(f"the process answered with {type(answer).__name__}")
            follows, took = answer.follows, time.monotonic() - began
            self._usual = took if self._usual is None else (self._usual + took) / 2
            return answer
        finally:
            if follows:
                self._following = asyncio.create_task(self._follow(question.seconds))
            else:
                self._renew()
                self._turn.release()

    async def _follow(self, seconds: float) -> None:
        """Take what the service is to show, which comes after the answer."""
        try:
            message = await self._exchange(None, seconds)
            if isinstance(message, Snapshot):
                self._show(message)
            elif isinstance(message, Answer):
                log.warning("the last round is not shown: %s", printable(message.body.decode()))
        finally:
            self._renew()
            self._turn.release()

    def _renew(self) -> None:
        """Start another process in place of one that still holds the memory of a large round."""
        child = self._child
        if child is not None and usage(child.process.pid).resident_mib > MOST_IDLE_MIB:
            self._child = None
            child.end()
            self.start()

    async def _exchange(self, question: Question | None, seconds: float) -> object:
        """Send a question, if there is one, and return the next message of the process."""
        self.start()
        child, limit = self._child, seconds * (1 + GRACE_SHARE) + GRACE_SECONDS
        if child is None:
            return failed("no process could be started; try again", BUSY)
        talk = asyncio.ensure_future(asyncio.to_thread(_talk, child, question))
        try:
            async with asyncio.timeout(limit):
                message = await asyncio.shield(talk)
        except BaseException as error:
            # Its pipes are closed when nobody reads them any more, which the kill makes so.
            self._child = None
            child.kill()
            talk.add_done_callback(lambda _: child.end())
            if isinstance(error, TimeoutError):
                return failed(f"took longer than {limit:g} s, and was ended", BUSY)
            raise
        if message is None:
            self._child = None
            words = printable(child.epitaph())
            child.end()
            return failed(f"the process that worked on it {words}; try again", BUSY)
        return message


def _talk(child: Child, question: Question | None) -> object | None:
    """Send a question and return the next message; None if the process has ended."""
    try:
        if question is not None:
            send(child.inlet, question)
        return receive(child.outlet)
    except (BrokenPipeError, ConnectionResetError):
        return None
