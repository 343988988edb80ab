"""Where things are printed: results to stdout, everything else to stderr, documents to files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from placewright.instances.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

    from placewright.instances.documents.cluster import ClusterDocument
    from placewright.instances.documents.round import Round
    from placewright.instances.errors import InvalidInputError

STANDARD = "-"
MAX_WARNINGS = 5
MAX_INVALID = 20


def out(round_: Round | None = None) -> Console:
    """Return the console of results, whose tables are in the words of the source of a round."""
    from placewright.cli.format.console import PlainConsole
    from placewright.instances.derived.source_words import words_of

    return PlainConsole(words=None if round_ is None else words_of(round_))


def err() -> Console:
    """Return the console of notes, errors and progress."""
    from placewright.cli.format.console import PlainConsole

    return PlainConsole(stderr=True)


def note(text: str) -> None:
    """Print one unwrapped line to stderr."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


def warn_of_quantities(document: Round | ClusterDocument) -> None:
    """Say on stderr which quantities are valid, but hardly meant, at most some of them.

    They look like numbers of another unit, or are of a resource that nobody has.
    """
    from placewright.instances.checks.magnitudes import resource_warnings, unit_warnings
    from placewright.instances.documents.round import Round

    warnings = list(unit_warnings(document))
    if isinstance(document, Round):
        warnings += resource_warnings(document)
    for warning in warnings[:MAX_WARNINGS]:
        note(f"placewright: warning: {warning}")
    if len(warnings) > MAX_WARNINGS:
        note(f"placewright: warning: {len(warnings) - MAX_WARNINGS:,} more quantities like these")


def warn_of_invalid_jobs(round_: Round) -> None:
    """Say on stderr which jobs wait because they make no sense, at most some of them."""
    for name, message in list(round_.invalid.items())[:MAX_INVALID]:
        note(f"placewright: warning: job {name} is invalid and waits: {message}")
    if len(round_.invalid) > MAX_INVALID:
        note(f"placewright: warning: {len(round_.invalid) - MAX_INVALID:,} more invalid jobs")


def note_written(path: str | None, what: str | None = None) -> None:
    """Say on stderr in one line what was made, and which file was written, if one was."""
    written = None if path is None or path == STANDARD else f"wrote {path}"
    said = [text for text in (what, written) if text is not None]
    if said:
        note("; ".join(said))


def check_output(path: str | None, *inputs: str) -> None:
    """Refuse an output that cannot be written, before time is spent on making it.

    Raises
    ------
    typer.BadParameter
        If the path is a folder, lies in none, is not writable, or is one of the inputs.
    """
    if path is None or path == STANDARD:
        return
    target = Path(path)
    if target.is_dir():
        raise _unusable(path, "is a folder; expected a file's name")
    if not target.parent.is_dir():
        raise _unusable(path, "its folder does not exist; expected one that does")
    # A file is replaced, so that its folder has to be writable, too.
    written = [target] if target.exists() else []
    if not written or target.is_file():
        written.append(target.resolve().parent)
    if not all(os.access(place, os.W_OK) for place in written):
        raise _unusable(path, "cannot be written; expected a place with write permission")
    sources = [Path(source) for source in inputs if source != STANDARD]
    if target.exists() and any(source.exists() and target.samefile(source) for source in sources):
        raise _unusable(path, "is an input; expected another name")


def wrong_argument(error: InvalidInputError, option: str) -> typer.BadParameter:
    """Turn an error of the library into one of the option that caused it."""
    return typer.BadParameter(f"{error.value}: {error.expected}", param_hint=option)


def _unusable(path: str, why: str) -> typer.BadParameter:
    return typer.BadParameter(f"{path}: {why}", param_hint="-o")
