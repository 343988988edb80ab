"""Error messages without what differs from file to file."""

from __future__ import annotations

import re


def without_lines(text: str) -> str:
    """Return a message without the line of the file and the names beside indices."""
    return re.sub(r'\] "[^"]*"', "]", re.sub(r"\.json:[0-9]+: ", ".json: ", text))
