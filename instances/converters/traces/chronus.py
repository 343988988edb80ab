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

from placewright.instances.converters.support.conversion import Conversion
from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.converters.support.deadline_rounds import LEASE_S, deadline_round
from placewright.instances.converters.support.locality import read_locality
from placewright.instances.converters.support.sampling import TraceSample
from placewright.instances.converters.support.trace_jobs import TraceJob
from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError

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


def convert_chronus(
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
) -> Round:
    """Return the round of `read_chronus` without its summary."""
    return read_chronus(
        trace_csv,
        gpus=gpus,
        at=at,
        ahead=ahead,
        jobs=jobs,
        seed=seed,
        lease_s=lease_s,
        slack=slack,
        locality=locality,
    ).round


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


def _jobs(table: Table) -> tuple[TraceJob, ...]:
    table.require(
        *("job_id", "num_gpu", "submit_time", "duration", "model_name"),
        *("expect_time_list", "expect_value_list", "best_effort"),
    )
    if not table.lines:
        raise InvalidInputError("expected at least one job", file=table.file, show_value=False)
    ids, models = table.names("job_id"), table.columns["model_name"]
    asked = table.integers("num_gpu", MAX_COUNT).tolist()
    submitted = table.integers("submit_time", MAX_MINUTES).tolist()
    durations = table.integers("duration", MAX_MINUTES).tolist()
    best_effort = table.integers("best_effort", 1).tolist()
    jobs = []
    for row, gpus in enumerate(asked):
        table.check_name(row, "model_name", models[row])
        if durations[row] == 0:
            raise table.error(row, "duration", "expected at least one minute")
        if gpus == 0:
            continue
        submit = submitted[row] * MINUTE_S
        due = () if best_effort[row] else due_minutes(table, row)
        jobs.append(
            TraceJob(
                name=f"{models[row]}-{ids[row]}",
                gpus=gpus,
                submit_s=submit,
                duration_s=durations[row] * MINUTE_S,
                model=models[row],
                due=tuple((submit + after * MINUTE_S, value) for after, value in due),
            )
        )
    return tuple(sorted(jobs, key=lambda job: job.submit_s))


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
