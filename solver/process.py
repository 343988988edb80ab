"""Backends run in a subprocess that can be killed, or in this process."""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from placewright.array_types import Floats
from placewright.solver.arrays import Arrays, BackendUnavailableError, UnsupportedModelError
from placewright.solver.backends import WITH_INTERVALS, get_backend
from placewright.solver.outcome import (
    Incumbent,
    Limits,
    Outcome,
    Progress,
    Report,
    Status,
    audit,
    known_objective,
)

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Ask the worker to solve; `sent` is the parent's monotonic clock, which both sides share."""

    backend: str
    arrays: Arrays
    limits: Limits
    start: Floats | None
    sent: float


@dataclass(frozen=True, slots=True)
class Warm:
    """Ask the worker to load a backend; nothing is answered."""

    backend: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Answer that a backend is not installed (`available` False) or cannot take the model."""

    available: bool
    message: str


def frame(message: object) -> bytes:
    """Give the bytes of a message."""
    body = pickle.dumps(message, protocol=5)
    return _LENGTH.pack(len(body)) + body


def take(received: bytearray) -> object | None:
    """Take the first complete message off the bytes received; None if there is none yet."""
    if len(received) < _LENGTH.size:
        return None
    end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
    if len(received) < end:
        return None
    # Both ends are ours, and the pipe is private to them.
    message: object = pickle.loads(memoryview(received)[_LENGTH.size : end])  # noqa: S301
    del received[:end]
    return message


def send(descriptor: int, message: object) -> None:
    """Write a message to a blocking descriptor."""
    write(descriptor, frame(message))


def write(descriptor: int, framed: bytes) -> None:
    """Write the bytes of a message to a blocking descriptor."""
    rest = memoryview(framed)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def receive(descriptor: int) -> object | None:
    """Read a message from a blocking descriptor; None at its end."""
    received = bytearray()
    while (message := take(received)) is None:
        # The other side may send more at once, as after `Warm`: never read past one message.
        missing = _LENGTH.size
        if len(received) >= _LENGTH.size:
            missing += _LENGTH.unpack_from(received)[0]
        chunk = os.read(descriptor, min(missing - len(received), 1 << 20))
        if not chunk:
            return None
        received += chunk
    return message


_TICKS = os.sysconf("SC_CLK_TCK")
_USER_TIME = 11
"""Index in /proc/<pid>/stat behind the command's name of utime, stime, cutime and cstime."""


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds, resident memory now and at its peak, in MiB."""

    cpu_seconds: float
    resident_mib: float
    peak_mib: float


def usage(process: int) -> Usage:
    """Add up a process and its living children; a process that has ended counts nothing."""
    cpu = resident = peak = 0.0
    for member in _tree(process):
        folder = Path("/proc", str(member))
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            memory = dict(
                line.split(":", 1) for line in (folder / "status").read_text().splitlines()
            )
        except OSError:
            continue
        cpu += sum(int(ticks) for ticks in stat[_USER_TIME : _USER_TIME + 4]) / _TICKS
        resident += _mib(memory.get("VmRSS"))
        peak += _mib(memory.get("VmHWM"))
    return Usage(cpu, resident, peak)


def _tree(process: int) -> Iterator[int]:
    yield process
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))


def _mib(line: str | None) -> float:
    return int(line.split()[0]) / 1024 if line else 0.0


# A fresh Python process that answers over pipes, and that can be ended at any moment.
#
# Never a fork, and nothing of the program that this process runs: no locks of threads that it does
# not have, and no script that runs again. It belongs to the process that started it; a fork of that
# forgets it.
WORKER = "placewright.solver.worker"


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Child:
    """A living process, the parent's ends of its pipes and its folder for files.

    `discard` removes the folder, at the latest when this process ends.
    """

    process: subprocess.Popen[bytes]
    inlet: int
    outlet: int
    scratch: Path
    discard: weakref.finalize[[str], subprocess.Popen[bytes]]

    @classmethod
    def start(cls, address: str) -> Self:
        """Start a process that answers by a function of ours, given as ``module:function``.

        Raises OSError if there is no folder to write to, no process or no pipe to be had.
        """
        # It imports exactly what this process would, and nothing from its own folder (-P).
        paths = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path)
        with contextlib.ExitStack() as undo:
            scratch = Path(tempfile.mkdtemp(prefix="placewright-"))
            undo.callback(shutil.rmtree, scratch, ignore_errors=True)
            requests, inlet = _pipe(undo)
            outlet, answers = _pipe(undo)
            with (scratch / "stderr").open("wb") as errors:
                # A session of its own: a kill reaches programs that it starts, a Ctrl-C does not.
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", WORKER, address, str(scratch)],
                    stdin=requests,
                    stdout=answers,
                    stderr=errors,
                    env={
                        **os.environ,
                        "PYTHONPATH": paths,
                        "OPENBLAS_NUM_THREADS": "1",
                        "TMPDIR": str(scratch),
                    },
                    start_new_session=True,
                )
            undo.pop_all()
        # With these open here a dead child would never read as the end of its pipe.
        os.close(requests)
        os.close(answers)
        discard = weakref.finalize(process, shutil.rmtree, str(scratch), ignore_errors=True)
        child = cls(process, inlet, outlet, scratch, discard)
        _children.add(child)
        return child

    def kill(self) -> None:
        """Kill the process, and programs that it started; `end` is still to be called."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill the process, and leave nothing of it behind."""
        self.kill()
        self.process.wait()
        self.discard()
        self._close()

    def leave(self) -> None:
        """Detach from the process without ending it."""
        self.discard.detach()
        self._close()

    def _close(self) -> None:
        _children.discard(self)
        os.close(self.inlet)
        os.close(self.outlet)

    def epitaph(self) -> str:
        """Wait for the process to end, and describe how it did."""
        code = self.process.wait()
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        words = (self.scratch / "stderr").read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(words) if line.strip()), "")
        return f"ended with {how}" + (f": {last}" if last else "")


_children: weakref.WeakSet[Child] = weakref.WeakSet()


def _leave_all() -> None:
    for child in list(_children):
        child.leave()


os.register_at_fork(after_in_child=_leave_all)


def _pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        undo.callback(os.close, end)
    return ends


def attempt(
    backend: str, arrays: Arrays, limits: Limits, start: Floats | None, report: Report | None
) -> Outcome:
    """Call a backend by name; whatever it raises becomes status FAILED.

    BackendUnavailableError and UnsupportedModelError are raised: these two are for the caller.
    """
    if arrays.intervals is not None and backend not in WITH_INTERVALS:
        raise UnsupportedModelError(
            f"the model has intervals; one of {', '.join(WITH_INTERVALS)} was expected"
        )
    call = get_backend(backend)
    began = time.monotonic()
    try:
        outcome = call(arrays, limits, start, report)
        if not isinstance(outcome, Outcome):
            raise TypeError(f"answer {type(outcome).__name__} is no outcome; Outcome was expected")
    except (BackendUnavailableError, UnsupportedModelError):
        raise
    # A backend may raise anything, and that must not end the round.
    except Exception as error:  # noqa: BLE001
        return Outcome(
            Status.FAILED,
            message=f"backend {backend!r} raised {type(error).__name__}: {error}",
            seconds=time.monotonic() - began,
            backend=backend,
        )
    return outcome


class InProcess:
    """The same methods as `Worker`, but nothing stops a backend that ignores its limits."""

    def solve(
        self,
        backend: str,
        arrays: Arrays,
        limits: Limits,
        start: Floats | None = None,
        report: Report | None = None,
    ) -> Outcome:
        """Solve and check, as `Worker.solve`; `Limits.memory_mib` is not kept."""
        outcome = attempt(backend, arrays, limits, start, report)
        return audit(arrays, outcome, known_objective(arrays, start))

    def warm(self, backend: str) -> None:
        """Load a backend now, so that the first solve does not pay for it."""
        get_backend(backend)

    def close(self) -> None:
        """Do nothing: there is no process to end."""

    def cpu_seconds(self) -> float:
        """Give 0.0: there is no child process."""
        return 0.0

    def peak_mib(self) -> float:
        """Give 0.0: there is no child process."""
        return 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# The parent's side of the solver process: backends run in a subprocess that can be killed.
#
# The worker is a fresh Python (never a fork) that lives as long as its `Worker`; a time limit, a
# memory limit, a crash or an interrupt ends it, and the next solve starts another. It belongs to
# the process that started it: a fork of that has its `Worker`, but starts a process of its own.
GRACE_SHARE, GRACE_SECONDS = 0.1, 0.2
"""The worker is killed at the limit plus this share of it plus these seconds."""

POLL_SECONDS = 0.05
"""How often the worker's memory is read."""


def _with_grace(seconds: float) -> float:
    return seconds * (1 + GRACE_SHARE) + GRACE_SECONDS


class _EndedError(Exception):
    """The worker is gone or has to go; the message says why."""

    def __init__(self, message: str, *, at_limit: bool = False) -> None:
        super().__init__(message)
        self.at_limit = at_limit


SMALL_COLUMNS, HERE_SECONDS = 8000, 1.0
"""Columns of a model that may be solved in this process, and for how long at most.

For twice as long where its limit is no longer: the other process would have too little left.
"""

_here = threading.Lock()
"""Held while HiGHS runs in this process: its threads are global."""


def _solved_here(arrays: Arrays, limits: Limits, start: Floats | None) -> Outcome | None:
    """Solve a small model with HiGHS in a thread of this process; None if it does not end soon.

    A process costs four times what most small models do. A search that ignores its limit is left
    behind in its thread, and no other begins beside it.
    """
    seconds = limits.seconds if limits.seconds <= 2 * HERE_SECONDS else HERE_SECONDS
    found: list[Outcome] = []

    def search() -> None:
        try:
            # What this process cannot load or take, the other one refuses.
            with contextlib.suppress(BackendUnavailableError, UnsupportedModelError):
                brief = replace(limits, seconds=seconds)
                found.append(attempt("highs", arrays, brief, start, None))
        finally:
            _here.release()

    if not _here.acquire(blocking=False):
        return None
    thread = threading.Thread(target=search, daemon=True)
    thread.start()
    try:
        thread.join(_with_grace(seconds))
    except BaseException:
        thread.join(seconds)  # Python must not end in the middle of it
        raise
    if not found or (found[0].wall_stopped and seconds < limits.seconds):
        return None
    return found[0]


class Worker:
    """Run backends in a subprocess; a context manager, for one thread at a time.

    `tries_here`: small models of HiGHS are solved in this process, until one takes too long.
    """

    def __init__(self, *, tries_here: bool = False) -> None:
        _workers.add(self)
        self._tries_here = tries_here
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

        Returns a checked outcome. A backend that raises or lies gives status FAILED; one that
        hangs, crashes or takes too much memory is killed, and the best checked point and bound that
        it had streamed are returned with status FEASIBLE and a message, or FAILED without a point.
        Where no other process can be started, this one solves, and the message says so. `start`: a
        hint: a feasible point, shape (columns,). `report`: called in this process with each point
        and bound, checked, while the search runs. Raises BackendUnavailableError or
        UnsupportedModelError as the backend raised them.
        """
        began = time.monotonic()
        if self._tries_here and self._child is None and report is None:
            small = arrays.columns <= SMALL_COLUMNS and limits.memory_mib is None
            if backend == "highs" and small:
                found = _solved_here(arrays, limits, start)
                if found is not None:
                    return audit(arrays, found, known_objective(arrays, start))
                self._tries_here = False
                left = max(0.0, limits.seconds - (time.monotonic() - began))
                limits = replace(limits, seconds=left)
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
        deadline = request.sent + _with_grace(request.limits.seconds)
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
    """After a fork: forget all workers and searches, which belong to the parent."""
    global _here
    _here = threading.Lock()
    for worker in list(_workers):
        worker._forget()


os.register_at_fork(after_in_child=_forget_all)


def _started() -> Child:
    child = Child.start(f"{WORKER}:answer")
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
