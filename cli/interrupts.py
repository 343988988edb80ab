"""Signals that ask the command to end: Ctrl-C (SIGINT), SIGTERM and SIGHUP, in one way.

The first one raises an exception in the main thread; those that follow it closely do not, so that
whatever ends because of it can do so in peace. While a file is being written none is raised.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 5.0
"""A signal raises nothing in the seconds after one that did."""

AGAIN_S = 0.05
FIRST_CODE = 128
"""Added to the number of a signal: the exit code of a plan that was written because of it."""


class Interrupted(BaseException):
    """A signal asks the command to end, whatever it does."""


class Interrupts:
    """What signals do to this process, and which came first."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.first: int | None = None
        self.wrote: str | None = None
        self._kind: type[BaseException] = Interrupted
        self._raised_at = -PATIENCE_S
        self._held = 0

    @property
    def raised(self) -> bool:
        """Whether some signal raised an exception."""
        return self._raised_at >= 0

    @property
    def exit_code(self) -> int:
        """The exit code of a plan that was written because of the first signal."""
        return FIRST_CODE + (self.first or signal.SIGINT)

    @contextmanager
    def taken(self, *, for_good: bool) -> Iterator[None]:
        """Raise `Interrupted` for signals; afterwards, `for_good`, ignore them while Python ends.

        A signal that is ignored already (`nohup`) stays so. Elsewhere than in the main thread
        nobody can take signals, and none are.
        """
        self._reset()
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (*SIGNALS, signal.SIGALRM)}
        hook = sys.unraisablehook
        try:
            sys.unraisablehook = self._again
            for number, handler in before.items():
                if handler is not signal.SIG_IGN:
                    signal.signal(number, self._take)
            yield
        finally:
            self._held += 1
            for number, handler in before.items():
                signal.signal(number, signal.SIG_IGN if for_good else handler)
            sys.unraisablehook = hook
            if for_good:  # all is said; nobody wants to read what fails while Python ends
                sys.excepthook = lambda *_: None
                sys.unraisablehook = lambda _: None

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Raise KeyboardInterrupt instead, for code that then returns its best result so far.

        Raises
        ------
        Interrupted
            It did not stop with what it has.
        """
        self._kind = KeyboardInterrupt
        try:
            yield
        except KeyboardInterrupt:
            raise Interrupted from None
        finally:
            self._kind = Interrupted

    @contextmanager
    def writing(self, file: str) -> Iterator[None]:
        """Defer signals while a file is written, and remember that it was.

        Not so for `-` and what else may have to wait for a reader.
        """
        from pathlib import Path

        held = file != "-" and (Path(file).is_file() or not Path(file).exists())
        self._held += held
        try:
            yield
            if held:
                self.wrote = file
        finally:
            self._held -= held

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self.first is None:
            self.first = number
        now = time.monotonic()
        if not self._held and now - self._raised_at >= PATIENCE_S:
            self._raised_at = now
            raise self._kind

    def _again(self, unraisable: UnraisableHookArgs) -> None:
        """Raise once more what was raised where Python only prints it, as in a finaliser.

        What else is raised there gets a line, not a traceback.
        """
        if isinstance(unraisable.exc_value, KeyboardInterrupt | Interrupted):
            self._raised_at = -PATIENCE_S
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        else:
            from placewright.cli.format.output import note

            note(f"placewright: ignored: {unraisable.exc_type.__name__}: {unraisable.exc_value}")


interrupts = Interrupts()
"""Of this process."""
