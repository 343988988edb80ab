"""Options of `solve_round` that all searches of one answer share."""

from __future__ import annotations

from typing import TypedDict

from placewright.rounds.settings import Isolation


class SearchOptions(TypedDict, total=False):
    """How rounds are searched, as `solve_round` takes it; what is left out has the default there.

    Attributes
    ----------
    time_limit
        Wall-clock seconds; None: those of the round.
    backend, seed, deterministic, isolation
        As of `solve_round`.
    """

    time_limit: float | None
    backend: str
    seed: int | None
    deterministic: bool | None
    isolation: Isolation
