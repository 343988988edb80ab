"""Tuning parameters of the gang formulation: sizes, shares of the time, tolerances, patience.

`PARAMETERS` is the one instance in use. Functions read it when they are called, as
`parameters.PARAMETERS.models`, so that a test or an ablation can replace it as a whole
(`dataclasses.replace`). Counts begin with `max_`, `min_` or `num_`; other names end with their
unit: `_seconds`, `_share` (of the time left), `_rel` (relative). None of these numbers decides
whether a bound is valid.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "PARAMETERS",
    "BoundParameters",
    "IncrementalParameters",
    "ModelParameters",
    "Parameters",
    "PlacementParameters",
    "ProblemParameters",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemParameters:
    """Of `problem/`, the compiled round.

    Attributes
    ----------
    max_host_kinds
        Kinds of hosts by GPU model and by the lists of hosts that tasks name; with more, kinds go
        by GPU model alone.
    """

    max_host_kinds: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementParameters:
    """Of `placement/`, the constructive steps that every plan uses.

    Attributes
    ----------
    max_joint_domains
        Domains tried for an option whose groups need one domain together, the fullest first.
    max_option_changes
        Changes of an option tried by `upgrade_options`; each looks at all hosts.
    """

    max_joint_domains: int = 64
    max_option_changes: int = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelParameters:
    """Of `models/`: sizes of the integer programs, column generation, searches.

    Attributes
    ----------
    max_shape_class_pairs
        (Shape, host class) pairs, one variable x each, of an aggregate model by sums; host classes
        are coarsened until there are no more.
    num_stop_cost_steps
        Parts into which the running jobs of a class are divided by what stopping them costs.
    max_host_table_entries
        Entries of the dynamic program that prices patterns of whole hosts; with more, host patterns
        do not apply.
    max_gpu_table_entries
        Entries of the dynamic program that prices patterns of one GPU by milli-GPU and memory.
    max_units_of_least_demand
        Units that the smallest demand may take where resource units are coarsened.
    max_rounded_kinds
        Kinds of hosts, and of tasks, for which coarser units are sought.
    min_pattern_gain_rel
        Reduced cost, relative to the highest price, from which a pattern counts as improving.
    max_extra_patterns
        Patterns that one iteration may add beyond the best one of each host class.
    relaxation_share
        Of the time left, for one linear relaxation of column generation.
    relaxation_gap_rel
        Column generation ends where missing patterns can add no more than this part of the optimum,
        or half the session's gap if that is more.
    dual_smoothing
        Weight of the last duals in the running mean at which columns are priced, too.
    min_sifting_columns
        Options from which on a relaxation is solved by sifting.
    num_sample_columns
        Options, about, in the sample that gives sifting its first prices.
    num_options_per_class
        Options of each class with which sifting begins, and which come in at a time.
    max_sifting_rounds
        Programs that sifting solves before the whole relaxation is.
    sifting_gain_rel
        Reduced cost, relative to the largest cost, from which an option left out comes in.
    max_core_columns
        Columns of a first core; a model of fewer is searched whole.
    core_loss_rel
        Slack, relative to the relaxation's optimum, of the loss from which a column is left out.
    max_search_seconds
        Of one branch and bound of the aggregate model.
    first_search_share, later_search_share
        Of the time left, for the first term and for each later one.
    place_term_gap_rel
        Gap of later terms that look at where jobs are.
    beam_width, max_beam_items, max_beam_patterns
        Partial patterns kept, item types tried and patterns returned by the beam search for
        patterns of whole hosts.
    exact_relaxation_share, exact_search_share
        Of the time left, for the relaxation and the branch and bound of each term of the
        host-indexed model.
    max_victim_pending_jobs
        Pending jobs of a round whose victims are selected by a host-indexed model.
    max_victim_variables
        (Pending task set, host) pairs and places of running jobs of such a model.
    victim_share, max_victim_seconds
        Of the time left for one solve of it, and its most seconds.
    """

    max_shape_class_pairs: int = 8_000
    num_stop_cost_steps: int = 4
    max_host_table_entries: int = 60_000
    max_gpu_table_entries: int = 4_000
    max_units_of_least_demand: int = 12
    max_rounded_kinds: int = 128
    min_pattern_gain_rel: float = 1e-7
    max_extra_patterns: int = 5_000
    relaxation_share: float = 0.5
    relaxation_gap_rel: float = 1e-5
    dual_smoothing: float = 0.5
    min_sifting_columns: int = 8_000
    num_sample_columns: int = 4_000
    num_options_per_class: int = 3
    max_sifting_rounds: int = 6
    sifting_gain_rel: float = 1e-9
    max_core_columns: int = 1_000
    core_loss_rel: float = 1e-6
    max_search_seconds: float = 10.0
    first_search_share: float = 0.5
    later_search_share: float = 0.2
    place_term_gap_rel: float = 1e-2
    beam_width: int = 2_000
    max_beam_items: int = 60
    max_beam_patterns: int = 8
    exact_relaxation_share: float = 0.2
    exact_search_share: float = 0.7
    max_victim_pending_jobs: int = 32
    max_victim_variables: int = 20_000
    victim_share: float = 0.3
    max_victim_seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundParameters:
    """Of `bounds/`.

    Attributes
    ----------
    hosts_per_chunk
        Hosts whose fragmentation is computed together, to limit memory.
    """

    hosts_per_chunk: int = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalParameters:
    """Of `incremental.py`, rounds that follow each other.

    Attributes
    ----------
    price_gap_rel
        Gap to the bound of the last prices at which no linear relaxation is solved.
    negligible_gain_rel
        Part of the value of all that runs; if the bound leaves no more to gain, no search is made.
    max_kept_patterns
        Patterns with which the next round begins, those of least loss at the relaxation's prices.
    """

    price_gap_rel: float = 9e-4
    negligible_gain_rel: float = 2e-4
    max_kept_patterns: int = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """All tuning parameters of the gang formulation, by package."""

    problem: ProblemParameters = ProblemParameters()
    placement: PlacementParameters = PlacementParameters()
    models: ModelParameters = ModelParameters()
    bounds: BoundParameters = BoundParameters()
    incremental: IncrementalParameters = IncrementalParameters()


PARAMETERS = Parameters()
