"""The error of bad input: it names file, path, value and what was expected."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import ParamSpec, Self

MAX_VALUE_CHARS = 60
MAX_ERRORS = 20
"""Of one file that are told; of the others, how many."""

FEW = 3
"""Equal errors of list entries that are told one by one; of more the first, with their number."""

MAX_COMPARED = 10_000
"""Known names that an unknown one is compared with."""

Path = tuple[str | int, ...]
Arguments = ParamSpec("Arguments")

ENTRY = 2
"""Parts of a path that lead to an entry of a list of the document: `jobs`, 17."""

NOT_SHOWN = object()
"""In place of the value of an error that shows none."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,253}\Z")


def path_text(path: Sequence[str | int], entry: str | None = None) -> str:
    """Write a path inside a document as `jobs[17].options[0].groups[0].count`.

    A key with other characters than letters, digits, `_` and `-` is quoted: `resources['a.b']`.
    `entry` is the name of the list entry that the path starts with: `jobs[17] "train".tenant`.
    """
    text = ""
    for depth, part in enumerate(path):
        if depth == ENTRY and entry is not None:
            text += f" {json.dumps(entry[:MAX_VALUE_CHARS])}"
        if isinstance(part, int):
            text += f"[{part}]"
        elif not _PLAIN_KEY.match(part):
            text += f"[{value_text(part)}]"
        else:
            text += f".{part}" if text else part
    if len(path) == ENTRY and entry is not None:
        text += f" {json.dumps(entry[:MAX_VALUE_CHARS])}"
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

    As text, a line for each of its first `MAX_ERRORS` errors, and how many more there are. Errors
    of many hosts or jobs that differ in nothing else are one line with their number.

    Parameters
    ----------
    expected
        What would have been right, as one clause.
    path
        Keys and indices that lead to the value.
    value
        The offending value, shown in the message if it is given, unless `show_value` is False.
    file
        The file's name as the caller gave it, `-` for standard input, None for objects in memory.
    unknown
        A name that is unknown, and the known ones: the message has the most similar of them.

    Attributes
    ----------
    others : tuple of InvalidInputError
        Further errors of the same document.
    line : int or None
        Line of the file, from 1, where that is known.
    entry : str or None
        Name of the list entry that the path leads into, such as a job's.
    """

    def __init__(
        self,
        expected: str,
        path: Sequence[str | int] = (),
        value: object = NOT_SHOWN,
        *,
        file: str | None = None,
        show_value: bool = True,
        unknown: tuple[str, Collection[str]] | None = None,
    ) -> None:
        self.expected, self.file, self.path = expected, file, tuple(path)
        self.show_value, self.unknown = show_value and value is not NOT_SHOWN, unknown
        self.value = None if value is NOT_SHOWN else value
        self.others: tuple[InvalidInputError, ...] = ()
        self.line: int | None = None
        self.entry: str | None = None
        super().__init__(expected)

    @property
    def errors(self) -> tuple[InvalidInputError, ...]:
        """Each error alone: the first one, and then the others."""
        alone = self._copy()
        alone.others = ()
        return alone, *self.others

    def __str__(self) -> str:
        told = self.told()
        lines = [
            error.text() + (f" ({n - 1:,} more like this)" if n > 1 else "") for error, n in told
        ]
        more = len(self.others) + 1 - sum(number for _, number in told)
        if more:
            file = f"{printable(self.file)}: " if self.file else ""
            lines.append(f"{file}{more:,} more error{'s' if more > 1 else ''}; expected none")
        return "\n".join(lines)

    def told(self) -> list[tuple[InvalidInputError, int]]:
        """Return the first errors of all, and for how many equal ones each of them stands."""
        errors = self.errors
        kinds = [error._kind() for error in errors]
        numbers = Counter(kinds)
        rows: list[tuple[InvalidInputError, int]] = []
        for error, kind in zip(errors, kinds, strict=True):
            number = numbers[kind]
            if number > FEW:
                numbers[kind] = 0
            if number:
                rows.append((error, number if number > FEW else 1))
            if len(rows) == MAX_ERRORS:
                break
        return rows

    def _kind(self) -> tuple[object, ...]:
        """Return what errors of several list entries have in common."""
        path = list(self.path)
        first = next((at for at, part in enumerate(path) if isinstance(part, int)), None)
        if first is not None:
            path[first] = "*"
        value = value_text(self.value) if self.show_value else None
        return self.file, *path, self.expected, value

    @property
    def expectation(self) -> str:
        """What was expected, with the known name that is most like an unknown one."""
        similar = None if self.unknown is None else most_similar(*self.unknown)
        return self.expected if similar is None else f"{self.expected}; did you mean {similar}?"

    def text(self, *, place: bool = True) -> str:
        """Return this error alone as one line, without file and line number if not `place`."""
        file = self.file if self.line is None else f"{self.file}:{self.line}"
        parts = [file if place else None, path_text(self.path, self.entry)]
        if self.show_value:
            parts.append(value_text(self.value))
        parts.append(self.expectation)
        return printable(": ".join(part for part in parts if part))

    def inside(self, file: str) -> InvalidInputError:
        """Return the same errors with this file, unless they name one already."""

        def change(error: InvalidInputError) -> None:
            error.file = error.file or file

        return self._changed(change)

    def under(self, *prefix: str | int) -> InvalidInputError:
        """Return the same errors, their paths continued upwards."""
        return self.moved(lambda path: (*prefix, *path))

    def at(self, path: Path) -> InvalidInputError:
        """Return the same error of another path."""
        return self.moved(lambda _: path)

    def moved(self, place: Callable[[Path], Path]) -> InvalidInputError:
        """Return the same errors, each with the path that takes the place of its own."""

        def change(error: InvalidInputError) -> None:
            error.path = place(error.path)

        return self._changed(change)

    def located(
        self, line: Callable[[Path], int | None], entry: Callable[[Path], str | None]
    ) -> InvalidInputError:
        """Return the same errors with the line and the entry's name of each path."""

        def change(error: InvalidInputError) -> None:
            error.line, error.entry = line(error.path), entry(error.path)

        return self._changed(change)

    def _copy(self) -> InvalidInputError:
        """Return a copy; `copy.copy` asks hooks that libraries for distributed work register."""
        made = type(self).__new__(type(self), *self.args)
        made.__dict__.update(self.__dict__)
        return made

    def _changed(self, change: Callable[[InvalidInputError], None]) -> InvalidInputError:
        first, *others = (error._copy() for error in self.errors)
        for error in (first, *others):
            change(error)
        first.others = tuple(others)
        return first


def most_similar(name: str, known: Collection[str]) -> str | None:
    """Return the known name most similar to an unknown one, upper case or lower; None: none is."""
    if len(known) > MAX_COMPARED:
        return None
    folded = {one.casefold(): one for one in known}
    name = name[:MAX_VALUE_CHARS].casefold()
    return next((folded[one] for one in difflib.get_close_matches(name, folded, n=1)), None)


class Errors:
    """Several errors of one document: `with errors:` notes what is raised in it, and goes on."""

    def __init__(self) -> None:
        self.found: list[InvalidInputError] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, InvalidInputError):
            return False
        self.found += error.errors
        return True

    def add(self, error: InvalidInputError) -> None:
        """Note an error."""
        self.found += error.errors

    def note(
        self, check: Callable[Arguments, object], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> None:
        """Note what a check raises of its arguments."""
        with self:
            check(*args, **kwargs)

    def refuse(self) -> None:
        """Raise what was noted, as one error.

        Raises
        ------
        InvalidInputError
            If there was any.
        """
        if self.found:
            raise merged(self.found)


def merged(errors: Sequence[InvalidInputError]) -> InvalidInputError:
    """Return one error of some, at least one; what is said twice of a path is said once."""
    first, *others = {(error.path, error.expected): error for error in errors}.values()
    whole = first._copy()
    whole.others = tuple(others)
    return whole
