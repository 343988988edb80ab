"""Values of Slurm's JSON in all its dialects, as types that pydantic reads.

A number is plain, null, or `{"set": ..., "infinite": ..., "number": ...}` (from v0.0.39 on); a
state is a text, or a list of texts (from v0.0.40 on); a list of names may be one text with commas.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from placewright.instances.documents.base import MAX_AMOUNT

MAX_TEXT = 1_000_000
"""Characters of one text: a list of hosts is the longest."""


class Record(BaseModel):
    """An entry of a dump: fields that are not read are ignored, since each dialect adds some."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


def number(value: Any) -> int | None:
    """Return a number that is not negative; None: not set, or without limit.

    Raises
    ------
    ValueError
        It is none that Slurm writes.
    """
    if isinstance(value, dict):
        flags = (value.get("set", True), value.get("infinite", False))
        if (
            not all(isinstance(flag, bool) for flag in flags)
            or not {"set", "infinite", "number"} & value.keys()
        ):
            raise ValueError("expected a number, or {set, infinite, number}")
        if value.get("infinite") or not value.get("set", True):
            return None
        value = value.get("number")
    if value is None:
        return None
    whole = isinstance(value, int | float) and not isinstance(value, bool)
    if not whole or not 0 <= value <= MAX_AMOUNT or value != int(value):
        raise ValueError(
            f"expected a whole number from 0 to {MAX_AMOUNT}, null, or {{set, infinite, number}}"
        )
    return int(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError(f"expected a text of at most {MAX_TEXT:,} characters, or null")
    if any("\ud800" <= c <= "\udfff" for c in value if not c.isascii()):
        raise ValueError("expected valid Unicode text")
    return value


def words(value: Any) -> tuple[str, ...]:
    """Return the words of a list, or of a text with commas; raises `ValueError` otherwise."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise ValueError("expected a text, or a list of texts")
    return tuple(word.strip() for word in value if word.strip())


def _flag(value: Any) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool) and value not in (0, 1):
        raise ValueError("expected true or false")
    return bool(value)


Number = Annotated[int | None, BeforeValidator(number)]
Text = Annotated[str, BeforeValidator(_text)]
Words = Annotated[tuple[str, ...], BeforeValidator(words)]
Truth = Annotated[bool, BeforeValidator(_flag)]
