"""Corrections of a waiting job as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placewright.explain.corrections.find import Correction, Corrections
    from placewright.report.verdicts import Words

NOT_BESIDE = " *"


def corrections_text(found: Corrections, said: Words) -> Iterator[str]:
    """Yield the lines of both lists, or of one where they are the same."""
    some_day = None if found.some_day == found.now else found.some_day
    for title, some in (
        (f"Could {said.run} here, some day, if any one of these were so", some_day),
        (f"Would {said.start} beside all that runs, if any one of these were so", found.now),
    ):
        if not some:
            continue
        yield ""
        yield f"  {title}"
        width = max(len(_who(one)) for one in some)
        for one in some:
            yield f"    {_who(one):{width}}  {one.text}{NOT_BESIDE * (one.beside_plan is False)}"
        if any(one.beside_plan is False for one in some):
            yield f"   {NOT_BESIDE} not beside what this plan starts, which takes the room"


def _who(correction: Correction) -> str:
    return " + ".join(map(str, correction.who))
