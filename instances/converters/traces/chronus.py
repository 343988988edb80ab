"""The traces of Chronus, whose times are minutes: jobs with deadlines become a deadline round.

They accompany Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training
jobs", SoCC'21, and are derived from Microsoft's Philly traces. `expect_time_list` and
`expect_value_list` are joined with hyphens; the times count from the job's own submission. The
deadline of a best-effort row is a dummy. Rows are in no order. What is not used: `user`,
`iterations`, `interval` and `job_type`.
"""

from __future__ import annotations

import os
from itertools import pairwise

from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.converters.support.trace_rounds import (
    LEASE_S,
    Conversion,
    TraceJob,
    TraceSample,
    deadline_round,
    jobs_of,
    read_locality,
    without_summary,
)
from placewright.instances.documents.base import MAX_AMOUNT

MINUTE_S = 60
MAX_MINUTES = MAX_AMOUNT // MINUTE_S // 1000
MAX_VALUE = 10**6
MAX_DUE = 64

_SEPARATOR = "-"


def chronus_jobs(trace_csv: str | os.PathLike[str]) -> tuple[TraceJob, ...]:
    """Read the jobs of a trace, in the order of submission; rows that ask no GPU are left out.

    Parameters
    ----------
    trace_csv
        Columns job_id, num_gpu, submit_time, duration, model_name, expect_time_list,
        expect_value_list and best_effort (0 or 1).

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with line and column: a column that is missing, an id given
        twice, a number that is none, a duration of zero, deadlines that do not rise, values that
        do not fall.
    """
    return _jobs(read_table(trace_csv))


def read_chronus(
    trace_csv: str | os.PathLike[str],
    *,
    gpus: int,
    at: int | None = None,
    ahead: int = 0,
    jobs: int | None = None,
    seed: int = 0,
    lease_s: int = LEASE_S,
    slack: float = 0.0,
    locality: str | os.PathLike[str] | None = None,
) -> Conversion:
    """Turn a trace of Chronus into a round of policy `deadline`; by default with all its jobs.

    Parameters
    ----------
    trace_csv
        As `chronus_jobs` reads it.
    gpus
        GPUs of the cluster: hosts of 8, the last with what is left.
    at, ahead
        Take the jobs alive at this minute, had each started when it was submitted, and those
        submitted up to `ahead` minutes after it. Without `at` the round is at the first submission.
    jobs, seed
        The number of these to take, drawn by the seed.
    lease_s
        Seconds of a lease. Of each, checkpoint and resume take 30 s * (1 + log2 of the GPUs).
    slack
        Part by which jobs are taken to run longer than recorded; the authors take 0.1.
    locality
        JSON of speeds by model, GPUs and hosts, as `read_locality` reads it.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used (with line and column) or an argument out of its range.
    """
    table = read_table(trace_csv)
    return deadline_round(
        "chronus",
        _jobs(table),
        TraceSample(at=at, ahead=ahead, jobs=jobs, seed=seed, unit_s=MINUTE_S, unit="minute"),
        gpus=gpus,
        lease_s=lease_s,
        slack=slack,
        locality=None if locality is None else read_locality(locality),
        rows=len(table.lines),
    )


convert_chronus = without_summary(read_chronus)


def _jobs(table: Table) -> tuple[TraceJob, ...]:
    table.require(
        *("job_id", "num_gpu", "submit_time", "duration", "model_name"),
        *("expect_time_list", "expect_value_list", "best_effort"),
    )
    best_effort = () if not table.lines else table.integers("best_effort", 1).tolist()

    def due(row: int, submit: int) -> tuple[tuple[int, int], ...]:
        found = () if best_effort[row] else due_minutes(table, row)
        return tuple((submit + after * MINUTE_S, value) for after, value in found)

    return jobs_of(table, "submit_time", MAX_MINUTES, due, unit_s=MINUTE_S, unit="minute")


def due_minutes(table: Table, row: int) -> list[tuple[int, int]]:
    """Return minutes after submission and values of the deadlines of a row."""
    times = _numbers(table, row, "expect_time_list", MAX_MINUTES)
    values = _numbers(table, row, "expect_value_list", MAX_VALUE)
    if len(times) > MAX_DUE:
        raise table.error(row, "expect_time_list", f"expected at most {MAX_DUE} deadlines")
    if any(later <= sooner for sooner, later in pairwise(times)):
        raise table.error(row, "expect_time_list", "expected deadlines that rise")
    if any(less >= more for more, less in pairwise(values)) or not values[-1]:
        raise table.error(row, "expect_value_list", "expected values that fall, the last above 0")
    if len(times) != len(values):
        raise table.error(
            row, "expect_value_list", f"expected {len(times)}, one for each of expect_time_list"
        )
    return list(zip(times, values, strict=True))


def _numbers(table: Table, row: int, column: str, most: int) -> list[int]:
    """Return the whole numbers of a cell that joins them with hyphens."""
    parts = table.columns[column][row].split(_SEPARATOR)
    if not all(p.isascii() and p.isdigit() and len(p) < 16 and int(p) <= most for p in parts):
        raise table.error(row, column, f"expected integers from 0 to {most} with - between")
    return [int(part) for part in parts]
