"""Wrong usage in one line: which word of the command, what it was, and what was expected.

Typer's versions word the same mistakes differently, the newer ones in the words of pydantic.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

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
