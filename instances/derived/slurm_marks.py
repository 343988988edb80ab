"""Marks by which Placewright knows what is its own in Slurm: comments of jobs, reservations.

An AdminComment begins with one of these marks. A job that is held and has the mark `HELD` is held
by Placewright, which may release it; holds of users and administrators have no such mark.
"""

from __future__ import annotations

import re

NODE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
"""Names of nodes that Slurm's commands take as such."""

HELD = "placewright: held"
"""Held by Placewright, be it from its submission on or while it moves."""

STARTS, MOVES, STOPPED = f"{HELD}, starts on ", f"{HELD}, moves to ", f"{HELD}, preempted"
RELEASED = "placewright: released to "
"""Sent to hosts, from a hold of Placewright's: to wait for another plan it is held again."""

PLACED = "placewright: placed on "
WAITS = "placewright: waits"
PREEMPTED = "placewright: preempted"

RESERVATION = "placewright_"
"""How reservations begin that keep hosts while a plan is carried out."""


NUM_NODES, NODE_LIST = "NumNodes", "ReqNodeList"
"""Fields of jobs that a plan sets, by the names of `scontrol update`."""

_ASKED = re.compile(r" \(asked ([^()]+)\)$")


def asked_text(asked: str) -> str:
    """Return the end of a comment that keeps what a user asks for while a plan's is in place."""
    return f" (asked {asked})" if asked else ""


def asked_of(comment: str) -> dict[str, str]:
    """Return what a user asks for in fields that a plan has set, as a comment keeps it."""
    found = _ASKED.search(comment) if is_placed(comment) else None
    if found is None:
        return {}
    return {name: value for name, _, value in (one.partition("=") for one in found[1].split())}


def is_placed(comment: str) -> bool:
    """Whether the node list of a job is Placewright's, and not what its user asks for."""
    return comment.startswith((STARTS, MOVES, STOPPED, RELEASED, PLACED, PREEMPTED))
