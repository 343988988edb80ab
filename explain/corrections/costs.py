"""Who makes a change, and what it costs: what is easiest to do comes first."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Who(StrEnum):
    """Who makes a change."""

    USER = "user"
    """Whose job it is."""
    TIME = "time"
    """Nobody: who waits."""
    ADMIN = "admin"
    """Who sets quotas and reservations."""
    OPERATOR = "operator"
    """Who repairs and buys hosts."""
    OTHERS = "others"
    """The users of jobs that give way."""


PER_CHANGE = 30
"""Of each change beside its own cost: corrections of fewer changes come first."""


class Cost(NamedTuple):
    """Who makes a change of some kind, and its cost: a whole number, at least 1."""

    who: Who
    cost: int

    @property
    def price(self) -> int:
        """What it adds to the cost of a correction."""
        return self.cost + PER_CHANGE


COSTS: Mapping[str, Cost] = {
    "models": Cost(Who.USER, 2),
    "any_host": Cost(Who.USER, 2),
    "level": Cost(Who.USER, 2),
    "remote": Cost(Who.USER, 2),
    "region": Cost(Who.USER, 2),
    "resume": Cost(Who.USER, 2),
    "num_hosts": Cost(Who.USER, 2),
    "slices": Cost(Who.USER, 3),
    "apart": Cost(Who.USER, 3),
    "label": Cost(Who.USER, 3),
    "cpu": Cost(Who.USER, 3),
    "memory": Cost(Who.USER, 3),
    "due": Cost(Who.USER, 3),
    "runtime": Cost(Who.USER, 3),
    "slowdown": Cost(Who.USER, 3),
    "load": Cost(Who.USER, 3),
    "conflicts": Cost(Who.USER, 3),
    "tasks": Cost(Who.USER, 4),
    "gpu": Cost(Who.USER, 4),
    "time": Cost(Who.TIME, 4),
    "ended": Cost(Who.TIME, 5),
    "quota": Cost(Who.ADMIN, 5),
    "cap": Cost(Who.ADMIN, 5),
    "pool": Cost(Who.ADMIN, 5),
    "release": Cost(Who.ADMIN, 5),
    "keep_using": Cost(Who.ADMIN, 5),
    "replicate": Cost(Who.ADMIN, 5),
    "repair": Cost(Who.OPERATOR, 6),
    "no_outage": Cost(Who.OPERATOR, 6),
    "preempt": Cost(Who.OTHERS, 7),
    "give_way": Cost(Who.OTHERS, 7),
    "hosts": Cost(Who.OPERATOR, 9),
}
"""The default costs, by kind of change; kinds that are left out of a table are not proposed."""
