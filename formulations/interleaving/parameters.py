"""Tuning parameters of the interleaving formulation: sizes, times, shares of the time.

`PARAMETERS` is the one instance in use. Functions read it when they are called, as
`parameters.PARAMETERS.max_host_sets`, so that a test or an ablation can replace it
(`dataclasses.replace`). None of these numbers decides whether a bound is valid.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PARAMETERS", "Parameters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Sizes, times, shares of the time, tolerances.

    Names begin with `max_`, `min_` or `num_` or end with their unit: `_cells` (array entries),
    `_seconds`, `_share` (of the whole), `_rel` (relative to the value).

    Attributes
    ----------
    max_host_sets
        Sets of allowed hosts with capacity rows of their own; the others count for all
        hosts only.
    correlation_chunk_pairs
        Pairs of jobs whose correlation is computed at a time.
    max_option_job_classes
        Classes of jobs with several options; with more, each job counts the least of its
        options.
    period_chunk_values
        Stages processed at a time: about as many as a core's own cache holds.
    num_preemption_levels
        Priorities of running jobs, the lowest ones, that may be preempted, one after the
        other.
    max_packings
        Set packings, each with the rows tightened where groups of the one before found no
        place.
    max_enumerated_columns
        Multisets of classes up to which all columns are enumerated.
    min_template_columns
        Multisets of classes from which template columns are generated, if templates are
        few.
    min_columns_per_template
        Multisets per template from which templates count as few.
    max_templates
        Templates that are filled.
    min_weights_per_family
        Weights that jobs alike in all else keep, where weights are merged.
    max_columns_zero_gap
        Columns up to which the integer program is solved to gap 0.
    bound_agreement_rel
        Relative difference at which a solver's bound counts as the value found.
    max_cost_bits
        Binary digits of a column's value; larger ones are scaled down, since solvers lose
        accuracy.
    max_fraction_bits
        Binary digits behind the point of a scaled objective.
    integrality_tolerance
        Distance below an integer at which a solver's value counts as that integer.
    min_dive_value
        LP value from which diving fixes a column at once.
    min_dive_share
        Share of the sum of LP values that diving fixes per step at least.
    exchange_chunk_pairs
        Pairs of groups that the pairwise exchange evaluates at a time.
    num_template_classes
        Classes of a template program, about: jobs of close weights share one.
    max_template_iterations
        Iterations of the template column generation.
    max_template_columns_per_class
        Columns that an iteration adds for the class that needs them most.
    min_template_gain_rel
        Reduced cost, relative to the largest value, from which a column counts as
        improving.
    template_stall_rel
        Relative gain of the last `template_stall_iterations` below which generation ends.
    template_stall_iterations
        Iterations over which `template_stall_rel` counts.
    merged_template_mip_gap_rel
        Gap of the restricted master MIP where jobs of several weights share a class.
    template_mip_gap_rel
        Gap of the restricted master MIP elsewhere; its columns are not all there are.
    template_cover_bonus
        Bonus for covering a job that must be covered, in the largest column value, where
        the restricted master is infeasible.
    template_mip_seconds
        Time of the restricted master MIP.
    max_place_price_passes
        Passes that distribute the prices of a template over its places.
    plan_share
        Share of the time that is kept for plans when the bound could still be improved.
    max_master_mip_columns
        Columns of the restricted master MIP; with more it finds nothing that diving does
        not.
    master_mip_share, master_mip_seconds
        Share of the time left for the restricted master MIP, and its most seconds.
    master_mip_gap_rel
        Gap of the restricted master MIP.
    cover_premium
        Premium for covering a class that must be covered, in the largest column value.
    num_start_groups_per_job
        Random groups per job and size among the initial columns.
    max_retained_per_class
        Columns per class that stay in the master, those of best reduced cost.
    max_entering_per_class
        Columns that an iteration adds for the class that needs them most.
    min_retained_columns
        Columns that stay in any master.
    close_gap_rel
        Gap of bound and LP value at which generation ends.
    pricing_tolerance_rel
        Reduced cost of all groups together, relative to the LP value, that pricing may
        leave.
    stall_gain_rel
        Relative gain of an iteration below which heuristic pricing is followed by exact
        pricing.
    max_pricing_nodes
        Nodes of exact pricing per bucket and iteration.
    max_first_pricing_nodes
        The same for the bound before there are any duals.
    max_iterations_without_gain
        Exact pricings in a row that do not improve the bound by `pricing_tolerance_rel`,
        before generation ends.
    dual_smoothing_share
        Wentges smoothing: weight of the duals of the best bound in those that are priced.
    dual_repair_threshold_shares
        Thresholds of dual repair that are tried, from the bound of unexplored groups (0) to
        the largest reduced cost found (1).
    max_neighbour_groups
        Exchange neighbours that heuristic pricing evaluates per bucket.
    pricing_chunk_nodes
        Nodes that exact pricing branches on at a time.
    max_priced_groups
        Improving groups after which exact pricing may stop.
    max_grid_periods
        Periods of the bounding grid, in steps of a few thousandths.
    max_grid_entries
        Entries of the bounding table; with many nodes the grid is coarser.
    net_value_weight
        Weight of a difference of net value, beside one of stages, where a node is split.
    max_period_ratio
        Ratio of the last period of the grid to the longest iteration.
    """

    max_host_sets: int = 12
    correlation_chunk_pairs: int = 1 << 22
    max_option_job_classes: int = 200
    period_chunk_values: int = 1 << 16
    num_preemption_levels: int = 4
    max_packings: int = 4
    max_enumerated_columns: int = 50_000
    min_template_columns: int = 30_000
    min_columns_per_template: int = 8
    max_templates: int = 50_000
    min_weights_per_family: int = 3
    max_columns_zero_gap: int = 2_000
    bound_agreement_rel: float = 1e-9
    max_cost_bits: int = 22
    max_fraction_bits: int = 19
    integrality_tolerance: float = 1e-6
    min_dive_value: float = 0.7
    min_dive_share: float = 0.1
    exchange_chunk_pairs: int = 1 << 11
    num_template_classes: int = 240
    max_template_iterations: int = 60
    max_template_columns_per_class: int = 8
    min_template_gain_rel: float = 1e-9
    template_stall_rel: float = 1e-4
    template_stall_iterations: int = 3
    merged_template_mip_gap_rel: float = 2e-3
    template_mip_gap_rel: float = 2e-4
    template_cover_bonus: float = 8.0
    template_mip_seconds: float = 3.0
    max_place_price_passes: int = 12
    plan_share: float = 0.3
    max_master_mip_columns: int = 4_000
    master_mip_share: float = 0.5
    master_mip_seconds: float = 10.0
    master_mip_gap_rel: float = 1e-3
    cover_premium: int = 8
    num_start_groups_per_job: int = 4
    max_retained_per_class: int = 8
    max_entering_per_class: int = 6
    min_retained_columns: int = 4_000
    close_gap_rel: float = 5e-4
    pricing_tolerance_rel: float = 2e-4
    stall_gain_rel: float = 5e-3
    max_pricing_nodes: int = 1 << 22
    max_first_pricing_nodes: int = 1 << 10
    max_iterations_without_gain: int = 5
    dual_smoothing_share: float = 0.5
    dual_repair_threshold_shares: tuple[float, ...] = (0.5, 0.25, 0.1, 0.05, 0.0)
    max_neighbour_groups: int = 400_000
    pricing_chunk_nodes: int = 1 << 15
    max_priced_groups: int = 1 << 13
    max_grid_periods: int = 2048
    max_grid_entries: int = 1 << 22
    net_value_weight: float = 0.2
    max_period_ratio: float = 32.0


PARAMETERS = Parameters()
"""The parameters in use."""
