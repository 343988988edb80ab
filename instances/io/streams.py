"""Bytes in and out: regular files and the standard streams, with their limits and failures."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from placewright.instances.errors import InvalidInputError

STANDARD_STREAM = "-"
PIECE = 1 << 20


def read(file: str, limit: int) -> bytes:
    """Return what a regular file, or standard input for `-`, holds: `limit` + 1 bytes at most.

    Raises
    ------
    InvalidInputError
        It cannot be read, or is a directory, device, pipe or socket.
    """
    with opened(file) as stream:
        return b"".join(stream_pieces(stream, limit + 1))


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    """Open a regular file to read, or standard input for `-`; raise as `read` does."""
    try:
        if file == STANDARD_STREAM:
            if sys.stdin is None:
                raise _cannot(file, "read", "it is closed", "a document on standard input")
            yield sys.stdin.buffer
            return
        # Without O_NONBLOCK, opening a pipe would wait for a writer before it can be refused.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _refuse_irregular(os.fstat(descriptor).st_mode, file)
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                yield stream
        finally:
            os.close(descriptor)
    except InvalidInputError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _cannot(file, "read", reason, "a file to read") from None
    except ValueError as error:  # a null character in the name
        raise _cannot(file, "read", str(error), "a file name") from None


def write(file: str, content: bytes) -> None:
    """Write to a file, or to standard output for `-`; a regular file is replaced in one step.

    Raises
    ------
    InvalidInputError
        It cannot be written.
    """
    try:
        if file == STANDARD_STREAM:
            _print(file, content)
            return
        target = Path(file)
        if target.exists() and not target.is_file():
            with target.open("wb") as device:
                device.write(content)
        else:
            _replace(target.resolve(), content)
    except InvalidInputError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _cannot(file, "written", reason, "a file that can be written") from None
    except ValueError as error:
        raise _cannot(file, "written", str(error), "a file name") from None


def stream_pieces(stream: BinaryIO, length: int | None = None) -> Iterator[bytes]:
    """Yield at most `length` bytes in pieces, since one read allocates all that it may return."""
    left = sys.maxsize if length is None else length
    while left > 0 and (piece := stream.read(min(PIECE, left))) != b"":
        if piece is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        yield piece
        left -= len(piece)


def _print(file: str, content: bytes) -> None:
    """Write to standard output, all of it: one that is unbuffered takes as much as it likes."""
    stream = sys.stdout
    if stream is None:
        raise _cannot(file, "written", "it is closed", "standard output")
    stream.flush()
    if not hasattr(stream, "buffer"):  # text in memory, or a notebook
        stream.write(content.decode())
        return
    left = memoryview(content)
    while left:
        written = stream.buffer.write(left)
        if written is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        left = left[written:]
    stream.buffer.flush()


def _refuse_irregular(mode: int, file: str) -> None:
    if not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "a device, pipe or socket"
        raise InvalidInputError(
            f"is {what}; expected a regular file, or - for standard input", file=file
        )


def _replace(target: Path, content: bytes) -> None:
    unfinished = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with unfinished.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())  # else a crash could leave the name without the content
        if target.exists():
            shutil.copymode(target, unfinished)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _cannot(file: str, verb: str, reason: str, expected: str) -> InvalidInputError:
    return InvalidInputError(f"cannot be {verb} ({reason}); expected {expected}", file=file)
