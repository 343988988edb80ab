"""What Placewright writes into the AdminComment of Slurm's jobs, and knows them by.

A comment begins with one of these marks. A job that is held and has the mark `HELD` is held by
Placewright, which may release it; holds of users and administrators have no such mark.
"""

from __future__ import annotations

HELD = "placewright: held"
"""Held by Placewright, be it from its submission on or while it moves."""

STARTS, MOVES = f"{HELD}, starts on ", f"{HELD}, moves to "
PLACED = "placewright: placed on "
WAITS = "placewright: waits"
PREEMPTED = "placewright: preempted"


def is_placed(comment: str) -> bool:
    """Whether the node list of a job is Placewright's, and not what its user asks for."""
    return comment.startswith((STARTS, MOVES, PLACED, PREEMPTED))
