"""The parent's side of the solver process: backends run in a subprocess that can be killed.

The worker is a fresh Python (never a fork) that lives as long as its `Worker`; a time limit, a
memory limit, a crash or an interrupt ends it, and the next solve starts another. It belongs to the
process that started it: a fork of that has its `Worker`, but starts a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import time
import weakref
from dataclasses import replace
from typing import Self

from placewright.array_types import Floats
from placewright.solver.arrays import Arrays
from placewright.solver.audit import audit, known_objective
from placewright.solver.backends import Report
from placewright.solver.child import Child
from placewright.solver.errors import BackendUnavailableError, UnsupportedModelError
from placewright.solver.incumbent import Incumbent
from placewright.solver.inprocess import InProcess
from placewright.solver.outcome import Limits, Outcome, Progress, Status
from placewright.solver.usage import usage
from placewright.solver.wire import Refusal, Request, Warm, frame, take

__all__ = ["InProcess", "Worker"]

GRACE_SHARE, GRACE_SECONDS = 0.1, 0.2
"""The worker is killed at the limit plus this share of it plus these seconds."""

POLL_SECONDS = 0.05
"""How often the worker's memory is read."""


class _EndedError(Exception):
    """The worker is gone or has to go; the message says why."""

    def __init__(self, message: str, *, at_limit: bool = False) -> None:
        super().__init__(message)
        self.at_limit = at_limit


class Worker:
    """Run backends in a subprocess; a context manager, for one thread at a time."""

    def __init__(self) -> None:
        _workers.add(self)
        self._child: Child | None = None
        self._received = bytearray()
        self._past_cpu = 0.0
        self._last_cpu = 0.0
        self._peak = 0.0

    def solve(
        self,
        backend: str,
        arrays: Arrays,
        limits: Limits,
        start: Floats | None = None,
        report: Report | None = None,
    ) -> Outcome:
        """Solve with a backend by name (or ``module:attribute``) and check what it says.

        Parameters
        ----------
        start
            A hint: a feasible point, shape (columns,).
        report
            Called in this process with each point and bound, checked, while the search runs.

        Returns
        -------
        A checked outcome. A backend that raises or lies gives status FAILED; one that hangs,
        crashes or takes too much memory is killed, and the best checked point and bound that it
        had streamed are returned with status FEASIBLE and a message, or FAILED without a point.
        Where no other process can be started, this one solves, and the message says so.

        Raises
        ------
        BackendUnavailableError, UnsupportedModelError
            As the backend raised them.
        """
        began = time.monotonic()
        incumbent = Incumbent(arrays)
        request = Request(backend, arrays, limits, start, began)
        try:
            answer = self._exchange(request, incumbent, report)
        except _EndedError as end:
            self._kill()
            answer = _remains(incumbent, end)
            answer = replace(answer, backend=backend, seconds=time.monotonic() - began)
        except OSError as error:
            # No process, no pipe or no folder for files to be had.
            self._kill()
            seconds = max(0.0, limits.seconds - (time.monotonic() - began))
            limits = replace(limits, seconds=seconds)
            answer = InProcess().solve(backend, arrays, limits, start, report)
            words = f"solved in this process, as no other could be started: {error}"
            if answer.status is Status.FAILED:
                words = f"{words}; {answer.message}"
            return replace(answer, message=words, fault=True)
        except BaseException:
            # An interrupt, or an error in `report`: the worker is in the middle of a search.
            self._kill()
            raise
        if isinstance(answer, Refusal):
            kind = UnsupportedModelError if answer.available else BackendUnavailableError
            raise kind(answer.message)
        known = known_objective(arrays, start)
        if incumbent.objective is not None:
            known = max(
                incumbent.objective,
                incumbent.objective if known is None else known,
                key=lambda objective: arrays.sign * objective,
            )
        return audit(arrays, answer, known)

    def warm(self, backend: str) -> None:
        """Start the worker and have it load a backend, without waiting for it."""
        try:
            with contextlib.suppress(BlockingIOError):
                os.write(self._running().inlet, frame(Warm(backend)))
        # Where there can be no process, the first solve says so.
        except OSError:
            self._kill()

    def cpu_seconds(self) -> float:
        """Give the CPU seconds of all worker processes so far and of their children."""
        self._measure()
        return self._past_cpu + self._last_cpu

    def peak_mib(self) -> float:
        """Give the largest resident memory of any worker process and its children, in MiB."""
        self._measure()
        return self._peak

    def close(self) -> None:
        """End the worker process; a later solve would start another."""
        self._kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(
        self, request: Request, incumbent: Incumbent, report: Report | None
    ) -> Outcome | Refusal:
        seconds = request.limits.seconds
        deadline = request.sent + seconds * (1 + GRACE_SHARE) + GRACE_SECONDS
        child = self._running()
        inlet, outlet = child.inlet, child.outlet
        unsent = memoryview(frame(request))
        with selectors.DefaultSelector() as selector:
            selector.register(outlet, selectors.EVENT_READ)
            selector.register(inlet, selectors.EVENT_WRITE)
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise _EndedError("killed at the limit", at_limit=True)
                ready = {key.fd for key, _ in selector.select(min(left, POLL_SECONDS))}
                if inlet in ready:
                    unsent = self._push(child, unsent)
                    if not unsent:
                        selector.unregister(inlet)
                if outlet in ready:
                    self._pull(child)
                while (message := take(self._received)) is not None:
                    if isinstance(message, Outcome | Refusal):
                        return message
                    self._hear(message, incumbent, report)
                self._check_memory(request.limits)

    def _push(self, child: Child, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(child.inlet, unsent) :]
        except BrokenPipeError:
            raise _EndedError(f"the worker {child.epitaph()}") from None

    def _pull(self, child: Child) -> None:
        chunk = os.read(child.outlet, 1 << 20)
        if not chunk:
            raise _EndedError(f"the worker {child.epitaph()}")
        self._received += chunk

    def _hear(self, message: object, incumbent: Incumbent, report: Report | None) -> None:
        if not isinstance(message, Progress):
            raise _EndedError(
                f"the worker answered with {type(message).__name__}; an outcome was due"
            )
        news = incumbent.hear(message.seconds, message.values, message.bound)
        if report is not None and news is not None:
            report(news)

    def _check_memory(self, limits: Limits) -> None:
        resident = self._measure()
        if limits.memory_mib is not None and resident > limits.memory_mib:
            raise _EndedError(
                f"killed with {resident:.0f} MiB of memory; at most {limits.memory_mib} MiB "
                "was expected"
            )

    def _measure(self) -> float:
        if self._child is None:
            return 0.0
        now = usage(self._child.process.pid)
        # A process that has ended reads as zero: keep what was seen last.
        self._last_cpu = max(self._last_cpu, now.cpu_seconds)
        self._peak = max(self._peak, now.peak_mib)
        return now.resident_mib

    def _running(self) -> Child:
        if self._child is None:
            self._child = _started()
        return self._child

    def _kill(self) -> None:
        if self._child is None:
            return
        self._measure()
        self._child.end()
        self._forget()

    def _forget(self) -> None:
        self._child = None
        self._received.clear()
        self._past_cpu += self._last_cpu
        self._last_cpu = 0.0


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


def _forget_all() -> None:
    """After a fork: forget all workers, which belong to the parent."""
    for worker in list(_workers):
        worker._forget()


os.register_at_fork(after_in_child=_forget_all)


def _started() -> Child:
    child = Child.start("placewright.solver.worker")
    # A worker that does not read must not block this process in a write.
    os.set_blocking(child.inlet, False)
    return child


def _remains(incumbent: Incumbent, end: _EndedError) -> Outcome:
    """Return the outcome of a killed search: its best checked point and bound."""
    return Outcome(
        Status.FAILED if incumbent.values is None else Status.FEASIBLE,
        values=incumbent.values,
        objective=incumbent.objective,
        bound=incumbent.bound,
        message=str(end),
        trajectory=tuple(incumbent.trajectory),
        wall_stopped=end.at_limit,
        fault=not end.at_limit,
    )
