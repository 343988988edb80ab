"""Standard streams that write all they are given, or report that they cannot.

Python's own, unbuffered (`PYTHONUNBUFFERED`), drop what a write leaves over; closed ones are None,
and the next file that is opened takes their number.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing_extensions import Buffer

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
