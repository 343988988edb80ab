"""One scheduling round: candidates verified, the best kept, its certificate written."""

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
