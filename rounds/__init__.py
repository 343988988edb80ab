"""One scheduling round: candidates verified, the best kept, its certificate written."""

from placewright.rounds.errors import InternalError
from placewright.rounds.solve import solve_round

__all__ = ["InternalError", "solve_round"]
