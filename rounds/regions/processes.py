"""Local processes as an executor whose tasks can be given up while they run.

`ProcessPoolExecutor` waits for a task that hangs, also when it is closed; one process that has to
be killed takes all others with it; and each process runs the caller's script once more, which has
to be written for that. Here each process is a `Child` with a thread of this process beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any
from weakref import WeakSet

from placewright.solver.child import Child
from placewright.solver.wire import frame, receive, write

__all__ = ["Call", "Failed", "ProcessError", "Processes", "Returned"]


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

        Raises
        ------
        RuntimeError
            After `shutdown`.
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
            self._child = Child.start("placewright.rounds.regions.remote")
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
