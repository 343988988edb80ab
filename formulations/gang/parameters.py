"""Tuning parameters of the gang formulation: sizes, shares of the time, tolerances, patience.

`PARAMETERS` is the one instance in use. Functions read it when they are called, as
`parameters.PARAMETERS.models`, so that a test or an ablation can replace it as a whole
(`dataclasses.replace`). Counts begin with `max_`, `min_` or `num_`; other names end with their
unit: `_seconds`, `_share` (of the time left), `_rel` (relative). None of these numbers decides
whether a bound is valid.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProblemParameters:
    """Of `problem/`, the compiled round."""

    # Kinds of hosts by GPU model and by the lists of hosts that tasks name; with more, kinds go by
    # GPU model alone.
    max_host_kinds: int = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacementParameters:
    """Of `placement/`, the constructive steps that every plan uses."""

    # Domains tried for an option whose groups need one domain together, the fullest first.
    max_joint_domains: int = 64
    # Changes of an option tried by `upgrade_options`; each looks at all hosts.
    max_option_changes: int = 20_000
    # Steps to decide whether several groups fit at once, of one option and of a whole plan.
    max_feasibility_steps: int = 5_000
    max_reason_steps: int = 50_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelParameters:
    """Of `models/`: sizes of the integer programs, column generation, searches."""

    # (Shape, host class) pairs, one variable x each, of an aggregate model by sums; host classes
    # are coarsened until there are no more.
    max_shape_class_pairs: int = 8_000
    # Parts into which the running jobs of a class are divided by what stopping them costs.
    num_stop_cost_steps: int = 64
    # Running tasks of a host of which each set may stay; more of them are taken for granted.
    max_staying_tasks: int = 8
    # Prices of room for a task of a whole host, in medians of what it costs that a task leaves.
    slot_price_steps: tuple[float, ...] = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
    # Parts into which they are divided where a disruption budget limits the work lost.
    num_lost_work_steps: int = 32
    # Entries of the dynamic program that prices patterns of whole hosts; with more, host patterns
    # do not apply.
    max_host_table_entries: int = 60_000
    # Entries of the dynamic program that prices patterns of one GPU by milli-GPU and memory.
    max_gpu_table_entries: int = 4_000
    # Units that the smallest demand may take where resource units are coarsened.
    max_units_of_least_demand: int = 12
    max_rounded_kinds: int = 128  # Kinds of hosts, and of tasks, for which coarser units are sought
    # Reduced cost, relative to the highest price, from which a pattern counts as improving.
    min_pattern_gain_rel: float = 1e-7
    # Patterns that one iteration may add beyond the best one of each host class.
    max_extra_patterns: int = 5_000
    # Of the time left, for one linear relaxation of column generation.
    relaxation_share: float = 0.5
    # Column generation ends where missing patterns can add no more than this part of the optimum,
    # or half the session's gap if that is more.
    relaxation_gap_rel: float = 1e-5
    # Weight of the last duals in the running mean at which columns are priced, too.
    dual_smoothing: float = 0.5
    min_sifting_columns: int = 8_000  # Options from which on a relaxation is solved by sifting
    # Options, about, in the sample that gives sifting its first prices.
    num_sample_columns: int = 4_000
    # Options of each class with which sifting begins, and which come in at a time.
    num_options_per_class: int = 3
    max_sifting_rounds: int = 6  # Programs that sifting solves before the whole relaxation is
    # Reduced cost, relative to the largest cost, from which an option left out comes in.
    sifting_gain_rel: float = 1e-9
    # Of the dynamic program of cuts of accounts; from which part of a job on one is sought.
    max_account_table_entries: int = 5_000_000
    min_cut_fraction: float = 1e-5
    # How often cuts are added that gain no more than this part of the bound together.
    num_idle_cut_rounds: int = 3
    min_cut_gain_rel: float = 1e-4
    max_whole_job_rows: int = 12  # In place of patterns, for a bound by whole jobs
    whole_jobs_share: float = 0.1  # Of the time left, for that bound
    max_core_columns: int = 1_000  # Columns of a first core; a model of fewer is searched whole
    # Slack, relative to the relaxation's optimum, of the loss from which a column is left out.
    sizes_gap_rel: float = 2e-4  # Of sizes of running jobs: placing them loses about as much
    core_loss_rel: float = 1e-6
    max_search_seconds: float = 10.0  # Of one branch and bound of the aggregate model
    # Of the time left, for the first term and for each later one.
    first_search_share: float = 0.5
    later_search_share: float = 0.2
    place_term_gap_rel: float = 1e-2  # Gap of later terms that look at where jobs are
    # Of the time left, for the relaxation and the branch and bound of each term of the host-indexed
    # model.
    exact_relaxation_share: float = 0.2
    exact_search_share: float = 0.7
    # Pieces in all cuts and patterns of the cutting stock for `contention`; of its branch and
    # bound, in all and of the time left.
    max_link_pieces: int = 100_000
    max_link_pattern_seconds: float = 10.0
    link_pattern_share: float = 0.25
    # Nodes of the search for the sets of GPUs of the tasks of one host.
    max_link_packing_steps: int = 1_000
    # Hosts times levels of running jobs up to which the host-indexed model has jobs of higher ranks
    # go back to where they were.
    max_returned_hosts: int = 2_000
    # Pairs of tasks of a job in two domains whose distance the host-indexed model counts in full.
    max_pairs_apart: int = 2_000
    # Pairs of innermost domains between which it counts the maximum flow.
    max_domain_pairs: int = 120
    # Pending jobs of a round whose victims are selected by a host-indexed model.
    max_victim_pending_jobs: int = 32
    # (Pending task set, host) pairs and places of running jobs of such a model.
    max_victim_variables: int = 20_000
    # Of the time left for one solve of it, and its most seconds.
    victim_share: float = 0.3
    max_victim_seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundParameters:
    """Of `bounds/`."""

    hosts_per_chunk: int = 1_024  # Hosts whose fragmentation is computed together, to limit memory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InsertionParameters:
    """Of `heuristics/`: insertion of jobs where others move or stop."""

    # Passes over the pending jobs; in each, tasks arrive on a host at most once.
    max_displacement_passes: int = 8
    # Hosts left out for one gang, one after the other, since a pool has too little for its tasks.
    max_hosts_short_of_pools: int = 64
    # Prices tried for the scarce limit of a disruption budget, and the first ratio of one to the
    # next.
    max_budget_price_steps: int = 5
    budget_price_factor: float = 2.0
    used_up_share: float = 0.95  # Of a limit, from which on it counts as used up
    # Jobs of a host of which every subset may be its victims; of more, only the cheapest ones.
    max_enumerated_jobs: int = 6
    # Loss for each GPU that stays idle on a host; a job of one GPU and weight 1 has value 1000.
    value_per_idle_gpu: float = 700.0
    # Patterns of whole hosts, those of least reduced cost, that the relaxation does not use and the
    # restricted master has.
    max_unused_patterns: int = 100
    # Of the time left for the restricted master, and its most seconds. Gap to its relaxation, from
    # which on that is rounded, too, and most seconds of that.
    displacement_share: float = 0.4
    max_displacement_seconds: float = 6.0
    rounding_gap_rel: float = 1e-3
    max_rounding_seconds: float = 1.5
    # Of the time left for the column generation over hosts, and then for its integer program; most
    # seconds of that; how far prices go from the best ones to the last ones; and the gap of both.
    host_victims_share: float = 0.4
    max_host_victims_seconds: float = 10.0
    host_victims_step: float = 0.4
    host_victims_gap_rel: float = 0.002
    # (Host, pending option) pairs per second left, up to which displacement comes before models.
    host_option_pairs_per_second: int = 400_000
    ample_pairs_per_second: int = 40_000  # Up to which the model comes first
    # (Host, counted start) pairs per second left, up to which jobs that counts start are inserted
    # anew.
    host_start_pairs_per_second: int = 2_000_000
    first_insertion_share: float = 0.2  # Of the time left, for inserting gangs before any model
    # Of the knapsack that keeps changes within quotas.
    max_quota_seconds: float = 1.0
    quota_gap_rel: float = 1e-4
    # Displacements, each at other prices of quotas, and their part of the time left.
    max_quota_price_steps: int = 12
    quota_price_share: float = 0.2
    max_insertion_domains: int = 3  # Domains tried for one gang, the cheapest first
    max_ejection_depth: int = 2  # Ejections of a chain, one after the other, to fit one task
    # Hosts tried to fit one task: at the first depth of a chain, and deeper.
    max_ejection_hosts: int = 32
    max_deep_ejection_hosts: int = 4
    # Pending shapes of equal value, none larger than another in all resources, that are tried.
    max_exchange_shapes: int = 4
    # Jobs tried to change places with one job, if pools have too little for an exchange.
    max_exchange_partners: int = 16
    # Jobs tried, one after the other, to make a host fit one evacuated job.
    max_evacuation_ejections: int = 3_000
    # Factor on the value of entitled options where `entitled` is made part of the value.
    entitled_weight: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackingParameters:
    """Of `heuristics/`: bin packing and repacking."""

    # GPU-seconds of moves that one GPU saved for pending jobs may cost.
    gpu_worth_gpu_seconds: int = 1_000
    # Domains with which one that lacks something may swap items in a sweep, and swaps of all
    # domains that are looked at together, to limit memory.
    max_partners: int = 16
    max_swaps: int = 1_000_000
    max_swapped_items: int = 64  # Items of a domain that are looked at
    # Part of the excess that a swap lowers which counts if it takes a task from its gang.
    joint_share: float = 0.1
    # Sweeps after which the excess of domains must have fallen to this part of what it was; else
    # items are dealt anew.
    num_sweeps: int = 32
    least_fall: float = 0.9
    # Part of the gap asked for that the excess may be, of what all domains have.
    excess_of_gap: float = 0.25
    # Domains whose items are dealt with those of one that has an excess, and how often that is done
    # without a gain; also the most domains with an excess for which it is tried.
    num_dealt_domains: int = 2
    max_deals: int = 32
    # Linear programs of the column generation that cuts GPUs into shares.
    max_cutting_iterations: int = 100
    # Reduced cost, relative to a GPU's worth, from which a pattern of shares counts as improving.
    min_cutting_gain_rel: float = 1e-6
    # Of the time left for each of its programs, and the most seconds of the integer one.
    cutting_share: float = 0.3
    max_cutting_seconds: float = 5.0
    # The cheapest exchange is taken of those that lower the excess by at least this part of what
    # the best one does.
    near_best_rel: float = 0.8
    max_partial_gpus: int = 8  # Partly used GPUs, the fullest first, that are tried for a share


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NeighbourhoodParameters:
    """Of `heuristics/`: searches that destroy a part of a placement and repair it."""

    max_failures: int = 25  # Neighbourhoods without gain, one after the other, after which LNS ends
    # Hosts of a neighbourhood; fewer where tasks ask for GPU memory or slices, as a host then has
    # many more variables.
    max_hosts: int = 12
    max_hosts_with_parts: int = 4
    # Of the model that repairs a neighbourhood; the share is of the time for all repairs.
    max_repair_seconds: float = 3.0
    repair_share: float = 0.1
    repair_gap_rel: float = 1e-4
    # Growth of the value, relative to the last plan yielded, from which a plan is yielded before
    # the end.
    reported_gain_rel: float = 1e-3
    # Ruins of the fragmentation search per pending task, and in all.
    num_ruins_per_task: int = 2
    max_ruins: int = 2_000
    max_ruined_tasks: int = 8  # Tasks removed together
    ruin_share: float = 0.3  # Of the time left, for all ruins
    # Moves of the search for `contention` in all, those without gain after which it ends, and those
    # after which they are undone if they lose.
    max_refills: int = 400_000
    max_idle_refills: int = 20_000
    refills_per_episode: int = 300
    max_temperature: float = 1.0  # Of that search
    # Of the time, for that search; of the time left, for the moves of one call.
    uplink_share: float = 0.1
    refill_share: float = 0.8
    # Host states of which the increase of fragmentation is kept, to limit memory.
    max_cached_columns: int = 20_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunParameters:
    """Of `run.py`, the portfolio."""

    # Task variables of a host-indexed model up to which a round is small: solved whole.
    max_exact_variables: int = 6_000
    # How many times as many a larger round may have for that model to be tried at the end.
    max_last_times: int = 5
    # Task variables up to which that model comes first, without a search of counts.
    max_tiny_variables: int = 100
    # Of one solve of that model before any search of counts, and of the time left for it.
    max_first_exact_seconds: float = 1.0
    first_exact_share: float = 0.2
    # Of the time left, for the first relaxation where displacement is still to come.
    first_relaxation_share: float = 0.8
    # Of the time left, for each search of counts before that model, in a small round.
    counts_share: float = 0.3
    counts_seconds: float = 1.0  # What such a search may take at least,
    max_counts_share: float = 0.7  # if that is no more than this part of the time left
    exact_variables_per_second: float = 800.0  # Task variables of that model, to guess its time
    exact_share: float = 0.85  # Of the time left after them, for that model: later bounds need some
    # Task variables of a small round from which host patterns are tried before that model.
    min_pattern_variables: int = 100
    pattern_search_share: float = 0.1  # Of the time left, for that search of host patterns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IncrementalParameters:
    """Of `incremental.py`, rounds that follow each other."""

    # Gap to the bound of the last prices at which no linear relaxation is solved.
    price_gap_rel: float = 9e-4
    # Part of the value of all that runs; if the bound leaves no more to gain, no search is made.
    negligible_gain_rel: float = 2e-4
    # The same of each priority class: their bounds, in turn, are less tight.
    negligible_class_gain_rel: float = 1e-3
    # Part of the value of all that runs; after a search that gained no more, rounds are not
    # searched beyond the gap that it left, until this part of all jobs has come or gone.
    idle_gain_rel: float = 5e-4
    least_usual_share: float = 0.5  # Of that gap; with less left, the round is another one
    max_changed_share: float = 0.2
    # Patterns with which the next round begins, those of least loss at the relaxation's prices.
    max_kept_patterns: int = 5_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameters:
    """All tuning parameters of the gang formulation, by package or purpose."""

    problem: ProblemParameters = ProblemParameters()
    placement: PlacementParameters = PlacementParameters()
    models: ModelParameters = ModelParameters()
    bounds: BoundParameters = BoundParameters()
    insertion: InsertionParameters = InsertionParameters()
    packing: PackingParameters = PackingParameters()
    neighbourhood: NeighbourhoodParameters = NeighbourhoodParameters()
    run: RunParameters = RunParameters()
    incremental: IncrementalParameters = IncrementalParameters()


PARAMETERS = Parameters()
