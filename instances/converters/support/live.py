"""What converters of dumps of live clusters return."""

from __future__ import annotations

from typing import NamedTuple

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.documents.round import Round


class LiveConversion(NamedTuple):
    """A round made from a dump, a line about it, what was left out, and files without use."""

    round: Round
    summary: str
    book: Bookkeeping
    ignored: tuple[str, ...] = ()
