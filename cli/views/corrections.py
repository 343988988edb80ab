"""Corrections of a waiting job as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from placewright.explain.corrections.change import Who
from placewright.explain.corrections.find import try_first
from placewright.instances.derived.phrases import several
from placewright.report.verdicts import LEFT_OUT

if TYPE_CHECKING:
    from placewright.explain.corrections.find import Correction, Corrections
    from placewright.report.verdicts import Words

NOT_BESIDE = " *"


def first_text(found: Corrections, said: Words, started: Sequence[str]) -> Iterator[str]:
    """Yield one line: what to try first, who does it, and what may still be in the way.

    `started` are the jobs that the plan starts where this one could be.
    """
    first = try_first(found)
    if first is None:
        return
    text = f"  Try first: {first.text}"
    if first.who != (Who.TIME,):
        text += f" ({_who(first)})"
    if first.beside_plan is False:
        text += f"; not beside {_plan(said, started)}, which takes the room"
    elif first not in found.now:
        text += f"; it could then {said.run} here, though not at once"
    yield text


def corrections_text(
    found: Corrections, said: Words, started: Sequence[str], most: int
) -> Iterator[str]:
    """Yield the lines of both lists, or of one where they are the same.

    `started` are the jobs that the plan starts where this one could be, and `most` is how many
    corrections of a list were looked for.
    """
    if found.left_out:
        yield ""
        yield f"  {LEFT_OUT} {several(found.left_out)}"
    some_day = found.some_day or ()
    if [one.text for one in some_day] == [one.text for one in found.now]:
        some_day = ()
    for title, some in (
        (f"Any one of these would let it {said.run} here, some day", some_day),
        (f"Any one of these would let it {said.start} beside {said.beside}", found.now),
    ):
        if not some:
            continue
        yield ""
        yield f"  {title}"
        width = max(len(_who(one)) for one in some)
        for one in some:
            yield f"    {_who(one):{width}}  {one.text}{NOT_BESIDE * (one.beside_plan is False)}"
        if len(some) >= most:
            yield f"    these are the {most} cheapest; --corrections finds more"
        if any(one.beside_plan is False for one in some):
            yield f"   {NOT_BESIDE} not beside {_plan(said, started)}, which takes the room"


def _plan(said: Words, started: Sequence[str]) -> str:
    """Return what the plan gives others, with some names."""
    return f"what this plan {said.gives}{f' ({several(started)})' if started else ''}"


def _who(correction: Correction) -> str:
    return " + ".join(map(str, correction.who))
