"""The `placewright` command: the one place where errors and signals become exit codes.

Verbs are imported when signals are in hand already, since that takes the time to press a key.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from placewright.cli.interrupts import (
    CompleteStream,
    ExitCode,
    Interrupted,
    flushed,
    interrupts,
    standard_streams,
)
from placewright.collection import no_collection

MACHINE = "fault of the machine"
NO_MEMORY = "failed to map segment", "cannot allocate memory"
"""How an import says that there is none left."""

NO_THREAD = "can't start new thread"
QUIET = ExitCode.DONE, ExitCode.INTERNAL, ExitCode.INVALID, ExitCode.MACHINE
"""How a run ends whose reader is gone, as after `| head`; the second is click's own."""


class _End(NamedTuple):
    """How a run ended: its exit code, and what to print if there is anything, line by line."""

    code: int
    line: str | None = None


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    args
        Words after the program's name; None takes them from ``sys.argv``, and signals are ignored
        from its end on, while Python ends.

    Returns
    -------
    int
        An `ExitCode`, or 128 and the number of a signal.
    """
    # Linear algebra here is small: threads for it would only be started and ended.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Else pydantic looks for plugins in the metadata of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    end = _End(ExitCode.INTERRUPTED)
    try:
        with interrupts.taken(for_good=args is None), standard_streams() as out:
            end = _run(args, out)
            _say(end.line)
    except Interrupted:  # in the moments before and after
        _say(end.line or _interrupted(None).line)
    if args is None:
        gc.freeze()  # Python ends: what is in cycles goes with the process, unsearched
    return end.code


def _run(args: Sequence[str] | None, out: CompleteStream | None) -> _End:
    try:
        end = _verb(args)
        failure = flushed(out)
    except Interrupted:
        return _interrupted(out)
    if isinstance(failure, BrokenPipeError) and _reason(failure) in (end.line or _reason(failure)):
        return _End(ExitCode.PIPE if end.code in QUIET else end.code)
    if failure is not None and end.code != ExitCode.INVALID:
        return _End(ExitCode.INVALID, f"standard output cannot be written ({_reason(failure)})")
    return end


def _verb(args: Sequence[str] | None) -> _End:
    try:
        with no_collection():
            from placewright.cli.commands import run

            return _End(run(args))
    except SystemExit as stop:
        return _End(stop.code if isinstance(stop.code, int) else ExitCode.INTERNAL)
    except Exception as error:
        if interrupts.raised:  # some libraries make an error of their own of it
            raise Interrupted from error
        return _fault(error)


def _interrupted(out: CompleteStream | None) -> _End:
    if interrupts.wrote is not None:
        line = f"interrupted while printing; {interrupts.wrote} is written"
        return _End(interrupts.exit_code, line)
    if out is not None and out.begun:
        line = "interrupted while printing; what is printed is incomplete"
        return _End(ExitCode.INTERRUPTED, line)
    return _End(ExitCode.INTERRUPTED, "interrupted before there was a result; nothing was written")


def _fault(error: Exception) -> _End:
    from pathlib import Path
    from traceback import extract_tb

    from placewright.instances.errors import InvalidInputError, printable

    if isinstance(error, InvalidInputError):
        return _End(ExitCode.INVALID, str(error))
    text = str(error)
    if isinstance(error, MemoryError) or any(words in text for words in NO_MEMORY):
        text = "out of memory; expected more, or a smaller document"
        return _End(ExitCode.MACHINE, f"{MACHINE}: {text}")
    if isinstance(error, OSError) or NO_THREAD in text:
        return _End(ExitCode.MACHINE, printable(f"{MACHINE}: {text}"))
    frame = extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    line = f"internal error: {type(error).__name__}: {text} ({place}); please report it"
    return _End(ExitCode.INTERNAL, printable(line))


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _say(line: str | None) -> None:
    if line is not None:
        from placewright.cli.format.output import note

        for one in line.split("\n"):
            note(f"placewright: {one}")


if __name__ == "__main__":
    sys.exit(main())
