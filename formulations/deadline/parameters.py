"""Tuning parameters of the deadline formulation: sizes, times, shares of the time.

`PARAMETERS` is the one instance in use. Functions read it when they are called, as
`parameters.PARAMETERS.chunk_cells`, so that a test or an ablation can replace it
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
    chunk_cells
        Array cells processed at a time where the whole array would be jobs by leases.
    max_bound_cells
        Cells of an array of demand rows, loads or demand classes, by alternatives or
        leases: 160 MB. Rows beyond are left out, which weakens the bound.
    max_window_cells
        Window starts times leases that the separation of demand-bound rows looks at.
    max_subset_sum_units
        Lease capacity, in units of the demands' common divisor, up to which it is rounded
        down to a sum of gang sizes.
    num_first_prefixes
        Prefixes [0, T) whose rows the master LP begins with.
    max_first_row_cells
        Alternatives times first rows, unless those are a single prefix of each capacity
        row.
    max_cutting_plane_passes
        Passes of the cutting-plane loop; rows that are missing afterwards weaken the bound
        only.
    num_core_jobs_of_pass
        Jobs of least regret that a later pass of the cutting-plane loop solves for.
    lp_agreement_rel
        Relative difference of LP value and certified bound at which the LP counts as
        solved.
    core_sizes_jobs
        Jobs of the core MIPs, one after the other.
    core_mip_seconds
        Time of the first MIP of a core; each one after missing rows were added has half of
        the time of the one before.
    max_core_mips
        MIPs of one core, each with the rows that the one before violated.
    integrality_tolerance
        Distance from an integer at which a solver's value counts as that integer.
    max_feasibility_cells
        Alternatives times leases of the time-indexed MIP with all alternatives fixed.
    max_restricted_cells
        The same, where it also chooses among alternatives.
    feasibility_mip_seconds
        Time for leases of a selection that list scheduling did not schedule completely.
    restricted_mip_seconds
        Time for the restricted MIP where promises are broken; list scheduling is weak
        there.
    close_gap_rel
        Gap of `admitted` at which large rounds with broken promises stop after the first
        master LP.
    max_time_indexed_cells
        Alternatives times leases of the exact time-indexed MIP.
    must_run_value_per_gpu
        Value per GPU of a job that must run now; larger than the value of a displaced job.
    num_doublings_of_value
        Doublings of a job's GPUs after which each of its GPUs counts twice one
        of a job of a single GPU.
    max_total_progress
        Sum of `progress` over all options, up to which a solver tells single options apart.
    max_displacement_hosts
        Hosts tried for a displacement, those with most free or preemptible GPUs first.
    must_run_victim_factor
        Cost of displacing a GPU of a job that must run, relative to one of a job that may
        wait.
    max_failed_leases
        Leases that an insertion may fail to free before the job is rejected.
    lease_visit_cost_jobs
        Work of visiting a lease in the search for a chain, in jobs examined.
    max_chain_cells
        Jobs times leases that the ejection chains of one repair may examine: about a CPU
        second.
    clock_check_cells
        Alternatives times leases between two looks at the clock: about a CPU second.
    max_lns_cells
        Alternatives times leases of all LNS steps together: about a quarter of a CPU
        second.
    max_lns_steps
        Destroy-and-repair steps.
    lns_noise_sigma
        Standard deviation of the logarithm of the random factor on greedy ranks.
    lns_window_share
        Share of the steps that destroy a window of leases.
    max_lns_chain_cells
        Jobs times leases that the ejection chains of one step may examine.
    max_relinking_passes
        Passes over the jobs that did not get the alternative of the guiding selection.
    max_inserted_share
        Share of the promises that may be inserted by ejection chains where headroom is
        kept.
    max_headroom_of_slack_share
        Share of the slack before each lease that headroom may reserve; the rest is for jobs
        without a promise.
    num_right_shift_schedules
        Schedules of a right shift that share the work limit of one repair.
    max_integrated_columns
        Columns of the integrated model: places, and twice alternatives times leases.
    time_indexed_share
        Share of the time left, for the time-indexed model of the master subproblem.
    integrated_term_share
        Share of the time left, for each term of the integrated model.
    class_weight_ratios
        Ratios of the weights of neighbouring priority classes with which each is bounded.
    placement_share
        Share of the time that is kept for placing the current lease.
    max_early_plan_jobs
        Jobs up to which the first schedule is placed before admission has ended.
    steady_share
        Share of the time for steady alternatives, and for placing their schedule, where all
        alternatives might be better.
    """

    chunk_cells: int = 1 << 20
    max_bound_cells: int = 20_000_000
    max_window_cells: int = 5_000_000
    max_subset_sum_units: int = 1 << 20
    num_first_prefixes: int = 20
    max_first_row_cells: int = 4_000_000
    max_cutting_plane_passes: int = 30
    num_core_jobs_of_pass: int = 1_500
    lp_agreement_rel: float = 1e-6
    core_sizes_jobs: tuple[int, ...] = (40, 150)
    core_mip_seconds: float = 1.0
    max_core_mips: int = 4
    integrality_tolerance: float = 1e-6
    max_feasibility_cells: int = 8_000
    max_restricted_cells: int = 6_000
    feasibility_mip_seconds: float = 0.4
    restricted_mip_seconds: float = 2.0
    close_gap_rel: float = 0.01
    max_time_indexed_cells: int = 4_000
    must_run_value_per_gpu: int = 16
    num_doublings_of_value: int = 8
    max_total_progress: int = 10**9
    max_displacement_hosts: int = 64
    must_run_victim_factor: int = 2
    max_failed_leases: int = 6
    lease_visit_cost_jobs: int = 100
    max_chain_cells: int = 400_000_000
    clock_check_cells: int = 50_000_000
    max_lns_cells: int = 4_000_000
    max_lns_steps: int = 300
    lns_noise_sigma: float = 0.3
    lns_window_share: float = 0.3
    max_lns_chain_cells: int = 3_000_000
    max_relinking_passes: int = 3
    max_inserted_share: float = 0.02
    max_headroom_of_slack_share: float = 0.8
    num_right_shift_schedules: int = 10
    max_integrated_columns: int = 4_000
    time_indexed_share: float = 0.5
    integrated_term_share: float = 0.4
    class_weight_ratios: tuple[int, ...] = (1, 2, 8, 64)
    placement_share: float = 0.3
    max_early_plan_jobs: int = 1_000
    steady_share: float = 0.5


PARAMETERS = Parameters()
"""The parameters in use."""
