"""Tuning parameters of the replicas, read as `formulations/gang/parameters.py` says.

Shares are of time unless the name says otherwise; `_rel` is relative, `_s` in seconds. The penalty
on exceeded storage and links is in `heuristics/annealing_kernel.py`, since it is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Tuning constants, by the phase that reads them."""

    # Search
    # Search seconds per second of verification between reports of incumbents, at least.
    report_interval_factor: float = 10.0
    # Time kept for the last plan, in times of what reporting one took.
    last_plan_reserve_factor: float = 2.0
    annealing_time_share: float = 0.08  # Of all time, for one run of annealing
    home_mip_time_share: float = 0.03  # Of all time, for the MIP of all homes after annealing
    recombination_time_share: float = 0.06  # Of all time, for one MIP recombination
    # Of all time, that must be left for a first plan without copies.
    first_plan_time_share: float = 0.5
    # After the limit, in which transfers may still be scheduled and bounds begin.
    grace_s: float = 1.0
    # Of the time left, for testing which copies links can carry alone.
    transfer_test_time_share: float = 0.2
    # Regions of the dataset that the tree branches on first, one per run of annealing.
    guided_regions: int = 2
    # Of the time before bounds, that annealing may wait for machine code.
    compilation_wait_time_share: float = 0.7
    max_starts: int = 10  # Runs of annealing; twice as many if the tree guides them
    multi_start_time_share: float = 0.5  # Of the time before bounds, for all of them
    multi_start_time_share_with_relax_and_fix: float = 0.15  # The same where relax and fix follows
    multi_start_time_share_with_tree: float = 0.75  # The same where the tree guides them
    # Number of job classes from which relax and fix is not run.
    relax_and_fix_job_classes: int = 1000
    bound_time_share_with_relax_and_fix: float = 0.42  # Of all time, for bounds after relax and fix
    bound_time_share: float = 0.35  # Of all time, for bounds otherwise
    relax_and_fix_time_share: float = 0.85  # Of the time before bounds, for relax and fix
    # Of the time left then, for each MIP restricted to its replicas.
    restricted_mip_time_share: float = 0.6
    # Of the time left then, for the recombination of them, the relaxation and the incumbent.
    widened_mip_time_share: float = 0.9
    lns_time_share_after_relax_and_fix: float = 0.05  # Of all time, for LNS after relax and fix
    relaxation_time_share: float = 0.15  # Of the time left, for a relaxation during the search
    max_neighbourhoods: int = 2000  # Neighbourhoods of one LNS

    # Problem and constructive heuristics
    ungrouped_datasets: int = 40  # Number of datasets up to which each is a class of its own
    # Attempts in which jobs whose copy was refused may have other copies.
    max_attempts_with_copies: int = 6
    # Pairs of jobs, or of jobs and cells, that are examined in all.
    home_exchange_max_pairs: int = 10_000_000
    home_exchange_batch_pairs: int = 1_000_000  # Pairs of jobs that are examined at once
    exact_max_columns: int = 600  # Size of the largest MIP that is solved lexicographically
    exact_term_time_share: float = 0.6  # Of the time left, for each term of it

    # Annealing
    # Of the median supply of a cell, the demand of the largest unit of several jobs.
    unit_max_supply_share: float = 0.05
    # GiB of copies that cost as much as a GiB read remotely, in annealing.
    remote_read_weight: float = 16.0
    initial_noise_sizes: float = 4.0  # Noise at first, in median sizes of dataset classes
    final_noise_sizes: float = 0.005  # Noise in the end
    # Price of overload at first, in median sizes of dataset classes per median demand.
    initial_overload_price: float = 0.0001
    final_overload_price: float = 100.0  # Price of overload in the end
    # Of the budget of links, that annealing may use: conflicts of copies are not seen.
    link_use_share: float = 0.8
    max_sweeps: int = 700  # Sweeps of one run
    compound_moves_per_sweep: int = 6  # Compound moves per dataset class and sweep

    # Large-neighbourhood search
    neighbourhood_max_s: float = 8.0  # Time of one MIP
    neighbourhood_gap_rel: float = 1e-3  # Gap of `copies` at which a MIP counts as solved
    # Initial size of each neighbourhood: job classes in the first two, else dataset classes.
    neighbourhood_sizes: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType(
            {"regions": 60, "connected": 60, "sizes": 30, "relaxed": 30}
        )
    )
    # Probability weights of the neighbourhoods.
    neighbourhood_weights: Mapping[str, float] = field(
        default_factory=lambda: MappingProxyType(
            {"regions": 1, "connected": 1, "sizes": 2, "relaxed": 3}
        )
    )
    min_neighbourhood_size: int = 12  # Smallest size that a neighbourhood shrinks to
    max_neighbourhood_size: int = 4000  # Largest size that a neighbourhood grows to
    # Fraction of a replica in the relaxation from which LNS may place it there.
    rins_min_fraction: float = 0.02
    # Weights of terms in a MIP; solutions are compared lexicographically.
    term_weights: Mapping[str, float] = field(
        default_factory=lambda: MappingProxyType(
            {"overload": 10.0, "remote_reads": 16.0, "copies": 1.0}
        )
    )
    # Neighbourhoods without improvement after which the search ends.
    max_idle_neighbourhoods: int = 40

    # Relax and fix
    # Of all GiB, in datasets with integer replicas in the last step.
    integer_gib_share: float = 0.96
    # Reduced costs up to which copies are free, in sizes, tried in turn.
    free_reduced_costs_rel: tuple[float, ...] = (-1.0, 0.03, 0.1, 0.3, 9.0)
    # Of the time left, for tighter bounds on the leading terms than the solution has.
    better_target_time_share: float = 0.75
    step_time_share: float = 0.5  # Of the time left, for one step
    step_gap_rel: float = 2e-3  # Gap of a step
    step_max_growth: float = 1.02  # GiB copied by a step, in times of the step before, at most
    first_step_datasets: int = 33  # Largest datasets with integer replicas in the first step
    step_growth: int = 2  # Factor of their number in each later step
    # Reduced costs tried in the first step if nothing is overloaded, else one.
    first_step_tries: int = 2
    kept_gib_share: float = 0.9  # Of all GiB, in the largest datasets that stay as in the last step
    # Reduced cost, in sizes, up to which copies of the others are chosen.
    open_reduced_cost_rel: float = 0.1
    # Fraction of a replica in the relaxation from which it is chosen.
    relaxed_min_fraction: float = 0.4

    # Relaxations
    max_unions: int = 64  # Capacity rows per region, about
    # Possible copies above which the MIP is too slow, and the tree is grown.
    mip_max_copies: int = 2000
    # Branching priority of a fractional number of copies, in times of the size.
    number_priority_factor: int = 10
    # Distance from an integer from which a number of copies is fractional.
    number_fractionality: float = 0.02
    # Fraction of a copy up to which the relaxation does not have it.
    fraction_tolerance: float = 1e-3

    # Bounds
    # Reads times squared regions of the largest problem that is relaxed, for its memory.
    relaxation_max_source_pairs: int = 500_000_000
    restricted_datasets: int = 200  # Largest datasets in relaxations of very large rounds
    restricted_time_share: float = 0.3  # Of the time left, for such a relaxation
    bounded_datasets: int = 120  # Largest datasets of which each has a bound of its own
    data_sum_time_share: float = 0.95  # Of the time for bounds, for the sum of both data terms
    # Of the time for bounds, that is kept for `imbalance` and `hottest`.
    last_terms_time_share: float = 0.05
    # Possible copies up to which the certified branch and bound is run.
    branch_and_bound_max_copies: int = 100
    # Possible copies above which relaxations are restricted to the largest datasets.
    relaxation_max_copies: int = 20_000
    # Gaps to a plan of the objective cutoffs, one after the other.
    cutoff_gaps_rel: tuple[float, ...] = (0.0199, 0.01, 0.004)
    # Used share of storage in the relaxation above which the MIP keeps the limits of a region.
    mip_tight_storage_share: float = 0.8
    # GiB by which copies may differ from integers and are not branched on.
    integrality_tolerance: float = 1e-4
    # Largest relaxation that is solved by simplex instead of an interior-point method.
    simplex_max_columns: int = 3000
    deterministic_max_branchings: int = 30  # Nodes that deterministic rounds branch on
    dataset_bounds_time_share: float = 0.05  # Of the time left, for the bounds of single datasets
    dataset_bound_time_share: float = 0.005  # Of the time left, for one of them

    # Replica tree
    tree_threads: int = 2  # Threads that solve nodes, each a batch of LPs
    probed_datasets: int = 8  # Datasets of strong branching at the root
    probing_iterations: int = 600  # PDHG iterations for each of their children
    confirming_iterations: int = 2500  # More iterations for the children of the best of them
    probing_time_share: float = 0.15  # Of the time left, for strong branching at the root
    # PDHG iterations for a node before it is branched on or gets as many more.
    node_iterations: int = 1000
    branching_candidates: int = 10  # Datasets that strong branching compares at other nodes
    branching_regions: int = 2  # Regions of which each has a child there
    branching_iterations: int = 600  # PDHG iterations for each child compared there
    # Gain of a child at least, of the bound, in estimates of tree size.
    min_branching_gain_rel: float = 4e-4
    min_fractionality: float = 0.1  # Total fractionality of a dataset from which it is branched on
    deterministic_max_batches: int = 20  # Batches of nodes in deterministic rounds
    # Gaps to a plan that nodes are solved to, one after the other.
    tree_target_gaps_rel: tuple[float, ...] = (0.0499, 0.0399, 0.0299, 0.0199)
    # Gain of the bound by which a node gets more iterations before it is branched on.
    min_node_progress_rel: float = 1e-3


PARAMETERS = Parameters()
"""The instance in use."""
