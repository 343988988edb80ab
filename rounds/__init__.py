"""One scheduling round: candidates verified, the best kept, its certificate written."""

from placewright.rounds.admitting import Admitted
from placewright.rounds.audit import prove_bounds
from placewright.rounds.changes import Changes
from placewright.rounds.engine import Engine
from placewright.rounds.errors import InternalError
from placewright.rounds.executors import open_executor
from placewright.rounds.solve import solve_round

__all__ = [
    "Admitted",
    "Changes",
    "Engine",
    "InternalError",
    "open_executor",
    "prove_bounds",
    "solve_round",
]
