"""What to try first of the corrections of a waiting job."""

from __future__ import annotations

from placewright.explain.corrections.find import Correction, Corrections

MUCH = 0.5
"""Who asks less than this part of what it asked gives up much."""
LAST = "ended", "give_way", "preempt"
"""Kinds of changes that nobody who reads of them can make: an unknown end, others that give way."""


def try_first(found: Corrections) -> Correction | None:
    """Return the cheapest correction that is of most use; None without any.

    Those that let the job run some day and start it now, too, come first, then those of "some
    day", then those of "now". Last come those that give up much of what the job asks, wait for an
    end that nobody knows, or take from others; before them those that do not suffice beside what
    the plan starts.
    """
    some_day = None if found.some_day is None else {one.text for one in found.some_day}
    both = found.now if some_day is None else [one for one in found.now if one.text in some_day]
    return min(both or found.some_day or found.now, key=_rank, default=None)


def _rank(correction: Correction) -> tuple[bool, bool, int]:
    is_last_resort = any(part.form.left < MUCH or part.kind in LAST for part in correction.parts)
    return is_last_resort, correction.beside_plan is False, correction.cost
