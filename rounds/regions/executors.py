"""Where the rounds of regions are decided: here, in local processes, or on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar
from weakref import WeakSet

from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import GEO
from placewright.solver.process import Child, frame, receive, send, write

T = TypeVar("T")


def call_with_timeout(call: Callable[[], T], seconds: float) -> T:
    """Return what a call returns, made in a thread of its own that ends with this process.

    Raises TimeoutError if it has not returned within `seconds`; it goes on in its thread, and its
    result is lost.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        # Any error is raised again where the result is waited for.
        except BaseException as error:  # noqa: BLE001
            answer.set_exception(error)

    Thread(target=run, daemon=True).start()
    return answer.result(seconds)


# Local processes as an executor whose tasks can be given up while they run.
#
# `ProcessPoolExecutor` waits for a task that hangs, also when it is closed; one process that has to
# be killed takes all others with it; and each process runs the caller's script once more, which has
# to be written for that. Here each process is a `Child` with a thread of this process beside it.
@dataclass(frozen=True, slots=True)
class Call:
    """Message to a process: call a function."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Returned:
    """Message back: what the function returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """Message back: the error as text, since not every exception can be sent."""

    error: str


def answer(call: object, answers: int) -> None:
    """Call a function, in a process, and send what it returns or what went wrong."""
    made: Returned | Failed
    try:
        if not isinstance(call, Call):
            raise TypeError(f"{type(call).__name__} is no call; a call was expected")
        made = Returned(call.function(*call.args, **call.kwargs))
    # A task may raise anything, and the next one is to run all the same.
    except Exception as error:  # noqa: BLE001
        made = Failed(f"{type(error).__name__}: {error}")
    send(answers, made)


class ProcessError(Exception):
    """A task raised an error, or its process ended; the message says how."""


class Processes(Executor):
    """Run tasks in local processes, `workers` of them, which start when they are first needed.

    Functions are sent by name, so a process must be able to import them. As a context manager it
    ends what is still running when it is left, and so does the end of this process, however it
    comes.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._asked: WeakSet[_Task] = WeakSet()
        self._waiting: SimpleQueue[_Task | None] = SimpleQueue()
        self._runners: list[_Runner] = []
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function elsewhere; `cancel` of the future that is returned also ends it there.

        Raises RuntimeError after `shutdown`.
        """
        if self._closed:
            raise RuntimeError("the processes have ended; no more tasks are taken")
        task = _Task(frame(Call(fn, args, kwargs)))
        self._asked.add(task)
        self._waiting.put(task)
        if len(self._runners) < self.workers:
            self._runners.append(_Runner(self._waiting))
            self._runners[-1].start()
        return task

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks; with `cancel_futures` those that run are ended, too."""
        self._closed = True
        if cancel_futures:
            for task in list(self._asked):
                task.cancel()
        for _ in self._runners:
            self._waiting.put(None)
        if wait:
            for runner in self._runners:
                runner.join()

    def __exit__(self, *_: object) -> None:
        self.shutdown(cancel_futures=True)


class _Task(Future[Any]):
    """A call that waits or runs, and the future of its result."""

    def __init__(self, request: bytes) -> None:
        super().__init__()
        self.request = request
        self.given_up = False
        self.runner: _Runner | None = None

    def cancel(self) -> bool:
        """Cancel the task if it waits; if it runs, end its process, and False is returned."""
        if super().cancel():
            return True
        self.given_up = True
        if self.runner is not None:
            self.runner.give_up(self)
        return False


class _Runner(Thread):
    """A thread that runs tasks, one after the other, in a process of its own."""

    def __init__(self, waiting: SimpleQueue[_Task | None]) -> None:
        super().__init__(daemon=True)
        self._waiting = waiting
        self._lock = Lock()
        self._task: _Task | None = None
        self._child: Child | None = None

    def run(self) -> None:
        """Run tasks until there are no more, and end the process then."""
        while (task := self._waiting.get()) is not None:
            task.runner = self
            if not task.set_running_or_notify_cancel():
                continue
            try:
                answer = self._answer(task)
            # Whatever went wrong, somebody waits for the task.
            except Exception as error:  # noqa: BLE001
                task.set_exception(error)
            else:
                task.set_result(answer)
        if self._child is not None:
            self._child.end()

    def give_up(self, task: _Task) -> None:
        """Kill the process if it is running a task; another follows for the next one."""
        with self._lock:
            if self._task is task and self._child is not None:
                self._child.kill()

    def _answer(self, task: _Task) -> object:
        if self._child is None:
            self._child = Child.start(f"{__name__}:answer")
        answer = self._exchange(self._child, task)
        match answer:
            case Returned(value):
                return value
            case Failed(error):
                raise ProcessError(error)
        child, self._child = self._child, None
        ended = ProcessError(f"the process {child.epitaph()}")
        child.end()
        raise ended

    def _exchange(self, child: Child, task: _Task) -> object | None:
        """Send a task to the process and return its answer, None if the process has ended."""
        with self._lock:
            self._task = task
        if task.given_up:
            child.kill()
        try:
            write(child.inlet, task.request)
            return receive(child.outlet)
        except BrokenPipeError:
            return None
        finally:
            with self._lock:
                self._task = None


LOCAL, DASK = "local", "dask"
MIN_JOBS, MIN_CORES = 10_000, 4
"""Jobs and cores from which processes take less time than they need to start."""

ANSWER_SECONDS, CLOSE_SECONDS = 10.0, 2.0
"""Seconds that a Dask scheduler has to answer, and to take leave."""

EXPECTED = "expected local, local:N or dask://HOST:PORT"


@contextmanager
def open_executor(text: str) -> Iterator[Executor]:
    """Open the executor that a text names, as a context; a Dask cluster outlives it.

    Nothing of it waits for a task that nobody wants any more.

    Parameters
    ----------
    text
        `local` (a process per core), `local:N` (N processes) or `dask://HOST:PORT`, the address of
        a Dask scheduler whose workers can import Placewright.

    Raises
    ------
    InvalidInputError
        If the text is none of these, Dask is not installed, or its scheduler does not answer.
    """
    kind, _, rest = text.partition(":")
    if kind == LOCAL:
        with Processes(_workers(text, rest)) as executor:
            yield executor
    elif kind == DASK and rest.startswith("//"):
        with _dask(text, rest) as executor:
            yield executor
    else:
        raise _refused(text, EXPECTED)


def check_executor(round_: Round, executor: object) -> None:
    """Refuse what is no executor, and any executor for a round without regions; None passes.

    Raises InvalidInputError as `check_executor_use` does, or if it is something else.
    """
    check_executor_use(round_, executor)
    if executor is not None and not isinstance(executor, Executor):
        raise _refused(executor, "expected an Executor, such as open_executor opens")


def check_executor_use(round_: Round, executor: object) -> None:
    """Refuse an executor, or the text that names it, for a round that has no use for one.

    Raises InvalidInputError if there is one and the round is not of policy `geo`.
    """
    policy = round_.policy.formulation
    if executor is not None and not round_.policy.spec.by_region:
        raise InvalidInputError(
            f"the round has policy {policy!r}; expected {GEO.name!r}, whose regions are decided "
            "by an executor",
            path=("executor",),
            value=executor,
            show_value=False,
        )


def default_executor(round_: Round) -> str | None:
    """Return the default executor: local processes where they pay, else None."""
    pays = len(round_.jobs) >= MIN_JOBS and cores() >= MIN_CORES
    return LOCAL if pays and round_.policy.spec.by_region else None


def cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _workers(text: str, number: str) -> int:
    if text == LOCAL:
        return cores()
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= 1024):
        raise _refused(text, "expected 1 to 1024 processes")
    return int(number)


@contextmanager
def _dask(text: str, address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise _refused(text, "expected Dask; install placewright[distributed]") from None
    host, _, port = address.removeprefix("//").rpartition(":")
    if not host or not port.isdigit():
        raise _refused(text, EXPECTED)
    try:
        # The client's own limit is only for the connection, which a scheduler that hangs accepts.
        client: Any = call_with_timeout(
            lambda: Client(f"tcp:{address}", timeout=ANSWER_SECONDS, set_as_default=False),  # type: ignore[no-untyped-call]
            ANSWER_SECONDS,
        )
    except (OSError, TimeoutError, ValueError) as error:
        reason = str(error) or f"nothing in {ANSWER_SECONDS:g} s"
        raise _refused(text, f"expected a Dask scheduler that answers ({reason})") from None
    try:
        yield client.get_executor(pure=False, retries=2)
    finally:
        # What is left there is of no use to anybody.
        with suppress(TimeoutError):
            call_with_timeout(client.close, CLOSE_SECONDS)


def _refused(value: object, expected: str) -> InvalidInputError:
    return InvalidInputError(expected, path=("executor",), value=value)
