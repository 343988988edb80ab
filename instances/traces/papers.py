"""The traces that papers publish: Chronus, ElasticFlow, Gavel, Shockwave, Muri, openb, Synergy."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.converters.traces.chronus import MAX_MINUTES, due_minutes
from placewright.instances.converters.traces.openb import pod_gpus
from placewright.instances.converters.traces.synergy import CORES_PER_GPU, GB_PER_GPU, profiles_of
from placewright.instances.errors import InvalidInputError, value_text
from placewright.instances.io.files import load_values
from placewright.instances.speed_models.gavel import ALONE, SPREAD, speed
from placewright.instances.speed_models.synergy import CORES, MEMORY_GB, MIB_PER_GB
from placewright.instances.traces.formats import (
    MAX_GPUS,
    MAX_S,
    MAX_WORK_S,
    duration_trace,
    first_line,
    given_once,
    numbered,
    positive,
)
from placewright.instances.traces.trace import (
    FULL_SPEED,
    NEVER,
    SECOND,
    SPEED_BY_OPTION,
    SPREAD_SPEED,
    RunOption,
    Trace,
)

# The traces of Chronus: minutes, and deadlines that count from submission, worth less one by one.
#
# References
# ----------
# Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC
# 2021.


_COLUMNS = ("job_id", "num_gpu", "submit_time", "duration", "model_name")
_DEADLINES = ("expect_time_list", "expect_value_list", "best_effort")
_MINUTE_US = 60 * SECOND


def chronus_trace(table: Table) -> Trace:
    """Read job_id, user, num_gpu, submit_time, duration, model_name and the columns of deadlines.

    Of a job with several deadlines the first counts, with its value: until then it is worth most.
    Best-effort jobs have none. Users are tenants. Jobs that ask no GPU or run no time are left out.
    """
    table.require(*_COLUMNS, *_DEADLINES)
    gpus = table.integers("num_gpu", MAX_GPUS)
    submit = table.integers("submit_time", MAX_MINUTES)
    work = table.integers("duration", MAX_MINUTES)
    deadline, value = np.full(len(work), NEVER), np.zeros(len(work), dtype=np.int64)
    for row in np.flatnonzero(table.integers("best_effort", 1) == 0).tolist():
        after, value[row] = due_minutes(table, row)[0]
        deadline[row] = (submit[row] + after) * _MINUTE_US
    names = given_once(table, "job_id")
    models, model = numbered(table.columns["model_name"], len(work))
    tenants, tenant = numbered(table.columns.get("user"), len(work))
    rows = np.flatnonzero((gpus > 0) & (work > 0))
    return Trace.of(
        submit[rows] * _MINUTE_US,
        gpus[rows],
        work[rows] * _MINUTE_US,
        names=tuple(names[row] for row in rows.tolist()),
        deadline_us=deadline[rows],
        value=value[rows],
        tenant=tenant[rows],
        model=model[rows],
        tenants=tenants,
        models=models,
    )


# The traces of Gavel and of Shockwave: lines of fields with tabs between, without a header.
#
# A job of Gavel is a number of steps; how long it runs is what its artifact measured on V100 GPUs,
# on which its generator of traces made steps from times. Shockwave's jobs have durations.
#
# References
# ----------
# Narayanan et al., "Heterogeneity-aware cluster scheduling policies for deep learning workloads",
# OSDI 2020; Zheng et al., "Shockwave: fair and efficient cluster scheduling for dynamic adaptation
# in machine learning", NSDI 2023.


THROUGHPUTS = "simulation_throughputs.json"
"""The file of Gavel's artifact that has to be in the folder of its trace."""

GPU_MODEL = "v100"
"""On which a job has speed 1."""

GAVEL = (
    *("job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir"),
    *("total_steps", "scale_factor", "priority_weight", "SLO", "arrival_time"),
)
SHOCKWAVE = (*GAVEL[:7], "mode", *GAVEL[7:9], "duration", GAVEL[9])

_MAX_STEPS = 10**12
_MAX_RATE = 10**9
_MAX_SLO = 10**6
_PLACES_OF_SECONDS = 6
_UNIT = 10**_PLACES_OF_SECONDS
_GAVEL_LINE = r"[^\t]+\t[^\t]*\t[^\t]*\t-[^\t]*\t[01]\t[^\t]*\t[^\t]*\t"
_IS_GAVEL = re.compile(_GAVEL_LINE + r"[^\t]*\t[^\t]*\t[^\t]*")
_IS_SHOCKWAVE = re.compile(_GAVEL_LINE + r"[a-z]+\t[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*")


def is_gavel(path: str | os.PathLike[str]) -> bool:
    """Whether the first line has the ten fields of Gavel, the fourth an argument as `--steps`."""
    return _IS_GAVEL.fullmatch(first_line(path)) is not None


def is_shockwave(path: str | os.PathLike[str]) -> bool:
    """Whether the first line has the twelve fields of Shockwave, the eighth a mode as `static`."""
    return _IS_SHOCKWAVE.fullmatch(first_line(path)) is not None


def gavel_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace of Gavel; `THROUGHPUTS` beside it has steps per second on GPUs of each model.

    How long a job runs is what its steps take on V100 GPUs. An option is the GPUs asked of a model.

    Raises `InvalidInputError`: for a file that cannot be used, with line and column, and for a job
    type or a number of GPUs that was not measured.
    """
    table = read_table(path, GAVEL, tabs=True)
    beside = Path(path).parent / THROUGHPUTS
    if not beside.exists():
        told = f"a trace of steps; expected {THROUGHPUTS} of Gavel's artifact in its folder"
        raise InvalidInputError(told, file=table.file)
    throughputs = _throughputs(beside)
    steps = positive(table, "total_steps", _MAX_STEPS)
    gpus = positive(table, "scale_factor", MAX_GPUS)
    work = np.empty(len(steps), dtype=np.int64)
    models = sorted(name for name in throughputs if not name.endswith(SPREAD))
    known = {(count, name) for count in set(gpus.tolist()) for name in models}
    options = sorted(known, key=lambda option: (option[0], models.index(option[1])))
    together, spread = (np.zeros((len(steps), len(options)), dtype=np.int64) for _ in range(2))
    for row, job_type in enumerate(table.columns["job_type"]):
        rate = speed(throughputs, GPU_MODEL, job_type, int(gpus[row]))
        for number, (count, name) in enumerate(options):
            if rate is not None and count == gpus[row]:
                both = (name, name + SPREAD) if count > 1 else (name, name)
                here, there = (speed(throughputs, one, job_type, count) or 0 for one in both)
                together[row, number] = round(FULL_SPEED * here / rate)
                spread[row, number] = round(FULL_SPEED * there / rate)
        if rate is None:
            told = f"expected a job type that {THROUGHPUTS} has for {gpus[row]} GPUs {GPU_MODEL}"
            raise table.error(row, "job_type", told)
        worked = int(steps[row]) * SECOND / rate
        if worked > MAX_WORK_S * SECOND:
            raise table.error(row, "total_steps", f"expected at most {MAX_WORK_S} s of steps")
        work[row] = max(1, round(worked))
    return _trace(
        table,
        gpus,
        work,
        tuple(RunOption(count, name.upper()) for count, name in options),
        {SPEED_BY_OPTION: together, SPREAD_SPEED: spread},
    )


def shockwave_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace of Shockwave; durations are those at the first batch size.

    The larger batches that `gns` and `accordion` change to are dropped, by which its simulator has
    jobs end sooner. Raises `InvalidInputError`: for a file that cannot be used, with line and
    column.
    """
    table = read_table(path, SHOCKWAVE, tabs=True)
    gpus = positive(table, "scale_factor", MAX_GPUS)
    return _trace(table, gpus, positive(table, "duration", MAX_WORK_S) * SECOND)


def _trace(
    table: Table,
    gpus: Ints,
    work: Ints,
    options: tuple[RunOption, ...] = (),
    speeds: Mapping[str, Ints] | None = None,
) -> Trace:
    """Return the trace; a job is due when its SLO, in multiples of its running time, has passed."""
    arrival = table.decimals("arrival_time", _PLACES_OF_SECONDS, MAX_S)
    without = _negative(table, "SLO")
    cells = [
        "0" if none else cell for none, cell in zip(without, table.columns["SLO"], strict=True)
    ]
    filled = Table(table.file, {"SLO": cells}, table.lines)
    slo = filled.decimals("SLO", _PLACES_OF_SECONDS, _MAX_SLO).tolist()
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
        extra=speeds,
        options=options,
    )


def _negative(table: Table, column: str) -> Bools:
    """Return which cells are -1, by which both artifacts say that there is none."""
    pattern = re.compile(r"-1(\.0{1,6})?")
    return np.array([bool(pattern.fullmatch(cell)) for cell in table.columns[column]], np.bool_)


def _throughputs(path: Path) -> Mapping[str, Any]:
    """Return the measurements by GPU model, each a number of at least 0."""
    file = str(path)
    values = load_values(path)
    if not isinstance(values, dict) or not isinstance(values.get(GPU_MODEL), dict):
        raise InvalidInputError(f"expected an object {GPU_MODEL} of job types", file=file)
    for model, measured in values.items():
        if not isinstance(measured, dict):
            raise InvalidInputError("expected an object of job types", (model,), file=file)
        for job_type, beside in measured.items():
            rate = beside.get(ALONE) if isinstance(beside, dict) else None
            if (
                isinstance(rate, bool)
                or not isinstance(rate, int | float)
                or not 0 <= rate <= _MAX_RATE
            ):
                raise InvalidInputError(
                    f"expected steps per second under {ALONE!r}",
                    (model, str(job_type)),
                    rate,
                    file=file,
                )
    return values


# The traces of ElasticFlow with deadlines, and how fast its models train on 1 to 64 A100 GPUs.
#
# References
# ----------
# Gu et al., "ElasticFlow: an elastic serverless training platform for distributed deep learning",
# ASPLOS 2023; its artifact has the measurements.


MEASURED = "throughputs_A100"
"""Folder of the artifact that may be in the folder of its trace: a table of rates per model."""

_RATE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,20})?")


def elasticflow_trace(table: Table) -> Trace:
    """Read a trace with deadlines; with `MEASURED` beside it jobs may have any measured size.

    Speed 1 is that of the GPUs asked, with which a job runs for its `duration`. Raises
    `InvalidInputError`: for a file that cannot be used, with line and column, and for a model, a
    batch size or a number of GPUs that was not measured.
    """
    folder = Path(table.file).parent / MEASURED
    if not folder.is_dir():
        return duration_trace(table)
    gpus = table.integers("num_gpu", MAX_GPUS).tolist()
    batches = table.integers("batch_size", MAX_GPUS).tolist()
    known: dict[str, dict[int, dict[int, float]]] = {}
    rows = []
    for row, model in enumerate(table.columns["model_name"]):
        if model not in known:
            file = folder / f"{model}.csv"
            if "/" in model or not file.is_file():
                raise table.error(row, "model_name", f"expected a model that {folder} has")
            known[model] = _rates(file)
        rates = known[model].get(batches[row], {})
        if gpus[row] and gpus[row] not in rates:
            told = f"expected GPUs and a batch size that {folder / model}.csv has"
            raise table.error(row, "num_gpu", told)
        rows.append(rates)
    sizes = sorted({size for rates in rows for size in rates})
    speeds = [
        [round(FULL_SPEED * rates.get(size, 0) / (rates.get(own, 0) or 1)) for size in sizes]
        for rates, own in zip(rows, gpus, strict=True)
    ]
    table_of_speeds = np.array(speeds, dtype=np.int64).reshape(len(rows), len(sizes))
    options = tuple(map(RunOption, sizes))
    return duration_trace(table, options, {SPEED_BY_OPTION: table_of_speeds})


def _rates(file: Path) -> dict[int, dict[int, float]]:
    """Return the rate of each batch size by GPUs; a cell that is empty was not measured."""
    table = read_table(file)
    table.require("global_batch_size")
    batches = table.integers("global_batch_size", MAX_GPUS).tolist()
    found: dict[int, dict[int, float]] = {batch: {} for batch in batches}
    for column, cells in table.columns.items():
        if column == "global_batch_size":
            continue
        if not column.isdigit() or not 0 < int(column) <= MAX_GPUS:
            told = f"line 1: {value_text(column)}: expected a number of GPUs"
            raise InvalidInputError(told, file=table.file)
        for row, cell in enumerate(cells):
            if cell and not (_RATE.fullmatch(cell) and float(cell) > 0):
                raise table.error(row, column, "expected a rate above 0")
            if cell:
                found[batches[row]][int(column)] = float(cell)
    return found


# The traces of Muri: work is iterations times the time of one, which its simulator stretches.
#
# References
# ----------
# Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM 2022.


STRETCH = 1015
"""Thousandths by which an iteration takes longer in the artifact's simulator."""

_MAX_ITERATIONS = 10**12
_PLACES = 3
_STAGES = ("resource_time_0", "resource_time_1", "resource_time_2")
_STAGE_PLACES = 6


def muri_trace(table: Table) -> Trace:
    """Read job_id, num_gpu, submit_time (ms), iterations, model_name, iteration_time (ms), stages.

    The further columns of the trace: `iteration_us` and `iterations`, the stage times `stage_0_us`,
    `stage_1_us` and `stage_2_us` (storage and CPU, GPU, network).
    """
    iterations = positive(table, "iterations", _MAX_ITERATIONS)
    iteration_us = table.decimals("iteration_time", _PLACES, MAX_S)
    work = np.empty(len(iterations), dtype=np.int64)
    for row, (count, us) in enumerate(zip(iterations.tolist(), iteration_us.tolist(), strict=True)):
        worked = _rounded(count * us * STRETCH, 1000)
        if worked > MAX_WORK_S * SECOND:
            raise table.error(row, "iterations", f"expected at most {MAX_WORK_S} s of iterations")
        work[row] = worked
    models, model = numbered(table.columns.get("model_name"), len(work))
    stages = {
        f"stage_{number}_us": table.decimals(column, _STAGE_PLACES, MAX_S // 1000) // 1000
        for number, column in enumerate(_STAGES)
        if table.has(column)
    }
    return Trace.of(
        1000 * table.integers("submit_time", 1000 * MAX_S),
        positive(table, "num_gpu", MAX_GPUS),
        np.maximum(work, 1),
        names=tuple(given_once(table, "job_id")) if table.has("job_id") else None,
        model=model,
        models=models,
        extra={"iterations": iterations, "iteration_us": iteration_us, **stages},
    )


def _rounded(number: int, by: int) -> int:
    return (2 * number + by) // (2 * by)


# The openb trace of Alibaba: pods, some of which share a GPU, with times of Kubernetes.
#
# References
# ----------
# Weng et al., "Beware of fragmentation: scheduling GPU-sharing workloads with fragmentation
# gradient descent", USENIX ATC 2023.


_BLANK = -1


def openb_trace(table: Table) -> Trace:
    """Read name, num_gpu, gpu_milli, creation_time, deletion_time and scheduled_time, in seconds.

    A pod runs from when it was scheduled until it was deleted. Those that ask no GPU, were never
    scheduled or not deleted are left out. A pod that shares a GPU has one of its own here; the
    column `gpu_milli` says how much of each GPU a pod asks.
    """
    table.require("name", "creation_time", "deletion_time", "scheduled_time")
    names = given_once(table, "name")
    gpus, milli = pod_gpus(table)
    created = table.integers("creation_time", MAX_S)
    scheduled = table.integers("scheduled_time", MAX_S, blank=_BLANK)
    deleted = table.integers("deletion_time", MAX_S, blank=_BLANK)
    ran = (scheduled != _BLANK) & (deleted != _BLANK)
    work = np.where(ran, deleted - scheduled, 0)
    for row in np.flatnonzero(ran & (scheduled < created)).tolist():
        raise table.error(row, "scheduled_time", "expected no time before creation_time")
    for row in np.flatnonzero(work < 0).tolist():
        raise table.error(row, "deletion_time", "expected no time before scheduled_time")
    for row in np.flatnonzero(work > MAX_WORK_S).tolist():
        raise table.error(row, "deletion_time", f"expected at most {MAX_WORK_S} s of running")
    rows = np.flatnonzero((gpus > 0) & (work > 0))
    return Trace.of(
        created[rows] * SECOND,
        gpus[rows],
        work[rows] * SECOND,
        names=tuple(names[row] for row in rows.tolist()),
        extra={"gpu_milli": milli[rows]},
    )


# The traces of Synergy: number, model, arrival, iterations and GPUs, without a header.
#
# How long an iteration takes, and how a job's speed depends on its share of CPU and memory, is in a
# file of profiles beside the trace.
#
# References
# ----------
# Mohan et al., "Looking beyond GPUs for DNN scheduling on multi-tenant clusters", OSDI 2022.


PROFILES = "synergy_profiles.json"
"""The file that has to be in the folder of the trace: see `converters.traces.synergy`."""

SPEEDS = "speed_by_share"
"""The column of sensitivity matrices: (jobs, cores x memory), in millionths."""

FAIR = (CORES.index(CORES_PER_GPU), MEMORY_GB.index(GB_PER_GPU))
"""Row and column of the share of a server that is proportional to GPUs."""

POINTS = tuple((cores, round(gb * MIB_PER_GB)) for cores in CORES for gb in MEMORY_GB)
"""Cores and MiB per GPU of each column of `SPEEDS`."""

_SYNERGY_COLUMNS = ("job", "model", "arrival", "iterations", "gpus")
_LINE = re.compile(r"\d+,[A-Za-z][A-Za-z0-9]*,\d+(\.\d+)?,\d+,\d+")


def is_synergy(path: str | os.PathLike[str]) -> bool:
    """Whether the first line is a number, a model and three numbers, with commas between."""
    return _LINE.fullmatch(first_line(path)) is not None


def synergy_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace of Synergy; work is the running time at the proportional share of a server.

    Raises `InvalidInputError`: for a file that cannot be used, with line and column, and for a
    model without a profile or with one whose speed at the proportional share is not 1.
    """
    table = read_table(path, _SYNERGY_COLUMNS)
    file = str(Path(path).parent / PROFILES)
    try:
        profiles = profiles_of(load_values(file))
    except InvalidInputError as error:
        raise error if error.file else error.inside(file) from None
    iterations = positive(table, "iterations", _MAX_ITERATIONS)
    speeds = np.empty((len(iterations), len(POINTS)), dtype=np.int64)
    work = np.empty(len(iterations), dtype=np.int64)
    for row, model in enumerate(table.columns["model"]):
        profile = profiles.get(model)
        matrix = None if profile is None else profile.sensitivity
        if profile is None or matrix is None or matrix.speeds[FAIR[0]][FAIR[1]] != FULL_SPEED:
            told = (
                f"expected a model that {PROFILES} has, of speed 1 at {CORES_PER_GPU} cores and "
                f"{GB_PER_GPU} GB per GPU"
            )
            raise table.error(row, "model", told)
        worked = int(iterations[row]) * profile.stages[0]
        if worked > MAX_WORK_S * SECOND:
            raise table.error(row, "iterations", f"expected at most {MAX_WORK_S} s of iterations")
        work[row] = max(1, worked)
        speeds[row] = np.array(matrix.speeds, dtype=np.int64).ravel()
    models, model_of = numbered(table.columns["model"], len(work))
    return Trace.of(
        table.decimals("arrival", _PLACES_OF_SECONDS, MAX_S),
        positive(table, "gpus", MAX_GPUS),
        work,
        model=model_of,
        models=models,
        extra={SPEEDS: speeds},
    )
