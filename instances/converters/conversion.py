"""What every converter returns."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.instances.round import Round


@dataclass(frozen=True, slots=True)
class Conversion:
    """A round made from a trace, and one line that says what was taken and what was left out."""

    round: Round
    summary: str
