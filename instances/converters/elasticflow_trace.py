"""The rows of ElasticFlow's deadline traces, whose times are seconds on one clock.

They accompany Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep
Learning", ASPLOS'23. Submission, duration and GPUs are those of Microsoft's ITP clusters; deadline,
model and batch size were drawn by the authors. About half of the deadlines lie before the end that
a job could have if it started at once on the GPUs that it asks. Each job is worth the same, since
the authors count the deadlines that are met.
"""

from __future__ import annotations

import os

from placewright.instances.converters.table import Table, read_table
from placewright.instances.converters.trace_jobs import TraceJob
from placewright.instances.documents import MAX_AMOUNT, MAX_GPU, WHOLE_GPU
from placewright.instances.errors import InvalidInputError

MAX_SECONDS = MAX_AMOUNT // 1000
VALUE = 1
"""What a promise is worth."""

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
    return elasticflow_rows(read_table(trace_csv))


def elasticflow_rows(table: Table) -> tuple[TraceJob, ...]:
    """Return the jobs of a table that is read, as `elasticflow_jobs` does."""
    table.require("job_id", "submission_time", "duration", "num_gpu", "model_name", "deadline")
    if not table.lines:
        raise InvalidInputError("expected at least one job", file=table.file, show_value=False)
    ids, models = table.names("job_id"), table.columns["model_name"]
    asked = table.integers("num_gpu", MAX_GPU // WHOLE_GPU).tolist()
    submitted = table.integers("submission_time", MAX_SECONDS).tolist()
    durations = table.integers("duration", MAX_SECONDS).tolist()
    deadlines = table.integers("deadline", MAX_SECONDS).tolist()
    short = [name[:_ID_CHARS] for name in ids]
    names = short if len(set(short)) == len(ids) else ids
    jobs = []
    for row, gpus in enumerate(asked):
        table.check_name(row, "model_name", models[row])
        if durations[row] == 0:
            raise table.error(row, "duration", "expected at least one second")
        if gpus == 0:
            continue
        jobs.append(
            TraceJob(
                name=f"{models[row]}-{names[row]}",
                gpus=gpus,
                submit_s=submitted[row],
                duration_s=durations[row],
                model=models[row],
                due=((deadlines[row], VALUE),),
            )
        )
    return tuple(sorted(jobs, key=lambda job: job.submit_s))
