"""What verbs read and say beside results: options, errors, files written, help in panels."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

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


# Spans of time on the command line: `90`, `90s`, `2m`, `1h30m`, `1d`.


_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_NUMBER = r"\d+(?:\.\d+)?"
_SPAN = re.compile("".join(rf"(?:(?P<{unit}>{_NUMBER}){unit})?" for unit in _SECONDS), re.ASCII)
_BARE = re.compile(_NUMBER, re.ASCII)


def seconds(text: str) -> float | None:
    """Return a span of time in seconds, None if the text is none: `1h30m` is 5400."""
    if _BARE.fullmatch(text):
        return float(text)
    span = _SPAN.fullmatch(text)
    if not text or span is None:
        return None
    return sum(float(n) * _SECONDS[unit] for unit, n in span.groupdict().items() if n is not None)


def read_seconds(least: float = 0, most: float = inf) -> Callable[[object], float]:
    """Return the parser of an option that takes a time of at least and at most these seconds."""

    def time(given: object) -> float:
        found = seconds(str(given))
        if found is None:
            raise _wrong(given, "a time such as 90, 90s, 2m or 1h30m")
        if not least <= found <= most:
            limits = f"at least {least:,.0f}" if most == inf else f"{least:,.0f} to {most:,.0f}"
            raise _wrong(given, f"{limits} seconds")
        return found

    return time


def read_whole_seconds(least: int = 0, most: float = inf) -> Callable[[object], int]:
    """Return the parser of an option that takes a time of whole seconds in this range."""
    read = read_seconds(least, most)

    def time(given: object) -> int:
        found = read(given)
        if not found.is_integer():
            raise _wrong(given, "a time of whole seconds")
        return int(found)

    return time


def _wrong(given: object, expected: str) -> typer.BadParameter:
    return typer.BadParameter(f"{given}: expected {expected}")


# Help of a group of verbs in panels, without the markup and the import of rich.


class Panels(TyperGroup):
    """A group of verbs whose help lists them by their `rich_help_panel`."""

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write a section of each panel."""
        limit = formatter.width - 6 - max(map(len, self.commands))
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, verb in self.commands.items():
            panel = str(getattr(verb, "rich_help_panel", None) or "Commands")
            panels.setdefault(panel, []).append((name, verb.get_short_help_str(limit)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def register(
    group: typer.Typer, panels: Mapping[str, Sequence[Callable[..., Any] | typer.Typer]]
) -> None:
    """Add verbs to a group, each in its panel; `convert_gpu_links` of `convert` is `gpu-links`."""
    for panel, verbs in panels.items():
        for verb in verbs:
            if isinstance(verb, typer.Typer):
                group.add_typer(verb, rich_help_panel=panel)
            else:
                name = verb.__name__.removeprefix(f"{group.info.name}_").replace("_", "-")
                group.command(name, rich_help_panel=panel)(verb)


# Wrong usage in one line: which word of the command, what it was, and what was expected.
#
# Typer's versions word the same mistakes differently, the newer ones in the words of pydantic.


_REWORDED = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"No such command '(.*?)'\.?(?: .*)?", r"\1: unknown command"),
        (r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", r"\1: one word too many"),
        (r"Option '?(\S+?)'? requires an argument\.?", r"\1: expected a value after it"),
        (r"Option '?(\S+?)'? does not take a value\.?", r"\1: expected no value"),
        (r"(?:Value error, )?'(.*)' is not one of (.*?)\.?", r"\1: expected one of \2"),
        (r"Input should be a valid number.*", "expected a number"),
        (r"Input should be a valid integer.*", "expected a whole number"),
        (r"Input should be less than or equal to (.*)", r"expected at most \1"),
        (r"Input should be greater than or equal to (.*)", r"expected at least \1"),
        (r"Input should be (.*)", r"expected \1"),
        (r"'?(.*?)'? is not a valid (?:float|float range)\.", r"\1: expected a number"),
        (r"'?(.*?)'? is not a valid (?:int|integer)(?: range)?\.", r"\1: expected a whole number"),
        (r"(\S+) is not in the(?: valid)? range(?: of)? (.*?)\.", r"\1: expected \2"),
    )
)

_LINES_OF_EDITS = {
    "--restore": "restore: [h0]",
    "--release": "release: [h0]",
    "--cap": "cap: {lab: {to: {gpus: 64}}}",
    "--pool": "pool: {licence: {to: 30}}",
    "--limit": "limits: {to: {preempted_jobs: 2}}",
    "--end": "end: [job]",
    "--submit": "submit: [{name: job, options: [...]}]",
    "--replicate": "replicate: {dataset: d, regions: [r]}",
    "--at": "advance_s: 7200",
}
_LINES_OF_EDITS["-f"] = _LINES_OF_EDITS["--submit"]
"""Edits that once were options of `whatif`, as lines of its file of edits."""


def usage_text(error: Any) -> str:
    """Say what is wrong with the words of a command, as one clause, from typer's error."""
    kind = type(error).__name__
    context = getattr(error, "ctx", None)
    parameter = getattr(error, "param", None)
    if kind == "MissingParameter" and parameter is not None:
        return f"{_word(error)}: missing"
    if kind == "NoSuchOption":
        name = error.option_name
        if name in _LINES_OF_EDITS and context and context.command.name == "whatif":
            return f"{name}: no option any more; expected -e FILE with: - {_LINES_OF_EDITS[name]}"
        known = [option for p in context.command.params for option in p.opts] if context else []
        return f"{name}: unknown option{suggestion(name, known)}"
    text = reworded(error.message)
    if text.endswith(": unknown command") and context is not None:
        name = text.removesuffix(": unknown command")
        text += suggestion(name, list(getattr(context.command, "commands", ())))
    word, value = _word(error), _value(error)
    if value is not None and text.startswith("expected"):
        text = f"{value}: {text}"
    return f"{word}: {text}" if word else text


def reworded(message: str) -> str:
    """Return a message of typer in our words; one of our own is as it was."""
    for pattern, replacement in _REWORDED:
        found = pattern.fullmatch(message)
        if found is not None:
            return found.expand(replacement).replace("'", "")
    return message


def _word(error: Any) -> str | None:
    """Return the option or argument that is wrong, as the user writes it."""
    hint = getattr(error, "param_hint", None)
    if isinstance(hint, str):
        return hint
    parameter = getattr(error, "param", None)
    if parameter is None:
        return None
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name)


def _value(error: Any) -> object:
    """Return the value that was refused, where the error knows it."""
    details = getattr(error.__cause__, "errors", None)
    found = details() if callable(details) else None
    return found[0].get("input") if found else None


def suggestion(name: str, known: list[str]) -> str:
    """Ask whether the nearest of the known words was meant, if one is near."""
    close = [each for each in known if each.startswith(name)] or get_close_matches(name, known, 1)
    return f"; did you mean {close[0]}?" if close else ""
