"""How a run ends: signals, standard streams, exit codes."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum, unique
from types import FrameType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

    from typing_extensions import Buffer


@unique
class ExitCode(IntEnum):
    """How a run ended."""

    meaning: str

    def __new__(cls, number: int, meaning: str) -> Self:
        """Make a code with its meaning."""
        made = int.__new__(cls, number)
        made._value_, made.meaning = number, meaning
        return made

    DONE = 0, "done; `solve`: a verified plan"
    INTERNAL = 1, "internal error: a bug, please report it; `bench compare`: a solver is worse"
    USAGE = 2, "wrong usage"
    INVALID = (
        3,
        "a document, file or stream that cannot be used; no file was written",
    )
    BROKEN = 4, "a promise of an earlier round is broken; the plan was written and names it"
    GAP_MISSED = 5, "`--gap` was given and missed; the plan was written"
    INTERRUPTED = 6, "interrupted before there was a result; nothing was written"
    VIOLATIONS = 7, "a placement breaks a rule"
    MACHINE = (
        8,
        "a fault of the machine, such as too little memory; nothing was written",
    )
    UNDECIDED = 9, "`explain`: nothing could be decided within the limit"
    MISSING = 10, "a package that the verb needs is not installed; the line names the extra"
    REFUSED = 11, "the scheduler did not do all that it was asked: `watch slurm --release`"
    STATEMENTS = 12, "`verify`: the placement keeps all rules; what the plan says of it is wrong"
    GIVEN_UP = 13, "`watch`: too many looks in a row failed; stderr says why the last one did"
    HANGUP = 129, "interrupted by SIGHUP; the best plan so far was written"
    INTERRUPT = 130, "interrupted by SIGINT (Ctrl-C); the best plan so far was written"
    PIPE = 141, "who read standard output is gone, as after `head`; no line says so"
    TERMINATED = 143, "interrupted by SIGTERM; the best plan so far was written"


# Standard streams that write all they are given, or report that they cannot.
#
# Python's own, unbuffered (`PYTHONUNBUFFERED`), drop what a write leaves over; closed ones are
# None, and the next file that is opened takes their number.


STDIN, STDOUT, STDERR = 0, 1, 2


class CompleteStream(io.FileIO):
    """A standard stream that writes all of what it is given, and waits where a pipe is full.

    Once a write to standard output has failed, or was interrupted, what follows is dropped.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)
        self.failure: OSError | None = None
        self.begun = False
        self._ended = False

    def write(self, content: Buffer) -> int:
        """Write all of it; a failure of stderr cannot be reported."""
        view = memoryview(content).cast("B")
        if not self._ended:
            self._ended = self.fileno() != STDERR
            try:
                self._write(view)
                self._ended = False
            except OSError as error:
                self.failure = error
                if self._ended:
                    raise
        return len(view)

    def _write(self, left: memoryview) -> None:
        while left:
            try:
                left = left[os.write(self.fileno(), left) :]
                self.begun = True
            except BlockingIOError:
                select.select((), (self,), ())


@contextmanager
def standard_streams() -> Iterator[CompleteStream | None]:
    """Replace `sys.stdout` and `sys.stderr` by whole ones where they are the program's own.

    Yields
    ------
    Whole or None
        Standard output; None where it is another one.
    """
    for number in (STDIN, STDOUT, STDERR):
        _reserve(number)
    before = sys.stdout, sys.stderr
    out, err = _whole(sys.stdout, STDOUT), _whole(sys.stderr, STDERR)
    sys.stdout, sys.stderr = _text(out, sys.stdout), _text(err, sys.stderr)
    try:
        yield out
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        sys.stdout, sys.stderr = before


def flushed(out: CompleteStream | None) -> OSError | None:
    """Write what is left for standard output, and return the first failure of it, if any."""
    with suppress(OSError):
        sys.stdout.flush()
    return None if out is None else out.failure


def _reserve(number: int) -> None:
    """Keep a closed stream's number from the next file; using the stream fails as if closed."""
    try:
        os.fstat(number)
    except OSError:
        # Those below are open, so that the lowest free number is this one.
        os.open(os.devnull, os.O_WRONLY if number == STDIN else os.O_RDONLY)


def _whole(stream: TextIO | None, number: int) -> CompleteStream | None:
    if stream is None:
        return CompleteStream(number)
    try:
        own = stream.fileno() == number
    except (OSError, AttributeError):
        own = False
    return CompleteStream(number) if own else None


def _text(whole: CompleteStream | None, before: TextIO) -> TextIO:
    if whole is None:
        return before
    # A terminal that cannot show a block character gets "?", not a crash.
    return io.TextIOWrapper(
        io.BufferedWriter(whole),
        encoding=before.encoding if before else "utf-8",
        errors="replace",
        line_buffering=whole.isatty() or whole.fileno() == STDERR,
    )


# Signals that ask the command to end: Ctrl-C (SIGINT), SIGTERM and SIGHUP, in one way.
#
# The first one raises an exception in the main thread; those that follow it closely do not, so that
# whatever ends because of it can do so in peace. While a file is being written none is raised.


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
