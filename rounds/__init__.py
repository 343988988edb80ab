"""One scheduling round: candidates verified, the best kept, its certificate written.

The names below are imported when they are first used: who solves one round needs no engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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

_HOMES = {
    "Admitted": "state.admission",
    "Changes": "state.changes",
    "Engine": "engine",
    "InternalError": "settings",
    "open_executor": "regions.executors",
    "prove_bounds": "solve",
    "solve_round": "solve",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
