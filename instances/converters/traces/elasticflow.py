"""The deadline traces of ElasticFlow, whose times are seconds: they become a deadline round.

They accompany Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep
Learning", ASPLOS'23. Submission, duration and GPUs are those of Microsoft's ITP clusters; deadline,
model and batch size were drawn by the authors. About half of the deadlines lie before the end that
a job could have if it started at once on the GPUs that it asks. Each job is worth the same, since
the authors count the deadlines that are met. What is not used: `num_iteration` and `batch_size`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction

from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.converters.support.trace_rounds import (
    LEASE_S,
    Conversion,
    Iterations,
    Speeds,
    TraceJob,
    TraceSample,
    check_range,
    deadline_round,
    fixed,
    invalid_argument,
    jobs_of,
    read_iterations,
    without_summary,
)
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.speed_models.elasticflow import amdahl, measured, sizes

MAX_SECONDS = MAX_AMOUNT // 1000
VALUE = 1
"""What a promise is worth."""

MAX_MOST = 2**16

_ID_CHARS = 8


def elasticflow_jobs(trace_csv: str | os.PathLike[str]) -> tuple[TraceJob, ...]:
    """Read the jobs of a trace, in the order of submission; rows that ask no GPU are left out.

    Parameters
    ----------
    trace_csv
        Columns job_id, submission_time, duration, num_gpu, model_name and deadline.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with line and column.
    """
    return _jobs(read_table(trace_csv))


def elastic_speeds(most: int, iterations: Iterations | None = None) -> Speeds:
    """Return what tells the sizes that a job may have, up to `most` GPUs, and its speeds.

    A model that `iterations` has, at the GPUs that the job asks, may have the sizes measured.
    Any other job may have powers of two, and is faster by Amdahl's law. What the job asks is always
    among its sizes.
    """
    table = {} if iterations is None else iterations

    def speeds(job: TraceJob) -> Mapping[int, Fraction]:
        known = table.get(job.model, {})
        if job.gpus in known:
            return measured({n: t for n, t in known.items() if n <= most or n == job.gpus})
        return amdahl({*sizes(most), job.gpus})

    return speeds


def read_elasticflow(
    trace_csv: str | os.PathLike[str],
    *,
    gpus: int,
    at: int | None = None,
    ahead: int = 0,
    jobs: int | None = None,
    seed: int = 0,
    lease_s: int = LEASE_S,
    slack: float = 0.0,
    elastic: int | None = None,
    profiles: str | os.PathLike[str] | None = None,
) -> Conversion:
    """Turn a trace of ElasticFlow into a round of policy `deadline`; by default with all its jobs.

    Parameters
    ----------
    trace_csv
        As `elasticflow_jobs` reads it.
    gpus, at, ahead, jobs, seed, lease_s, slack
        As in `read_chronus`, but that `at` and `ahead` are seconds.
    elastic
        Jobs may have any power of two of GPUs up to this one. None: those that they ask.
    profiles
        CSV of measured iterations, as `read_iterations` reads it. Models that are not in it are
        faster by Amdahl's law, with a serial part of 5 %.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used (with line and column) or an argument out of its range.
    """
    if elastic is not None:
        check_range("elastic", elastic, 1, MAX_MOST)
    elif profiles is not None:
        raise invalid_argument("profiles", os.fspath(profiles), "expected it with `elastic` only")
    table = read_table(trace_csv)
    trace = _jobs(table)
    iterations = None if profiles is None else read_iterations(profiles)
    made = deadline_round(
        "elasticflow",
        trace,
        TraceSample(at=at, ahead=ahead, jobs=jobs, seed=seed),
        gpus=gpus,
        lease_s=lease_s,
        slack=slack,
        speeds=fixed if elastic is None else elastic_speeds(elastic, iterations),
        rows=len(table.lines),
    )
    if elastic is None:
        return made
    known = set() if iterations is None else {job.model for job in trace} & set(iterations)
    how = (
        f"measured for {', '.join(sorted(known))}, else by Amdahl's law"
        if known
        else "by Amdahl's law"
    )
    return Conversion(
        made.round, f"{made.summary}; up to {elastic:,} GPUs a job, speeds {how} with 5 % serial"
    )


convert_elasticflow = without_summary(read_elasticflow)


def _jobs(table: Table) -> tuple[TraceJob, ...]:
    table.require("job_id", "submission_time", "duration", "num_gpu", "model_name", "deadline")
    deadlines = table.integers("deadline", MAX_SECONDS).tolist()
    short = [name[:_ID_CHARS] for name in table.columns["job_id"]]
    return jobs_of(
        table,
        "submission_time",
        MAX_SECONDS,
        lambda row, _: ((deadlines[row], VALUE),),
        names=short if len(set(short)) == len(short) else None,
    )
