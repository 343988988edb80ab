"""Bytes in and out: regular files and the standard streams, with their limits and failures."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
from pathlib import Path

from placewright.instances.errors import InvalidInputError

STANDARD_STREAM = "-"


def read(file: str, limit: int) -> bytes:
    """Return what a regular file, or standard input for `-`, holds: `limit` + 1 bytes at most.

    Raises
    ------
    InvalidInputError
        It cannot be read, or is a directory, device, pipe or socket.
    """
    try:
        if file == STANDARD_STREAM:
            return sys.stdin.buffer.read(limit + 1)
        # Without O_NONBLOCK, opening a pipe would wait for a writer before it can be refused.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _refuse_irregular(os.fstat(descriptor).st_mode, file)
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                return stream.read(limit + 1)
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
    if file == STANDARD_STREAM:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        target = Path(file).resolve()
        if target.exists() and not target.is_file():
            with target.open("wb") as device:
                device.write(content)
        else:
            _replace(target, content)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _cannot(file, "written", reason, "a file that can be written") from None
    except ValueError as error:
        raise _cannot(file, "written", str(error), "a file name") from None


def _refuse_irregular(mode: int, file: str) -> None:
    if not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "a device, pipe or socket"
        raise InvalidInputError(
            f"is {what}; expected a regular file, or - for standard input",
            file=file,
            show_value=False,
        )


def _replace(target: Path, content: bytes) -> None:
    unfinished = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with unfinished.open("xb") as stream:
            stream.write(content)
        if target.exists():
            shutil.copymode(target, unfinished)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _cannot(file: str, verb: str, reason: str, expected: str) -> InvalidInputError:
    return InvalidInputError(
        f"cannot be {verb} ({reason}); expected {expected}", file=file, show_value=False
    )
