"""The error of bad input: it names file, path, value and what was expected."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_VALUE_CHARS = 60

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,253}\Z")


def path_text(path: Sequence[str | int]) -> str:
    """Write a path inside a document as `jobs[17].options[0].groups[0].count`.

    A key with other characters than letters, digits, `_` and `-` is quoted: `resources['a.b']`.
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not _PLAIN_KEY.match(part):
            text += f"[{value_text(part)}]"
        else:
            text += f".{part}" if text else part
    return text


def value_text(value: object) -> str:
    """Show a value in at most `MAX_VALUE_CHARS` printable characters of one line."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # ValueError: an int of over 4,300 digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 3] + "..."


def printable(text: str) -> str:
    """Write escapes for what a terminal would not show but obey; line ends become spaces."""
    if text.isprintable():
        return text
    line = " ".join(text.splitlines())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


class InvalidInputError(ValueError):
    """A file or document that cannot be used.

    Parameters
    ----------
    expected
        What would have been right, as one clause.
    file
        The file's name as the caller gave it, `-` for standard input, None for objects in memory.
    path
        Keys and indices that lead to the value.
    value
        The offending value; left out of the message when `show_value` is False.
    """

    def __init__(
        self,
        expected: str,
        *,
        file: str | None = None,
        path: Sequence[str | int] = (),
        value: object = None,
        show_value: bool = True,
    ) -> None:
        self.expected, self.file, self.path = expected, file, tuple(path)
        self.value, self.show_value = value, show_value
        super().__init__(expected)

    def __str__(self) -> str:
        parts = [self.file, path_text(self.path)]
        if self.show_value:
            parts.append(value_text(self.value))
        parts.append(self.expected)
        return printable(": ".join(part for part in parts if part))

    def inside(self, file: str) -> InvalidInputError:
        """Return the same error with this file, unless it names one already."""
        return InvalidInputError(
            self.expected,
            file=self.file or file,
            path=self.path,
            value=self.value,
            show_value=self.show_value,
        )

    def under(self, *prefix: str | int) -> InvalidInputError:
        """Return the same error, its path continued upwards."""
        return self.at((*prefix, *self.path))

    def at(self, path: Path) -> InvalidInputError:
        """Return the same error of another path."""
        return InvalidInputError(
            self.expected,
            file=self.file,
            path=path,
            value=self.value,
            show_value=self.show_value,
        )
