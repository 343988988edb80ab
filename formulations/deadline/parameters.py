"""Tuning parameters of the deadline formulation, read as `formulations/gang/parameters.py` says.

Names begin with `max_`, `min_` or `num_` or end with their unit: `_cells` (array entries),
`_seconds`, `_share` (of the whole), `_rel` (relative to the value).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Sizes, times, shares of the time, tolerances."""

    # Array cells processed at a time where the whole array would be jobs by leases.
    chunk_cells: int = 1 << 20
    # Cells of an array of demand rows, loads or demand classes, by alternatives or leases: 160 MB.
    # Rows beyond are left out, which weakens the bound.
    max_bound_cells: int = 20_000_000
    # Window starts times leases that the separation of demand-bound rows looks at.
    max_window_cells: int = 5_000_000
    # Lease capacity, in units of the demands' common divisor, up to which it is rounded down to a
    # sum of gang sizes.
    max_subset_sum_units: int = 1 << 20
    num_first_prefixes: int = 20  # Prefixes [0, T) whose rows the master LP begins with
    # Alternatives times first rows, unless those are a single prefix of each capacity row.
    max_first_row_cells: int = 4_000_000
    # Passes of the cutting-plane loop; rows that are missing afterwards weaken the bound only.
    max_cutting_plane_passes: int = 30
    # Jobs of least regret that a later pass of the cutting-plane loop solves for.
    num_core_jobs_of_pass: int = 1_500
    # Relative difference of LP value and certified bound at which the LP counts as solved.
    lp_agreement_rel: float = 1e-6
    core_sizes_jobs: tuple[int, ...] = (40, 150)  # Jobs of the core MIPs, one after the other
    # Time of the first MIP of a core; each one after missing rows were added has half of the time
    # of the one before.
    core_mip_seconds: float = 1.0
    max_core_mips: int = 4  # MIPs of one core, each with the rows that the one before violated
    # Distance from an integer at which a solver's value counts as that integer.
    integrality_tolerance: float = 1e-6
    # Alternatives times leases of the time-indexed MIP with all alternatives fixed.
    max_feasibility_cells: int = 8_000
    max_restricted_cells: int = 6_000  # The same, where it also chooses among alternatives
    # Time for leases of a selection that list scheduling did not schedule completely.
    feasibility_mip_seconds: float = 0.4
    # Time for the restricted MIP where promises are broken; list scheduling is weak there.
    restricted_mip_seconds: float = 2.0
    # Gap of `admitted` at which large rounds with broken promises stop after the first master LP.
    close_gap_rel: float = 0.01
    max_time_indexed_cells: int = 4_000  # Alternatives times leases of the exact time-indexed MIP
    # Value per GPU of a job that must run now; larger than the value of a displaced job.
    must_run_value_per_gpu: int = 16
    # Doublings of a job's GPUs after which each of its GPUs counts twice one of a job of a single
    # GPU.
    num_doublings_of_value: int = 8
    # Sum of `progress` over all options, up to which a solver tells single options apart.
    max_total_progress: int = 10**9
    # Hosts tried for a displacement, those with most free or preemptible GPUs first.
    max_displacement_hosts: int = 64
    # Cost of displacing a GPU of a job that must run, relative to one of a job that may wait.
    must_run_victim_factor: int = 2
    # Leases that an insertion may fail to free before the job is rejected.
    max_failed_leases: int = 6
    # Work of visiting a lease in the search for a chain, in jobs examined.
    lease_visit_cost_jobs: int = 100
    # Jobs times leases that the ejection chains of one repair may examine: about a CPU second.
    max_chain_cells: int = 400_000_000
    # Alternatives times leases between two looks at the clock: about a CPU second.
    clock_check_cells: int = 50_000_000
    # Share of the promises that may be inserted by ejection chains where headroom is kept.
    max_inserted_share: float = 0.02
    # Share of the slack before each lease that headroom may reserve; the rest is for jobs without a
    # promise.
    max_headroom_of_slack_share: float = 0.8
    # Schedules of a right shift that share the work limit of one repair.
    num_right_shift_schedules: int = 10
    # Columns of the integrated model: places, and twice alternatives times leases.
    max_integrated_columns: int = 4_000
    # Share of the time left, for the time-indexed model of the master subproblem.
    time_indexed_share: float = 0.5
    # Share of the time left, for each term of the integrated model.
    integrated_term_share: float = 0.4
    # Ratios of the weights of neighbouring priority classes with which each is bounded.
    class_weight_ratios: tuple[int, ...] = (1, 2, 8, 64)
    placement_share: float = 0.3  # Share of the time that is kept for placing the current lease
    # Jobs up to which the first schedule is placed before admission has ended.
    max_early_plan_jobs: int = 1_000
    # Share of the time for steady alternatives, and for placing their schedule, where all
    # alternatives might be better.
    steady_share: float = 0.5


PARAMETERS = Parameters()
"""The parameters in use."""
