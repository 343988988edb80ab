"""One scheduling round: candidates verified, the best kept, its certificate written.

The names below are imported when they are first used: who solves one round needs no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from placewright.first_use import on_first_use

if TYPE_CHECKING:
    from placewright.rounds.engine import Engine
    from placewright.rounds.regions.executors import open_executor
    from placewright.rounds.settings import InternalError
    from placewright.rounds.solve import prove_bounds, solve_round
    from placewright.rounds.state.admission import Admitted
    from placewright.rounds.state.changes import Changes

__all__ = [
    "Admitted",
    "Changes",
    "Engine",
    "InternalError",
    "open_executor",
    "prove_bounds",
    "solve_round",
]

__getattr__ = on_first_use(
    __name__,
    {
        "engine": ("Engine",),
        "regions.executors": ("open_executor",),
        "settings": ("InternalError",),
        "solve": ("prove_bounds", "solve_round"),
        "state.admission": ("Admitted",),
        "state.changes": ("Changes",),
    },
)
