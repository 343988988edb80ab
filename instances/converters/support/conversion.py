"""What every converter returns."""

from __future__ import annotations

from typing import NamedTuple

from placewright.instances.documents.round import Round


class Conversion(NamedTuple):
    """A round made from a trace, and one line that says what was taken and what was left out."""

    round: Round
    summary: str
