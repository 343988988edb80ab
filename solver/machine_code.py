"""Machine code of compiled kernels: loaded if it is cached, else compiled in a subprocess.

Compilation takes ten seconds, once on a machine with a cache folder. It runs in a process of its
own, which delays no search and can be killed: a thread would share the interpreter with the search,
and a program that ends while it compiles may crash. What that process caches is then loaded here.
It goes on for later rounds of this process, and ends with it.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread
from typing import Protocol

LOADING = 1.5
"""Seconds in which numba and the cache are surely loaded."""

POLL_SECONDS = 0.05
"""Interval in which a deterministic round checks whether compilation has ended."""

NOT_MADE = "machine code could not be made"
NOT_INSTALLED = "numba is not installed (pip install 'placewright[replicas]')"


class Clock(Protocol):
    """The remaining time of a round, in seconds; `deterministic` rounds must not depend on it."""

    deterministic: bool

    def remaining(self) -> float:
        """Return the seconds left."""
        ...

    def expired(self) -> bool:
        """Whether none are left."""
        ...


class MachineCode:
    """The machine code of some kernels in this process.

    `modules`: names of modules whose `prepare()` calls each compiled function that Python calls.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = tuple(modules)
        self._lock = Lock()
        self._loaded = False
        self._failure: str | None = None
        self._maker: subprocess.Popen[bytes] | None = None
        self._owner = 0
        atexit.register(self.end)

    def available(self, session: Clock) -> bool:
        """Whether it is loaded; if not, start to compile it.

        A deterministic round waits for it as long as time is left. Others start nothing in the last
        moments, in which it could hardly be loaded.
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
        """Why it is not loaded although `available` was called; None if it is loaded."""
        if self._failure is not None:
            return self._failure
        return None if self._loaded or self._maker is None else "machine code was not made in time"

    def compile(self) -> None:
        """Load or compile it in this process, however long that takes."""
        _call_all(self._modules)

    def end(self) -> None:
        """Kill the compiling process, if it was started by this process."""
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
                self._loaded = _load_all(self._modules)
                if not self._loaded:
                    self._start()
            elif self._maker.poll() is not None:
                self._loaded = self._maker.returncode == 0 and _load_all(self._modules)
                self._failure = None if self._loaded else NOT_MADE
            return self._loaded

    def _start(self) -> None:
        if find_spec("numba") is None:
            self._failure = NOT_INSTALLED
            return
        try:
            self._maker, self._owner = _maker(self._modules), os.getpid()
        except (ImportError, OSError):
            self._failure = NOT_MADE


def _load_all(modules: Sequence[str]) -> bool:
    """Load cached machine code; return whether that is all of it. It imports numba, too."""
    try:
        from placewright.solver.compiled import cached_only

        with cached_only():
            _call_all(modules)
    except Exception:  # noqa: BLE001
        # Whatever is wrong with a compiler or its files, plans are found without it.
        return False
    return True


def _call_all(modules: Sequence[str]) -> None:
    """Call every compiled function of these modules, so that it is loaded or compiled."""
    for module in modules:
        import_module(module).prepare()


def _maker(modules: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process that compiles them; it ends when this one does, however that is.

    Raises ImportError or OSError if there is no compiler, or no process can be started.
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
            f"from {__name__} import compile_in_subprocess; compile_in_subprocess({modules!r})",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def compile_in_subprocess(modules: Sequence[str]) -> None:
    """Compile these modules in this process, and end it; sooner when standard input closes."""

    def end_with_parent() -> None:
        os.read(sys.stdin.fileno(), 1)
        os._exit(1)

    Thread(target=end_with_parent, daemon=True).start()
    _call_all(modules)
    os._exit(0)
