"""The entries of a long JSON list, one by one, so that few are in memory at once."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from placewright.instances.converters.support.csv_table import MAX_BYTES, MAX_LINE
from placewright.instances.errors import InvalidInputError, value_text
from placewright.instances.io import unpacked

_SPACE = re.compile(r"[ \t\r\n]*")


def entries(file: str) -> Iterator[tuple[int, Any]]:
    """Yield the line on which each entry of a list begins, and the entry.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, is no JSON list in UTF-8, or an entry is too long or too deep.
    """
    text = _Text(file)
    text.take("[")
    if text.mark() != "]":
        yield text.entry()
        while text.take(",]") == ",":
            yield text.entry()
    else:
        text.take("]")
    if text.mark():
        raise text.unusable("expected nothing behind the list")


class _Text:
    """What is read of a file and not yet taken."""

    def __init__(self, file: str) -> None:
        self._file, self._text, self._at, self._line = file, "", 0, 1
        self._pieces = unpacked.pieces(file, MAX_BYTES)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._ended = False

    def mark(self) -> str:
        """Return the next character that is no space, without taking it; nothing at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._advance(self._at if space is None else space.end())
            if self._at < len(self._text) or not self._read():
                return self._text[self._at : self._at + 1]

    def take(self, marks: str) -> str:
        """Take the next character, which is one of some."""
        found = self.mark()
        if not found or found not in marks:
            raise self.unusable(f"{value_text(found)}: expected {' or '.join(marks)}")
        self._at += 1
        return found

    def entry(self) -> tuple[int, Any]:
        """Take a value; return the line on which it begins, and it."""
        self.mark()
        while True:
            try:
                entry, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise self.unusable("expected fewer levels") from None
            except ValueError as error:
                if self._read():
                    continue
                told = error.msg if isinstance(error, json.JSONDecodeError) else "a number too long"
                raise self.unusable(f"{told}; expected a JSON value") from None
            if end == len(self._text) and self._read():  # a number may go on
                continue
            line = self._line
            self._advance(end)
            return line, entry

    def _read(self) -> bool:
        """Read on, and forget what is taken; false at the end of the file."""
        if self._ended:
            return False
        self._text, self._at = self._text[self._at :], 0
        if len(self._text) > MAX_LINE:
            raise self.unusable(f"expected at most {MAX_LINE} characters of one entry")
        piece = next(self._pieces, b"")
        self._ended = not piece
        try:
            self._text += self._decoder.decode(piece, final=self._ended)
        except UnicodeDecodeError:
            raise self.unusable("expected UTF-8 text") from None
        return True

    def _advance(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def unusable(self, message: str) -> InvalidInputError:
        """Return an error at the line of what was not taken."""
        return InvalidInputError(f"line {self._line}: {message}", file=self._file, show_value=False)


_DECODER = json.JSONDecoder()
