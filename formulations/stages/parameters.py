"""Tuning parameters of the stages formulation, read as `formulations/gang/parameters.py` says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Sizes, times, shares of the time."""

    # Units of all modes with intervals: beyond that the search has found nothing better in time.
    max_interval_units: int = 2_000
    # Times that what begins now is placed and the rest scheduled anew, before whoever found no
    # place waits.
    max_placing_rounds: int = 4
    # Times before completions at which a bound counts what has to be done, and array cells of all.
    num_times_before: int = 96
    max_bound_cells: int = 20_000_000
    gang_share: float = 0.3  # Of the time left, for the places of what begins now


PARAMETERS = Parameters()
