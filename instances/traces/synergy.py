"""The traces of Synergy: number, model, arrival, iterations and GPUs, without a header.

How long an iteration takes, and how a job's speed depends on its share of CPU and memory, is in a
file of profiles beside the trace.

References
----------
Mohan et al., "Looking beyond GPUs for DNN scheduling on multi-tenant clusters", OSDI 2022.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from placewright.instances.converters.support.csv_table import read_table
from placewright.instances.converters.traces.synergy import (
    CORES_PER_GPU,
    GB_PER_GPU,
    profiles_of,
)
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_values
from placewright.instances.speed_models.synergy import CORES, MEMORY_GB, MIB_PER_GB
from placewright.instances.traces.first_line import first_line
from placewright.instances.traces.tables import MAX_GPUS, MAX_S, MAX_WORK_S, numbered, positive
from placewright.instances.traces.trace import FULL_SPEED, SECOND, Trace

PROFILES = "synergy_profiles.json"
"""The file that has to be in the folder of the trace: see `converters.traces.synergy`."""

SPEEDS = "speed_by_share"
"""The column of sensitivity matrices: (jobs, cores x memory), in millionths."""

FAIR = (CORES.index(CORES_PER_GPU), MEMORY_GB.index(GB_PER_GPU))
"""Row and column of the share of a server that is proportional to GPUs."""

POINTS = tuple((cores, round(gb * MIB_PER_GB)) for cores in CORES for gb in MEMORY_GB)
"""Cores and MiB per GPU of each column of `SPEEDS`."""

_COLUMNS = ("job", "model", "arrival", "iterations", "gpus")
_LINE = re.compile(r"\d+,[A-Za-z][A-Za-z0-9]*,\d+(\.\d+)?,\d+,\d+")
_PLACES = 6
_MAX_ITERATIONS = 10**12


def is_synergy(path: str | os.PathLike[str]) -> bool:
    """Whether the first line is a number, a model and three numbers, with commas between."""
    return _LINE.fullmatch(first_line(path)) is not None


def synergy_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace of Synergy; work is the running time at the proportional share of a server.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with line and column, and for a model without a profile or
        with one whose speed at the proportional share is not 1.
    """
    table = read_table(path, _COLUMNS)
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
        table.decimals("arrival", _PLACES, MAX_S),
        positive(table, "gpus", MAX_GPUS),
        work,
        model=model_of,
        models=models,
        extra={SPEEDS: speeds},
    )
