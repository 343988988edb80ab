"""Tuning parameters of interleaving, read as `formulations/gang/parameters.py` says.

Names begin with `max_`, `min_` or `num_` or end with their unit: `_cells` (array entries),
`_seconds`, `_share` (of the whole), `_rel` (relative to the value).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Sizes, times, shares of the time, tolerances."""

    # Sets of allowed hosts with capacity rows of their own; the others count for all hosts only.
    max_host_sets: int = 12
    correlation_chunk_pairs: int = 1 << 22  # Pairs of jobs whose correlation is computed at a time
    # Classes of jobs with several options; with more, each job counts the least of its options.
    max_option_job_classes: int = 200
    # Stages processed at a time: about as many as a core's own cache holds.
    period_chunk_values: int = 1 << 16
    # Multisets of classes up to which all columns are enumerated.
    max_enumerated_columns: int = 50_000
    # Multisets of classes from which template columns are generated, if templates are few.
    min_template_columns: int = 30_000
    min_columns_per_template: int = 8  # Multisets per template from which templates count as few
    max_templates: int = 50_000  # Templates that are filled
    # Weights that jobs alike in all else keep, where weights are merged.
    min_weights_per_family: int = 3
    max_columns_zero_gap: int = 2_000  # Columns up to which the integer program is solved to gap 0
    # Relative difference at which a solver's bound counts as the value found.
    bound_agreement_rel: float = 1e-9
    # Binary digits of a column's value; larger ones are scaled down, since solvers lose accuracy.
    max_cost_bits: int = 22
    max_fraction_bits: int = 19  # Binary digits behind the point of a scaled objective
    # Distance below an integer at which a solver's value counts as that integer.
    integrality_tolerance: float = 1e-6
    min_dive_value: float = 0.7  # LP value from which diving fixes a column at once
    min_dive_share: float = 0.1  # Share of the sum of LP values that diving fixes per step at least
    # Pairs of groups that the pairwise exchange evaluates at a time.
    exchange_chunk_pairs: int = 1 << 11
    # Classes of a template program, about: jobs of close weights share one.
    num_template_classes: int = 240
    max_template_iterations: int = 60  # Iterations of the template column generation
    # Columns that an iteration adds for the class that needs them most.
    max_template_columns_per_class: int = 8
    # Reduced cost, relative to the largest value, from which a column counts as improving.
    min_template_gain_rel: float = 1e-9
    # Relative gain of the last `template_stall_iterations` below which generation ends.
    template_stall_rel: float = 1e-4
    template_stall_iterations: int = 3  # Iterations over which `template_stall_rel` counts
    # Gap of the restricted master MIP where jobs of several weights share a class.
    merged_template_mip_gap_rel: float = 2e-3
    # Gap of the restricted master MIP elsewhere; its columns are not all there are.
    template_mip_gap_rel: float = 2e-4
    # Bonus for covering a job that must be covered, in the largest column value, where the
    # restricted master is infeasible.
    template_cover_bonus: float = 8.0
    template_mip_seconds: float = 3.0  # Time of the restricted master MIP
    # Passes that distribute the prices of a template over its places.
    max_place_price_passes: int = 12
    # Share of the time that is kept for plans when the bound could still be improved.
    plan_share: float = 0.3
    # Columns of the restricted master MIP; with more it finds nothing that diving does not.
    max_master_mip_columns: int = 4_000
    # Share of the time left for the restricted master MIP, and its most seconds.
    master_mip_share: float = 0.5
    master_mip_seconds: float = 10.0
    master_mip_gap_rel: float = 1e-3  # Gap of the restricted master MIP
    # Premium for covering a class that must be covered, in the largest column value.
    cover_premium: int = 8
    num_start_groups_per_job: int = 4  # Random groups per job and size among the initial columns
    # Columns per class that stay in the master, those of best reduced cost.
    max_retained_per_class: int = 8
    # Columns that an iteration adds for the class that needs them most.
    max_entering_per_class: int = 6
    min_retained_columns: int = 4_000  # Columns that stay in any master
    close_gap_rel: float = 5e-4  # Gap of bound and LP value at which generation ends
    # Reduced cost of all groups together, relative to the LP value, that pricing may leave.
    pricing_tolerance_rel: float = 2e-4
    # Relative gain of an iteration below which heuristic pricing is followed by exact pricing.
    stall_gain_rel: float = 5e-3
    max_pricing_nodes: int = 1 << 22  # Nodes of exact pricing per bucket and iteration
    max_first_pricing_nodes: int = 1 << 10  # The same for the bound before there are any duals
    # Exact pricings in a row that do not improve the bound by `pricing_tolerance_rel`, before
    # generation ends.
    max_iterations_without_gain: int = 5
    # Wentges smoothing: weight of the duals of the best bound in those that are priced.
    dual_smoothing_share: float = 0.5
    # Thresholds of dual repair that are tried, from the bound of unexplored groups (0) to the
    # largest reduced cost found (1).
    dual_repair_threshold_shares: tuple[float, ...] = (0.5, 0.25, 0.1, 0.05, 0.0)
    # Exchange neighbours that heuristic pricing evaluates per bucket.
    max_neighbour_groups: int = 400_000
    pricing_chunk_nodes: int = 1 << 15  # Nodes that exact pricing branches on at a time
    max_priced_groups: int = 1 << 13  # Improving groups after which exact pricing may stop
    max_grid_periods: int = 2048  # Periods of the bounding grid, in steps of a few thousandths
    # Entries of the bounding table; with many nodes the grid is coarser.
    max_grid_entries: int = 1 << 22
    # Weight of a difference of net value, beside one of stages, where a node is split.
    net_value_weight: float = 0.2
    max_period_ratio: float = 32.0  # Ratio of the last period of the grid to the longest iteration


PARAMETERS = Parameters()
"""The parameters in use."""
