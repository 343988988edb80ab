"""Iteration times by model and number of GPUs, from a CSV in the format of Muri's profiles."""

from __future__ import annotations

import os
from collections.abc import Mapping

from placewright.instances.converters.support.csv_table import read_table
from placewright.instances.documents.quantities import MAX_GPU
from placewright.topology.units import WHOLE_GPU

Iterations = Mapping[str, Mapping[int, int]]
"""By model, then GPUs: microseconds of an iteration, the batch of a GPU being the same for all."""

_US_PLACES = 3
_LONGEST_MS = 10**6


def read_iterations(profiles_csv: str | os.PathLike[str]) -> Iterations:
    """Read the columns model, num_gpu and iter_ms (milliseconds).

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with line and column: also for GPUs or a time of zero, and
        for GPUs of a model that are given twice.
    """
    table = read_table(profiles_csv)
    table.require("model", "num_gpu", "iter_ms")
    gpus = table.integers("num_gpu", MAX_GPU // WHOLE_GPU).tolist()
    times = table.decimals("iter_ms", _US_PLACES, _LONGEST_MS).tolist()
    found: dict[str, dict[int, int]] = {}
    for row, model in enumerate(table.columns["model"]):
        table.check_name(row, "model", model)
        sizes = found.setdefault(model, {})
        if gpus[row] == 0 or gpus[row] in sizes:
            raise table.error(row, "num_gpu", "expected at least one GPU, each number once a model")
        if times[row] == 0:
            raise table.error(row, "iter_ms", "expected a time above 0")
        sizes[gpus[row]] = times[row]
    return found
