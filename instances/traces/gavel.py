"""The traces of Gavel and of Shockwave: lines of fields with tabs between, without a header.

A job of Gavel is a number of steps; how long it runs is what its artifact measured on V100 GPUs,
on which its generator of traces made steps from times. Shockwave's jobs have durations.

References
----------
Narayanan et al., "Heterogeneity-aware cluster scheduling policies for deep learning workloads",
OSDI 2020; Zheng et al., "Shockwave: fair and efficient cluster scheduling for dynamic adaptation
in machine learning", NSDI 2023.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_values
from placewright.instances.speed_models.gavel import ALONE, speed
from placewright.instances.traces.first_line import first_line
from placewright.instances.traces.tables import MAX_GPUS, MAX_S, MAX_WORK_S, numbered, positive
from placewright.instances.traces.trace import NEVER, SECOND, Trace

THROUGHPUTS = "simulation_throughputs.json"
"""The file of Gavel's artifact that has to be in the folder of its trace."""

GPU_MODEL = "v100"

GAVEL = (
    *("job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir"),
    *("total_steps", "scale_factor", "priority_weight", "SLO", "arrival_time"),
)
SHOCKWAVE = (*GAVEL[:7], "mode", *GAVEL[7:9], "duration", GAVEL[9])

_MAX_STEPS = 10**12
_MAX_RATE = 10**9
_MAX_SLO = 10**6
_PLACES = 6
_UNIT = 10**_PLACES
_LINE = r"[^\t]+\t[^\t]*\t[^\t]*\t-[^\t]*\t[01]\t[^\t]*\t[^\t]*\t"
_IS_GAVEL = re.compile(_LINE + r"[^\t]*\t[^\t]*\t[^\t]*")
_IS_SHOCKWAVE = re.compile(_LINE + r"[a-z]+\t[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*")


def is_gavel(path: str | os.PathLike[str]) -> bool:
    """Whether the first line has the ten fields of Gavel, the fourth an argument as `--steps`."""
    return _IS_GAVEL.fullmatch(first_line(path)) is not None


def is_shockwave(path: str | os.PathLike[str]) -> bool:
    """Whether the first line has the twelve fields of Shockwave, the eighth a mode as `static`."""
    return _IS_SHOCKWAVE.fullmatch(first_line(path)) is not None


def gavel_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace of Gavel; `THROUGHPUTS` beside it says how long a step takes on V100 GPUs.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with line and column, and for a job type or a number of
        GPUs that was not measured.
    """
    table = read_table(path, GAVEL, tabs=True)
    beside = Path(path).parent / THROUGHPUTS
    if not beside.exists():
        told = f"a trace of steps; expected {THROUGHPUTS} of Gavel's artifact in its folder"
        raise InvalidInputError(told, file=table.file, show_value=False)
    throughputs = _throughputs(beside)
    steps = positive(table, "total_steps", _MAX_STEPS)
    gpus = positive(table, "scale_factor", MAX_GPUS)
    work = np.empty(len(steps), dtype=np.int64)
    for row, job_type in enumerate(table.columns["job_type"]):
        rate = speed(throughputs, GPU_MODEL, job_type, int(gpus[row]))
        if rate is None:
            told = f"expected a job type that {THROUGHPUTS} has for {gpus[row]} GPUs {GPU_MODEL}"
            raise table.error(row, "job_type", told)
        worked = int(steps[row]) * SECOND / rate
        if worked > MAX_WORK_S * SECOND:
            raise table.error(row, "total_steps", f"expected at most {MAX_WORK_S} s of steps")
        work[row] = max(1, round(worked))
    return _trace(table, gpus, work)


def shockwave_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace of Shockwave; durations are those at the first batch size.

    The larger batches that `gns` and `accordion` change to are dropped, by which its simulator has
    jobs end sooner.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with line and column.
    """
    table = read_table(path, SHOCKWAVE, tabs=True)
    gpus = positive(table, "scale_factor", MAX_GPUS)
    return _trace(table, gpus, positive(table, "duration", MAX_WORK_S) * SECOND)


def _trace(table: Table, gpus: Ints, work: Ints) -> Trace:
    """Return the trace; a job is due when its SLO, in multiples of its running time, has passed."""
    arrival = table.decimals("arrival_time", _PLACES, MAX_S)
    without = _negative(table, "SLO")
    cells = [
        "0" if none else cell for none, cell in zip(without, table.columns["SLO"], strict=True)
    ]
    filled = Table(table.file, {"SLO": cells}, table.lines)
    slo = filled.decimals("SLO", _PLACES, _MAX_SLO).tolist()
    due = [
        NEVER if none else at + times * us // _UNIT
        for none, at, times, us in zip(
            without.tolist(), arrival.tolist(), slo, work.tolist(), strict=True
        )
    ]
    models, model = numbered(table.columns["job_type"], len(work))
    return Trace.of(
        arrival,
        gpus,
        work,
        deadline_us=np.array(due, dtype=np.int64),
        value=np.where(without, 0, 1),
        model=model,
        models=models,
    )


def _negative(table: Table, column: str) -> Bools:
    """Return which cells are -1, by which both artifacts say that there is none."""
    pattern = re.compile(r"-1(\.0{1,6})?")
    return np.array([bool(pattern.fullmatch(cell)) for cell in table.columns[column]], np.bool_)


def _throughputs(path: Path) -> Mapping[str, Any]:
    """Return the part of the measurements that is of `GPU_MODEL`, each a number above 0."""
    file = str(path)
    values = load_values(path)
    measured = values.get(GPU_MODEL) if isinstance(values, dict) else None
    if not isinstance(measured, dict):
        raise InvalidInputError(
            f"expected an object {GPU_MODEL} of job types", file=file, show_value=False
        )
    for job_type, beside in measured.items():
        rate = beside.get(ALONE) if isinstance(beside, dict) else None
        if (
            isinstance(rate, bool)
            or not isinstance(rate, int | float)
            or not 0 <= rate <= _MAX_RATE
        ):
            raise InvalidInputError(
                f"expected steps per second under {ALONE!r}",
                file=file,
                path=(GPU_MODEL, str(job_type)),
                value=rate,
            )
    return {GPU_MODEL: measured}
