"""Measures of replays in words and numbers."""

from __future__ import annotations

from collections.abc import Iterable

from placewright.report.text import NONE, shortened
from placewright.rounds.replay.measures import Interval
from placewright.rounds.replay.saved import Assumption

TITLES = {
    "jobs": "jobs",
    "unfinished": "jobs that did not end",
    "jct_mean_s": "JCT, mean (s)",
    "jct_p50_s": "JCT, median (s)",
    "jct_p90_s": "JCT, p90 (s)",
    "jct_p99_s": "JCT, p99 (s)",
    "wait_mean_s": "wait, mean (s)",
    "wait_p50_s": "wait, median (s)",
    "wait_p90_s": "wait, p90 (s)",
    "wait_p99_s": "wait, p99 (s)",
    "bounded_slowdown_mean": "bounded slowdown, mean",
    "rho_mean": "JCT over work, mean",
    "rho_worst": "JCT over work, worst",
    "stops_per_job": "stops per job",
    "moves_per_job": "moves per job",
    "deadlines_met": "deadlines met",
    "value_missed": "value of deadlines missed",
    "makespan_s": "makespan (s)",
    "allocation": "GPUs held, part of all",
    "fragmentation": "free GPUs that jobs cannot use, part of the free",
    "useful_gpu_s": "useful GPU-seconds",
    "overhead_gpu_s": "GPU-seconds of overhead",
    "lost_gpu_s": "GPU-seconds of lost work",
    "events": "events",
    "decisions": "decisions",
    "gap_mean": "gap of a round, mean",
    "gap_most": "gap of a round, largest",
    "rounds_without_bound": "rounds without a bound",
}
"""What each measure is called."""

SHARES = frozenset({"allocation", "fragmentation", "deadlines_met"})
COUNTS = frozenset({"jobs", "unfinished", "events", "decisions", "value_missed"})
SMALL_GAP = 1e-3
MAX_ASSUMPTION = 24


def measure_text(measure: str, value: float) -> str:
    """Write a measure: seconds and counts in whole numbers, parts in percent, else two decimals."""
    if measure in SHARES:
        return f"{100 * value:.1f} %"
    if measure.startswith("gap_"):
        return f"{value:.1e}" if 0 < value < SMALL_GAP else f"{value:.3f}"
    if measure in COUNTS or measure.endswith("_s"):
        return f"{value:,.0f}"
    return f"{value:,.2f}"


def interval_text(measure: str, found: Interval | None) -> str:
    """Write a measure, with half the width of its interval where several seeds give one."""
    if found is None:
        return NONE
    text = measure_text(measure, found.mean)
    if not 0 < found.half_width < float("inf"):
        return text  # one seed, or all alike
    return f"{text} ± {measure_text(measure, found.half_width)}"


def assumption_text(values: Iterable[Assumption]) -> str:
    """Write what a group assumes, of each of its seeds if they differ."""
    return ", ".join(_assumption(value) for value in values)


def _assumption(value: Assumption) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shortened(str(value), MAX_ASSUMPTION)
