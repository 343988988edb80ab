"""Whether the inner loops are there as machine code: loaded if it is kept, else made aside.

To make it takes ten seconds, once on a machine that has a place for it. That is done in a process
of its own, where it holds up nobody and can be killed: a thread would share the interpreter with
the search, and a program that ends while a compiler is at work in it may crash. What that process
leaves in files is then loaded here. It goes on for later rounds of this process, and ends with it.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread
from typing import Protocol

LOADING = 1.5
"""Seconds in which a compiler and what is kept are surely loaded."""

POLL_SECONDS = 0.05
"""How often it is asked whether what is waited for is there."""

NOT_MADE = "machine code could not be made"
NOT_INSTALLED = "numba is not installed (pip install 'placewright[replicas]')"


class Clock(Protocol):
    """The time that a round has left, in seconds; a `deterministic` one must not look at it."""

    deterministic: bool

    def remaining(self) -> float:
        """Return the seconds left."""
        ...

    def expired(self) -> bool:
        """Whether none are left."""
        ...


class MachineCode:
    """The machine code of a process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded = False
        self._failure: str | None = None
        self._maker: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def available(self, session: Clock) -> bool:
        """Say whether it is there; if not, see to it that it will be.

        Where the clock must not decide, wait for it as long as time is left. Else nothing is begun
        in the last moments, in which it could hardly be loaded.
        """
        late = not session.deterministic and session.remaining() < LOADING
        if late and not self._loaded:
            return False
        while not (self._ready() or self._failure) and session.deterministic:
            if session.expired():
                break
            time.sleep(POLL_SECONDS)
        return self._loaded

    @property
    def missing(self) -> str | None:
        """Why there is none although it was asked for, None if there is, or nobody asked."""
        if self._failure is not None:
            return self._failure
        return None if self._loaded or self._maker is None else "machine code was not made in time"

    def end(self) -> None:
        """End what makes it, if that is at work for this process."""
        with self._lock:
            if self._maker is not None and self._owner == os.getpid():
                self._maker.kill()
                self._maker.wait()
            self._maker = None

    def _ready(self) -> bool:
        with self._lock:
            if self._loaded or self._failure:
                return self._loaded
            if self._maker is None or self._owner != os.getpid():
                self._loaded = _load_all()
                if not self._loaded:
                    self._start()
            elif self._maker.poll() is not None:
                self._loaded = self._maker.returncode == 0 and _load_all()
                self._failure = None if self._loaded else NOT_MADE
            return self._loaded

    def _start(self) -> None:
        if find_spec("numba") is None:
            self._failure = NOT_INSTALLED
            return
        try:
            self._maker, self._owner = _maker(), os.getpid()
        except (ImportError, OSError):
            self._failure = NOT_MADE


MACHINE_CODE = MachineCode()
atexit.register(MACHINE_CODE.end)


def _load_all() -> bool:
    """Load what is kept; say whether that is all there is. It loads a compiler, too."""
    try:
        from placewright.solver.compiled import cached_only

        with cached_only():
            _call_all()
    except Exception:  # noqa: BLE001
        # Whatever is wrong with a compiler or its files, plans are found without it.
        return False
    return True


def _call_all() -> None:
    """Call every compiled function that Python calls, so that its machine code is there."""
    from placewright.formulations.replicas.heuristics import annealing_kernel
    from placewright.solver import batched_pdhg

    annealing_kernel.prepare()
    batched_pdhg.prepare()


def _maker() -> subprocess.Popen[bytes]:
    """Start a process that makes it; it ends when this one does, however that is.

    Raises
    ------
    ImportError, OSError
        If there is no compiler, or no process can be started.
    """
    from placewright.solver.compiled import process_cache_folder

    folder = process_cache_folder()
    # The process imports exactly what this one would, and nothing from its own folder (-P).
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path),
        **({} if folder is None else {"NUMBA_CACHE_DIR": folder}),
    }
    return subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-c",
            f"from {__name__} import compile_in_subprocess; compile_in_subprocess()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def compile_in_subprocess() -> None:
    """Make it in this process, and end it; sooner when standard input is closed."""

    def end_with_parent() -> None:
        os.read(sys.stdin.fileno(), 1)
        os._exit(1)

    Thread(target=end_with_parent, daemon=True).start()
    _call_all()
    os._exit(0)


if __name__ == "__main__":
    _call_all()
