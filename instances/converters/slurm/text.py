"""What scontrol and sacctmgr print as text, as rows of texts by name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from placewright.instances.documents.base import NAME

MAX_NAME = 253
_NAME = re.compile(NAME)
_PAIR = re.compile(r"([A-Za-z]+)=(\S*)")
_DURATION = re.compile(r"(?:([0-9]{1,6})-)?(?:([0-9]{1,6}):)?([0-9]{1,6}):([0-9]{1,6})")
_NOTHING = ("(null)", "N/A", "n/a")
_NO_LIMIT = frozenset({"", "-1", "INFINITE", "NONE", "UNLIMITED", "PARTITION_LIMIT"})


def table(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of what `sacctmgr -P` prints, by the columns of its header, with lines."""
    header, *lines = text.splitlines()
    columns = [name.strip() for name in header.split("|")]
    for number, line in enumerate(lines, 2):
        if line.strip():
            cells = line.split("|")
            yield number, dict(zip(columns, cells + [""] * len(columns), strict=False))


def blocks(text: str, first: str) -> list[dict[str, str]]:
    """Return the pairs of each entry that `scontrol show` prints, which begins with one name."""
    rows: list[dict[str, str]] = []
    for line in text.splitlines():
        pairs = dict(_PAIR.findall(line))
        if first in pairs:
            rows.append({})
        if rows:
            rows[-1] |= pairs
    return rows


def rows(text: str) -> Iterator[dict[str, str]]:
    """Yield the rows of any of these texts, without what says nothing and spaces in names."""
    head = text.lstrip().partition("=")[0]
    found = [row for _, row in table(text)] if "|" in head else blocks(text, head)
    for row in found:
        yield {k.replace(" ", ""): v for k, v in row.items() if v not in _NOTHING}


def seconds(text: str) -> int | None:
    """Return a duration as Slurm prints it: `7-00:00:00`, `01:30:00`, `30:00`; None for no limit.

    Raises
    ------
    ValueError
        It is neither.
    """
    match = _DURATION.fullmatch(text)
    if match is None and (text in _NOTHING or text.upper() in _NO_LIMIT):
        return None
    if match is None:
        raise ValueError("expected a duration such as 7-00:00:00, or UNLIMITED")
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def is_name(text: str) -> bool:
    """Whether a text can be the name of something in a round."""
    return len(text) <= MAX_NAME and _NAME.fullmatch(text) is not None
