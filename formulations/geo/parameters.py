"""Tuning parameters of the geo formulation, read as `formulations/gang/parameters.py` says.

Counts begin with `max_` or `num_`; other names end with their unit: `_seconds`, `_share` (of the
time left), `_rel` (relative).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """All tuning parameters of the geo formulation."""

    # Jobs times hosts of a round that is solved by the monolithic model alone.
    max_monolithic_size: int = 4_000
    # Jobs times hosts up to which the monolithic model follows the decomposition.
    max_refined_size: int = 3_000_000
    # Quantiles of excess remote reads that jobs may incur, tried in turn once value is proven.
    excess_quantiles: tuple[float, ...] = (0.1, 0.25, 0.5)
    max_model_sets: int = 24  # Sets of GPU models with capacity rows
    max_preemption_levels: int = 4  # Preemption levels with capacity rows, the lowest ones
    # Levels of cost, as fractions of a job's largest cost, that distinguish cost classes.
    num_cost_levels: int = 4
    max_task_sizes: int = 6  # Task sizes above one GPU with slot rows, the largest ones
    # A running job that moves within its region loses one part of its value in this number.
    move_discount_parts: int = 20
    max_score: int = 10**10  # Largest total score, which a solver still tells apart by single units
    # Score of the highest cost of a job, as a fraction of the smallest value of a job.
    cost_share_of_value: float = 0.5
    # Time of the decomposition by region where the monolithic model follows.
    decomposition_share: float = 0.75
    bound_share: float = 0.3  # Time of the LP and of the integer model that bound `value`
    # Size and time of the integer model that bounds `value`.
    max_integer_columns: int = 3_000
    max_integer_seconds: float = 5.0
    # Time of each solve of the assignment model, and of the one without costs that replaces it.
    assignment_share: float = 0.45
    costless_assignment_share: float = 0.8
    core_gap_rel: float = 5e-4  # Gap to the LP at which no larger core is searched
    max_core_columns: int = 8_000  # Columns of any core but the first
    max_core_seconds: float = 10.0  # Time of one core search
    # Gap of `value` at which the decomposition is not repeated and the monolithic model not tried.
    value_gap_rel: float = 5e-3
    # Passes in which jobs without a place are offered to other regions.
    max_residual_passes: int = 3
    # Fraction of the value so far that another pass must be able to gain.
    min_gain_rel: float = 5e-4
    # Waiting jobs for which copies are considered, of those without data and of the others.
    max_jobs_with_orders: int = 200
    # Regions to which a job's data may be copied in turn, if links cannot carry the copies.
    max_regions_per_job: int = 3


PARAMETERS = Parameters()
